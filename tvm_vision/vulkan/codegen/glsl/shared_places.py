"""Shared arrays that take the place of others, of which nothing is read any more.

A product's factors are in shared memory while it is summed up and its sums when that is done. How
many workgroups a unit of a GPU holds at a time depends on the memory of each: on an H200's driver
those of more than 25 KiB are alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.ir.prim import expr as prim

from tvm_vision.vulkan.codegen.glsl.analysis import BARRIER, handle, has_jump, operator_name


@dataclass
class Places:
    """Where arrays lie in one array that stands for them all.

    Attributes:
        at: the first byte of each, by the handle of its allocation.
        size: bytes of the whole.
        saved: bytes that it is smaller than they are together.
        barriers: statements, by handle, before which the threads of a workgroup must meet: others
            may still read what they overwrite.
    """

    at: dict[int, int] = field(default_factory=dict)
    size: int = 0
    saved: int = 0
    barriers: set[int] = field(default_factory=set)


@dataclass
class _Life:
    """The first and the last of a kernel's outermost statements that use an array."""

    first: int
    last: int


def places(body: Any, sizes: Mapping[int, int], root: Callable[[Any], Any]) -> Places:
    """Places of arrays of which some are in use after others; none where there are no such.

    Args:
        body: of a kernel.
        sizes: bytes of the arrays that may share their place, by the handles of their allocations.
        root: the allocation that a buffer is a view of.
    """
    steps = list(_steps(body))
    used = [_arrays_in(step, sizes, root) for step in steps]
    lives: dict[int, _Life] = {}
    for number, arrays in enumerate(used):
        for array in arrays:
            lives.setdefault(array, _Life(number, number)).last = number
    found = Places()
    for array in sorted(lives, key=lambda array: lives[array].first):
        others = [other for other in found.at if lives[other].last >= lives[array].first]
        found.at[array] = _free(sizes[array], [(found.at[o], sizes[o]) for o in others])
        found.size = max(found.size, found.at[array] + sizes[array])
        ended = [other for other in found.at if lives[other].last < lives[array].first]
        over = [other for other in ended if _overlap(found.at, sizes, array, other)]
        since = max((lives[other].last for other in over), default=None)
        first = lives[array].first
        if since is not None and not any(map(_is_barrier, steps[since + 1 : first])):
            found.barriers.add(handle(steps[first]))
    found.saved = sum(sizes[array] for array in lives) - found.size
    return found if found.saved else Places()


def shared_in(body: Any) -> list[Any]:
    """The shared arrays that a kernel allocates."""
    found: list[Any] = []

    def see(stmt: Any) -> None:
        if str(stmt.buffer.ty.storage_scope) == "shared":
            found.append(stmt.buffer)

    tvm_ffi.structural_walk(body, (tirx.AllocBuffer, see))
    return found


def _steps(stmt: Any) -> Iterator[Any]:
    """The statements of a kernel that all its threads come to, one after another."""
    if type(stmt) is tirx.SeqStmt:
        for part in stmt.seq:
            yield from _steps(part)
    elif type(stmt) is tirx.AttrStmt or (type(stmt) is tirx.For and _runs_once(stmt)):
        yield from _steps(stmt.body)
    else:
        yield stmt


def _runs_once(loop: Any) -> bool:
    extent = loop.extent
    return type(extent) is prim.IntImm and int(extent.value) == 1 and not has_jump(loop.body)


def _arrays_in(step: Any, sizes: Mapping[int, int], root: Callable[[Any], Any]) -> set[int]:
    found: set[int] = set()

    def see(buffer: Any) -> None:
        array = handle(root(buffer))
        if array in sizes:
            found.add(array)

    tvm_ffi.structural_walk(
        step,
        [
            (tirx.BufferStore, lambda store: see(store.buffer)),
            (ir.TensorLoad, lambda load: see(load.source)),
        ],
    )
    return found


def _free(size: int, taken: list[tuple[int, int]]) -> int:
    """The first place of so many bytes beside those that are taken: pairs of place and size."""
    at = 0
    for start, length in sorted(taken):
        if start - at >= size:
            break
        at = max(at, start + length)
    return at


def _overlap(at: Mapping[int, int], sizes: Mapping[int, int], one: int, other: int) -> bool:
    return at[one] < at[other] + sizes[other] and at[other] < at[one] + sizes[one]


def _is_barrier(stmt: Any) -> bool:
    if type(stmt) is not tirx.Evaluate or type(stmt.value) is not ir.Call:
        return False
    return operator_name(stmt.value) == BARRIER
