"""Where a network goes wrong: the output of every kernel beside the value onnxruntime has there.

The kernels run one by one over planned memory of its own, so that each output can be read before
its place is used again.
"""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..file_kinds import TFLITE, kind_of, need_model
from ..package import PlannedGraph, PlannedKernel
from ..runtime.device import choose_device
from ..runtime.library import load_library
from ..runtime.loader import open_package
from .compare import OutputError, compare
from .reference import Reference

if TYPE_CHECKING:
    import onnx

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class LayerError:
    """The error of kernel ``index``, whose output is the ONNX value ``value``."""

    index: int
    function: str
    value: str
    error: OutputError

    def to_dict(self) -> dict[str, Any]:
        return {
            "index": self.index,
            "function": self.function,
            "value": self.value,
            **self.error.to_dict(),
        }


@dataclass(frozen=True)
class Layer:
    """What kernel ``index`` computed, and the ONNX value ``value`` that it should be; both of the
    model's shape."""

    index: int
    function: str
    value: str
    ours: np.ndarray
    reference: np.ndarray

    def error(self) -> LayerError:
        """How far they are apart."""
        found = compare(self.value, self.ours, self.reference)
        return LayerError(self.index, self.function, self.value, found)


def layer_errors(
    package: str | os.PathLike[str],
    inputs: Arrays,
    model: Path,
    *,
    device: str = "auto",
    target: str = "",
) -> dict[int, LayerError]:
    """The error of each kernel that computes a value of the ONNX model, by the kernel's position.

    Kernels whose last node has no name in the model (what the compiler made itself) or is computed
    further by another kernel, or whose output has another size (another layout), have none. Raises
    InputError where no kernel has one.
    """
    proto = simplified_model(model, inputs, _fixed(package, device, target))
    errors = {
        layer.index: layer.error()
        for layer in _layers(package, inputs, proto, None, device=device, target=target)
    }
    if not errors:
        raise InputError(
            f"nodes of '{model}' are needed in the package, and none has a name of it: is this the "
            "model that the package was made from?"
        )
    return errors


def layer_of(
    package: str | os.PathLike[str],
    inputs: Arrays,
    model: Path,
    node: str,
    *,
    device: str = "auto",
    target: str = "",
) -> Layer:
    """What the kernel that ends in a node computes, beside the model's value.

    Raises InputError where no kernel ends in it, naming what can be asked for.
    """
    proto = simplified_model(model, inputs, _fixed(package, device, target))
    for layer in _layers(package, inputs, proto, node, device=device, target=target):
        return layer
    with open_package(package, device, target) as opened:
        kernels = opened.info.graph.kernels
    inside = next((kernel for kernel in kernels if node in kernel.nodes), None)
    if inside is not None:
        raise InputError(
            f"the last node of a kernel is needed, whose result is kept, and '{node}' is fused "
            f"with those around it: ask for {inside.nodes[-1]}, or compile with --opt-level 1"
        )
    ends = [kernel.nodes[-1] for kernel in kernels if kernel.nodes]
    near = difflib.get_close_matches(node, ends, 5, 0.0)
    raise InputError(
        f"a node of the network is needed that a kernel ends in, and '{node}' is none; there are "
        f"{len(ends)}, such as {', '.join(near)}: 'tvm-vision inspect --kernels' lists them"
    )


def _layers(
    package: str | os.PathLike[str],
    inputs: Arrays,
    proto: onnx.ModelProto,
    node: str | None,
    *,
    device: str,
    target: str,
) -> Iterator[Layer]:
    """Each kernel that computes a value of the model, or the one that ends in ``node`` alone."""
    nodes = {each.name: each.output for each in proto.graph.node if each.output}
    with open_package(package, device, target) as opened:
        graph = opened.info.graph
        ends: dict[str, list[int]] = {}
        for index, kernel in enumerate(graph.kernels):
            if kernel.nodes:
                ends.setdefault(kernel.nodes[-1], []).append(index)
        # A node that several kernels compute in steps has its value from the last; of several
        # results each may be one's.
        wanted = {
            kernels[-1]: nodes[name][0]
            for name, kernels in ends.items()
            if name in nodes and node in (None, name) and 1 in (len(kernels), len(nodes[name]))
        }
        if not wanted:
            return
        reference = Reference(proto, values=list(wanted.values())).run(inputs)
        kind = opened.info.device_kind if device == "auto" else device
        for index, output in _outputs(opened, graph, inputs, kind):
            name = wanted.get(index)
            shaped = None if name is None else _in_order(output, reference[name].shape)
            if name is not None and shaped is not None:
                yield Layer(index, graph.kernels[index].function, name, shaped, reference[name])


def _in_order(output: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    """A kernel's output with the model's shape; None where it is another tensor.

    Channels in blocks (n, ceil(c / b), h, w, b) are put one after another.
    """
    if output.ndim == 5 and len(shape) == 4:
        n, blocks, h, w, block = output.shape
        if (n, h, w) == (shape[0], *shape[2:]) and blocks == -(-shape[1] // block):
            ordered = output.transpose(0, 1, 4, 2, 3).reshape(n, blocks * block, h, w)
            return ordered[:, : shape[1]]
    return output.reshape(shape) if output.size == math.prod(shape) else None


def _fixed(package: str | os.PathLike[str], device: str, target: str) -> dict[str, Any]:
    """Inputs of the model that are constants of the package."""
    with open_package(package, device, target) as opened:
        return opened.info.model.input_values


def simplified_model(
    model: Path, inputs: Arrays, fixed: Mapping[str, Any] | None = None
) -> onnx.ModelProto:
    """The model with its nodes named and simplified as the front end does it, and with constants in
    place of the inputs that are ``fixed``.

    A batch norm that went into a convolution is then in the reference's convolution too.
    Raises InputError and UnsupportedModelError where the file is no model that can be read.
    """
    from ..frontend.model import onnx_form
    from ..frontend.onnx.fixed_inputs import with_input_values
    from ..frontend.onnx.fold import folded
    from ..frontend.onnx.graph import with_input_shapes
    from ..frontend.onnx.load import as_compiled
    from ..frontend.onnx.simplify import simplified

    need_model(model)
    form = onnx_form(model, input_values=fixed)
    proto = as_compiled(form)
    shapes = {name: array.shape for name, array in inputs.items()}
    if fixed and kind_of(model) is not TFLITE:
        with_input_values(proto, fixed, shapes)
    return simplified(proto, shapes) or folded(with_input_shapes(proto, shapes))


def _outputs(
    package: Any, graph: PlannedGraph, inputs: Arrays, device_kind: str
) -> Iterator[tuple[int, np.ndarray]]:
    """(position, last output) of each kernel that has run."""
    import tvm

    package.check_machine()
    device = choose_device(device_kind).tvm_device()
    library = load_library(package.library_path)
    storages = [tvm.runtime.empty((max(1, size),), "uint8", device) for size in graph.storages]
    tensors = [
        storages[t.storage]._create_view(t.shape, t.dtype, relative_byte_offset=t.offset)
        for t in graph.tensors
    ]
    # TVM's kernels refuse a tensor that begins inside its memory: they get one in its place.
    apart = {
        index: tvm.runtime.empty(t.shape, t.dtype, device)
        for index, t in enumerate(graph.tensors)
        if t.offset
    }
    names = [tensor.name for tensor in package.info.inputs]
    for name, index in zip(names, graph.inputs, strict=True):
        tensors[index].copyfrom(np.ascontiguousarray(inputs[name]))
    for name, weight in tvm.runtime.load_param_dict(package.params[:]).items():
        weight.copyto(tensors[graph.params[str(name)]])
    for index, kernel in enumerate(graph.kernels):
        yield index, _run(library, kernel, tensors, apart)


def _run(
    library: Any, kernel: PlannedKernel, tensors: list[Any], apart: Mapping[int, Any]
) -> np.ndarray:
    for index in apart.keys() & set(kernel.args):
        tensors[index].copyto(apart[index])
    library[kernel.function](*(apart.get(index, tensors[index]) for index in kernel.args))
    for index in apart.keys() & set(kernel.writes):
        apart[index].copyto(tensors[index])
    return tensors[kernel.writes[-1]].numpy()
