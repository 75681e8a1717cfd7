"""What all schedules share: numbers of the target, a look at blocks, inlining."""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm
import tvm_ffi
from tvm import ir, s_tir, sym, tirx
from tvm.s_tir import Schedule
from tvm.target import Target

from ..options import CompileOptions
from ..target_keys import FEW_BRANCHES, FLOAT16_MATRICES, INT8_MATRICES, matrices_in
from .cost.device_model import UNKNOWN, DeviceModel
from .factors import FP16, INT8

LOGGER = logging.getLogger(__name__)

# Of a kernel for a GPU that does not say; the fewest of a driver that robots have.
FEW_TENSORS = 16
# Dot products for one multiply-add of float32: with fewer, four of these are as fast.
LEAST_DP4A = 0.25
LEAST_GROUPS = 2  # that a unit's shared memory has room for: one works while another waits


class NotThisKind(ValueError):
    """A kernel is of another kind than the schedule is made for."""


# What a step of a schedule raises where it does not fit a kernel: the next kind is tried. All else,
# as of a block that is gone, is a fault of the template.
FAILURES = (s_tir.ScheduleError, tvm.error.InternalError, AssertionError, NotThisKind)


@dataclass(frozen=True)
class TargetLimits:
    """What a workgroup of the target may have.

    Attributes:
        threads: most threads of a workgroup.
        shared_bytes: most bytes of shared memory of a workgroup; of devices that kernels were not
            timed on so few that units hold several.
        subgroup: threads of a subgroup; no schedule counts on them in lockstep.
        matrices: (m, n, k) of the products of fp16, added up in float32, that a subgroup can
            compute at once; none where the device has no cooperative matrices or they are off.
        int8_matrices: the same of int8, added up in int32.
        coopmat_nchw: whether they also multiply where the image is the kernel's first factor.
        coopmat_subtiles: whether their sums may go through shared memory a part after another.
        split_k: whether products may leave partial sums to a second kernel without a tuner's
            word. It pays where there are units to spare and memory is fast: on discrete GPUs.
        fetch_ahead: whether products without matrices fetch the next tiles of float32 while they
            multiply. It pays where it was timed; other drivers move loads ahead by themselves.
        halo: whether convolutions may keep their tile of the image in shared memory.
        dp4a: whether one instruction adds up the products of four bytes.
        tensors: most tensors of a kernel, inputs and results.
        selects_loads: whether guarded loads do without branches.
        selects_window_loads: whether those of windows do, of which a thread has many.
        wide_subgroup: lanes of the subgroups that kernels of few registers are compiled for; 0
            leaves it to the driver.
        device: what estimates take the device for.
    """

    threads: int
    shared_bytes: int
    subgroup: int
    matrices: tuple[tuple[int, int, int], ...] = ()
    split_k: bool = False
    fetch_ahead: bool = False
    halo: bool = True
    dp4a: bool = False
    int8_matrices: tuple[tuple[int, int, int], ...] = ()
    coopmat_nchw: bool = True
    coopmat_subtiles: bool = True
    tensors: int = FEW_TENSORS
    selects_loads: bool = False
    selects_window_loads: bool = False
    wide_subgroup: int = 0
    device: DeviceModel = UNKNOWN

    @classmethod
    def of(cls, target: Target, options: CompileOptions | None = None) -> TargetLimits:
        """Reads a target; a missing attribute gives what every Vulkan device has.

        options: what may be used of it; the defaults where none are given.
        """
        attributes = target.attrs
        options = options or CompileOptions()
        device = DeviceModel.of(target)
        packed = (
            device.packed_fp16 if options.packed_fp16 == "auto" else options.packed_fp16 == "on"
        )
        fp16 = bool(attributes.get("supports_float16", False))
        subgroup = int(attributes.get("thread_warp_size", 32))
        device = replace(device, packed_fp16=packed and fp16)
        shared_bytes = int(attributes.get("max_shared_memory_per_block", 16384))
        if not device.measured:  # measured costs know what a unit's only workgroup waits for
            shared_bytes = min(shared_bytes, device.units.shared_bytes // LEAST_GROUPS)
        return cls(
            threads=int(attributes.get("max_threads_per_block", 128)),
            shared_bytes=shared_bytes,
            subgroup=subgroup,
            matrices=matrices_in(target.keys, FLOAT16_MATRICES) if options.coopmat else (),
            int8_matrices=matrices_in(target.keys, INT8_MATRICES) if options.coopmat else (),
            coopmat_nchw=options.coopmat_nchw,
            coopmat_subtiles=options.coopmat_subtiles,
            split_k=options.split_k and device.cuts_sums,
            fetch_ahead=options.fetch_ahead and device.measured,
            halo=options.halo,
            tensors=int(
                attributes.get("max_per_stage_descriptor_storage_buffer", FEW_TENSORS)
                if "gpu" in target.keys
                else sys.maxsize
            ),
            dp4a=options.dp4a
            and bool(attributes.get("supports_integer_dot_product", False))
            and (device.rates is None or device.rates.dp4a >= LEAST_DP4A),
            selects_loads=options.guarded_loads == "select"
            or (
                options.guarded_loads == "auto"
                and (device.selects_loads or FEW_BRANCHES in target.keys)
            ),
            selects_window_loads=options.guarded_loads == "auto" and device.selects_window_loads,
            wide_subgroup=subgroup if options.wide_subgroups and device.wide_subgroups else 0,
            device=device,
        )

    @property
    def wave(self) -> int:
        """Threads that a workgroup needs, so that none of those issued together is idle."""
        return min(self.device.units.lanes, self.threads)

    def matrices_of(self, factors: str) -> tuple[tuple[int, int, int], ...]:
        """The shapes for a kind of factors of FP16, INT8 and OTHERS."""
        return {FP16: self.matrices, INT8: self.int8_matrices}.get(factors, ())


def can_schedule(
    apply: Callable[[Schedule, TargetLimits], object],
    function: tirx.PrimFunc,
    limits: TargetLimits,
) -> bool:
    """Whether a schedule can be applied to a function."""
    try:
        apply(Schedule(function), limits)
    except FAILURES:
        return False
    except Exception as error:
        tell_fault(getattr(apply, "__name__", str(apply)), error)
        return False
    return True


def tell_fault(name: str, error: Exception) -> None:
    """Says that a schedule raised what is none of FAILURES: it has a fault, and another one, which
    is as right, is taken."""
    LOGGER.warning("schedule %s passed over: %s: %s", name, type(error).__name__, error)


def blocks_of(schedule: Schedule) -> list[Any]:
    """The blocks of the only function, in the order they are computed."""
    return list(schedule.get_child_blocks(schedule.get_sblock("root")))


def kinds_of(schedule: Schedule, block: Any) -> str:
    """One letter for each iteration variable of a block: S spatial, R reduced, O any other."""
    letters = {tirx.IterVar.DataPar: "S", tirx.IterVar.CommReduce: "R"}
    return "".join(letters.get(axis.iter_type, "O") for axis in schedule.get(block).iter_vars)


def constant_integer(number: Any) -> int | None:
    """Of a constant; None of anything else."""
    value = getattr(number, "value", number)
    return int(value) if isinstance(value, int) else None


def number_at(index: Any, places: Mapping[Any, int]) -> int | None:
    """What an index is at places of its variables, 0 where none is given; None where that is no
    number."""

    def number(variable: Any) -> Any:
        return tirx.const(places.get(variable, 0), str(variable.ty.dtype))

    found = tvm_ffi.structural_map(index, [(ir.Var, number)])
    return constant_integer(sym.Analyzer().simplify(found))


def extents_of(schedule: Schedule, block: Any) -> list[int]:
    """The extents of the iteration variables of a block.

    Raises:
        NotThisKind: one is not a constant.
    """
    extents = [axis.dom.extent for axis in schedule.get(block).iter_vars]
    if any(not isinstance(extent, tirx.IntImm) for extent in extents):
        raise NotThisKind("a loop has no constant extent")
    return [int(extent) for extent in extents]


def index_map(
    schedule: Schedule, block: Any, function: Callable[..., Any], axes: int
) -> tirx.IndexMap:
    """The index map of a function of ``axes`` indices, in the integer type of a block's loops."""
    of = str(schedule.get(block).iter_vars[0].var.ty.dtype)
    return tirx.IndexMap.from_func(function, ndim=axes, index_dtype=of)


def is_reduction(schedule: Schedule, block: Any) -> bool:
    """Whether a block has a start value: a sum, also one of a single term."""
    return schedule.get(block).init is not None


def only_reduction(schedule: Schedule) -> Any:
    """The only block that reduces.

    Raises:
        NotThisKind: there is none, or several.
    """
    found = [block for block in blocks_of(schedule) if is_reduction(schedule, block)]
    if len(found) != 1:
        raise NotThisKind(f"needs one reduction, has {len(found)}")
    return found[0]


def left_to_host(function: tirx.PrimFunc) -> list[str]:
    """The buffers that a scheduled function stores to outside of threads, by name.

    The host would do it, in memory of the device, and overwrite what lies there in its own. TVM's
    own check overlooks it where a buffer has been declared anew, as flattening does.
    """
    stores: list[tirx.BufferStore] = []

    def see(node: Any) -> Any:
        if isinstance(node, tirx.BufferStore):
            stores.append(node)
        loop = isinstance(node, tirx.For) and node.kind == tirx.ForKind.THREAD_BINDING
        hand = isinstance(node, tirx.AttrStmt) and str(node.attr_key) == "thread_extent"
        return tvm_ffi.WalkResult.SKIP if loop or hand else None

    tvm_ffi.structural_walk(
        function.body, ((tirx.For, tirx.AttrStmt, tirx.BufferStore), see), order="pre"
    )
    return list(dict.fromkeys(store.buffer.name for store in stores))


def inline_producers(schedule: Schedule, block: Any, but: str = "") -> None:
    """Computes what a block reads in place, and what that reads; not sums, nor ``but``."""

    def stays(producer: Any) -> bool:
        return is_reduction(schedule, producer) or schedule.get(producer).name_hint == but

    # Anew after each: what is read by the block and by a producer, too, is inlined with the latter.
    while left := [each for each in schedule.get_producers(block) if not stays(each)]:
        inline_producers(schedule, left[0], but)
        schedule.compute_inline(left[0])


def inline_all(schedule: Schedule, kept: Sequence[Any] = ()) -> list[Any]:
    """Inlines every block that can be but those of ``kept``; returns those that stay: these, sums
    and outputs.

    These are not tried: TVM writes the whole function into each refusal.
    """
    remaining = []
    outputs = schedule.get_output_blocks(schedule.get_sblock("root"))
    staying = [schedule.get_sref(block) for block in (*outputs, *kept)]
    for block in blocks_of(schedule):
        reference = schedule.get_sref(block)
        if is_reduction(schedule, block) or any(reference.same_as(each) for each in staying):
            remaining.append(block)
            continue
        try:
            schedule.compute_inline(block)
        except s_tir.ScheduleError:
            remaining.append(block)
    return remaining


def inline_consumers(schedule: Schedule, block: Any) -> None:
    """Computes what is made of a block's result within the block, down to the output.

    The block must be a copy, not a sum: TVM inlines what follows a sum into each of its steps, and
    where all extents are 1 it counts twice.

    Raises:
        NotThisKind: more than one output is made of the result.
        tvm.s_tir.ScheduleError: the output is no value for value image of the result.
    """
    own = schedule.get(block).name_hint
    for other in blocks_of(schedule):
        inner = schedule.get_consumers(other) and not is_reduction(schedule, other)
        if inner and schedule.get(other).name_hint != own and follows(schedule, other, own):
            inline_producers(schedule, other, own)
            schedule.compute_inline(other)
    consumers = schedule.get_consumers(block)
    if len(consumers) > 1:
        raise NotThisKind("a result becomes several outputs")
    for consumer in consumers:
        inline_producers(schedule, consumer, own)
        schedule.reverse_compute_inline(consumer)


def follows(schedule: Schedule, block: Any, name: str) -> bool:
    """Whether a block is computed from the result of the block of a name."""
    producers = schedule.get_producers(block)
    return any(
        schedule.get(producer).name_hint == name or follows(schedule, producer, name)
        for producer in producers
    )


def largest_divisor(number: int, most: int) -> int:
    """The largest divisor of ``number`` that is not above ``most``."""
    return max(d for d in range(1, min(number, most) + 1) if number % d == 0)


def power_of_two_up_to(number: int) -> int:
    """The largest power of two that is not above ``number`` (at least 1)."""
    return 1 << max(0, number.bit_length() - 1)


def up(number: int, factor: int) -> int:
    """How many times ``factor`` is needed to cover ``number``."""
    return -(-number // factor)


def product(numbers: Any) -> int:
    """The product of integers; 1 of none."""
    return math.prod(numbers)
