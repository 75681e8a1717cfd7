"""The k largest or smallest of a row on a GPU: within a workgroup, by ranks, or by digits."""

from __future__ import annotations

import math
from typing import Any

import tvm
from tvm import relax

from ...topi import top_k_by_digits as digits
from ...topi import top_k_in_group as in_group
from ...topi.arg_reduce import arg_reduce
from ...topi.scan import scan
from ...topi.top_k import FLOATS, WHOLE, gathered, keys_of, places_of, ranks_of
from .along_axis import in_rows
from .legalize import call_of_places
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
        grouped = in_group.fits(count, k)
        if long and not grouped and k > 1 and (k > MOST or rows * k**2 > MOST_COMPARED):
            return call
        emit, te = self.builder_.emit, self.builder_.emit_te
        row, whole = in_rows(x, shape, axis, emit)
        largest, kind = bool(call.attrs.largest), str(call.attrs.ret_type)
        if grouped and k > 1:
            hint = "topk_in_group"
            both = te(in_group.top_k_in_group, row, k, largest, primfunc_name_hint=hint)
            values, places = (emit(relax.TupleGetItem(both, i)) for i in range(2))
        else:
            places = self._places(row, k, largest, long)
            values = te(gathered, row, places, primfunc_name_hint="topk_values")
        places = emit(relax.op.astype(whole(places), str(call.attrs.dtype)))
        results = {"values": [whole(values)], "indices": [places]}
        found = results.get(kind) or [*results["values"], *results["indices"]]
        return relax.Tuple(found) if kind == "both" else found[0]

    def _places(self, row: Any, k: int, largest: bool, long: bool) -> Any:
        """Where the k largest or smallest of each row are, in order."""
        emit, te = self.builder_.emit, self.builder_.emit_te
        if k == 1:
            # Keys of the smallest count down: TVM would compare their sum with 0, which overflows.
            place = call_of_places(
                self.builder_,
                lambda x: arg_reduce(keys_of(x, True), 1, keepdims=True, largest=largest),
                row,
                "topk_first",
            )
            return emit(relax.op.astype(emit(place), "int32"))
        keys = te(keys_of, row, largest, primfunc_name_hint="topk_keys")
        return self._by_digits(keys, k) if long else self._by_ranks(keys, k)

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
        order = self._by_ranks(te(gathered, keys, places), k)
        return te(gathered, places, order)
