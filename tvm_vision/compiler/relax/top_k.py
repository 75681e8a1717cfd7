"""The k largest or smallest of a row on a GPU: by ranks, where rows are not too long."""

from __future__ import annotations

import math

import tvm
from tvm import relax

from ...topi.top_k import FLOATS, WHOLE, keys_of, places_of, ranks_of, values_of
from .along_axis import in_rows
from .operators import fixed_shape, operator_of
from .rewriting import rewritten

# Comparing each with each grows with the square, and a sort's steps do not. Where they meet was
# not measured: RT-DETR has 2,100 numbers, YOLO 8,400.
MOST = 1 << 14
MOST_COMPARED = 1 << 29  # by all rows


def top_k_by_rank(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` with the k largest or smallest of rows found by ranks."""
    return rewritten(mod, _TopK(mod))


@relax.expr_functor.mutator
class _TopK(relax.PyExprMutator):
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        if operator_of(call) != "relax.topk":
            return call
        x, dtype = call.args[0], str(call.args[0].ty.dtype)
        shape, k = fixed_shape(x), int(call.attrs.k)
        if shape is None or dtype not in (*WHOLE, *FLOATS) or not math.prod(shape):
            return call
        axis = int(call.attrs.axis) % len(shape)
        count = shape[axis]
        rows = math.prod(shape) // count
        if not 0 < k <= count <= MOST or rows * count**2 > MOST_COMPARED:
            return call
        emit, te = self.builder_.emit, self.builder_.emit_te
        row, whole = in_rows(x, shape, axis, emit)
        largest = bool(call.attrs.largest)
        keys = te(keys_of, row, largest, primfunc_name_hint="topk_keys")
        ranks = te(ranks_of, keys, primfunc_name_hint="topk_ranks")
        places = te(places_of, ranks, k, primfunc_name_hint="topk_places")
        kind = str(call.attrs.ret_type)
        results = []
        if kind != "indices":
            hint = "topk_values"
            found = te(values_of, keys, places, largest, dtype, primfunc_name_hint=hint)
            results.append(whole(found))
        if kind != "values":
            results.append(emit(relax.op.astype(whole(places), str(call.attrs.dtype))))
        return relax.Tuple(results) if kind == "both" else results[0]
