"""Fusion: which calls of TensorIR functions become one kernel.

TVM's FuseOps decides by the kind of each function, and takes one for elementwise where its indices
are those of what it reads, whatever the sizes: a pad behind the last channel, an image times one
value a channel. After a sum that makes a kernel whose end is larger than its sum. Every schedule
spreads such a kernel by the sum's values: the padding would never be written, and the image
multiplied by as many threads as there are channels; and what a slice leaves out at the end of an
axis would be written where the next row begins. Nor does FuseOps count what a kernel reads,
while devices limit how many buffers a shader sees.

Nor may sums be one that cancel (cancelling.py).

So walls come between the calls that must not become one: opaque calls, taken out after the fusion.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relax, tirx

from tvm_vision.tvm_compat.relax import set_type

from .cancelling import cancelling
from .kernel_calls import (
    BROADCAST,
    INJECTIVE,
    OPAQUE,
    OUT_FUSABLE,
    KernelCalls,
    bindings_of,
    called_function,
    is_kernel_call,
    patterns_of,
)
from .node_names import NodeNames, Nodes
from .walls import WALL, Cuts, fused_calls, rewritten_calls, with_walls, without_walls


def fuse(
    mod: tvm.IRModule, most_tensors: int, joined: Nodes | None = None
) -> tuple[tvm.IRModule, list[list[str]]]:
    """``main`` as calls of groups of TensorIR functions, and the nodes in each call, in order.

    joined: those of calls that are several in one.

    No group ends larger or smaller than a sum within it or takes a sum within it back, and none of
    several calls has more tensors, inputs and results, than ``most_tensors``; a call by itself may.
    """
    mod = _leave_alone(mod, most_tensors)
    mod = with_walls(mod, _resizing(mod))
    mod = with_walls(mod, _added_to_sums(mod))
    mod = with_walls(mod, cancelling(mod))
    grouped = fused_calls(mod)
    while _too_large(grouped, most_tensors):
        mod = with_walls(mod, _excess(mod, most_tensors))
        grouped = fused_calls(mod)
    called = [name for _, value in bindings_of(grouped["main"]) if (name := called_function(value))]
    nodes = zip(called, NodeNames(mod, joined).of_calls(grouped), strict=True)
    return without_walls(grouped), [of for name, of in nodes if not name.startswith(WALL)]


def _resizing(mod: tvm.IRModule) -> Cuts:
    """Where something is made of a sum, or of what was made of one, that is larger or smaller."""
    patterns = patterns_of(_functions(mod))
    of_sum: set[Any] = set()
    cuts: Cuts = {}
    for var, value in bindings_of(mod["main"]):
        sums = of_sum.intersection(relax.analysis.free_vars(value))
        pattern = patterns.get(value.args[0], OPAQUE) if is_kernel_call(value) else BROADCAST
        if pattern <= BROADCAST:
            others = {source for source in sums if _elements(source) != _elements(var)}
            cuts[var] = others
            of_sum.update([var] if sums - others else [])
        elif pattern == OUT_FUSABLE:
            of_sum.add(var)
    return cuts


def _added_to_sums(mod: tvm.IRModule) -> Cuts:
    """Where the end of a sum adds what is added up of several moves or enlargements: FuseOps has
    the additions in the sum's kernel, and each of those as one of its own."""
    patterns = patterns_of(_functions(mod))
    of_sum: set[Any] = set()
    moved: dict[Any, int] = {}
    cuts: Cuts = {}
    for var, value in bindings_of(mod["main"]):
        pattern = patterns.get(value.args[0], OPAQUE) if is_kernel_call(value) else OPAQUE
        read = relax.analysis.free_vars(value.args[1]) if pattern < OPAQUE else []
        sums = of_sum.intersection(read)
        if pattern == OUT_FUSABLE or (pattern <= BROADCAST and sums):
            of_sum.add(var)
        if pattern == INJECTIVE:
            moved[var] = 1
        elif pattern <= BROADCAST and not sums and all(source in moved for source in read):
            moved[var] = sum(moved[source] for source in read)
        elif pattern <= BROADCAST and sums:
            cuts[var] = {source for source in read if moved.get(source, 0) > 1}
    return cuts


def _leave_alone(mod: tvm.IRModule, most: int) -> tvm.IRModule:
    """``mod`` with those functions opaque that have more tensors than ``most`` by themselves."""
    calls = KernelCalls(mod["main"]).bound
    large = {call.args[0] for var, call in calls if _tensors([var], {var: call}, {}) > most}
    opaque = {gv: mod[gv].with_attr("op_pattern", OPAQUE) for gv in large}
    return tvm.IRModule({**dict(mod.functions_items()), **opaque}, attrs=mod.attrs)


def _too_large(grouped: tvm.IRModule, most: int) -> bool:
    """Whether a group of several calls has more tensors than ``most``."""
    groups = {gv for gv, f in grouped.functions_items() if isinstance(f, relax.Function)}
    return any(
        len(_fields(var.ty)) + sum(len(_fields(a.ty)) for a in value.args) > most
        for var, value in bindings_of(grouped["main"])
        if isinstance(value, relax.Call) and value.op in groups
    )


def _excess(mod: tvm.IRModule, most: int) -> Cuts:
    """Where to cut the groups of more tensors than ``most``: each behind as many calls as fit."""
    main = KernelCalls(mod["main"])
    calls = dict(main.bound)
    users: dict[Any, set[Any]] = {}
    for var, value in bindings_of(mod["main"]):
        for used in relax.analysis.free_vars(value):
            users.setdefault(used, set()).add(var)
    cuts: Cuts = {}
    for group in _groups(mod, main):
        if _tensors(group, calls, users) <= most:
            continue
        head = 1
        while _tensors(group[: head + 1], calls, users) <= most:
            head += 1
        cuts |= {var: set(group[:head]) for var in group[head:]}
    return cuts


def _groups(mod: tvm.IRModule, main: KernelCalls) -> list[list[Any]]:
    """The calls of ``main`` that FuseOps joins, by the variables they are bound to, in order.

    FuseOps keeps neither variables nor all of their names, but the functions: so every call gets
    one of its own.
    """
    functions = dict(mod.functions_items())
    own: dict[Any, Any] = {}
    for position, (var, call) in enumerate(main.bound):
        own[var] = tvm.ir.GlobalVar(f"{WALL}_call_{position}")
        set_type(own[var], call.args[0].ty)
        functions[own[var]] = functions[call.args[0]]
    of_name = {gv.name_hint: var for var, gv in own.items()}

    def renamed(var: Any, call: relax.Call, _builder: relax.BlockBuilder) -> relax.Call:
        return relax.Call(call.op, [own[var], *call.args[1:]], call.attrs, call.ty_args)

    grouped = fused_calls(rewritten_calls(tvm.IRModule(functions, attrs=mod.attrs), renamed))
    return [
        [
            of_name[str(called_function(value))]
            for _, value in bindings_of(f)
            if is_kernel_call(value)
        ]
        for gv, f in grouped.functions_items()
        if isinstance(f, relax.Function) and gv.name_hint != "main"
    ]


def _tensors(
    group: list[Any], calls: Mapping[Any, relax.Call], users: Mapping[Any, set[Any]]
) -> int:
    """The tensors that one kernel of some calls reads and writes."""
    read: list[Any] = []
    for var in group:
        arguments = calls[var].args[1]
        for part in arguments.fields if isinstance(arguments, relax.Tuple) else [arguments]:
            if part not in group and part not in read:
                read.append(part)
    last = group[-1]
    written = [var for var in group if var is last or users.get(var, set()) - set(group)]
    return sum(len(_fields(part.ty)) for part in (*read, *written))


def _functions(mod: tvm.IRModule) -> dict[Any, tirx.PrimFunc]:
    return {gv: f for gv, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)}


def _fields(of: Any) -> list[Any]:
    """The types of tensors in a type."""
    return [t for f in of.fields for t in _fields(f)] if isinstance(of, relax.TupleType) else [of]


def _elements(var: Any) -> int:
    """Of the largest tensor of a variable; 0 where a size is known only at run time."""
    shapes = [getattr(of, "shape", None) for of in _fields(var.ty)]
    sizes = [[getattr(n, "value", 0) for n in shape or ()] for shape in shapes]
    return max((int(math.prod(map(int, shape))) for shape in sizes), default=0)
