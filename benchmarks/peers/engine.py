"""What the driver needs of an engine, and the names of all of them.

An engine runs in a process of its own (``worker.py``): one that crashes takes no other along.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module
from pathlib import Path

import numpy as np
import onnx

PRECISIONS = ("fp32", "fp16")

# Name on the command line and in results -> module and class, imported by whoever uses it.
ENGINES = {
    "tvm_vision": ("engine_tvm_vision", "TvmVision"),
    "ncnn": ("engine_ncnn", "Ncnn"),
    "iree": ("engine_iree", "Iree"),
    "ort_webgpu": ("engine_onnxruntime", "WebGpu"),
    "ort_cuda": ("engine_onnxruntime", "Cuda"),
    "torch_graph": ("engine_torch", "CudaGraph"),
    "ort_cpu": ("engine_onnxruntime", "Cpu"),
}


class NotInstalled(Exception):
    """The engine is not on this machine; says what is missing."""


class Unusable(Exception):
    """The engine is here and cannot do this: no device for it, or a network it does not take."""


class Session(ABC):
    """A network loaded on the engine's device."""

    # One line on the device, and on whatever variant was chosen.
    device = ""
    variant = ""

    @abstractmethod
    def run(self, image: np.ndarray) -> list[np.ndarray]:
        """float32 [1, 3, h, w] in, all outputs as arrays of the host out; nothing left running."""

    def device_ms(self) -> float | None:
        """Milliseconds of a frame's work on the device alone; None where the engine cannot say."""
        return None

    def details(self) -> dict[str, object]:
        """What else the engine tells of the network, for the results file."""
        return {}


class Engine(ABC):
    """``title`` is for tables; ``precisions`` are those it can be asked for."""

    title = ""
    precisions: tuple[str, ...] = PRECISIONS
    on_cpu = False

    @abstractmethod
    def version(self) -> str:
        """Its version. Raises NotInstalled."""

    def prepare(self, files: Files, precision: str) -> None:
        """Convert a model ahead, on the CPU, into ``files``; needs no device. Raises Unusable."""
        del files, precision

    @abstractmethod
    def load(self, files: Files, precision: str) -> Session:
        """Raises Unusable."""


class Files:
    """Where the files of a network lie: the models, and what engines made of them."""

    def __init__(self, folder: Path, network: str) -> None:
        self.folder = folder
        self.network = network

    def model(self, precision: str = "fp32") -> Path:
        """The ONNX file; its input and outputs are float32 in fp16 too."""
        return self.folder / f"{self.network}-{precision}.onnx"

    def read(self, precision: str = "fp32") -> onnx.ModelProto:
        return onnx.load(self.model(precision))

    def of(self, engine: str, name: str) -> Path:
        """A file that an engine keeps for this network."""
        place = self.folder / engine
        place.mkdir(parents=True, exist_ok=True)
        return place / f"{self.network}-{name}"

    @property
    def example(self) -> Path:
        """.npz with ``image`` and the reference's outputs ``o0``, ``o1``, ..."""
        return self.folder / f"{self.network}.npz"


def make_engine(name: str) -> Engine:
    """One of ENGINES, or of another benchmark: ``its.module:Class``."""
    if name in ENGINES:
        module, kind = ENGINES[name]
        found = import_module(f".{module}", __package__)
    else:
        module, _, kind = name.partition(":")
        found = import_module(module)
    made: Engine = getattr(found, kind)()
    return made


def output_error(found: list[np.ndarray], wanted: list[np.ndarray]) -> float:
    """The largest over outputs: for floats the largest error over the largest value, for whole
    numbers the share that differs. Raises Unusable for outputs of other sizes."""
    if [a.size for a in found] != [b.size for b in wanted]:
        raise Unusable(
            f"its outputs have {[a.size for a in found]} elements, not {[b.size for b in wanted]}"
        )
    errors = []
    for a, b in zip(found, wanted, strict=True):
        a = np.asarray(a).reshape(-1)
        b = b.reshape(-1)
        if b.dtype.kind != "f":
            errors.append(float((a != b).mean()))
        elif not np.isfinite(a).all():
            raise Unusable("its outputs have NaN or infinity")
        else:
            difference = np.abs(a.astype(np.float64) - b.astype(np.float64)).max()
            errors.append(float(difference / np.abs(b).max()))
    return max(errors)
