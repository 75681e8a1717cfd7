"""A tile of results that stays in registers: vectors of neighbours, a few rows of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import tirx
from tvm.ir import prim

from . import loops as make
from .loops import Kind, Stage

# Of (row, lane) of a tile: the point of the stages' axes, a value there.
Point = Callable[[Any, Any], Sequence[Any]]
Value = Callable[[Any, Any], Any]

# What truths are kept in: of a vector of ``bool`` that is stored and loaded as a whole TVM makes
# bytes, which LLVM does not combine with the bits that comparisons give.
_TRUTH = "int8"


class RegisterTile:
    """Writes the statements for ``rows`` × ``lanes`` results of a function.

    Args:
        params: of the function; what it writes to them goes to memory.
        stages: its blocks: the first sums, the others are elementwise over its points.
        rows, lanes: of a tile. Rows are written out, lanes are one vector.
    """

    def __init__(
        self, params: Sequence[Any], stages: Sequence[Stage], rows: int, lanes: int
    ) -> None:
        self._params = list(params)
        self._stages = stages
        self.rows = rows
        self.lanes = lanes

    def buffer(self, name: str, dtype: str = "float32") -> Any:
        """A tile of registers."""
        return make.local(name, (self.rows, self.lanes), dtype)

    def vector(self, body: Callable[[Any], Any]) -> Any:
        """``body`` of all lanes at once."""
        return make.loop("lane", self.lanes, body, Kind.VECTORIZED)

    def each(self, body: Value) -> Any:
        """``body`` of each (row, lane)."""
        return make.loop(
            "row", self.rows, lambda j: self.vector(lambda lane: body(j, lane)), Kind.UNROLLED
        )

    def store(self, buffer: Any, value: Value) -> Any:
        """``value`` of each (row, lane), in a tile of registers."""
        return self.each(lambda j, lane: tirx.BufferStore(buffer, value(j, lane), [j, lane]))

    def results(self, sums: Any, point: Point) -> list[Any]:
        """What follows on the sums of a tile, in registers. Results go to memory."""
        kept = {self._stages[0].buffer: sums}
        statements = []
        for stage in self._stages:
            value = self._value(stage, kept, point)
            if any(stage.buffer.same_as(param) for param in self._params):
                statements.append(self.each(self._result(stage, value, point)))
            elif stage is not self._stages[0]:
                dtype = str(stage.buffer.ty.dtype)
                if dtype == "bool":
                    dtype, value = _TRUTH, _in_a_byte(value)
                buffer = self.buffer("kept", dtype)
                statements += [tirx.AllocBuffer(buffer), self.store(buffer, value)]
                kept[stage.buffer] = buffer
        return statements

    @staticmethod
    def _result(stage: Stage, value: Value, point: Point) -> Value:
        def store(j: Any, lane: Any) -> Any:
            return tirx.BufferStore(stage.buffer, value(j, lane), list(point(j, lane)))

        return store

    def _value(self, stage: Stage, kept: dict[Any, Any], point: Point) -> Value:
        """The value of a stage for (row, lane) of a tile."""
        kept = dict(kept)

        def value(j: Any, lane: Any) -> Any:
            def load(node: Any) -> Any:
                buffer = kept.get(node.source)
                if buffer is None:
                    return node
                found = tirx.BufferLoad(buffer, [j, lane])
                wanted = str(node.ty.dtype)
                return found if str(found.ty.dtype) == wanted else prim.Cast(wanted, found)

            if stage is self._stages[0]:
                found = tirx.BufferLoad(kept[stage.buffer], [j, lane])
                wanted = str(stage.buffer.ty.dtype)
                return found if wanted == "float32" else prim.Cast(wanted, found)
            axes = dict(zip(stage.axes, point(j, lane), strict=True))
            return make.substituted(stage.value, axes, load)

        return value


def _in_a_byte(value: Value) -> Value:
    return lambda j, lane: prim.Cast(_TRUTH, value(j, lane))
