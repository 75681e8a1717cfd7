"""The k largest or smallest of a row on a GPU: by ranks, and of long rows by digits first."""

from __future__ import annotations

import math
from typing import Any

import tvm
from tvm import relax

from ...topi import top_k_by_digits as digits
from ...topi.scan import scan
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
        if not 0 < k <= count:
            return call
        long = count > MOST or rows * count**2 > MOST_COMPARED
        if long and (k > MOST or rows * k**2 > MOST_COMPARED):
            return call
        emit, te = self.builder_.emit, self.builder_.emit_te
        row, whole = in_rows(x, shape, axis, emit)
        largest = bool(call.attrs.largest)
        keys = te(keys_of, row, largest, primfunc_name_hint="topk_keys")
        places = self._by_digits(keys, k) if long else self._by_ranks(keys, k)
        kind = str(call.attrs.ret_type)
        results = []
        if kind != "indices":
            hint = "topk_values"
            found = te(values_of, keys, places, largest, dtype, primfunc_name_hint=hint)
            results.append(whole(found))
        if kind != "values":
            results.append(emit(relax.op.astype(whole(places), str(call.attrs.dtype))))
        return relax.Tuple(results) if kind == "both" else results[0]

    def _by_ranks(self, keys: Any, k: int) -> Any:
        ranks = self.builder_.emit_te(ranks_of, keys, primfunc_name_hint="topk_ranks")
        return self.builder_.emit_te(places_of, ranks, k, primfunc_name_hint="topk_places")

    def _by_digits(self, keys: Any, k: int) -> Any:
        def te(function: Any, *given: Any) -> Any:
            hint = f"topk_{function.__name__}"
            return self.builder_.emit_te(function, *given, primfunc_name_hint=hint)

        state = te(digits.begun, int(keys.ty.shape[0]), k)
        for number in range(digits.ROUNDS):
            state = te(digits.next_digit, te(digits.counts_of_digits, keys, state, number), state)
        parts = te(digits.counts_of_parts, keys, state)
        before = [
            te(scan, self.builder_.emit(relax.TupleGetItem(parts, i)), "cumsum", "int32", True,
               digits.THREADS)
            for i in range(2)
        ]  # fmt: skip
        places = te(digits.places_by_digits, keys, state, *before, k)
        order = self._by_ranks(te(digits.gathered, keys, places), k)
        return te(digits.gathered, places, order)
