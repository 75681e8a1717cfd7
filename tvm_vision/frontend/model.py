"""One function for every kind of model: it looks at what it is given and calls the importer."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..file_kinds import TFLITE, kind_of

if TYPE_CHECKING:
    import onnx
    import tvm

    from .signature import Signature

# What torch.export.save writes, by the ending of its name.
TORCH_SUFFIXES = (".pt2",)


def import_model(
    model: Any,
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    example_inputs: Sequence[Any] = (),
    raw_io: bool = False,
) -> tuple[tvm.IRModule, Signature]:
    """The Relax module and the signature of a model.

    model: an ONNX file or onnx.ModelProto, a TFLite file, a torch.nn.Module (with
        ``example_inputs``), a torch.export.ExportedProgram or a file of one (.pt2), or what an
        importer has returned.
    input_shapes: input name -> shape, for inputs that an ONNX or TFLite model leaves open.
    example_inputs: tensors of the shapes and types to compile a torch.nn.Module for.
    raw_io: whether quantized inputs and outputs of a TFLite file are its integers, not float32.

    Raises InputError for what is none of these, and what the importers raise.
    """
    is_file = isinstance(model, (str, os.PathLike))
    if is_file and kind_of(Path(model)) is TFLITE:
        return _import_tflite(model, input_shapes, raw_io)
    if raw_io:
        raise InputError(
            "a TFLite file is needed for raw_io, found another model: give one, or leave it out"
        )
    if isinstance(model, tuple) and len(model) == 2:
        return model
    if _is_torch(model) or (is_file and Path(model).suffix in TORCH_SUFFIXES):
        from .torch import import_torch

        if input_shapes:
            raise InputError("input_shapes are for ONNX models: export PyTorch models of that size")
        return import_torch(model, example_inputs)
    if is_file or type(model).__name__ == "ModelProto":
        from .onnx.load import import_onnx

        return import_onnx(model, input_shapes=input_shapes)
    raise InputError(
        "a model is an ONNX file or model, a TFLite file, a PyTorch module or exported program, "
        f"found {type(model).__name__}: give one of them"
    )


def onnx_form(
    path: Path,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    *,
    raw_io: bool = False,
    cut: bool = False,
) -> Path | onnx.ModelProto:
    """The ONNX model of a TFLite file; any other path as it is, for who reads ONNX files.

    cut: whether what cannot be converted is left out.

    Raises InputError and UnsupportedModelError as ``tflite_to_onnx`` does.
    """
    if kind_of(path) is not TFLITE:
        return path
    from .tflite.cut import tflite_head
    from .tflite.load import tflite_to_onnx

    if cut:
        return tflite_head(path, input_shapes=input_shapes, raw_io=raw_io).form.model
    return tflite_to_onnx(path, input_shapes=input_shapes, raw_io=raw_io).model


def _import_tflite(
    path: str | os.PathLike[str], shapes: Mapping[str, Sequence[int]] | None, raw_io: bool
) -> tuple[tvm.IRModule, Signature]:
    from .onnx.load import import_onnx
    from .tflite.load import tflite_to_onnx

    form = tflite_to_onnx(path, input_shapes=shapes, raw_io=raw_io)
    module, signature = import_onnx(form.model)
    return module, form.of_steps(signature)


def _is_torch(model: Any) -> bool:
    return any(base.__module__.partition(".")[0] == "torch" for base in type(model).__mro__)
