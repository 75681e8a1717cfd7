"""Compile a classifier, run it on photos, and hold every result against onnxruntime's."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DeviceError, InputError, UnsupportedModelError
from ..models.classifier import EFFICIENTNET_LITE0, classify, imagenet_labels, prepare
from ..models.results import Classification
from ..runtime.device import DeviceChoice, choose_device
from .photos import bundled_photos, read_photo
from .weights import SHAPE, export_efficientnet_lite0

# Largest difference of the logits, relative to the largest logit, that fp32 may show.
TOLERANCE = 1e-3
MAX_RUNS = 20
MAX_SECONDS = 5.0

Report = Callable[[str], None]
Tensor = npt.NDArray[np.float32]


@dataclass(frozen=True)
class PhotoResult:
    """One photo: what TVM and onnxruntime see on it, and how far their logits are apart.

    ``error`` is the largest difference, relative to onnxruntime's largest logit.
    """

    photo: Path
    ours: Classification
    reference: Classification
    error: float


@dataclass(frozen=True)
class DemoResult:
    """All photos, and the times: to compile (s), and the median of one inference (ms)."""

    device: DeviceChoice
    photos: tuple[PhotoResult, ...]
    compile_seconds: float
    inference_ms: float


class CompiledClassifier:
    """A classifier of EfficientNet-Lite0's input and 1000 classes, compiled for one device."""

    def __init__(self, model: Path, device: DeviceChoice) -> None:
        """Import and compile ``model``; raises UnsupportedModelError where it does not fit."""
        from tvm import relax

        from ..compiler.relax_vm import compile_relax
        from ..compiler.target import target_for
        from ..frontend.onnx import import_onnx

        module, signature = import_onnx(model)
        shapes = [spec.shape for spec in (*signature.inputs, *signature.outputs)]
        if shapes != [SHAPE, (1, 1000)]:
            found = "; ".join(str(spec) for spec in (*signature.inputs, *signature.outputs))
            raise UnsupportedModelError(
                f"a network from image [1, 3, 224, 224] to [1, 1000] is needed, '{model}' has "
                f"{found}: delete it to have it made anew"
            )
        self._device = device.tvm_device()
        executable = compile_relax(module, target_for(device.kind))
        self._main = relax.VirtualMachine(executable, self._device)["main"]

    def logits(self, image: Tensor) -> Tensor:
        """float32 [1, 3, 224, 224] -> float32 [1, 1000]."""
        return self._main(self._upload(image)).numpy()

    def time_ms(self, image: Tensor) -> float:
        """Median milliseconds of one inference, the image being on the device already."""
        tensor = self._upload(image)
        self._main(tensor)
        self._device.sync()
        times: list[float] = []
        while len(times) < MAX_RUNS and sum(times) < MAX_SECONDS:
            start = time.perf_counter()
            self._main(tensor)
            self._device.sync()
            times.append(time.perf_counter() - start)
        return 1e3 * statistics.median(times)

    def _upload(self, image: Tensor) -> Any:
        import tvm

        return tvm.runtime.tensor(image, device=self._device)


def run_demo(
    model: Path, photos: Sequence[Path] = (), *, device: str = "auto", report: Report = print
) -> DemoResult:
    """Classify ``photos`` (default: the bundled ones) and compare with onnxruntime.

    model: ONNX file; made from the Python packages with the weights where it is not there.
    device: "auto", "vulkan" or "cpu". report: called with each line to show.

    Raises DeviceError when the results differ from onnxruntime's by more than 1e-3; what the
    importer, the compiler and the device raise goes through.
    """
    paths = list(photos) or bundled_photos()
    images = [read_photo(path) for path in paths]
    tensors = [prepare(image, EFFICIENTNET_LITE0, color_order="bgr") for image in images]
    if not model.is_file():
        report(f"exporting EfficientNet-Lite0 with its ImageNet weights to {model}")
        export_efficientnet_lite0(model)
    choice = choose_device(device)
    report(f"device: {choice.description}")

    start = time.perf_counter()
    network = CompiledClassifier(model, choice)
    compile_seconds = time.perf_counter() - start
    report(f"compiled {model.name} in {compile_seconds:.1f} s")

    reference = _onnxruntime(model)
    results = []
    for path, tensor in zip(paths, tensors, strict=True):
        results.append(_compare(path, network.logits(tensor), reference(tensor)))
        _report_photo(results[-1], report)
    inference_ms = network.time_ms(tensors[0])
    report(f"one inference takes {inference_ms:.2f} ms (median), without upload")
    _check_errors(results, choice, report)
    return DemoResult(choice, tuple(results), compile_seconds, inference_ms)


def _onnxruntime(model: Path) -> Callable[[Tensor], Tensor]:
    try:
        import onnxruntime
    except ImportError:
        raise InputError(
            "the demo compares with onnxruntime, which is not installed: pip install onnxruntime"
        ) from None
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda image: session.run(None, {name: image})[0]


def _compare(photo: Path, ours: Tensor, reference: Tensor) -> PhotoResult:
    labels = imagenet_labels()
    error = float(np.abs(ours - reference).max() / np.abs(reference).max())
    return PhotoResult(photo, classify(ours, labels), classify(reference, labels), error)


def _report_photo(result: PhotoResult, report: Report) -> None:
    report("")
    report(f"{result.photo.name:<30}{'TVM':>9}     {'':<30}{'onnxruntime':>11}")
    for (ours, p), (theirs, q) in zip(result.ours, result.reference, strict=True):
        report(f"  {ours[:28]:<28}{100 * p:>7.2f} %     {theirs[:30]:<30}{100 * q:>9.2f} %")


def _check_errors(results: Sequence[PhotoResult], choice: DeviceChoice, report: Report) -> None:
    worst = max(results, key=lambda result: result.error)
    if not worst.error <= TOLERANCE:
        raise DeviceError(
            f"the logits for {worst.photo.name} differ from onnxruntime's by {worst.error:.1e} of "
            f"the largest, and {TOLERANCE:.0e} is allowed: {choice.description} computes wrongly"
        )
    report(f"largest difference to onnxruntime's logits: {worst.error:.1e} of the largest")
