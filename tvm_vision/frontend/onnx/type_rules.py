"""Types that an operator has, by ONNX's lists: onnxruntime loads no model with others, of some of
which TVM makes something, and ends at the rest in its own words."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator

import onnx
from onnx import TensorProto

from ..refusals import CUT, NodesRefused, Refusal, Remedy
from .graph import is_plain, opset_of
from .parts import with_possible_cuts

# What to cast to, the first of these that the operator has.
_CASTS = (("float", "float32"), ("bool", "bool"), ("int64", "int64"), ("int32", "int32"))
# A node of the model's own: what stands for an operator of onnxruntime's takes the node's name.
Own = tuple[str, str]


def own_nodes(model: onnx.ModelProto) -> frozenset[Own]:
    """ONNX's operators among a model's nodes, which all have names."""
    return frozenset((n.name, n.op_type) for n in model.graph.node if is_plain(n.domain))


def check_types(typed: onnx.ModelProto, own: Collection[Own], prepared: onnx.ModelProto) -> None:
    """Raise NodesRefused for nodes whose inputs are of types that their operators have not in the
    model's operator set. Of types that are not known nothing is said.

    typed: a model with the types of its values; own: the nodes to look at; prepared: the same
    model, which a refusal may offer to cut.
    """
    graph, version = typed.graph, opset_of(typed)
    known = {
        value.name: value.type.tensor_type.elem_type
        for value in [*graph.value_info, *graph.output, *graph.input]
    }
    known.update((tensor.name, tensor.data_type) for tensor in graph.initializer)
    refusals = [
        Refusal(node.op_type, node.name, *why)
        for node in graph.node
        if (node.name, node.op_type) in own
        for why in _unfit(node, known, version)
    ]
    if refusals:
        raise NodesRefused(with_possible_cuts(prepared, refusals))


def _unfit(
    node: onnx.NodeProto, known: dict[str, int], version: int
) -> Iterator[tuple[str, Remedy]]:
    """What is wrong with the first input whose type is not in an operator's lists."""
    lists = _lists(node.op_type, version)
    for place, name in enumerate(node.input if lists else ()):
        kind = known.get(name, TensorProto.UNDEFINED)
        allowed = lists[min(place, len(lists) - 1)]
        if not kind or not allowed or _written(kind) in allowed:
            continue
        shown = onnx.helper.tensor_dtype_to_np_dtype(kind).name
        later = _first_with(node.op_type, place, kind, version)
        ways = [f"export the model in operator set {later}"] if later else []
        yield (
            f"operator set {version} has it not of {shown}, as its input {place} is",
            Remedy(*ways, *_casts(allowed), CUT),
        )
        return


def _casts(allowed: Collection[str]) -> Iterator[str]:
    """How to give an operator a type that it has."""
    for name, dtype in _CASTS:
        if f"tensor({name})" in allowed:
            back = ", and its results back" if dtype == "float32" else ""
            yield f"cast its inputs to {dtype}{back}"
            return


def _first_with(operator: str, place: int, kind: int, version: int) -> int | None:
    """The first operator set behind ``version`` that has an operator of a type."""
    for later in range(version + 1, onnx.defs.onnx_opset_version() + 1):
        lists = _lists(operator, later)
        if lists and _written(kind) in lists[min(place, len(lists) - 1)]:
            return later
    return None


@functools.cache
def _lists(operator: str, version: int) -> tuple[frozenset[str], ...]:
    """The types of each input of an operator, as ONNX writes them; none where it is not known."""
    if not onnx.defs.has(operator, version, ""):
        return ()
    return tuple(
        frozenset(formal.types) for formal in onnx.defs.get_schema(operator, version, "").inputs
    )


def _written(kind: int) -> str:
    return f"tensor({TensorProto.DataType.Name(kind).lower()})"
