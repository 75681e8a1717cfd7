"""One function for every kind of model: it looks at what it is given and calls the importer."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..file_kinds import ONNX, TFLITE, TORCH_SUFFIXES, kind_of
from .input_values import InputValues, plain_values

if TYPE_CHECKING:
    import onnx
    import tvm

    from ..package import ModelInfo
    from .signature import Signature


def prepare(model: Any) -> None:
    """Start what ``import_model`` will wait for, so that it is ready by then.

    Raises InputError where ONNX's tools cannot be started, for a model that needs them.
    """
    if isinstance(model, tuple) or _is_from_torch(model):
        return
    from .onnx import tools

    tools.start()


def import_model(
    model: Any,
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    input_values: InputValues | None = None,
    example_inputs: Sequence[Any] = (),
    raw_io: bool = False,
) -> tuple[tvm.IRModule, Signature]:
    """The Relax module and the signature of a model.

    model: an ONNX file or onnx.ModelProto, a TFLite file, a torch.nn.Module (with
        ``example_inputs``), a torch.export.ExportedProgram or a file of one (.pt2), or what an
        importer has returned.
    input_shapes: input name -> shape, for inputs that a model leaves open.
    input_values: input name -> value, for small inputs of these that become constants: a number for
        all of its elements, or as many as it has.
    example_inputs: tensors of the shapes and types to compile a torch.nn.Module for.
    raw_io: whether quantized inputs and outputs of a TFLite file are its integers, not float32.

    Raises InputError for what is none of these, and what the importers raise.
    """
    is_file = isinstance(model, (str, os.PathLike))
    if is_file and kind_of(Path(model)) is TFLITE:
        return _import_tflite(model, input_shapes, input_values, raw_io)
    if raw_io:
        raise InputError(
            "a TFLite file is needed for raw_io, found another model: give one, or leave it out"
        )
    if isinstance(model, tuple) and len(model) == 2:
        if input_values:
            raise InputError("input_values are for who imports the model: give them there")
        return model
    if _is_from_torch(model):
        from .torch import import_torch

        return import_torch(
            model, example_inputs, input_shapes=input_shapes, input_values=input_values
        )
    if is_file or type(model).__name__ == "ModelProto":
        from .onnx.load import import_onnx

        return import_onnx(model, input_shapes=input_shapes, input_values=input_values)
    raise InputError(
        "a model is an ONNX file or model, a TFLite file, a PyTorch module or exported program, "
        f"found {type(model).__name__}: give one of them"
    )


def onnx_form(
    path: Path,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    *,
    input_values: InputValues | None = None,
    raw_io: bool = False,
    cut: bool = False,
) -> Path | onnx.ModelProto:
    """The ONNX model of a TFLite file or of an exported program (.pt2); any other path as it is,
    for who reads ONNX files.

    input_values: of a TFLite file; who reads ONNX models gives them there.
    cut: whether what cannot be converted is left out, of a TFLite file.

    Raises InputError and UnsupportedModelError as ``tflite_to_onnx`` and ``torch_to_onnx`` do.
    """
    if _is_from_torch(path):
        from .torch import torch_to_onnx

        return torch_to_onnx(path)
    if kind_of(path) is not TFLITE:
        return path
    from .tflite.cut import tflite_head
    from .tflite.load import tflite_to_onnx

    given: dict[str, Any] = {
        "input_shapes": input_shapes, "input_values": input_values, "raw_io": raw_io,
    }  # fmt: skip
    if cut:
        return tflite_head(path, **given).form.model
    return tflite_to_onnx(path, **given).model


def is_quantized_file(model: Any, info: ModelInfo) -> bool:
    """Whether a model is a file of a quantized network. info: what its package says of it."""
    from .onnx.graph import is_quantized

    if not isinstance(model, (str, os.PathLike)) or kind_of(Path(model)) not in (ONNX, TFLITE):
        return False
    return is_quantized(onnx_form(Path(model), input_values=info.input_values, cut=bool(info.cut)))


def _import_tflite(
    path: str | os.PathLike[str],
    shapes: Mapping[str, Sequence[int]] | None,
    values: InputValues | None,
    raw_io: bool,
) -> tuple[tvm.IRModule, Signature]:
    from .onnx.load import import_onnx
    from .tflite.load import tflite_to_onnx

    form = tflite_to_onnx(path, input_shapes=shapes, input_values=values, raw_io=raw_io)
    module, signature = import_onnx(form.model)
    return module, replace(form.of_steps(signature), input_values=plain_values(values or {}))


def _is_from_torch(model: Any) -> bool:
    if isinstance(model, (str, os.PathLike)):
        return Path(model).suffix in TORCH_SUFFIXES
    return any(base.__module__.partition(".")[0] == "torch" for base in type(model).__mro__)
