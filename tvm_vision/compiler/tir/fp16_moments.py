"""Which tensors a variance is the difference of, E[x²] − E[x]², a covariance, E[xy] − E[x]E[y], or
a distance, x² − 2xy + y².

JAX's libraries compute layer and group normalization so, the bodies of ONNX's own functions do,
filters that compare windows, and what looks for neighbours among points or for words of a code
book. What is left may be far less than both: fp16 rounds each to 1 / 2048 of itself, which of
numbers about 45 with a deviation of 1 is all of the variance.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import tvm_ffi
from tvm import ir, tirx
from tvm.ir import prim

from .cast_buffers import choice_parts
from .fp16_sums import function_name, number_of, reads
from .stores import Stores, all_of

# What numbers are: products of two tensors, element by element, or squares; sums of products, with
# weights or without, and of squares alone; sums of products of other elements, as of matrices.
PRODUCT, SQUARE, MOMENT, NORM, INNER = 1, 2, 3, 4, 5
_PRODUCTS, _MOMENTS = (PRODUCT, SQUARE), (MOMENT, NORM)


class Moments(NamedTuple):
    """Places of a function's parameters.

    Attributes:
        kinds: of each parameter that the function writes, what its numbers are, 0 for others.
        exact: what differences are computed of, with what that is computed of.
        summed: products that such a moment sums up; what they are products of may be rounded, for
            both sides of the difference know it rounded.
    """

    kinds: list[int]
    exact: list[int]
    summed: list[int]


def moments(
    func: tirx.PrimFunc,
    kinds: Mapping[int, int],
    constants: Collection[int],
    tensors: Sequence[int],
    exact: Collection[int] = (),
    summed: Collection[int] = (),
) -> Moments:
    """What ``func`` makes of products and moments.

    Args:
        kinds: of parameters that hold products or moments when it begins, by their places.
        constants: places of parameters whose numbers are known.
        tensors: what the parameters stand for: two may be one.
        exact, summed: places of parameters that it writes, and that are such of a later function.
    """
    reader = _Reader(func, kinds, constants, tensors)
    places = {param: place for place, param in enumerate(func.params)}
    written = [reader.of_buffer(param) if param in reader.written else 0 for param in func.params]
    waiting = [*reader.differences(), *((func.params[place], True) for place in exact)]
    waiting += [(func.params[place], False) for place in summed]
    seen: set[tuple[Any, bool]] = set()
    while waiting:
        buffer, is_exact = each = waiting.pop()
        if each not in seen:
            seen.add(each)
            waiting.extend(reader.made_of(buffer, is_exact))
    of_all = [(places[b], is_exact) for b, is_exact in seen if b in places]
    return Moments(written, [p for p, e in of_all if e], [p for p, e in of_all if not e])


class _Reader:
    def __init__(
        self,
        func: tirx.PrimFunc,
        kinds: Mapping[int, int],
        constants: Collection[int],
        tensors: Sequence[int],
    ) -> None:
        self.stores = Stores(func)
        self.written = self.stores.written
        self.constants = {func.params[place] for place in constants}
        self._tensor = dict(zip(func.params, tensors, strict=True))
        # What several numbers are made of is looked through once.
        self._known: dict[int, int] = {}
        self._of_buffer = {func.params[place]: kind for place, kind in kinds.items()}
        for buffer in self.written:
            self.of_buffer(buffer)

    def of_buffer(self, buffer: Any) -> int:
        """What is in a buffer."""
        if buffer not in self._of_buffer:
            self._of_buffer[buffer] = 0  # to itself: a sum reads what it writes
            values = self.written.get(buffer, ())
            self._of_buffer[buffer] = max((self._of_block(*each) for each in values), default=0)
        return self._of_buffer[buffer]

    def differences(self) -> Iterator[tuple[Any, bool]]:
        """The buffers that such differences are computed of: a moment less a product, and squares
        with products of matrices, which may be those of -2x."""
        values = [value for pairs in self.written.values() for value, terms in pairs if terms == 1]
        for each in (each for value in values for each in all_of(value, (prim.Add, prim.Sub))):
            sides = each.a, each.b
            less, more = sorted(map(self._of_value, sides))
            of_moments = isinstance(each, prim.Sub) and less in _PRODUCTS and more in _MOMENTS
            of_moments = of_moments and not self._is_deviation(each)
            if of_moments or (less, more) == (NORM, INNER):
                yield from ((buffer, True) for side in sides for buffer in self.stores.loaded(side))

    def _is_deviation(self, difference: Any) -> bool:
        """Whether a kept product loses a moment, its own mean: a normalization of a gate's or a
        GELU's result, which is as sensitive as that of any other tensor."""
        kept = isinstance(self.stores.meant(difference.a), ir.TensorLoad)
        return kept and self._of_value(difference.a) in _PRODUCTS

    def made_of(self, buffer: Any, is_exact: bool) -> Iterator[tuple[Any, bool]]:
        """What the numbers of a buffer are computed of, and whether that is exact as well."""
        for value, terms in self.written.get(buffer, ()):
            for read in self.stores.loaded(value):
                if read in self.constants or (is_exact and terms == 1):
                    yield read, True
                elif self.of_buffer(read) in (*_PRODUCTS, *_MOMENTS):
                    yield read, False

    def _of_block(self, value: Any, terms: int) -> int:
        if terms == 1:
            return self._of_value(value)
        if not isinstance(value, prim.Add):
            return 0
        term = self.stores.meant(value.b)
        kind = self._of_value(term)
        if kind in (*_PRODUCTS, *_MOMENTS):
            weighted = any(each in self.constants for each in self.stores.loaded(term))
            return NORM if kind in (SQUARE, NORM) and not weighted else MOMENT
        multiplied = isinstance(term, prim.Mul) and kind != INNER
        of_tensors = multiplied and all(reads(side, self.stores) for side in (term.a, term.b))
        return INNER if of_tensors else 0

    def _of_value(self, value: Any) -> int:
        handle = value.__chandle__()
        if handle not in self._known:
            self._known[handle] = self._found_in(value)
        return self._known[handle]

    def _found_in(self, value: Any) -> int:
        value = self.stores.meant(value)
        if isinstance(value, ir.TensorLoad):
            return self.of_buffer(value.source)
        if isinstance(value, prim.Mul) and (product := self._product(value.a, value.b)):
            return product
        if isinstance(value, ir.Call) and function_name(value) == "pow":
            squares = number_of(value.args[1]) == 2 and self._read(value.args[0]) is not None
            return SQUARE if squares else 0
        if branches := choice_parts(value):
            return max(map(self._of_value, branches[1:]))
        if isinstance(value, prim.Add):
            sides = [self._of_value(side) for side in (value.a, value.b)]
            alike = sides[0] == sides[1] or self._scaled(value) is not None
            return max(sides) if alike else 0
        scaled = self._scaled(value)
        return 0 if scaled is None else self._of_value(scaled)

    def _scaled(self, value: Any) -> Any:
        """What a constant multiplies, divides, is added to or bounds; None where none does."""
        if not isinstance(value, (prim.Add, prim.Mul, prim.Div, prim.Max, prim.Min)):
            return None
        variable = [side for side in (value.a, value.b) if any(True for _ in self._loaded(side))]
        if len(variable) != 1 or (isinstance(value, prim.Div) and variable[0].same_as(value.b)):
            return None
        return variable[0]

    def _product(self, a: Any, b: Any) -> int:
        """What a product is whose sides both read the same place, each of a tensor that is no
        constant; 0 for others."""
        first, second = self._read(a), self._read(b)
        if first is None or second is None:
            return 0
        if not all(map(tvm_ffi.structural_equal, first.indices, second.indices)):
            return 0
        a, b = first.source, second.source
        same = a.same_as(b) or self._tensor.get(a, -1) == self._tensor.get(b, -2)
        return SQUARE if same else PRODUCT

    def _read(self, value: Any) -> Any:
        """The element of a tensor that a value is, but for constant factors and summands."""
        value = self.stores.meant(value)
        while (scaled := self._scaled(value)) is not None:
            value = self.stores.meant(scaled)
        if not isinstance(value, ir.TensorLoad) or value.source in self.constants:
            return None
        return value

    def _loaded(self, value: Any) -> Iterator[Any]:
        return (each for each in self.stores.loaded(value) if each not in self.constants)
