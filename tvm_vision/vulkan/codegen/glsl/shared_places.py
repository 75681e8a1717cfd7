"""Shared arrays that take the place of others, of which nothing is read any more.

A product's factors are in shared memory while it is summed up and its sums when that is done. How
many workgroups a unit of a GPU holds at a time depends on the memory of each: on an H200's driver
those of more than 24 KiB are alone.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.ir.prim import expr as prim

from tvm_vision.vulkan.codegen.glsl.analysis import handle, has_jump, is_barrier


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


class Uses:
    """Which of a kernel's outermost statements use which of some arrays."""

    def __init__(self, body: Any, arrays: Container[int], root: Callable[[Any], Any]) -> None:
        """
        Args:
            body: of a kernel.
            arrays: by the handles of their allocations.
            root: the allocation that a buffer is a view of.
        """
        self.steps = list(_steps(body))
        self.first: dict[int, int] = {}
        self.last: dict[int, int] = {}
        for number, step in enumerate(self.steps):
            for array in _arrays_in(step, arrays, root):
                self.first.setdefault(array, number)
                self.last[array] = number


def places(uses: Uses, sizes: Mapping[int, int]) -> Places:
    """Places of arrays of which some are in use after others; none where there are no such.

    Args:
        sizes: bytes of the arrays that may share their place.
    """
    first, last = uses.first, uses.last
    found = Places()
    for array in sorted(first.keys() & sizes, key=lambda array: first[array]):
        others = [other for other in found.at if last[other] >= first[array]]
        ended = [other for other in found.at if last[other] < first[array]]
        found.at[array] = _free(sizes[array], [(found.at[o], sizes[o]) for o in others])
        found.size = max(found.size, found.at[array] + sizes[array])
        over = [last[other] for other in ended if _overlap(found.at, sizes, array, other)]
        if over and not any(map(is_barrier, uses.steps[max(over) + 1 : first[array]])):
            found.barriers.add(handle(uses.steps[first[array]]))
    found.saved = sum(sizes[array] for array in found.at) - found.size
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


def _arrays_in(step: Any, arrays: Container[int], root: Callable[[Any], Any]) -> set[int]:
    found: set[int] = set()

    def see(buffer: Any) -> None:
        array = handle(root(buffer))
        if array in arrays:
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
