"""Half precision of a whole network: which tensors are fp16, and kernels for them.

Weights and activations are stored as fp16, sums stay float32 inside every kernel. Inputs and
outputs of the network keep their type; the kernels next to them convert. A tensor stays float32
where one of its kernels cannot take fp16, or where a constant is too large for one, or all of it
too small; so do the few constants beside weights of int8, what is bounded or hidden by a number
that fp16 loses (tir/fp16_range.py), reciprocals that rows are multiplied by
(tir/fp16_reciprocals.py), sums of squares and of much (tir/fp16_sums.py), coordinates
(tir/coordinates.py), and what a variance is the difference of (tir/fp16_moments.py).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection
from typing import Any

import numpy as np

from ...schedules import TargetLimits, likeliest
from ...schedules.templates import shape_of
from ..graph.static_graph import KernelCall, StaticGraph, Tensor
from ..tir.cast_buffers import FP16, FP32, narrowable, narrowed
from ..tir.coordinates import holds_coordinates
from ..tir.fp16_moments import Moments, moments
from ..tir.fp16_range import FP16_MAX, LEAST_NORMAL, holds_lost, lost
from ..tir.fp16_reciprocals import holds_reciprocals
from ..tir.fp16_roots import whole_numbers_of
from ..tir.fp16_sums import holds_wide_sums
from .rounded_inputs import with_rounded_inputs

LESS = 4  # times as small is small beside another tensor


def to_fp16(
    graph: StaticGraph, fp32: Collection[int] = (), limits: TargetLimits | None = None
) -> StaticGraph:
    """The same network with fp16 in memory wherever that is possible.

    Products that a GPU adds up in fp16 round the network's inputs as they fetch them, where these
    could have been fp16 but for their type: the other factor alone would not do. For products on
    matrices a copy is made (rounded_inputs.py).

    fp32: tensors with memory of their own that keep float32. limits: of a GPU; None for others.
    """
    narrow = _narrow_roots(graph).difference(fp32)
    if limits is not None:
        graph, copies = with_rounded_inputs(graph, narrow, limits)
        narrow = narrow.union(copies)
    fp16 = narrow.difference(map(graph.root, (*graph.inputs, *graph.outputs)))
    given = narrow.intersection(map(graph.root, graph.inputs)).difference(graph.outputs)
    variants: dict[tuple[str, tuple[int, ...], tuple[int, ...]], str] = {}
    functions: dict[str, Any] = {}
    kernels = []
    for kernel in graph.kernels:
        roots = graph.roots(kernel)
        positions = tuple(i for i, root in enumerate(roots) if root in fp16)
        rounded = tuple(i for i, root in enumerate(roots) if root in given)
        key = (kernel.function, positions, rounded)
        if key not in variants:
            variants[key] = _variant_name(kernel.function, positions, functions)
            original = graph.functions[kernel.function]
            functions[variants[key]] = _variant(original, positions, rounded, limits)
        kernels.append(KernelCall(variants[key], kernel.inputs, kernel.outputs, kernel.nodes))
    return StaticGraph(
        tensors=[
            Tensor(t.shape, FP16 if t.root in fp16 else t.dtype, t.root) for t in graph.tensors
        ],
        kernels=kernels,
        params={
            t: value.astype(np.float16) if t in fp16 else value for t, value in graph.params.items()
        },
        inputs=graph.inputs,
        outputs=graph.outputs,
        functions=functions,
    )


def _variant(
    original: Any, positions: Collection[int], rounded: Collection[int],
    limits: TargetLimits | None,
) -> Any:  # fmt: skip
    function = narrowed(original, positions) if positions else original
    if not (positions and rounded and limits and limits.device.packed_fp16):
        return function
    other = narrowed(original, positions, rounded)
    return other if _packs(other, limits) and not _packs(function, limits) else function


def _packs(function: Any, limits: TargetLimits) -> bool:
    """Whether a kernel is a product without matrices of factors of fp16."""
    choice = likeliest(function, limits)
    if choice is None or choice.template != "contraction":
        return False
    return bool(shape_of(choice.template, function).fp16)


def fp16_roots(graph: StaticGraph) -> set[int]:
    """The tensors with memory of their own that become fp16."""
    ends = map(graph.root, (*graph.inputs, *graph.outputs))
    return _narrow_roots(graph).difference(ends)


def _narrow_roots(graph: StaticGraph) -> set[int]:
    """Those, and the network's inputs and outputs that could be if their types were not given."""
    fixed = {t for t, value in graph.params.items() if not _fits(value)}
    possible = {name: narrowable(func) for name, func in graph.functions.items()}
    for kernel in graph.kernels:
        constants = {t for t in map(graph.root, kernel.inputs) if t in graph.params}
        if any(graph.params[t].dtype == np.int8 for t in constants):
            fixed |= constants
        places = zip(graph.roots(kernel), possible[kernel.function], strict=True)
        fixed.update(tensor for tensor, can in places if not can)
    fixed |= _holding_lost(graph) | _holding_wide_sums(graph) | _holding_coordinates(graph)
    fixed |= _holding_moments(graph) | _holding_reciprocals(graph)
    fp32 = {i for i, t in enumerate(graph.tensors) if t.root == i and t.dtype == FP32}
    return fp32 - fixed


def _fits(value: np.ndarray) -> bool:
    """True where all finite numbers of a float32 array stay finite as fp16, and the largest keeps
    its digits."""
    if value.dtype != np.float32:
        return False
    finite = np.abs(value[np.isfinite(value)])
    if finite.size == 0:
        return True
    largest = float(finite.max())
    return largest <= FP16_MAX and not 0 < largest < LEAST_NORMAL


def _holding_lost(graph: StaticGraph) -> set[int]:
    """The tensors that hold numbers which fp16 makes 0 or infinity of, from kernel to kernel."""
    single = {
        tensor: float(value.item())
        for tensor, value in graph.params.items()
        if value.size == 1 and value.dtype == np.float32
    }
    found = {tensor for tensor, number in single.items() if lost(number)}

    @functools.cache
    def held(name: str, numbers: frozenset[tuple[int, float]], given: frozenset[int]) -> list[bool]:
        return holds_lost(graph.functions[name], dict(numbers), given)

    for kernel in graph.kernels:
        tensors = graph.roots(kernel)
        numbers = frozenset((i, single[t]) for i, t in enumerate(tensors) if t in single)
        given = frozenset(i for i, t in enumerate(tensors) if t in found)
        places = zip(tensors, held(kernel.function, numbers, given), strict=True)
        found.update(tensor for tensor, holds in places if holds)
    return found


def _holding_reciprocals(graph: StaticGraph) -> set[int]:
    """The tensors that hold reciprocals which may leave fp16's range, from kernel to kernel, and
    are small beside what is made of them."""
    found: set[int] = set()
    made: dict[int, int] = {}  # elements of the largest that is made of a tensor
    for kernel in graph.kernels:
        most = max((_elements(graph, tensor) for tensor in kernel.outputs), default=0)
        for tensor in map(graph.root, kernel.inputs):
            made[tensor] = max(most, made.get(tensor, 0))

    @functools.cache
    def held(name: str, given: frozenset[int]) -> list[bool]:
        return holds_reciprocals(graph.functions[name], given)

    for kernel in graph.kernels:
        tensors = graph.roots(kernel)
        given = frozenset(i for i, tensor in enumerate(tensors) if tensor in found)
        places = zip(tensors, held(kernel.function, given), strict=True)
        found.update(
            tensor
            for tensor, holds in places
            if holds and LESS * _elements(graph, tensor) <= made.get(tensor, 0)
        )
    return found


def _holding_wide_sums(graph: StaticGraph) -> set[int]:
    """The tensors that hold sums or powers which may leave fp16's range, from kernel to kernel:
    those that are small beside what they are of, and those that are only read to be summed up, or
    for their roots or to divide by them, as in a norm over few channels."""
    found: set[int] = set()
    readers: dict[int, list[KernelCall]] = {}
    for kernel in graph.kernels:
        for tensor in kernel.inputs:
            readers.setdefault(graph.root(tensor), []).append(kernel)

    @functools.cache
    def held(name: str, given: frozenset[int], tensors: tuple[int, ...]) -> list[bool]:
        return holds_wide_sums(graph.functions[name], given, tensors)

    def holds(kernel: KernelCall, wide: Collection[int]) -> set[int]:
        """Of the tensors that a kernel writes, where those in ``wide`` are such sums."""
        tensors = graph.roots(kernel)
        given = frozenset(i for i, tensor in enumerate(tensors) if tensor in wide)
        # The same kernel of other tensors is the same where these are one at the same places.
        alike = tuple(tensors.index(tensor) for tensor in tensors)
        places = zip(tensors, held(kernel.function, given, alike), strict=True)
        return {tensor for tensor, is_sum in places if is_sum}

    def is_summed_up(tensor: int) -> bool:
        most = _elements(graph, tensor) // LESS
        return all(
            all(
                _elements(graph, written) <= most and graph.root(written) in holds(kernel, {tensor})
                for written in kernel.outputs
            )
            for kernel in readers.get(tensor, ())
        )

    @functools.cache
    def whole(name: str, place: int) -> list[bool]:
        return whole_numbers_of(graph.functions[name], place)

    @functools.cache
    def is_rooted(tensor: int) -> bool:
        return tensor in readers and all(
            not whole(kernel.function, place)[len(kernel.inputs) + number]
            or (graph.root(written) in holds(kernel, {tensor}) and is_rooted(graph.root(written)))
            for kernel in readers[tensor]
            for place in [i for i, t in enumerate(kernel.inputs) if graph.root(t) == tensor]
            for number, written in enumerate(kernel.outputs)
        )

    for kernel in graph.kernels:
        most = max((_elements(graph, tensor) for tensor in kernel.inputs), default=0) // LESS
        wide = [tensor for tensor in kernel.inputs if graph.root(tensor) in found]
        most = max([most, *(_elements(graph, tensor) for tensor in wide)])
        found.update(
            tensor
            for tensor in holds(kernel, found)
            if _elements(graph, tensor) <= most or is_summed_up(tensor) or is_rooted(tensor)
        )
    return found


def _elements(graph: StaticGraph, tensor: int) -> int:
    return math.prod(graph.tensors[tensor].shape)


def _holding_coordinates(graph: StaticGraph) -> set[int]:
    """The tensors whose last digits decide, from the kernels that use them to those that make
    them."""
    found: set[int] = set()

    @functools.cache
    def held(name: str, outputs: frozenset[int]) -> list[bool]:
        return holds_coordinates(graph.functions[name], outputs)

    for kernel in reversed(graph.kernels):
        tensors = graph.roots(kernel)
        first = len(kernel.inputs)
        given = frozenset(i for i, t in enumerate(tensors) if i >= first and t in found)
        places = zip(tensors, held(kernel.function, given), strict=True)
        found.update(tensor for tensor, holds in places if holds)
    return found


def _holding_moments(graph: StaticGraph) -> set[int]:
    """The tensors that differences of moments are computed of: forward for what is a moment, then
    back from the differences."""
    kinds: dict[int, int] = {}
    exact: set[int] = set()
    summed: set[int] = set()

    @functools.cache
    def of(name: str, *given: Any) -> Moments:
        return moments(graph.functions[name], dict(given[0]), *given[1:])

    def found(kernel: KernelCall) -> tuple[list[int], Moments]:
        tensors = graph.roots(kernel)
        first = len(kernel.inputs)

        def places(of: Collection[int], start: int = 0) -> frozenset[int]:
            return frozenset(i for i, t in enumerate(tensors) if i >= start and t in of)

        held = frozenset((i, kinds[t]) for i, t in enumerate(tensors[:first]) if t in kinds)
        later = places(exact, first), places(summed, first)
        # As of sums: the same kernel of other tensors is the same where these are one.
        alike = tuple(tensors.index(tensor) for tensor in tensors)
        return tensors, of(kernel.function, held, places(graph.params), alike, *later)

    differs = False
    for kernel in graph.kernels:
        tensors, here = found(kernel)
        kinds.update((t, kind) for t, kind in zip(tensors, here.kinds, strict=True) if kind)
        differs = differs or bool(here.exact or here.summed)
    for kernel in reversed(graph.kernels if differs else []):
        tensors, here = found(kernel)
        exact.update(tensors[place] for place in here.exact)
        summed.update(tensors[place] for place in here.summed)
    return exact | summed


def _variant_name(name: str, positions: tuple[int, ...], taken: dict[str, object]) -> str:
    if not positions:
        return name
    fp16 = f"{name}_fp16"
    number = 0
    while fp16 in taken:
        number += 1
        fp16 = f"{name}_fp16_{number}"
    return fp16
