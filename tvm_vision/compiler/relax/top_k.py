"""The k largest or smallest of a row on a GPU: within a workgroup, by a sort, or by digits."""

from __future__ import annotations

import math
from typing import Any

import tvm
from tvm import relax

from ...topi import top_k_by_digits as digits
from ...topi import top_k_in_group as in_group
from ...topi.arg_reduce import arg_reduce
from ...topi.radix_sort import BITS, descending
from ...topi.scan import scan
from ...topi.top_k import FLOATS, WHOLE, gathered, keys_of, places_of, ranks_of
from .along_axis import in_rows
from .legalize import call_of_places
from .operators import fixed_shape, operator_of
from .rewriting import rewritten
from .sorting import sorted_rows

# What is found by digits is put in order by comparing each with each, which grows with the square.
MOST = 1 << 14
MOST_COMPARED = 1 << 29  # by all rows
# Numbers of all rows that are sorted sooner than the k-th is found by its digits, by the models of
# renoir and phoenix, whatever k is (benchmarks/schedules/places.md).
MOST_SORTED = 1 << 16
# So few comparisons a unit are done sooner by all units than what one workgroup does in turn, where
# there are many units: an H200 takes as long either way for 8,400 numbers.
RANKED, MANY_UNITS = 1 << 18, 64


def top_k_of_rows(mod: tvm.IRModule, units: int) -> tvm.IRModule:
    """``main`` with kernels of our own for the k largest or smallest of rows.

    units: of the GPU, which compare at once.
    """
    return rewritten(mod, _TopK(mod, units))


@relax.expr_functor.mutator
class _TopK(relax.PyExprMutator):
    def __init__(self, mod: tvm.IRModule, units: int) -> None:
        super().__init__(mod)
        self._most_ranked = RANKED * units if units >= MANY_UNITS else 0

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        if operator_of(call) != "relax.topk":
            return call
        x, dtype = call.args[0], str(call.args[0].ty.dtype)
        shape, k = fixed_shape(x), int(call.attrs.k)
        if shape is None or dtype not in (*WHOLE, *FLOATS) or not math.prod(shape):
            return call
        axis = int(call.attrs.axis) % len(shape)
        if not 0 < k <= shape[axis]:
            return call
        emit, te = self.builder_.emit, self.builder_.emit_te
        row, whole = in_rows(x, shape, axis, emit)
        largest, kind = bool(call.attrs.largest), str(call.attrs.ret_type)
        rows, count = (int(size) for size in row.ty.shape)
        if k > 1 and in_group.fits(count, k) and rows * count**2 > self._most_ranked:
            hint = "topk_in_group"
            both = te(in_group.top_k_in_group, row, k, largest, primfunc_name_hint=hint)
            values, places = (emit(relax.TupleGetItem(both, i)) for i in range(2))
        else:
            places = self._places(row, k, largest)
            values = te(gathered, row, places, primfunc_name_hint="topk_values")
        places = emit(relax.op.astype(whole(places), str(call.attrs.dtype)))
        results = {"values": [whole(values)], "indices": [places]}
        found = results.get(kind) or [*results["values"], *results["indices"]]
        return relax.Tuple(found) if kind == "both" else found[0]

    def _places(self, row: Any, k: int, largest: bool) -> Any:
        """Where the k largest or smallest of each row are, in order."""
        if k == 1:
            return self._first(row, largest)
        rows, count = (int(size) for size in row.ty.shape)
        keys = self.builder_.emit_te(keys_of, row, largest, primfunc_name_hint="topk_keys")
        if rows * count**2 <= self._most_ranked:
            return self._by_ranks(keys, k)
        many = k > MOST or rows * k**2 > MOST_COMPARED
        if many or rows * count <= MOST_SORTED:
            return self._by_sort(keys, k, str(row.ty.dtype))
        return self._by_digits(keys, k)

    def _first(self, row: Any, largest: bool) -> Any:
        # Keys of the smallest count down: TVM would compare their sum with 0, which overflows.
        place = call_of_places(
            self.builder_,
            lambda x: arg_reduce(keys_of(x, True), 1, keepdims=True, largest=largest),
            row,
            "topk_first",
        )
        return self.builder_.emit(relax.op.astype(self.builder_.emit(place), "int32"))

    def _by_sort(self, keys: Any, k: int, dtype: str) -> Any:
        bits = self.builder_.emit_te(descending, keys, dtype, primfunc_name_hint="topk_bits")
        _, order = sorted_rows(self.builder_, bits, BITS[dtype])
        return self.builder_.emit(relax.op.strided_slice(order, [1], [0], [k]))

    def _by_digits(self, keys: Any, k: int) -> Any:
        def te(function: Any, *given: Any) -> Any:
            hint = f"topk_{function.__name__}"
            return self.builder_.emit_te(function, *given, primfunc_name_hint=hint)

        state = te(digits.begun, int(keys.ty.shape[0]), k)
        for _ in range(digits.ROUNDS):
            state = te(digits.next_digit, te(digits.counts_of_digits, keys, state), state)
        parts = te(digits.counts_of_parts, keys, state)
        before = [
            te(scan, self.builder_.emit(relax.TupleGetItem(parts, i)), "cumsum", "int32", True,
               digits.THREADS)
            for i in range(2)
        ]  # fmt: skip
        places = te(digits.places_by_digits, keys, state, *before, k)
        return te(gathered, places, self._by_ranks(te(gathered, keys, places), k))

    def _by_ranks(self, keys: Any, k: int) -> Any:
        ranks = self.builder_.emit_te(ranks_of, keys, primfunc_name_hint="topk_ranks")
        return self.builder_.emit_te(places_of, ranks, k, primfunc_name_hint="topk_places")
