"""A model file's nodes, and what flows between them, as a drawing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError, TvmVisionError
from ..file_kinds import need_model
from .drawing import Box, Drawing

if TYPE_CHECKING:
    import onnx

# Boxes of the same kind of work have the same colour, by the first word of an operator's name.
_SHADES = {
    "h4": ("Conv", "ConvTranspose", "QLinearConv", "DeformConv"),
    "h3": ("Gemm", "MatMul", "QLinearMatMul", "Einsum", "LSTM", "GRU"),
    "h2": ("MaxPool", "AveragePool", "GlobalAveragePool", "Resize", "Upsample", "ReduceMean"),
    "h1": ("Concat", "Split", "Slice", "Gather", "Reshape", "Transpose", "Pad", "Flatten"),
}
_SHADE_OF = {kind: shade for shade, kinds in _SHADES.items() for kind in kinds}


def read_model(path: Path) -> onnx.ModelProto:
    """An ONNX file as it is, or the ONNX form of a TFLite or .pt2 file, with its nodes named.

    Raises InputError where it is neither.
    """
    import onnx

    from ..frontend.model import onnx_form
    from ..frontend.node_names import name_nodes

    need_model(path)
    try:
        form = onnx_form(path)
        proto = onnx.load(form, load_external_data=False) if isinstance(form, Path) else form
    except TvmVisionError:
        raise
    except Exception as error:  # protobuf's and onnx's exceptions have no base of their own
        raise InputError(f"'{path}' cannot be read as ONNX ({error}): export it again") from None
    name_nodes(proto.graph)
    return proto


def read_as_compiled(path: Path) -> onnx.ModelProto:
    """An ONNX, TFLite or .pt2 file with the nodes that a package of it names.

    Raises InputError and UnsupportedModelError where it is neither, or cannot be read.
    """
    from ..frontend.model import onnx_form
    from ..frontend.onnx.load import as_compiled

    need_model(path)
    return as_compiled(onnx_form(path))


def model_drawing(proto: onnx.ModelProto) -> Drawing:
    """Inputs, nodes and outputs; weights are not drawn, nor nodes that work on them alone."""
    drawing = Drawing()
    maker: dict[str, int] = {}
    shapes = _shapes(proto.graph)
    constants = {weight.name for weight in proto.graph.initializer}
    for value in proto.graph.input:
        if value.name not in constants:
            maker[value.name] = drawing.add(_end(value.name, shapes, "input"))
    for index, node in enumerate(proto.graph.node):
        if constants.issuperset(filter(None, node.input)) and not node.op_type.startswith("Random"):
            constants.update(node.output)
            continue
        made = ", ".join(filter(None, (shapes.get(name, "") for name in node.output)))
        lines = (node.name, *([made] if made else []))
        marks = (_SHADE_OF.get(node.op_type, "h0"),)
        box = drawing.add(Box(node.op_type, lines, node_words(node, shapes), marks, str(index)))
        for name in node.input:
            if name in maker:
                drawing.connect(maker[name], box, f"{name} {shapes.get(name, '')}")
        maker.update(dict.fromkeys(filter(None, node.output), box))
    for value in proto.graph.output:
        box = drawing.add(_end(value.name, shapes, "output"))
        if value.name in maker:
            drawing.connect(maker[value.name], box, shapes.get(value.name, ""))
    return drawing


def node_words(node: onnx.NodeProto, shapes: Mapping[str, str]) -> str:
    """A node in lines: operator, name, attributes, what it takes and gives."""
    lines = [f"{node.op_type} {node.name}"]
    lines += [f"{each.name}: {_attribute(each)}" for each in node.attribute]
    for word, names in (("takes", node.input), ("gives", node.output)):
        told = [f"{name} {shapes.get(name, '?')}" for name in names if name]
        lines.append(f"{word}: {', '.join(told)}")
    return "\n".join(lines)


def _attribute(attribute: onnx.AttributeProto) -> str:
    import onnx

    value: Any = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, (onnx.TensorProto, onnx.GraphProto)):
        return type(value).__name__
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


def _shapes(graph: onnx.GraphProto) -> dict[str, str]:
    """What the file says of its values: type and shape in words."""
    found = {w.name: f"{_type(w.data_type)} {_sized(w.dims)}" for w in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        of = value.type.tensor_type
        sizes = [d.dim_param or d.dim_value for d in of.shape.dim]
        found[value.name] = f"{_type(of.elem_type)} {_sized(sizes)}"
    return found


def _type(number: int) -> str:
    """numpy's name of an ONNX type, or ONNX's where numpy has none."""
    import onnx

    try:
        return str(onnx.helper.tensor_dtype_to_np_dtype(number))
    except (KeyError, ValueError, TypeError):
        return onnx.TensorProto.DataType.Name(number).lower()


def _sized(sizes: Any) -> str:
    return "×".join(map(str, sizes)) or "scalar"


def _end(name: str, shapes: Mapping[str, str], mark: str) -> Box:
    return Box(name, (shapes.get(name, ""),), f"{mark} {name}", (mark, "end"))
