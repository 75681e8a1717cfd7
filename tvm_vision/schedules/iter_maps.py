"""Divisions that TVM's maps of iterators get wrong, kept out of their sight.

``sym.detect_iter_map`` and what builds on it (IterMapSimplify, the estimate of regions) pad an
iterator where a sum that begins beside a multiple of the divisor is divided, and take the same pad
for all divisions of the iterator, and for parts of it that begin anew within it. Of
``[t // 10, (t % 10 + 3) % 5]`` they make ``[(t + 3) % 20 // 10, (t + 3) % 5]``, of ``t // 3 // 6``
where ``t > 3`` something else, and ``(t % 8 - 1) // 4`` they take for at most 0 where it is 1. TVM
asks them where it flattens the indices of buffers, makes buffers as small as what is used of them,
and gives a block other variables; a kernel then reads other numbers, silently. They leave alone
what they cannot see through: a call that takes a value's bits for another of its type, or, where
its range has to be known, a conversion to the type that it has. Some simplify the latter away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.ir.prim import expr as prim
from tvm.s_tir import Schedule

_DIVISIONS = (prim.FloorDiv, prim.FloorMod)
_SAME_BITS = ir.Op.get("tirx.reinterpret")
_CHOICE = ir.Op.get("prim.if_then_else")
_COMPARISONS = (prim.LT, prim.LE, prim.GT, prim.GE)


def with_true_maps(step: tvm.transform.Pass, bounds: bool = False) -> tvm.transform.Pass:
    """A pass of TVM's that asks for maps of iterators, without those that come out wrong.

    bounds: whether the pass has to know the range of what is divided.
    """
    hide = _converted if bounds else _same_bits

    @tvm.transform.module_pass(opt_level=0, name=f"with_true_maps.{step.info.name}")
    def apply(mod: tvm.IRModule, _: Any) -> tvm.IRModule:
        functions = dict(mod.functions_items())
        hidden = {
            gv: _with_body(f, body)
            for gv, f in functions.items()
            if isinstance(f, tirx.PrimFunc) and not (body := _hidden(f.body, hide)).same_as(f.body)
        }
        if not hidden:
            return step(mod)
        done = step(tvm.IRModule({**functions, **hidden}, attrs=mod.attrs))
        shown = {gv: _with_body(done[gv], _shown(done[gv].body)) for gv in hidden}
        return tvm.IRModule({**dict(done.functions_items()), **shown}, attrs=done.attrs)

    return apply


def transform_block_layout(schedule: Schedule, block: Any, index_map: Any) -> None:
    """``schedule.transform_block_layout``, the block's indices right whatever they divide."""
    body = schedule.get(block)
    axes = [axis.var for axis in body.iter_vars]
    hidden = _hidden(body.body, _same_bits, axes)
    if hidden.same_as(body.body):
        schedule.transform_block_layout(block, index_map)
        return
    hide = _Iterators(body.body, axes).hiding(_same_bits)
    reads = [_region(read, hide) for read in body.reads]
    _replace(schedule, block, hidden, reads)
    schedule.transform_block_layout(block, index_map)
    body = schedule.get(block)
    _replace(schedule, block, _shown(body.body), [_region(read, _shown) for read in body.reads])


def _with_body(function: tirx.PrimFunc, body: Any) -> tirx.PrimFunc:
    return tirx.PrimFunc(function.params, body, function.ret_type, function.attrs, function.span)


def _replace(schedule: Schedule, block: Any, body: Any, reads: list[Any]) -> None:
    old = schedule.get(block)
    new = s_tir.SBlock(
        old.iter_vars, reads, old.writes, old.name_hint, body, old.init,
        old.alloc_buffers, old.match_buffers, old.annotations, old.span,
    )  # fmt: skip
    schedule.state.replace(schedule.get_sref(block), new, {old: new})


def _region(region: Any, change: Callable[[Any], Any]) -> Any:
    ranges = [ir.Range.from_min_extent(change(r.min), r.extent) for r in region.region]
    return tirx.BufferRegion(region.source, ranges)


def _hidden(body: Any, hide: Callable[[Any], Any], axes: list[Any] | None = None) -> Any:
    """``body`` with each division hidden that may come out wrong, where it says which element is
    read or written; the same object where none does.

    axes: variables that run from 0 besides those of its own loops and blocks.
    """
    iterators = _Iterators(body, axes or [])
    if not iterators.divides_moved:
        return body

    def places_in(node: Any) -> list[Any] | None:
        index = iterators.hiding(hide, node)
        places = [index(place) for place in node.indices]
        same = all(new.same_as(old) for new, old in zip(places, node.indices, strict=True))
        return None if same else places

    def load(node: Any) -> Any:
        places = places_in(node)
        return node if places is None else tirx.BufferLoad(node.source, places)

    def store(node: Any) -> Any:
        places = places_in(node)
        return node if places is None else tirx.BufferStore(node.buffer, node.value, places)

    return tvm_ffi.structural_map(
        body, [(ir.TensorLoad, load), (tirx.BufferStore, store)], order="post"
    )


def _same_bits(value: Any) -> Any:
    return tirx.call_intrin(str(value.ty.dtype), _SAME_BITS, value)


def _converted(value: Any) -> Any:
    return prim.Cast(str(value.ty.dtype), value)


def _shown(body: Any) -> Any:
    def bits(call: Any) -> Any:
        if call.op.same_as(_SAME_BITS) and str(call.ty.dtype) == str(call.args[0].ty.dtype):
            return call.args[0]
        return call

    def conversion(cast: Any) -> Any:
        return cast.value if str(cast.ty.dtype) == str(cast.value.ty.dtype) else cast

    return tvm_ffi.structural_map(body, [(ir.Call, bits), (prim.Cast, conversion)], order="post")


class _Iterators:
    """What runs from 0 in a body.

    Attributes:
        divides_moved: whether anything is divided that begins elsewhere.
    """

    def __init__(self, body: Any, axes: list[Any]) -> None:
        self.from_zero: set[Any] = set(axes)
        # Variables that a condition keeps from 0: of a statement, anywhere; of a choice between two
        # values, where one of them is computed: by the element that is read or written there.
        self._everywhere: set[Any] = set()
        self._within: dict[tuple[int, ...], set[Any]] = {}
        self._anywhere: set[Any] = set()
        divisions: list[Any] = []
        self._walk(body, set(), divisions)
        self._anywhere |= self._everywhere
        self.divides_moved = any(self._moved(each.a, self._anywhere) for each in divisions)

    def hiding(self, hide: Callable[[Any], Any], access: Any | None = None) -> Callable[[Any], Any]:
        """What hides the divisions of an index that divide what is moved.

        access: where the index stands, a load or a store of the body; anywhere if None.
        """
        bounded = self._anywhere
        if access is not None:
            # An index that was changed within is not known any more.
            bounded = self._everywhere | self._within.get(_element(access), self._anywhere)

        def hidden(division: Any) -> Any:
            return hide(division) if self._moved(division.a, bounded) else division

        return lambda index: tvm_ffi.structural_map(index, (_DIVISIONS, hidden), order="post")

    def _moved(self, value: Any, bounded: set[Any]) -> bool:
        """Whether the terms of a sum are not all iterators that run from 0."""
        if isinstance(value, prim.IntImm):
            return int(value.value) != 0
        if isinstance(value, ir.Var):
            return value in bounded or value not in self.from_zero
        if isinstance(value, (prim.Add, prim.Sub)):
            return self._moved(value.a, bounded) or self._moved(value.b, bounded)
        if isinstance(value, prim.Mul):
            factors = (f for f in (value.a, value.b) if not _is_constant(f))
            return any(self._moved(f, bounded) for f in factors)
        # A division within is looked at by itself.
        return isinstance(value, _DIVISIONS) and self._moved(value.a, bounded)

    def _walk(
        self, node: Any, chosen: set[Any], divisions: list[Any], condition: bool = False
    ) -> None:
        """Notes everything below.

        chosen: what the conditions of the choices around it keep from 0.
        condition: whether it is one of these itself.
        """

        def accessed(access: Any) -> None:
            self._within.setdefault(_element(access), set()).update(chosen)

        def compared(comparison: Any) -> None:
            if not condition:
                self._everywhere |= _kept_from_zero(comparison)

        def choice(call: Any) -> Any:
            if not call.op.same_as(_CHOICE):
                return None
            asked, *values = call.args
            within = chosen | _bounded_by(asked)
            self._walk(asked, within, divisions, condition=True)
            for value in values:
                self._walk(value, within, divisions)
            return tvm_ffi.WalkResult.SKIP

        self._anywhere |= chosen
        tvm_ffi.structural_walk(
            node,
            [
                (_DIVISIONS, divisions.append),
                (_COMPARISONS, compared),
                (ir.Call, choice),
                ((ir.TensorLoad, tirx.BufferStore), accessed),
                (tirx.For, lambda loop: self._runs(loop.loop_var, loop.min)),
                (tirx.AttrStmt, self._thread),
                (s_tir.SBlock, self._block),
            ],
            order="pre",
        )

    def _runs(self, var: Any, first: Any) -> None:
        if int(getattr(first, "value", 1)) == 0:
            self.from_zero.add(var)

    def _block(self, block: Any) -> None:
        for axis in block.iter_vars:
            self._runs(axis.var, axis.dom.min)

    def _thread(self, attribute: Any) -> None:
        if isinstance(attribute.node, tirx.IterVar):
            self.from_zero.add(attribute.node.var)


def _element(access: Any) -> tuple[int, ...]:
    """The same for two accesses whose buffer and indices are the same objects."""
    buffer = access.source if isinstance(access, ir.TensorLoad) else access.buffer
    return hash(buffer), *map(hash, access.indices)


def _bounded_by(condition: Any) -> set[Any]:
    found: set[Any] = set()
    tvm_ffi.structural_walk(
        condition, (_COMPARISONS, lambda each: found.update(_kept_from_zero(each)))
    )
    return found


def _kept_from_zero(comparison: Any) -> set[Any]:
    """What a comparison keeps from 0: TVM takes it to begin where it may.

    Not that by which a value is read: of values, as activations compare them, nothing follows for
    places.
    """
    a, b = comparison.a, comparison.b
    if "int" not in str(a.ty.dtype):
        return set()
    below, above = (a, b) if isinstance(comparison, (prim.LT, prim.LE)) else (b, a)
    found: set[Any] = set()
    if not (_is_constant(above) and _rises(below)):
        for side in (below, above):
            tvm_ffi.structural_walk(
                side,
                [(ir.TensorLoad, lambda _: tvm_ffi.WalkResult.SKIP), (ir.Var, found.add)],
                order="pre",
            )
    return found


def _is_constant(value: Any) -> bool:
    return isinstance(value, prim.IntImm)


def _rises(value: Any) -> bool:
    """Whether a sum grows with each of its variables, as far as its signs say."""
    if isinstance(value, prim.Sub):
        return _is_constant(value.b) and _rises(value.a)
    if isinstance(value, prim.Mul):
        factors = [f for f in (value.a, value.b) if _is_constant(f)]
        return all(int(f.value) >= 0 for f in factors) and _rises(value.a) and _rises(value.b)
    parts = (getattr(value, side, None) for side in "ab")
    return all(_rises(part) for part in parts if part is not None)
