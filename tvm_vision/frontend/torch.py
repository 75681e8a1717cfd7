"""PyTorch by way of ONNX: torch.export, PyTorch's own exporter, then the importer of ONNX files.

One way for all networks: what is read, rewritten and refused of an ONNX file is so of a program.
PyTorch is an extra: it is imported when it is needed.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ..error_lines import first_line
from ..errors import InputError, UnsupportedModelError
from ..file_kinds import TORCH_PROGRAM, ZIP, need
from .input_values import InputValues
from .refusals import OTHERWISE, NodesRefused, Refusal, Remedy
from .signature import Signature

if TYPE_CHECKING:
    import onnx
    import torch
    import tvm

# No command cuts a program of torch.export.
BY_HAND = Remedy("end the model before it", OTHERWISE)
LACKING = "PyTorch's exporter has no ONNX operator for it"
# Where PyTorch's exporter notes the modules that a node is of, and what it was made from.
_SCOPES = "pkg.torch.onnx.name_scopes"


def import_torch(
    model: torch.nn.Module | torch.export.ExportedProgram | str | os.PathLike[str],
    example_inputs: Sequence[Any] = (),
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    input_values: InputValues | None = None,
) -> tuple[tvm.IRModule, Signature]:
    """Import a PyTorch model as a Relax module with the function ``main`` and bound weights.

    model: a module in eval mode, a program that torch.export made, or a file of torch.export.save.
    example_inputs: tensors of the shapes and types to compile for; only a module needs them.
    input_shapes: input name -> shape, for inputs that a program leaves open.
    input_values: input name -> value, for small inputs that become constants.

    The variables of the module are named after the layers ("layer1.0.conv1/conv2d_4"); outputs are
    called output_0, output_1 and so on.

    Raises InputError where PyTorch, its exporter or the examples are missing or the module trains,
    UnsupportedModelError for a model that cannot be exported or imported, in one line that names
    each operator.
    """
    from .onnx.load import import_onnx

    with _written(_exported(model, example_inputs)) as path:
        return import_onnx(path, input_shapes=input_shapes, input_values=input_values)


def torch_to_onnx(path: str | os.PathLike[str]) -> onnx.ModelProto:
    """The ONNX model that a file of torch.export.save is imported by, as ``import_torch`` does.

    Raises InputError and UnsupportedModelError as that does.
    """
    import onnx

    with _written(_exported(path, ())) as written:
        return onnx.load(written)


@contextmanager
def _written(program: Any) -> Iterator[Path]:
    """An exported program as an ONNX file, while somebody reads it."""
    with TemporaryDirectory(prefix="tvm_vision-torch-") as folder:
        path = Path(folder) / "program.onnx"
        _write_onnx(program, path)
        yield path


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


def _write_onnx(program: Any, path: Path) -> None:
    """Write an exported program as an ONNX file, its nodes called after the layers."""
    import torch

    try:
        import_module("onnxscript")
    except ImportError as error:
        raise InputError(
            f"onnxscript is needed to import PyTorch models, and it cannot be imported "
            f"({first_line(error)}): pip install 'tvm_vision[export]'"
        ) from None
    given = program.graph_signature.user_outputs
    for place, value in enumerate(given):
        if isinstance(value, int | float):
            raise UnsupportedModelError(
                f"tensors are needed as outputs, and output {place} is {value} for every input: "
                "leave it out where the model returns"
            )
    outputs = [f"output_{number}" for number in range(len(given))]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Its optimizer takes sums with 1e-10 for sums with nothing, and logarithms of 0 follow.
            made = torch.onnx.export(
                program, dynamo=True, verbose=False, optimize=False, output_names=outputs
            )
        assert made is not None
        _name_nodes(made.model.graph)
        made.save(path, external_data=True)
    except Exception as error:  # the exporter runs rules of every operator
        raise _refused(error) from None


def _refused(error: BaseException) -> UnsupportedModelError:
    """What an exporter's exception says: the operator that it lacks, or its own reason."""
    reasons = list(_causes(error))
    nodes = [found for reason in reasons if (found := _NODE.search(str(reason)))]
    if nodes and "No ONNX function found" in str(reasons[-1]):
        node, operator = nodes[-1].groups()
        return NodesRefused([Refusal(operator, node, LACKING, BY_HAND)])
    return UnsupportedModelError(
        f"PyTorch cannot export the model as ONNX ({first_line(reasons[-1])}): change what stops it"
    )


# How an exporter's exception describes a node of a program.
_NODE = re.compile(r"%(\w+) : .*?target=(?:torch\.ops\.)?([\w.]+)\]")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _name_nodes(graph: Any) -> None:
    """Call the nodes of an exporter's graph by the path of the module that each is of, and the name
    in the program of what it was made from."""
    taken: set[str] = set()
    for node in graph:
        found = re.findall(r"'([^']*)'", node.metadata_props.get(_SCOPES, ""))
        name = "/".join(part for part in found[-2:] if part) or node.name
        number, own = 0, name
        while own in taken:
            number += 1
            own = f"{name}.{number}"
        taken.add(own)
        node.name = own
