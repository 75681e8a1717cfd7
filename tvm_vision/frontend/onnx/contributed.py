"""Operators of other domains put as ONNX's: of onnxruntime's own, com.microsoft, which its
quantizer and its optimizer write into the files that they save, and a few of ai.onnx.ml."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
from onnx import helper

from ...error_lines import first_line
from ...errors import UnsupportedModelError
from ..node_names import name_after, name_nodes
from ..refusals import Refusal, RefusedNodes, Remedy
from .contributed_attention import ATTENTION
from .contributed_layers import LAYERS, OWN_SINCE, WITHOUT_DOMAIN
from .contributed_quantized import QUANTIZED
from .contributed_tables import DOMAIN as TABLES_DOMAIN
from .contributed_tables import TABLES
from .contributed_tensors import TENSORS
from .few_bits import FEW_BITS, held_and_ends, in_bytes
from .graph import (
    GraphEditor,
    NodeBuilder,
    Unsupported,
    attribute,
    attributes,
    inferred,
    inner_graphs,
    is_plain,
    nodes_in,
    opset_of,
    readers_of,
    with_input_shapes,
)
from .tools import ToolError, light_step, without_large_values

Rewrite = Callable[[onnx.NodeProto, GraphEditor], list[onnx.NodeProto]]
DOMAIN = "com.microsoft"
REMEDY = Remedy("check the model with onnxruntime, and export it again")
GRID_MODES_OPSET = 20  # since when GridSample's modes have other names
# Of ONNX's operators that this domain had first: the opset that brought them, and their attributes.
SAME = {
    "GatherND": (12, ""),
    "GridSample": (16, "align_corners mode padding_mode"),
    "Pad": (11, "mode"),
}
# The operator set that has all that nodes are put as (GatherElements, Round, Einsum). Converters of
# trees write 8 or 9, which onnxruntime's domains do not heed.
STEPS_OPSET = 12
# Inputs that an LSTM has as well; behind them are scale and zero point of W and of R.
SHARED = 8


def standard_operators(
    model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]] | None = None
) -> onnx.ModelProto:
    """``model`` with ONNX's operators in place of those of other domains that there are words for;
    the model itself where it has none of them.

    shapes: of all inputs. With them nodes are put so as far as types are known, the types of what
    follows are inferred from that, and so on: files need not declare what is between nodes, and
    ONNX's inference ends at an operator of another domain.

    Raises RefusedNodes for a node that cannot be put so.
    """
    # A file may import ONNX's own set nowhere, which is refused behind this.
    opset = opset_of(model)
    if not opset or not any(_standard(node, opset) for node in nodes_in(model.graph)):
        return model
    model = _of_newer_set(model, opset)
    left = sys.maxsize
    while True:
        graph = GraphEditor(model if shapes is None else _typed(model, shapes), weights=model)
        refusals: list[Refusal] = []
        nodes = _of_standard(model.graph, graph, refusals)
        if refusals and (shapes is None or len(refusals) == left):
            raise RefusedNodes(refusals)
        model, left = graph.with_nodes(model, nodes), len(refusals)
        if not left:
            return model


def _of_newer_set(model: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    """``model`` in an operator set that has what nodes are put as. As it is where ONNX cannot
    convert it: most need no newer operators than the file's."""
    if opset >= STEPS_OPSET:
        return model
    try:
        newer = light_step("convert_version", model, opset=STEPS_OPSET)
    except (ToolError, UnsupportedModelError):
        return model
    name_nodes(newer.graph)
    return newer


def _typed(model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]) -> onnx.ModelProto:
    return inferred(with_input_shapes(without_large_values(model), shapes))


def _of_standard(
    of: onnx.GraphProto, graph: GraphEditor, refusals: list[Refusal]
) -> list[onnx.NodeProto]:
    """The nodes of a graph, those of branches and bodies likewise."""
    nodes: list[onnx.NodeProto] = []
    read = {*readers_of(of), *(value.name for value in of.output)}
    for whole in of.node:
        node = _without_unread(whole, read) if _standard(whole, graph.opset) else whole
        standard = _standard(node, graph.opset)
        try:
            replaced = None if standard is None else standard(node, graph)
        except Unsupported as error:
            refusals.append(Refusal(node.op_type, node.name, error.reason, error.remedy))
            nodes.append(node)
            continue
        # ONNX's checker knows nothing of these: what is missing or too much shows here first, in as
        # many ways as there are.
        except Exception as error:
            reason = f"it is not as onnxruntime has it: {first_line(error)}"
            refusals.append(Refusal(node.op_type, node.name, reason, REMEDY))
            nodes.append(node)
            continue
        if replaced is not None:
            name_after(node, replaced)
            nodes += replaced
        else:
            nodes.append(_with_standard_inside(node, graph, refusals))
    return nodes


def _without_unread(node: onnx.NodeProto, read: set[str]) -> onnx.NodeProto:
    """A node without the names of those of its further results that nothing reads: some give names
    to all that an operator may have."""
    if read.issuperset(filter(None, node.output[1:])):
        return node
    changed = onnx.NodeProto()
    changed.CopyFrom(node)
    changed.output[1:] = [name if name in read else "" for name in node.output[1:]]
    return changed


def _with_standard_inside(
    node: onnx.NodeProto, graph: GraphEditor, refusals: list[Refusal]
) -> onnx.NodeProto:
    if not any(True for _ in inner_graphs(node)):
        return node
    changed = onnx.NodeProto()
    changed.CopyFrom(node)
    for inner in inner_graphs(changed):
        nodes = _of_standard(inner, graph.inner(inner), refusals)
        del inner.node[:]
        inner.node.extend(nodes)
    return changed


def _standard(node: onnx.NodeProto, opset: int) -> Rewrite | None:
    """What puts a node as ONNX's; None for one that is left as it is."""
    if node.domain in _OF_DOMAINS:
        return _OF_DOMAINS[node.domain].get(node.op_type)
    if node.domain or opset >= OWN_SINCE.get(node.op_type, opset + 1):
        return None
    return WITHOUT_DOMAIN.get(node.op_type)


def is_operator(domain: str, name: str) -> bool:
    """Whether onnxruntime has an operator of this name, as far as it is known here."""
    if is_plain(domain):
        return onnx.defs.has(name)
    return name in _OF_DOMAINS.get(domain, {})


def _plain_lstm(node: onnx.NodeProto, graph: GraphEditor) -> list[onnx.NodeProto]:
    """An LSTM of the same weights in float32, of what 256 steps tell of its input: where that is
    far from 0, gates saturate by which step it is. Its states, below 1, are not rounded."""
    build, inputs = NodeBuilder(graph, node), list(node.input)
    for index, scale in ((1, SHARED), (2, SHARED + 2)):
        values = [graph.constant(name) for name in (inputs[index], *inputs[scale : scale + 2])]
        if any(value is None for value in values):
            raise Unsupported("weights, scales or zero points at run time", "make them constants")
        weight, factor, zero = (np.asarray(value) for value in values)
        # (directions, rows, gates) here, with a scale for each direction or each gate.
        factor, zero = (one.reshape(weight.shape[0], 1, -1) for one in (factor, zero))
        real = (weight.astype(np.float32) - zero.astype(np.float32)) * factor
        inputs[index] = graph.make_constant(real.transpose(0, 2, 1), inputs[index])
    steps = [graph.fresh(f"{inputs[0]}/{part}") for part in ("steps", "scale", "zero")]
    build.nodes.append(helper.make_node("DynamicQuantizeLinear", inputs[:1], steps))
    inputs[0] = build("DequantizeLinear", *steps)
    plain = helper.make_node("LSTM", inputs[:SHARED], node.output, name=node.name)
    plain.attribute.extend(node.attribute)
    return [*build.nodes, plain]


def _rounding(node: onnx.NodeProto, graph: GraphEditor) -> list[onnx.NodeProto]:
    """QuantizeLinear or DequantizeLinear: ONNX's own, which is the same; arithmetic for integers
    of 16 bits, which that has from opset 21 on only, and bytes for those of 4.

    q = clip(round(x / scale) + zero_point), halves to even, and x = (q - zero_point) * scale.
    """
    zero = graph.constant(node.input[2]) if len(node.input) > 2 and node.input[2] else None
    kind = zero.dtype.name if zero is not None else ""
    if kind not in ("int16", "uint16") and (
        node.op_type == "DequantizeLinear" or kind not in FEW_BITS
    ):
        plain = onnx.NodeProto()
        plain.CopyFrom(node)
        plain.domain = ""
        plain.input[:] = [in_bytes(name, graph) for name in node.input]
        return [plain]
    assert zero is not None
    scale = graph.constant(node.input[1])
    if scale is None:
        raise Unsupported("a scale at run time", "make it a constant")
    build, shape = NodeBuilder(graph, node), _places(node, scale, graph)
    scale, offset = scale.reshape(shape), zero.astype(scale.dtype).reshape(shape)
    if node.op_type == "DequantizeLinear":
        real = build("Sub", build.cast(node.input[0], scale.dtype), offset)
        return build.finish(build("Mul", real, scale))
    steps = build("Add", build("Round", build("Div", node.input[0], scale)), offset)
    held, *ends = held_and_ends(zero.dtype)
    clipped = build("Clip", steps, *(np.array(end, scale.dtype) for end in ends))
    return build.finish(build.cast(clipped, held))


def _same(node: onnx.NodeProto, graph: GraphEditor) -> list[onnx.NodeProto]:
    """ONNX's operator of the same name, which is the same where the file's operator set has it."""
    least, options = SAME[node.op_type]
    if graph.opset < least:
        raise Unsupported(f"opset {graph.opset} has none", f"export with opset {least} or newer")
    build, found = NodeBuilder(graph, node), attributes(node, options)
    if node.op_type == "GridSample" and graph.opset >= GRID_MODES_OPSET:
        mode = found.get("mode", "bilinear")
        found["mode"] = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    return build.finish(build(node.op_type, *node.input, **found))


def _places(node: onnx.NodeProto, scale: np.ndarray, graph: GraphEditor) -> tuple[int, ...]:
    """The shape in which a scale, or one for each place along an axis, meets the values."""
    if scale.size == 1:
        return ()
    rank = len(graph.shape(node.input[0]))
    axis = attribute(node, "axis", 1) % rank
    return tuple(scale.size if place == axis else 1 for place in range(rank))


_STANDARD: dict[str, Rewrite] = {
    **LAYERS,
    **TENSORS,
    **ATTENTION,
    **QUANTIZED,
    **dict.fromkeys(SAME, _same),
    "DynamicQuantizeLSTM": _plain_lstm,
    "QuantizeLinear": _rounding,
    "DequantizeLinear": _rounding,
}
_OF_DOMAINS: dict[str, dict[str, Rewrite]] = {DOMAIN: _STANDARD, TABLES_DOMAIN: TABLES}
