"""ONNX to Relax: load, fix the shapes, simplify, convert, and say in one line what is not possible.

Weights become constants of the module, so that the compiler can fold and pack them.
"""

from __future__ import annotations

import contextlib
import io
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx
from google.protobuf.message import DecodeError

from ..errors import InputError, UnsupportedModelError
from .signature import Signature, TensorSpec

if TYPE_CHECKING:
    import tvm

# Below this, operators carry attributes (broadcast axes, spatial flags) the importer ignores.
MIN_OPSET = 7

Shapes = Mapping[str, Sequence[int]]


def import_onnx(
    model: str | os.PathLike[str] | onnx.ModelProto, *, input_shapes: Shapes | None = None
) -> tuple[tvm.IRModule, Signature]:
    """Import an ONNX model as a Relax module with the function ``main`` and bound weights.

    model: a file, or a model already loaded (it is not changed).
    input_shapes: input name -> shape, for inputs whose shape is not fixed in the model.

    Raises InputError for a file or shapes that cannot be used, UnsupportedModelError for a model
    that is damaged, dynamic, or uses operators TVM does not have.
    """
    proto = model if isinstance(model, onnx.ModelProto) else _load(Path(model))
    _check(proto)
    shapes = _fixed_shapes(proto, input_shapes or {})
    simplified = _simplify(proto, shapes)
    module = _convert(simplified, shapes)
    return module, _signature(simplified, module)


def _load(path: Path) -> onnx.ModelProto:
    if not path.is_file():
        raise InputError(f"an ONNX file is needed, and '{path}' is not a file: check the path")
    try:
        return onnx.load(path)
    except DecodeError as error:
        raise UnsupportedModelError(f"'{path}' is not an ONNX model: {error}") from None
    except (OSError, onnx.checker.ValidationError) as error:
        raise InputError(f"'{path}' cannot be read: {_first_line(error)}") from None


def _check(proto: onnx.ModelProto) -> None:
    """Raise UnsupportedModelError unless the model is valid ONNX of a known operator set."""
    opsets = {entry.domain or "ai.onnx": entry.version for entry in proto.opset_import}
    version = opsets.get("ai.onnx", 0)
    newest = onnx.defs.onnx_opset_version()
    if not MIN_OPSET <= version <= newest:
        raise UnsupportedModelError(
            f"ONNX opset {MIN_OPSET} to {newest} is needed, found opset {version}: export the "
            "model again, or convert it with onnx.version_converter"
        )
    foreign = sorted(
        {
            f"{node.domain}.{node.op_type}"
            for node in proto.graph.node
            if node.domain not in ("", "ai.onnx")
        }
    )
    if foreign:
        raise UnsupportedModelError(
            f"only standard ONNX operators can be compiled, found {', '.join(foreign)}: export the "
            "model without custom operators"
        )
    try:
        onnx.checker.check_model(proto)
    except onnx.checker.ValidationError as error:
        raise UnsupportedModelError(f"the model is not valid ONNX: {_first_line(error)}") from None


def _graph_inputs(proto: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """Inputs that the caller feeds: files of old IR versions list the weights among the inputs."""
    weights = {tensor.name for tensor in proto.graph.initializer}
    return [value for value in proto.graph.input if value.name not in weights]


def _fixed_shapes(proto: onnx.ModelProto, given: Shapes) -> dict[str, list[int]]:
    """Shape of each input, from the model and, where the model leaves it open, from ``given``."""
    inputs = {value.name: value for value in _graph_inputs(proto)}
    unknown = sorted(set(given) - set(inputs))
    if unknown:
        raise InputError(
            f"input_shapes names '{unknown[0]}', and the model's inputs are: {', '.join(inputs)}"
        )
    return {name: _fixed_shape(value, given.get(name)) for name, value in inputs.items()}


def _fixed_shape(value: onnx.ValueInfoProto, given: Sequence[int] | None) -> list[int]:
    tensor = value.type.tensor_type
    if not value.type.HasField("tensor_type"):
        kind = value.type.WhichOneof("value")
        raise UnsupportedModelError(f"input '{value.name}' must be a tensor, found {kind}")
    declared = [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]
    names = [
        (d.dim_param or "?") if size is None else str(size)
        for d, size in zip(tensor.shape.dim, declared, strict=True)
    ]
    shown = f"({', '.join(names)})"
    if given is None:
        fixed = [size for size in declared if size is not None]
        if len(fixed) < len(declared):
            raise UnsupportedModelError(
                f"fixed shapes are needed, and input '{value.name}' is {shown}: "
                f"pass input_shapes={{'{value.name}': (...)}}"
            )
        return fixed
    sizes = [int(size) for size in given]
    fits = len(sizes) == len(declared) and all(
        d is None or d == s for d, s in zip(declared, sizes, strict=True)
    )
    if not fits or any(size < 1 for size in sizes):
        raise InputError(f"input '{value.name}' is {shown}, and {tuple(sizes)} does not fit it")
    return sizes


def _simplify(proto: onnx.ModelProto, shapes: dict[str, list[int]]) -> onnx.ModelProto:
    import onnxsim

    try:
        simplified, _ = onnxsim.simplify(proto, overwrite_input_shapes=shapes)
        onnx.checker.check_model(simplified)
    except Exception as error:  # onnxsim raises whatever its C++ core does
        raise UnsupportedModelError(
            f"onnxsim cannot simplify the model: {_first_line(error)}"
        ) from None
    return simplified


def _convert(proto: onnx.ModelProto, shapes: dict[str, list[int]]) -> tvm.IRModule:
    from tvm.relax.frontend.onnx import from_onnx

    # The importer prints before it raises, and warns of each name that it makes an identifier.
    printed = io.StringIO()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(printed):
            warnings.simplefilter("ignore")
            return from_onnx(proto, shape_dict=shapes)
    except Exception as error:  # the importer raises every kind there is
        operator = _operator_in(printed.getvalue())
        raise UnsupportedModelError(f"TVM cannot import {operator}: {_first_line(error)}") from None


def _operator_in(printed: str) -> str:
    """Name of the operator in what TVM's importer printed, as words for a message."""
    _, found, rest = printed.partition("Error converting operator ")
    return f"the operator {rest.partition(',')[0]}" if found else "the model"


def _signature(proto: onnx.ModelProto, module: tvm.IRModule) -> Signature:
    main = module["main"]
    inputs = [
        _spec(value.name, param.ty)
        for value, param in zip(_graph_inputs(proto), main.params, strict=True)
    ]
    outputs = proto.graph.output
    result = main.ret_ty
    types = [result] if len(outputs) == 1 else list(result.fields)
    return Signature(
        inputs=tuple(inputs),
        outputs=tuple(_spec(v.name, t) for v, t in zip(outputs, types, strict=True)),
    )


def _spec(name: str, tensor_type: Any) -> TensorSpec:
    """The spec of a relax.TensorType. Raises UnsupportedModelError where its shape is not fixed."""
    shape = getattr(tensor_type, "shape", None)
    sizes = [getattr(size, "value", None) for size in shape] if shape is not None else [None]
    fixed = tuple(int(size) for size in sizes if size is not None)
    if len(fixed) < len(sizes):
        raise UnsupportedModelError(
            f"fixed shapes are needed, and '{name}' depends on the data: found {tensor_type}"
        )
    return TensorSpec(name, fixed, str(tensor_type.dtype))


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
