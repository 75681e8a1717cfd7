"""Which layers of an fp16 network keep float32, chosen by the error that they make.

A layer is a kernel; its weights and its result are decided on apart. Results whose values come near
the largest fp16 number keep float32 whatever they do to the outputs. If the error with all others
as fp16 is above the limit, the outputs' error is measured with each part alone as fp16, and parts
go back to float32, those first that cost most error for each byte that they save: as few in
this order as bring the error below the limit. Those that turn out not to be needed become fp16
again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ...errors import InputError
from ...package.precision import Fp32Layer, MeasuredPrecision, finite
from ..graph.static_graph import StaticGraph
from .convert_fp16 import FP16_MAX, fp16_roots

WEIGHTS, RESULT = "weights", "result"
# Nodes of a layer and which of the layers with these nodes it is; and which part of it.
Layer = tuple[tuple[str, ...], int]
Part = tuple[Layer, str]
# Other images than the samples may have values so many times as large.
HEADROOM = 2.0
# Each part alone is measured on so many samples, those with the largest error.
WORST_SAMPLES = 3
# At most so many parts are tried as fp16 again.
MAX_RETRIES = 16
# What a kernel loses that cannot use cooperative matrices, as a share of the bytes that it moves:
# networks take 1.2 to 1.6 times as long without.
MATRIX_SHARE = 0.5


class Emulation(Protocol):
    """See ``fp16_emulation.Fp16Emulation``."""

    def set_sample(self, inputs: Sequence[np.ndarray]) -> dict[int, float]: ...
    def exact_outputs(self) -> list[np.ndarray]: ...
    def outputs(self, fp16: Collection[int]) -> list[np.ndarray]: ...
    def outputs_for(
        self, inputs: Sequence[np.ndarray], fp16: Collection[int]
    ) -> list[np.ndarray]: ...


@dataclass(frozen=True)
class Samples:
    """What errors are measured on.

    arrays: for each sample the network's inputs, in order. limit: the largest error allowed.
    error_of: the error of one output, and its float32 values. tell: called with a few words before
    each step.
    """

    arrays: Sequence[Sequence[np.ndarray]]
    limit: float
    error_of: Callable[[np.ndarray, np.ndarray], float]
    tell: Callable[[str], object] = lambda words: None


@dataclass(frozen=True)
class Fp16Choice:
    """fp16: the parts that may be fp16; report: what a package says about it."""

    fp16: frozenset[Part]
    report: MeasuredPrecision


@dataclass(frozen=True)
class _Unit:
    """Parts that are decided on together. cost: bytes that float32 reads and writes more, and what
    kernels that cannot use matrices then lose, as if that were bytes."""

    parts: frozenset[Part]
    roots: frozenset[int]
    cost: int


def parts_of(graph: StaticGraph) -> dict[Part, set[int]]:
    """The tensors of each part of a float32 network that can be fp16.

    A tensor is in one part: weights that several kernels share are in the first one's.
    """
    possible = fp16_roots(graph)
    seen: Counter[tuple[str, ...]] = Counter()
    found: dict[Part, set[int]] = {}
    for kernel in graph.kernels:
        nodes = tuple(kernel.nodes)
        layer = (nodes, seen[nodes])
        seen[nodes] += 1
        weights = {graph.root(t) for t in kernel.inputs}.intersection(graph.params)
        for part, roots in ((WEIGHTS, weights), (RESULT, {graph.root(t) for t in kernel.outputs})):
            if taken := roots & possible:
                found[layer, part] = taken
                possible -= taken
    return found


def fp32_roots(graph: StaticGraph, fp16: Collection[Part]) -> set[int]:
    """The tensors that keep float32 where only these parts may be fp16."""
    parts = parts_of(graph)
    return set().union(*(roots for part, roots in parts.items() if part not in fp16))


def choose_fp16(
    graph: StaticGraph,
    joined: Iterable[int],
    network: Emulation,
    samples: Samples,
    *,
    matrices: Collection[int] = (),
) -> Fp16Choice:
    """Choose what may be fp16.

    graph: in float32, before tensors share memory. joined: the kernels in it that are
    concatenations done in place, for which all that they join has to be of one type. network: runs
    ``graph``. matrices: the kernels that multiply matrices of fp16 on the target.

    Raises InputError where the limit leaves no fp16.
    """
    parts = parts_of(graph)
    search = _Search(_units(graph, parts, joined, matrices), network, samples)
    kept = search.run()
    layers = list(dict.fromkeys(layer for layer, _ in parts))
    fp32 = {part: unit for unit in kept for part in unit.parts}
    report = MeasuredPrecision(
        samples=len(samples.arrays),
        limit=samples.limit,
        error_before=finite(search.error_before),
        error=search.error,
        layers=len(layers),
        kept=tuple(
            search.describe(layer, {p: fp32[layer, p] for p in (WEIGHTS, RESULT)
                                    if (layer, p) in fp32})
            for layer in layers
            if any((layer, p) in fp32 for p in (WEIGHTS, RESULT))
        ),
    )  # fmt: skip
    return Fp16Choice(frozenset(parts.keys() - fp32.keys()), report)


def _units(
    graph: StaticGraph,
    parts: Mapping[Part, set[int]],
    joined: Iterable[int],
    matrices: Collection[int],
) -> list[_Unit]:
    owner = {root: part for part, roots in parts.items() for root in roots}
    group = {part: {part} for part in parts}
    for position in joined:
        kernel = graph.kernels[position]
        roots = graph.roots(kernel)
        together: set[Part] = set().union(*(group[owner[r]] for r in roots if r in owner))
        group.update(dict.fromkeys(together, together))
    moved = _Bytes(graph, owner.keys(), matrices)
    units = []
    for members in {id(members): members for members in group.values()}.values():
        tensors = frozenset().union(*(parts[part] for part in members))
        units.append(_Unit(frozenset(members), tensors, moved.saved_by(tensors)))
    return units


class _Bytes:
    """What fp16 save, for each set of tensors that can be fp16."""

    def __init__(
        self, graph: StaticGraph, possible: Collection[int], matrices: Collection[int]
    ) -> None:
        self._fp16_values = {root: 2 * math.prod(graph.tensors[root].shape) for root in possible}
        kernels = [(set(map(graph.root, k.inputs)), set(map(graph.root, k.outputs)))
                   for k in graph.kernels]  # fmt: skip
        self._uses = Counter(root for read, written in kernels for root in (*read, *written))
        self._products = [
            (read, sum(self._fp16_values.get(root, 0) for root in read | written))
            for position, (read, written) in enumerate(kernels)
            if position in matrices
        ]

    def saved_by(self, roots: Collection[int]) -> int:
        lost = sum(moved for read, moved in self._products if not read.isdisjoint(roots))
        saved = sum(self._fp16_values[root] * self._uses[root] for root in roots)
        return saved + round(MATRIX_SHARE * lost)


class _Search:
    def __init__(self, units: Sequence[_Unit], network: Emulation, samples: Samples) -> None:
        self._units = units
        self._network = network
        self._samples = samples
        self._exact: list[list[np.ndarray]] = []
        self._largest: dict[int, float] = {}
        self._alone: dict[_Unit, float] = {}
        # Samples, those first on which errors are large.
        self._order = list(range(len(samples.arrays)))
        self.error_before = math.inf
        self.error = math.inf

    def run(self) -> list[_Unit]:
        """The units that keep float32."""
        self._measure_all()
        kept = [unit for unit in self._units if self._exceeds(unit)]
        if kept:
            self.error = self._measure(kept)
        if self.error <= self._samples.limit:
            return kept
        self._measure_alone(self._without(kept))
        return self._with_fewer(self._shortest(kept))

    def describe(self, layer: Layer, parts: Mapping[str, _Unit]) -> Fp32Layer:
        """What a package says of a layer of which these parts keep float32."""
        alone = [self._alone[unit] for unit in parts.values() if unit in self._alone]
        large = [self._range(unit) for unit in parts.values() if self._exceeds(unit)]
        return Fp32Layer(
            nodes=layer[0],
            weights=WEIGHTS in parts,
            result=RESULT in parts,
            error=finite(max(alone)) if alone else None,
            largest=max(large) if large else None,
        )

    def _range(self, unit: _Unit) -> float:
        return max((self._largest.get(root, 0.0) for root in unit.roots), default=0.0)

    def _exceeds(self, unit: _Unit) -> bool:
        """Whether values may be too large for fp16."""
        return self._range(unit) * HEADROOM > FP16_MAX

    def _without(self, kept: Collection[_Unit]) -> list[_Unit]:
        gone = set(kept)
        return [unit for unit in self._units if unit not in gone]

    def _error(self, ours: Sequence[np.ndarray], sample: int) -> float:
        pairs = zip(ours, self._exact[sample], strict=True)
        errors = [self._samples.error_of(output, exact) for output, exact in pairs]
        return max((math.inf if math.isnan(error) else error for error in errors), default=0.0)

    def _measure_all(self) -> None:
        """The outputs and largest values in float32, and the error with fp16 everywhere."""
        fp16 = _roots(self._units)
        errors = []
        for sample, arrays in enumerate(self._samples.arrays):
            self._samples.tell(f"measuring fp16: sample {sample + 1} of {len(self._order)}")
            for root, value in self._network.set_sample(arrays).items():
                self._largest[root] = max(self._largest.get(root, 0.0), value)
            self._exact.append(self._network.exact_outputs())
            errors.append(self._error(self._network.outputs(fp16), sample))
        self._order.sort(key=lambda sample: -errors[sample])
        self.error = self.error_before = max(errors)

    def _measure_alone(self, units: Sequence[_Unit]) -> None:
        """The error with each unit alone as fp16, on the worst samples."""
        which = self._order[:WORST_SAMPLES]
        for number, sample in enumerate(which):
            self._network.set_sample(self._samples.arrays[sample])
            for position, unit in enumerate(units):
                share = 100 * (number * len(units) + position) // (len(which) * len(units))
                self._samples.tell(f"measuring each layer in fp16: {share} %")
                error = self._error(self._network.outputs(unit.roots), sample)
                self._alone[unit] = max(error, self._alone.get(unit, 0.0))

    def _measure(
        self, kept: Collection[_Unit], *, most: int | None = None, whole: bool = False
    ) -> float:
        """The error with all but these units as fp16, on so many of the worst samples; where it
        is too large, that of the first sample that shows it, unless the whole is asked for."""
        fp16 = _roots(self._without(kept))
        worst = 0.0
        for sample in self._order[:most]:
            ours = self._network.outputs_for(self._samples.arrays[sample], fp16)
            worst = max(worst, self._error(ours, sample))
            if worst > self._samples.limit and not whole:
                break
        return worst

    def _shortest(self, kept: list[_Unit]) -> list[_Unit]:
        """``kept`` and as few units as are needed beside it, taken in the order of their worth."""
        ranked = self._ranked()
        low, high = 0, len(ranked)
        while high - low > 1:
            middle = (low + high) // 2
            self._samples.tell(f"measuring with {len(kept) + middle} parts in float32")
            error = self._measure(kept + ranked[:middle])
            if error <= self._samples.limit:
                self.error, high = error, middle
            else:
                low = middle
        if high == len(ranked):
            best = self._measure(kept + ranked[:-1], whole=True)
            reached = f"{best:.1e}" if math.isfinite(best) else "no number"
            raise InputError(
                f"an error of at most {self._samples.limit:g} leaves no layer that could be of "
                f"fp16; the best that was reached is {reached}: allow more, or compile with "
                "precision fp32"
            )
        return kept + ranked[:high]

    def _ranked(self) -> list[_Unit]:
        """Worst first. Errors add up like those of independent roundings, by their squares; what
        is too small to matter even for all units together comes last."""
        matters = self._samples.limit / (4 * math.sqrt(len(self._alone)))

        def worth(unit: _Unit) -> tuple[bool, float]:
            error = self._alone[unit]
            return error > matters, min(error, 1e30) ** 2 / max(1, unit.cost)

        return sorted(self._alone, key=worth, reverse=True)

    def _with_fewer(self, kept: list[_Unit]) -> list[_Unit]:
        """``kept`` without the units that are not needed, those tried first that cost most."""
        tried = sorted((unit for unit in kept if unit in self._alone), key=lambda unit: -unit.cost)
        tried = tried[:MAX_RETRIES] if len(tried) > 1 else []
        needed = kept
        for number, unit in enumerate(tried):
            self._samples.tell(f"trying fp16 again: {number + 1} of {len(tried)}")
            fewer = [other for other in needed if other is not unit]
            if self._measure(fewer, most=WORST_SAMPLES) <= self._samples.limit:
                needed = fewer
        if len(needed) == len(kept):
            return kept
        error = self._measure(needed)
        if error > self._samples.limit:
            return kept
        self.error = error
        return needed


def _roots(units: Iterable[_Unit]) -> frozenset[int]:
    return frozenset().union(*(unit.roots for unit in units))
