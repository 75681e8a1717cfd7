"""One function for every kind of model: it looks at what it is given and calls the importer."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError

if TYPE_CHECKING:
    import tvm

    from .signature import Signature

# What torch.export.save writes, by the ending of its name.
TORCH_SUFFIXES = (".pt2",)


def import_model(
    model: Any,
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    example_inputs: Sequence[Any] = (),
) -> tuple[tvm.IRModule, Signature]:
    """The Relax module and the signature of a model.

    model: an ONNX file or onnx.ModelProto, a torch.nn.Module (with ``example_inputs``), a
        torch.export.ExportedProgram or a file of one (.pt2), or what an importer has returned.
    input_shapes: input name -> shape, for inputs that an ONNX model leaves open.
    example_inputs: tensors of the shapes and types to compile a torch.nn.Module for.

    Raises InputError for what is none of these, and what the importers raise.
    """
    if isinstance(model, tuple) and len(model) == 2:
        return model
    is_file = isinstance(model, (str, os.PathLike))
    if _is_torch(model) or (is_file and Path(model).suffix in TORCH_SUFFIXES):
        from .torch import import_torch

        if input_shapes:
            raise InputError("input_shapes are for ONNX models: export PyTorch models of that size")
        return import_torch(model, example_inputs)
    if is_file or type(model).__name__ == "ModelProto":
        from .onnx.load import import_onnx

        return import_onnx(model, input_shapes=input_shapes)
    raise InputError(
        "a model is an ONNX file or model, a PyTorch module or exported program, found "
        f"{type(model).__name__}: give one of them"
    )


def _is_torch(model: Any) -> bool:
    return any(base.__module__.partition(".")[0] == "torch" for base in type(model).__mro__)
