"""``calibrate``: what a device can do, measured on it in 10 to 20 seconds."""

from __future__ import annotations

import datetime
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..devices import DeviceDescription
from ..devices.measured import Measured, matrix_rate
from ..errors import DeviceError
from ..interrupts import ctrl_c_as_itself
from ..schedules.factors import FP16, INT8, TYPES
from ..target_keys import FLOAT16_MATRICES, INT8_MATRICES, matrices_in
from . import calibration_kernels as kernels

Tell = Callable[[str], object]
COPIED = 32 << 20  # bytes of a copy's input, at the most: more than any cache of a robot's GPU
ENOUGH_SECONDS = 0.02  # of one run, which clocks have risen in
MOST_SECONDS = 1.0  # of one kind
MOST_ROUNDS = 1 << 14
LAUNCHES = 64
MOST_UNITS = 512
STEP = 1.5  # times longer than one workgroup: a unit has to take a second one
STEPPED_SECONDS = 4e-5  # that one workgroup takes: long beside what a launch costs
PAIRS = 5


def calibrate(tell: Tell = lambda words: None) -> DeviceDescription:
    """Measure this machine's first Vulkan device; its description, with what was found.

    tell: called with a few words before each step.

    Raises DeviceError where there is no device, or a kernel cannot be run on it.
    """
    from .. import vulkan

    found = vulkan.devices()
    if not found:
        raise DeviceError(f"no Vulkan device: {vulkan.status()}")
    described = DeviceDescription.of(found[0])
    with ctrl_c_as_itself():
        return replace(described, measured=Calibration(described, tell).run())


@dataclass(frozen=True)
class Work:
    """A kernel, the shapes and types of its tensors, and the multiplications and additions of a
    run."""

    function: Any
    tensors: tuple[tuple[tuple[int, ...], str], ...]
    operations: int


class Calibration:
    """One run of all kernels on device 0."""

    def __init__(self, described: DeviceDescription, tell: Tell) -> None:
        import tvm

        from ..compiler import parse_target

        self._tvm = tvm
        self._target = parse_target("vulkan")
        self._device = tvm.vulkan(0)
        self._tell = tell
        self._has = described.attributes
        self._threads = min(256, int(self._has["max_threads_per_block"]))

    def run(self) -> Measured:
        """All measurements, one after the other."""
        self._tell("copying")
        bandwidth = self._bandwidth()
        flops = {}
        for kind, work in self._kinds().items():
            self._tell(f"multiplying and adding in {kind}".replace("_", " "))
            flops[kind] = self._flops(work)
        self._tell("reading shared memory")
        shared = self._shared()
        self._tell("launching kernels")
        launch = self._launch()
        self._tell("counting units")
        return Measured(
            date=datetime.date.today().isoformat(),
            flops=flops,
            bandwidth=bandwidth,
            shared=shared,
            launch=launch,
            units=self._units(),
        )

    def _kinds(self) -> dict[str, Callable[[int], Work]]:
        """What multiplies and adds on this device: its work in so many rounds, by kind."""
        kinds: dict[str, Callable[[int], Work]] = {"float32": partial(self._numbers, "float32")}
        if self._has["supports_float16"] and self._has["supports_16bit_buffer"]:
            kinds["float16"] = partial(self._numbers, "float16")
        if self._has["supports_integer_dot_product"]:
            kinds["dp4a"] = self._dot_products
        for factors, told in ((FP16, FLOAT16_MATRICES), (INT8, INT8_MATRICES)):
            if shapes := matrices_in(self._target.keys, told):
                largest = max(shapes, key=math.prod)
                kinds[matrix_rate(factors)] = partial(self._matrices, factors, largest)
        return kinds

    def _numbers(self, dtype: str, rounds: int) -> Work:
        function = kernels.multiply_add(dtype, MOST_UNITS, self._threads, rounds)
        outputs = MOST_UNITS * self._threads
        tensors = (((kernels.SUMS,), dtype), ((outputs,), dtype))
        return Work(function, tensors, 2 * kernels.SUMS * rounds * outputs)

    def _dot_products(self, rounds: int) -> Work:
        function = kernels.dot_products(MOST_UNITS, self._threads, rounds)
        outputs = MOST_UNITS * self._threads
        tensors = (((kernels.SUMS,), "int32"), ((outputs,), "int32"))
        return Work(function, tensors, 8 * kernels.SUMS * rounds * outputs)

    def _matrices(self, factors: str, shape: tuple[int, int, int], rounds: int) -> Work:
        (m, n, k), types = shape, TYPES[factors]
        lanes = int(self._has["thread_warp_size"])
        function = kernels.matrix_products(factors, shape, MOST_UNITS, lanes, rounds)
        products = MOST_UNITS * kernels.SUBGROUPS * kernels.SUMS
        tensors = (((max(m, n) * k,), types.factor), ((products * m * n,), types.sum))
        return Work(function, tensors, 2 * m * n * k * products * rounds)

    def _bandwidth(self) -> float:
        most = min(COPIED, int(self._has["max_storage_buffer_range"]))
        block = 4 * kernels.LANES * self._threads
        count = most // block * block // 4
        seconds = self._seconds(
            kernels.copy(count, self._threads), ((count,), "float32"), ((count,), "float32")
        )
        return 8 * count / seconds

    def _flops(self, work: Callable[[int], Work]) -> float:
        """Of a number of workgroups that occupies any device, in as many rounds as it takes to fill
        a time that can be measured."""

        def seconds(rounds: int) -> float:
            done = work(rounds)
            return self._seconds(done.function, *done.tensors)

        rounds, took = self._grown(seconds)
        return work(rounds).operations / took

    def _shared(self) -> float:
        words = 4096 // self._threads * self._threads

        def seconds(rounds: int) -> float:
            function = kernels.shared_loads(MOST_UNITS, self._threads, rounds, words)
            outputs = MOST_UNITS * self._threads
            return self._seconds(function, ((words,), "float32"), ((outputs,), "float32"))

        rounds, took = self._grown(seconds)
        return 4 * kernels.SUMS * rounds * MOST_UNITS * self._threads / took

    def _launch(self) -> float:
        function = kernels.launches(LAUNCHES, self._threads)
        return self._seconds(function, ((self._threads,), "float32")) / LAUNCHES

    def _units(self) -> int:
        """By workgroups that each take all shared memory of a workgroup; see ``count_units``."""
        words = int(self._has["max_shared_memory_per_block"]) // 4
        words = words // self._threads * self._threads

        def runner(groups: int, rounds: int) -> Callable[[], float]:
            function = kernels.shared_loads(groups, self._threads, rounds, words)
            outputs = groups * self._threads
            return self._runner(function, ((words,), "float32"), ((outputs,), "float32"))

        rounds = 64
        while runner(1, rounds)() < STEPPED_SECONDS and rounds < MOST_ROUNDS:
            rounds *= 4
        return count_units(lambda groups: runner(groups, rounds))

    def _grown(self, seconds: Callable[[int], float]) -> tuple[int, float]:
        """Rounds that take long enough to be measured, and their time."""
        rounds = 16
        took = seconds(rounds)
        while took < ENOUGH_SECONDS and rounds < MOST_ROUNDS:
            grow = max(2, min(64, round(ENOUGH_SECONDS / max(took, 1e-6))))
            rounds = min(MOST_ROUNDS, rounds * grow)
            took = seconds(rounds)
        return rounds, took

    def _seconds(self, function: Any, *tensors: tuple[tuple[int, ...], str]) -> float:
        """The median time of a run on the device."""
        run, begin = self._runner(function, *tensors), time.monotonic()
        found = [run()]
        while len(found) < 5 and time.monotonic() - begin < MOST_SECONDS:
            found.append(run())
        # The first waits for the pipeline, and for clocks to rise.
        return max(1e-9, statistics.median(found[1:] or found))

    def _runner(self, function: Any, *tensors: tuple[tuple[int, ...], str]) -> Callable[[], float]:
        """What runs a kernel once, and tells how long the device took."""
        module = self._tvm.tirx.build(
            self._tvm.IRModule({"main": kernels.scheduled(function)}), self._target
        )
        arrays = [
            self._tvm.runtime.tensor(np.zeros(shape, dtype), self._device)
            for shape, dtype in tensors
        ]
        timed = module.time_evaluator("main", self._device, number=1, repeat=1)
        return lambda: max(1e-9, timed(*arrays).results[0])


def count_units(runner: Callable[[int], Callable[[], float]]) -> int:
    """How many workgroups a device runs at once, each of which fills a unit, 1 at least.

    One more than there are units takes a second turn, and twice the time of one. Both are run by
    turns: a device's clock may be three times slower from one millisecond to the next, as was seen
    on an H200, whose 132 units were counted as 8 before.

    runner: for a number of workgroups what runs them once, and returns the seconds that it took.
    """
    one = runner(1)
    one()  # waits for its pipeline

    def takes_longer(groups: int) -> bool:
        many = runner(groups)
        many()
        ratios = [many() / one() for _ in range(PAIRS)]
        return statistics.median(ratios) > STEP

    low, high = 1, 2  # takes as long as one, takes longer
    while high <= MOST_UNITS and not takes_longer(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if takes_longer(middle) else (middle, high)
    return low
