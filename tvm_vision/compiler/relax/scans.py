"""Running sums and products along an axis: on a GPU a workgroup a row, where rows are not too
long for one; on a processor vectors of columns, where there are neighbouring ones."""

from __future__ import annotations

import math
from typing import Any

import tvm
from tvm import relax

from ...schedules.cpu.nests import VECTOR_TYPES
from ...topi.by_hand import GROUP
from ...topi.scan import COMBINE, THREADS, scan, scan_down
from .along_axis import in_rows
from .operators import fixed_shape, operator_of
from .rewriting import rewritten

# Of longer rows several workgroups had better take a part each.
MOST = 1 << 15
# Of columns that go side by side on a processor, what is worth vectors.
LEAST_COLUMNS = 4
LONG, MANY = 1 << 12, 1024  # elements, and threads of a row of more


def scans_by_rows(mod: tvm.IRModule, most_threads: int | None) -> tvm.IRModule:
    """``main`` with kernels for running sums and products along fixed axes.

    most_threads: of a workgroup; None for a processor.
    """
    return rewritten(mod, _Scans(mod, most_threads))


@relax.expr_functor.mutator
class _Scans(relax.PyExprMutator):
    def __init__(self, mod: tvm.IRModule, most_threads: int | None) -> None:
        super().__init__(mod)
        self._most_threads = most_threads

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        kind = operator_of(call).removeprefix("relax.")
        if kind not in COMBINE or call.attrs.axis is None:
            return call
        x, shape = call.args[0], fixed_shape(call.args[0])
        if not shape or not 0 < math.prod(shape):
            return call
        axis = int(call.attrs.axis) % len(shape)
        if self._most_threads is None:
            return self._down(call, shape, axis)
        if shape[axis] > MOST:
            return call
        row, whole = in_rows(x, shape, axis, self.builder_.emit)
        threads = min(MANY if shape[axis] > LONG else THREADS, self._most_threads)
        dtype, exclusive = str(call.ty.dtype), bool(call.attrs.exclusive)
        found = self.builder_.emit_te(
            scan, row, kind, dtype, exclusive, threads // GROUP * GROUP, primfunc_name_hint=kind
        )
        return whole(found)

    def _down(self, call: relax.Call, shape: tuple[int, ...], axis: int) -> Any:
        """Columns side by side; of single ones each row is as fast as it can be."""
        x, columns = call.args[0], math.prod(shape[axis + 1 :])
        types = {str(x.ty.dtype), str(call.ty.dtype)}
        if columns < LEAST_COLUMNS or not types <= set(VECTOR_TYPES):
            return call
        matrices = self.builder_.emit(
            relax.op.reshape(x, [math.prod(shape[:axis]), shape[axis], columns])
        )
        kind = operator_of(call).removeprefix("relax.")
        found = self.builder_.emit_te(
            scan_down, matrices, kind, str(call.ty.dtype), bool(call.attrs.exclusive),
            primfunc_name_hint=kind,
        )  # fmt: skip
        return self.builder_.emit(relax.op.reshape(found, shape))
