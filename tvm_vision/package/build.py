"""From what the compiler returns to the members of a package."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..error_lines import last_line
from ..errors import PackageError
from ..hosts import host_of_triple
from ..interrupts import ctrl_c_as_itself
from ..linking import link_library
from ..options import CompileOptions
from ..processors import linux_names
from ..version import __version__
from ..whole_files import why_not
from .info import FORMAT, FORMAT_VERSION, ModelInfo, PackageDevice, PackageInfo, plain
from .precision import MeasuredPrecision
from .tensors import IntegersInfo, TensorInfo

if TYPE_CHECKING:
    import numpy as np

# Gray, colour, and colour with an alpha channel; the last is not prepared from an image.
IMAGE_CHANNELS = (1, 3, 4)
PREPARED_CHANNELS = (1, 3)


class Spec(Protocol):
    """Name, shape and type of an input or output; what it is kept as, where as integers; and words
    for people."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> Sequence[int]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def quantization(self) -> IntegersInfo | None: ...
    @property
    def units(self) -> str: ...


class Compiled(Protocol):
    """What ``write_package`` needs of a compiled network (the compiler's CompiledModel has it).

    library: the functions of ``graph`` (a dict, as in mod.json), with the method export_library of
    ``tvm.runtime.Module``; params: arrays by name; target: tvm.target.Target; memory: bytes of
    weights, activations, peak; tuned: kernels whose schedule came from records;
    measured_precision: where it was measured.
    """

    @property
    def library(self) -> Any: ...
    @property
    def graph(self) -> Mapping[str, Any]: ...
    @property
    def params(self) -> Mapping[str, np.ndarray]: ...
    @property
    def target(self) -> Any: ...
    @property
    def inputs(self) -> Sequence[Spec]: ...
    @property
    def outputs(self) -> Sequence[Spec]: ...
    @property
    def options(self) -> CompileOptions: ...
    @property
    def memory(self) -> Mapping[str, int]: ...
    @property
    def tuned(self) -> int: ...
    @property
    def measured_precision(self) -> MeasuredPrecision | None: ...


def package_info(
    compiled: Compiled,
    model: ModelInfo,
    *,
    device: PackageDevice | None,
    members: Mapping[str, str],
) -> PackageInfo:
    """The mod.json of a compiled network, checked as a reader checks it."""
    import tvm

    model, inputs = described_inputs(compiled.inputs, model)
    # A network keeps to one order. One of constants alone has no input.
    outputs = described_outputs(compiled.outputs, inputs[0] if inputs else None)
    measured = compiled.measured_precision
    document = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "model": asdict(model),
        "inputs": [asdict(tensor) for tensor in inputs],
        "outputs": [asdict(tensor) for tensor in outputs],
        "graph": compiled.graph,
        "target": json.loads(str(compiled.target)),
        "device": None if device is None else asdict(device),
        "versions": {"tvm": tvm.__version__, "tvm_vision": __version__},
        "precision": compiled.options.precision,
        "options": compiled.options.to_json(),
        "records": f"{compiled.tuned} kernels" if compiled.tuned else None,
        "memory": compiled.memory,
        "members": members,
        "measured_precision": None if measured is None else asdict(measured),
        "processor": _features(compiled.target),
    }
    return PackageInfo.from_json(plain(document))


def _features(target: Any) -> tuple[str, ...]:
    """What code for a target, or for its host, needs of a processor, see ``processors``."""
    from tvm.target import codegen

    host = target if target.kind.name == "llvm" else target.host
    if host is None or host.kind.name != "llvm":
        return ()
    triple = host.attrs.get("mtriple")
    machine = host_of_triple(str(triple)) if triple else platform.machine()
    return linux_names(machine, map(str, codegen.llvm_get_cpu_features(host)))


def described_inputs(
    specs: Sequence[Spec], model: ModelInfo
) -> tuple[ModelInfo, tuple[TensorInfo, ...]]:
    """What a package says of a model and of its inputs, which fit each other.

    Raises PackageError where they do not.
    """
    model = _fitted(model, specs)
    tensors = [_input(spec, model) for spec in specs]
    read = [TensorInfo.from_json(plain(t), f"inputs[{i}]") for i, t in enumerate(tensors)]
    return model, tuple(read)


def described_outputs(
    specs: Sequence[Spec], image: TensorInfo | None = None
) -> tuple[TensorInfo, ...]:
    """What a package says of outputs. image: the network's input, where it is one: outputs that are
    maps of it have its order of axes.

    Raises PackageError where they cannot be.
    """
    tensors = [
        _tensor(spec, _map_layout(spec.shape, image)) | {"units": spec.units} for spec in specs
    ]
    return tuple(TensorInfo.from_json(plain(t), f"outputs[{i}]") for i, t in enumerate(tensors))


def _fitted(model: ModelInfo, inputs: Sequence[Spec]) -> ModelInfo:
    """The model with the size of its images, where that is left to the network, in grey where the
    network takes one channel."""
    prepared = model.preprocessing
    if prepared is None:
        return model
    shape = tuple(inputs[0].shape) if inputs else ()
    layout = _prepared_layout(shape)
    channels = shape[layout.index("C")] if "C" in layout else 1
    if prepared.size == (0, 0):
        if not layout or channels not in PREPARED_CHANNELS:
            raise PackageError(
                "preprocessing is for a first input [batch, 3, height, width] or [batch, height, "
                "width, 3], with 1 in place of 3 for grey images, or [batch, height, width], found "
                f"{list(shape)}: leave it out"
            )
        height, width = (int(shape[layout.index(axis)]) for axis in "HW")
        prepared = replace(prepared, size=(height, width))
    if layout and channels == 1 and prepared.channels != 1:
        prepared = prepared.in_gray()
    if layout and channels != 1 and prepared.channels == 1:
        raise PackageError(
            f"the color_order gray is for an input of one channel, found {list(shape)}: say rgb or "
            "bgr"
        )
    return replace(model, preprocessing=prepared)


def image_layout(shape: Sequence[int | None]) -> str:
    """ "NCHW" where the second of four axes has the 1, 3 or 4 channels of images, "NHWC" where only
    the last has, as Keras, TensorFlow and TFLite order them; "" of what is no image."""
    if len(shape) != 4:
        return ""
    if shape[1] in IMAGE_CHANNELS:
        return "NCHW"
    return "NHWC" if shape[3] in IMAGE_CHANNELS else ""


def _prepared_layout(shape: Sequence[int]) -> str:
    """The layout of an input of which it is said how images become it: grey ones may be planes."""
    return "NHW" if len(shape) == 3 else image_layout(shape)


def _map_layout(shape: Sequence[int], image: TensorInfo | None) -> str:
    """The layout of an image that a network takes for what it gives of the same aspect."""
    if image is None or len(image.layout) != 4 or len(shape) != 4:
        return ""
    rows, columns = (image.layout.index(axis) for axis in "HW")
    same = shape[rows] * image.shape[columns] == shape[columns] * image.shape[rows]
    return image.layout if same else ""


def _tensor(spec: Spec, layout: str, units: str = "") -> dict[str, Any]:
    shape = [int(size) for size in spec.shape]
    return {
        "name": spec.name,
        "shape": shape,
        "dtype": spec.dtype,
        "layout": layout,
        "units": units if layout else "",
        "quantization": None if spec.quantization is None else asdict(spec.quantization),
    }


def _input(spec: Spec, model: ModelInfo) -> dict[str, Any]:
    if model.yoeo is not None and spec.dtype == "uint8":
        # Frames as the camera gives them, prepared by the network's first kernels.
        return _tensor(spec, "NHWC", "pixels of 0..255, BGR")
    if model.preprocessing is None:
        return _tensor(spec, image_layout(spec.shape))
    units = "(pixel of 0..255 - mean) / std, for each channel"
    return _tensor(spec, _prepared_layout(spec.shape), units)


def write_library(library: Any, path: Path) -> None:
    """Link the host code and shaders into a shared library.

    Raises PackageError where that takes a C++ compiler that is not installed, see ``linking``.
    """
    # Not where TVM would put them: from there nobody removes them after a kill.
    objects = path.with_name("objects")
    objects.mkdir()
    try:
        with ctrl_c_as_itself():
            library.export_library(str(path), workspace_dir=str(objects), fcompile=link_library)
    except OSError as error:
        raise PackageError(f"mod.so cannot be written {why_not(error)}") from None
    except RuntimeError as error:  # the linker's own line has what to do
        raise PackageError(f"mod.so cannot be written: {last_line(error)}") from None
