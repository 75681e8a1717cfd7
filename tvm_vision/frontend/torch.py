"""PyTorch to Relax, through torch.export. PyTorch is an extra: it is imported when it is needed."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..error_lines import first_line
from ..errors import InputError, UnsupportedModelError
from ..file_kinds import TORCH_PROGRAM, ZIP, need
from ..interrupts import ctrl_c_as_itself
from .refusals import OTHERWISE, NodesRefused, Refusal, Remedy
from .signature import Signature, spec_of

if TYPE_CHECKING:
    import torch
    import tvm

# No command cuts a program of torch.export.
BY_HAND = Remedy("end the model before it", OTHERWISE)


def import_torch(
    model: torch.nn.Module | torch.export.ExportedProgram | str | os.PathLike[str],
    example_inputs: Sequence[Any] = (),
) -> tuple[tvm.IRModule, Signature]:
    """Import a PyTorch model as a Relax module with the function ``main`` and bound weights.

    model: a module in eval mode, a program that torch.export made, or a file of torch.export.save.
    example_inputs: tensors of the shapes and types to compile for; only a module needs them.

    The variables of the module are named after the layers ("layer1.0.conv1/conv2d_4"); outputs are
    called output_0, output_1 and so on.

    Raises InputError where PyTorch or the examples are missing or the module trains,
    UnsupportedModelError for a model that torch.export or TVM cannot take, in one line that names
    each operator.
    """
    program = _without_aliases(_exported(model, example_inputs))
    _refuse_unknown_operators(program)
    module = _convert(program)
    names = [str(name) for name in program.graph_signature.user_inputs]
    main = module["main"]
    inputs = [spec_of(name, param.ty) for name, param in zip(names, main.params, strict=True)]
    outputs = [spec_of(f"output_{i}", field) for i, field in enumerate(main.ret_ty.fields)]
    return module, Signature(tuple(inputs), tuple(outputs))


def _exported(model: Any, example_inputs: Sequence[Any]) -> Any:
    try:
        import torch
    except ImportError:
        raise InputError(
            "PyTorch is needed to import its models, and it is not installed: "
            "pip install 'tvm_vision[export]'"
        ) from None
    if isinstance(model, torch.export.ExportedProgram):
        return model
    if isinstance(model, (str, os.PathLike)):
        return _loaded(Path(model))
    if not isinstance(model, torch.nn.Module):
        raise InputError(
            f"a torch.nn.Module or ExportedProgram is needed, found {type(model).__name__}: "
            "give one of them"
        )
    if model.training:
        raise InputError("a module in eval mode is needed, and this one trains: call .eval() first")
    if not example_inputs:
        raise InputError("example inputs are needed to export a module: pass example_inputs=(x,)")
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            return torch.export.export(model, tuple(example_inputs))
    except Exception as error:  # tracing runs the model's own code
        raise UnsupportedModelError(
            f"torch.export cannot export {type(model).__name__} ({first_line(error)}): "
            "change what stops it"
        ) from None


def _loaded(path: Path) -> Any:
    import torch

    need(path, "an exported program", TORCH_PROGRAM, ZIP)
    try:
        return torch.export.load(path)
    except Exception as error:  # an archive can be broken in every way
        raise UnsupportedModelError(
            f"'{path}' is not a program of torch.export.save ({first_line(error)}): export it again"
        ) from None


def _without_aliases(program: Any) -> Any:
    """The program in PyTorch's core operators, as TVM's importer reads it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return program.run_decompositions()
    except Exception as error:  # operators may bring their own decompositions
        raise UnsupportedModelError(
            f"torch.export cannot decompose the model ({first_line(error)}): change what stops it"
        ) from None


def _importer() -> Any:
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

    return ExportedProgramImporter()


def _refuse_unknown_operators(program: Any) -> None:
    known = _importer().convert_map
    refusals = [
        Refusal(str(node.target), layer_name(node), "TVM has no such operator", BY_HAND)
        for node in program.graph.nodes
        if node.op == "call_function" and node.target.__name__ not in known
    ]
    if refusals:
        raise NodesRefused(refusals)


def _convert(program: Any) -> tvm.IRModule:
    from .relax_names import name_bindings

    importer = _importer()
    layers: dict[Any, str] = {}
    importer.convert_map = {
        name: _recording(converter, layers) for name, converter in importer.convert_map.items()
    }
    try:
        with ctrl_c_as_itself(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = importer.from_exported_program(
                program,
                keep_params_as_input=False,
                unwrap_unit_return_tuple=False,
                no_bind_return_tuple=False,
                custom_convert_map=None,
            )
    except Exception as error:  # the importer raises every kind there is
        raise UnsupportedModelError(
            f"TVM cannot import the model ({first_line(error)}): export it as ONNX"
        ) from None
    return name_bindings(module, lambda var: layers.get(var))


def _recording(converter: Any, layers: dict[Any, str]) -> Any:
    """``converter``, which also notes the layer whose result each variable is."""

    def convert(node: Any) -> Any:
        value = converter(node)
        layers.setdefault(value, layer_name(node))
        return value

    return convert


def layer_name(node: Any) -> str:
    """Path of the module that a node of the graph belongs to, and the node's own name."""
    stack = node.meta.get("nn_module_stack") or {}
    path = next(reversed(list(stack.values())), ("",))[0]
    return f"{path}/{node.name}" if path else str(node.name)
