"""Lives through a network's life again and again while Vulkan's calls fail: see test_faults.py.

Arguments: a folder with network.tar, x.npy, y.npy and kernel.so; the loader that fails; what is
tried: "sample", "calls" (every call of each function, at each step), "lost" (the device is lost at
every call that may say so), "hang", "tune" (all calls of a process that measures candidates) or
"start" (what is asked once in a process); and of how many parts of that which. The loader is named
by TVM_VISION_VULKAN_LOADER. Prints a line of JSON for each fault: what failed of which function at
which step, and what each step came to.
"""

from __future__ import annotations

import faulthandler
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

import tvm_vision.vulkan as vulkan
from support.failing_loader import FOREVER, HANG, LOST_AFTER, Loader
from support.lives import Life, NetworkLife, Steps
from support.vulkan_results import RESULTS, VALUES

LOST = "VK_ERROR_DEVICE_LOST"
# Seconds that a life may take, a step in which it hangs included.
LONGEST_LIFE = 60
# Seconds until a device that hangs is given up.
FRAME_TIMEOUT = 0.5
# TVM's own tensors have no time limit.
UNLIMITED = "copy"


class TuningLife(Life):
    """That of a process which measures candidates; see tvm_vision/tuning/worker.py."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        from tvm_vision.tuning import worker

        self._worker, self._path = worker, f"{folder}/kernel.so"
        self._alone = (f"{folder}/lock", 10.0)
        self._arguments = tuple(worker.Argument((64, 96), "float32", n == 2) for n in range(3))
        self._sum = sum(worker.random_array(a, n) for n, a in enumerate(self._arguments[:2]))

    def steps(self) -> Steps:
        """Two candidates, of which the second counts on what the first has left."""
        return {
            "tune": self._measure,
            "compare": self._compare,
            "tune again": self._measure,
            "compare again": self._compare,
            "shutdown": self._shutdown,
        }

    def short_steps(self) -> Steps:
        """One candidate, in the process that has measured others."""
        return {"tune": self._measure, "compare": self._compare, "shutdown": self._shutdown}

    def _measure(self) -> bool:
        worker, runs = self._worker, self._worker.MeasureRuns(2, 1, 0)
        found = worker.measure(
            self._path, "vulkan", self._arguments, runs, 1.0, self._alone, worker.Board()
        )
        return found is not None and len(found) == 2

    def _compare(self) -> bool:
        worker = self._worker
        made = worker.outputs(self._path, "vulkan", self._arguments, self._alone, worker.Board())
        return made is not None and bool((made[0] == self._sum).all())

    def _shutdown(self) -> None:
        self._worker._KEPT.clear()
        self._worker._LIBRARIES.clear()
        vulkan.shutdown()


@dataclass(frozen=True)
class Plan:
    """A fault: ``count`` calls of a function from the ``first`` of a life on give ``code``."""

    function: str
    code: str
    first: int
    count: int
    value: int
    step: str


def calls_by_step(life: Life, loader: Loader) -> dict[str, list[str]]:
    """Of each function the step of each of its calls, in a life without a fault."""
    found: dict[str, list[str]] = {name: [] for name in loader.functions}
    before = loader.calls()

    def look(step: str) -> None:
        nonlocal before
        now = loader.calls()
        for name, number in now.items():
            found[name] += [step] * (number - before[name])
        before = now

    life.after_step = look
    life.live(life.steps())
    life.after_step = lambda name: None
    return found


def plans(steps: dict[str, list[str]], which: str) -> Iterator[Plan]:
    """The faults to try."""
    for name, where in steps.items():
        numbers: Sequence[int] = range(1, len(where) + 1)
        if which == "tune" and where:  # which takes longer, and does the same over and over
            numbers = sorted({1, (len(where) + 1) // 2, len(where)})
        if which in ("hang", "sample") and name == "vkQueueSubmit":
            hangs = [n for n in numbers if where[n - 1] != UNLIMITED]
            for n in hangs if which == "hang" else hangs[1:2]:
                yield Plan(name, "hang", n, 1, HANG, where[n - 1])
        if which == "hang":
            continue
        for i, code in enumerate(RESULTS[name]):
            if (code == LOST) != (which == "lost") and which not in ("sample", "tune"):
                continue
            for n in _sampled(numbers, i) if which == "sample" else numbers:
                step, value = where[n - 1], VALUES[code]
                if code == LOST:
                    yield Plan(name, code, n, 1, value, step)
                    if name == "vkQueueSubmit":
                        yield Plan(name, f"{code}, begun", n, 1, LOST_AFTER, step)
                    continue
                yield Plan(name, code, n, 1, value, step)
                # A device that never answers is the subject of "hang".
                often = which in ("calls", "tune") and n in (1, len(where) // 2)
                if often and code != "VK_TIMEOUT":
                    yield Plan(name, code, n, FOREVER, value, step)


def _sampled(numbers: Sequence[int], shift: int) -> list[int]:
    """One call for each code, another for each: all along a life."""
    return [numbers[(shift * len(numbers)) // 3 % len(numbers)]] if numbers else []


def tried(life: Life, loader: Loader, plan: Plan) -> dict[str, Any]:
    """What became of a life with a fault, and of one after it."""
    faulthandler.dump_traceback_later(LONGEST_LIFE, exit=True)
    devices = loader.devices()
    loader.arm(plan.function, plan.first, plan.count, plan.value)
    life.frame_timeout = FRAME_TIMEOUT if plan.code == "hang" else 0.0
    start, rebuilt = perf_counter(), life.rebuilt
    met = life.live(life.steps())
    seconds = perf_counter() - start
    rebuilt, failed = life.rebuilt - rebuilt, loader.failed()
    loader.arm("")
    after = life.live(life.short_steps())
    faulthandler.cancel_dump_traceback_later()
    return {
        **asdict(plan),
        "failed": failed,
        "rebuilt": rebuilt,
        "rebuilding": life.rebuilding,
        "met": met,
        "after": after,
        "seconds": seconds,
        "devices": loader.devices() - devices,
        "said": vulkan.validation_messages(),
    }


def main() -> None:
    folder, path, which, part, parts = sys.argv[1:]
    life = TuningLife(folder) if which == "tune" else NetworkLife(folder)
    loader = Loader(path)
    if which == "start":
        # What is asked once in a process, before it has a device.
        name, code = "vkEnumerateInstanceVersion", "VK_ERROR_OUT_OF_HOST_MEMORY"
        plan = Plan(name, code, 1, FOREVER, VALUES[code], "load")
        print(json.dumps(tried(life, loader, plan)))
        return
    first = life.live(life.steps())
    assert set(first.values()) == {"right"}, first
    vulkan.validation_messages()
    for plan in list(plans(calls_by_step(life, loader), which))[int(part) :: int(parts)]:
        print(json.dumps(tried(life, loader, plan)), flush=True)


main()
