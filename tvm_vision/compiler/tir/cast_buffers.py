"""A TensorIR function that keeps its sums in float32 and its tensors in memory as fp16.

A load of fp16 is widened where it happens, a store is narrowed; everything between stays as it
was, in float32. A buffer that is summed into stays float32 and is narrowed by a block of its own,
which schedules inline like any other elementwise one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np
import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.ir import prim

FP16, FP32 = "float16", "float32"
# Attribute of a function that binds threads by itself, and is as good as one that does not: it
# loads and stores numbers, and no more.
LOADS_AND_STORES = "tvm_vision.loads_and_stores"
_REINTERPRET = ir.Op.get("tirx.reinterpret")


def narrowable(func: tirx.PrimFunc) -> list[bool]:
    """For each parameter of ``func``, whether its buffer can hold fp16 instead of float32.

    False for other types, for buffers that are used by more than loads and stores, for those whose
    bits are taken for another type, as by a sort, and everywhere in functions that are scheduled
    already.
    """
    if not _is_plain(func):
        return [False] * len(func.params)
    uses, bits = Uses(func.body), _taken_for_bits(func.body)
    return [_is_fp32(p) and uses.are_ordinary(p) and p not in bits for p in func.params]


def narrowed(
    func: tirx.PrimFunc, positions: Collection[int], rounded: Collection[int] = ()
) -> tirx.PrimFunc:
    """``func`` with fp16 in the buffers of the parameters at ``positions`` (all narrowable).

    rounded: other parameters, narrowable too and only loaded, that stay float32 and are rounded
        where they are loaded: copies of them are fp16.
    """
    summed = _loaded_params(func, positions)
    func = _with_separate_sums(func, [func.params[i] for i in sorted(summed)])
    func = _retyped(func, [func.params[i] for i in sorted({*positions, *rounded})])
    # Padding is a copy: what it writes are fp16 too. Each round may expose the next.
    while exact := _exact_intermediates(func):
        func = _retyped(func, exact)
    return _retyped(func, [func.params[i] for i in sorted(rounded)], FP32)


def _taken_for_bits(body: Any) -> set[Any]:
    """The buffers of which something is loaded whose bits are taken for another type."""
    found: set[Any] = set()

    def see(call: Any) -> None:
        if call.op.same_as(_REINTERPRET):
            tvm_ffi.structural_walk(call, (ir.TensorLoad, lambda load: found.add(load.source)))

    tvm_ffi.structural_walk(body, (ir.Call, see))
    return found


def _is_fp32(var: Any) -> bool:
    return tirx.buffer.is_buffer_var(var) and str(var.ty.dtype) == FP32


def _is_plain(func: tirx.PrimFunc) -> bool:
    """True for a root block without bound threads or matched buffers below it, and where threads
    are known to do nothing else."""
    if not isinstance(func.body, s_tir.SBlockRealize) or func.attrs.get("tirx.is_scheduled", False):
        return False
    if func.attrs.get(LOADS_AND_STORES, False):
        return True
    odd: list[Any] = []

    def check(node: Any) -> None:
        bound = isinstance(node, tirx.For) and node.thread_binding is not None
        if bound or isinstance(node, (tirx.AttrStmt, s_tir.MatchBufferRegion)):
            odd.append(node)

    tvm_ffi.structural_walk(func.body, ((tirx.For, tirx.AttrStmt, s_tir.MatchBufferRegion), check))
    return not odd


class Uses:
    """How often each buffer in a body is loaded, stored, a region and allocated, and there at all.

    By handles: a variable of Python is another one at each place, and to compare two asks for what
    kind they are.
    """

    def __init__(self, body: Any) -> None:
        self.loads: Counter[int] = Counter()
        self.stores: Counter[int] = Counter()
        self._others: Counter[int] = Counter()
        self._any: Counter[int] = Counter()
        tvm_ffi.structural_walk(
            body,
            [
                (ir.Var, self._see(self._any, lambda node: (node,))),
                (ir.TensorLoad, self._see(self.loads, lambda node: (node.source,))),
                (tirx.BufferStore, self._see(self.stores, lambda node: (node.buffer,))),
                (ir.TensorRegion, self._see(self._others, lambda node: (node.source,))),
                (s_tir.SBlock, self._see(self._others, lambda node: node.alloc_buffers)),
            ],
        )

    @staticmethod
    def _see(counter: Counter[int], buffers: Callable[[Any], Iterable[Any]]) -> Any:
        def count(node: Any) -> None:
            for buffer in buffers(node):
                counter[buffer.__chandle__()] += 1

        return count

    def are_ordinary(self, buffer: Any) -> bool:
        """Whether there are any, and all of a buffer's are loads, stores, regions and its
        allocation."""
        of = buffer.__chandle__()
        return self._any[of] > 0 and self._any[of] == (
            self.loads[of] + self.stores[of] + self._others[of]
        )


def _loaded_params(func: tirx.PrimFunc, positions: Collection[int]) -> set[int]:
    """Those of ``positions`` whose buffers are both stored and loaded: sums, mostly."""
    uses = Uses(func.body)
    chosen = {i: func.params[i].__chandle__() for i in positions}
    return {i for i, of in chosen.items() if uses.stores[of] and uses.loads[of]}


def with_buffers(body: Any, new: dict[Any, Any]) -> Any:
    """``body`` with other buffers; loads and stores convert between the types."""

    def load(node: Any) -> Any:
        buffer = new.get(node.source, node.source)
        if buffer.same_as(node.source):
            return node
        return _cast(tirx.BufferLoad(buffer, node.indices), str(node.source.ty.dtype))

    def store(node: Any) -> Any:
        buffer = new.get(node.buffer, node.buffer)
        if buffer.same_as(node.buffer):
            return node
        return tirx.BufferStore(buffer, _cast(node.value, str(buffer.ty.dtype)), node.indices)

    def region(node: Any) -> Any:
        buffer = new.get(node.source, node.source)
        return (
            node if buffer.same_as(node.source) else ir.TensorRegion(buffer, node.region, node.ty)
        )

    def block(node: Any) -> Any:
        if not any(b in new for b in node.alloc_buffers):
            return node
        buffers = [new.get(b, b) for b in node.alloc_buffers]
        return block_with(node, alloc_buffers=buffers)

    return tvm_ffi.structural_map(
        body,
        [
            (ir.TensorLoad, load),
            (tirx.BufferStore, store),
            (ir.TensorRegion, region),
            (s_tir.SBlock, block),
        ],
        order="post",
    )


def _cast(value: Any, dtype: str) -> Any:
    """``value`` as ``dtype``, without widening and narrowing again."""
    if str(value.ty.dtype) == dtype:
        return value
    if dtype == FP16 and _is_exact(value):
        if isinstance(value, prim.Cast):
            return value.value
        if isinstance(value, prim.FloatImm):
            return prim.FloatImm(FP16, value.value)
        condition, left, right = choice_parts(value)
        choose = prim.Select if isinstance(value, prim.Select) else tirx.if_then_else
        return choose(condition, _cast(left, FP16), _cast(right, FP16))
    return prim.Cast(dtype, value)


def _is_exact(value: Any) -> bool:
    """True where a float32 value is one of fp16: widened numbers, constants, choices."""
    if isinstance(value, prim.Cast):
        return str(value.value.ty.dtype) == FP16
    if isinstance(value, prim.FloatImm):
        with np.errstate(over="ignore"):
            return float(np.float16(value.value)) == float(value.value)
    branches = choice_parts(value)
    return branches is not None and _is_exact(branches[1]) and _is_exact(branches[2])


def choice_parts(value: Any) -> Any:
    """Condition and both values of a choice; None for another expression."""
    if isinstance(value, prim.Select):
        return value.condition, value.true_value, value.false_value
    if isinstance(value, ir.Call) and getattr(value.op, "name", "").endswith("if_then_else"):
        return tuple(value.args)
    return None


def _exact_intermediates(func: tirx.PrimFunc) -> list[Any]:
    """Float32 buffers inside ``func`` that only ever hold fp16."""
    inside = [buffer for buffer in func.body.block.alloc_buffers if _is_fp32(buffer)]
    if not inside:
        return []
    uses = Uses(func.body)
    stores: dict[Any, list[Any]] = {}

    def note(node: Any) -> None:
        stores.setdefault(node.buffer, []).append(node.value)

    tvm_ffi.structural_walk(func.body, (tirx.BufferStore, note))
    return [
        buffer
        for buffer in inside
        if uses.are_ordinary(buffer)
        and len(stores.get(buffer, ())) == 1
        and not isinstance(stores[buffer][0], prim.FloatImm)
        and _is_exact(stores[buffer][0])
    ]


def _retyped(func: tirx.PrimFunc, buffers: Sequence[Any], dtype: str = FP16) -> tirx.PrimFunc:
    """``func`` with ``dtype`` in ``buffers``, parameters or buffers of the root block."""
    if not buffers:
        return func
    new = {b: tirx.decl_buffer(b.ty.shape, dtype, name=b.name) for b in buffers}
    params = [new.get(p, p) for p in func.params]
    return tirx.PrimFunc(params, with_buffers(func.body, new), func.ret_type, func.attrs, func.span)


def _with_separate_sums(func: tirx.PrimFunc, params: Sequence[Any]) -> tirx.PrimFunc:
    """``func`` computing ``params`` in buffers of its own, each copied by a last block."""
    if not params:
        return func
    inner = {p: tirx.decl_buffer(p.ty.shape, FP32, name=f"{p.name}_sum") for p in params}
    body = with_buffers(func.body, inner)
    root = body.block
    copies = [_copy_block(inner[p], p) for p in params]
    root = block_with(
        root,
        body=tirx.SeqStmt([root.body, *copies]),
        alloc_buffers=[*root.alloc_buffers, *inner.values()],
    )
    body = s_tir.SBlockRealize(body.iter_values, body.predicate, root)
    return tirx.PrimFunc(func.params, body, func.ret_type, func.attrs, func.span)


def _copy_block(source: Any, target: Any) -> Any:
    shape = list(target.ty.shape)
    loops = [tirx.Var(f"c{i}", size.ty.dtype) for i, size in enumerate(shape)]
    axes = [
        tirx.IterVar(ir.Range(0, size), tirx.Var(f"v_c{i}", size.ty.dtype), tirx.IterVar.DataPar)
        for i, size in enumerate(shape)
    ]
    at = [axis.var for axis in axes]
    point = [ir.Range.from_min_extent(v, 1) for v in at]
    block = s_tir.SBlock(
        axes,
        [tirx.BufferRegion(source, point)],
        [tirx.BufferRegion(target, point)],
        "narrow",
        tirx.BufferStore(target, tirx.BufferLoad(source, at), at),
    )
    body: Any = s_tir.SBlockRealize(loops, True, block)
    for loop, size in zip(reversed(loops), reversed(shape), strict=True):
        body = tirx.For(loop, 0, size, tirx.ForKind.SERIAL, body)
    return body


def block_with(block: Any, **changes: Any) -> Any:
    """``block`` with other fields."""
    fields = (
        "iter_vars", "reads", "writes", "name_hint", "body", "init", "alloc_buffers",
        "match_buffers", "annotations", "span",
    )  # fmt: skip
    return s_tir.SBlock(**{**{name: getattr(block, name) for name in fields}, **changes})
