"""Compile a classifier, run it on photos, and hold every result against onnxruntime's."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import DeviceError, InputError, UnsupportedModelError
from ..evaluate import tolerance_for
from ..models.classifier import (
    Classifier,
    ClassifierInput,
    classify,
    imagenet_labels,
    prepare,
    preset,
)
from ..models.results import Classification
from ..runtime.device import DeviceChoice, choose_gpu
from ..runtime.sources import Image, read_image
from .networks import SHAPE, DemoNetwork, find_network
from .photos import bundled_photos

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
class ClassifyDemoResult:
    """All photos, and the times: to compile (s), and the median of one inference (ms)."""

    network: str
    device: DeviceChoice
    photos: tuple[PhotoResult, ...]
    compile_seconds: float
    inference_ms: float


class CompiledClassifier:
    """One of the demo's networks as a package, loaded for one device."""

    def __init__(
        self, network: DemoNetwork, model: Path, device: DeviceChoice, precision: str = "fp32"
    ) -> None:
        """Compile ``model`` into a package beside it and load that.

        Raises UnsupportedModelError where the model is of other shapes than ``network``.
        """
        from ..api import compile as compile_network
        from ..frontend.model import import_model
        from ..package import ModelInfo
        from ..runtime.loader import load

        imported = import_model(model)
        _, signature = imported
        tensors = [*signature.inputs, *signature.outputs]
        if [list(tensor.shape) for tensor in tensors] != [list(SHAPE), [1, 1000]]:
            found = "; ".join(f"{tensor.name} {list(tensor.shape)}" for tensor in tensors)
            raise UnsupportedModelError(
                f"a network from image [1, 3, 224, 224] to [1, 1000] is needed, '{model}' has "
                f"{found}: delete it to have it made anew"
            )
        info = ModelInfo(
            name=network.name,
            kind="classifier",
            labels=imagenet_labels(),
            preprocessing=preset(network.preprocessing),
        )
        self.package = model.with_name(f"{model.stem}-{device.kind}-{precision}.tar")
        target = "vulkan" if device.kind == "vulkan" else "llvm"
        compile_network(imported, self.package, target=target, precision=precision, model_info=info)
        self._executor = load(self.package, device.kind)
        self.classifier = Classifier(self._executor)

    def logits(self, image: Image) -> Tensor:
        """uint8 [height, width, 3] in BGR -> float32 [1, 1000]."""
        return self.classifier.logits([image])

    def time_ms(self) -> float:
        """Median milliseconds of one inference, upload and read-back included."""
        first = self._executor.benchmark(repeat=1)
        repeat = max(1, min(MAX_RUNS, int(1e3 * MAX_SECONDS / first.median_ms)))
        return self._executor.benchmark(repeat=repeat, warmup=0).median_ms


def run_demo(
    model: Path | None = None,
    photos: Sequence[Path] = (),
    *,
    network: str = "efficientnet-lite0",
    precision: str = "fp32",
    device: str = "auto",
    report: Report = print,
) -> ClassifyDemoResult:
    """Classify ``photos`` (default: the bundled ones) and compare with onnxruntime.

    model: ONNX file of the network (default: under build/models); made from the Python packages
    with the weights where it is not there; the package is written beside it. network: one of
    NETWORKS. precision: "fp32" or "fp16". device: "auto", "vulkan" or "cpu", see ``choose_gpu``.
    report: called with each line to show.

    Raises DeviceError when the results differ from onnxruntime's by more than 1e-3 (fp16: 3e-2);
    what the importer, the compiler and the device raise goes through.
    """
    chosen = find_network(network)
    model = model or Path("build/models") / f"{chosen.name}.onnx"
    paths = list(photos) or bundled_photos()
    images = [read_image(path) for path in paths]
    if not model.is_file():
        report(f"exporting {chosen.title} with its ImageNet weights to {model}")
        chosen.export(model)
    choice = choose_gpu(device)
    report(f"device: {choice.description}")

    start = time.perf_counter()
    compiled = CompiledClassifier(chosen, model, choice, precision)
    compile_seconds = time.perf_counter() - start
    report(f"compiled {model.name} to {compiled.package.name} in {compile_seconds:.1f} s")

    reference = _onnxruntime(model)
    config = ClassifierInput.from_package(preset(chosen.preprocessing, SHAPE[2:]))
    results = []
    for path, image in zip(paths, images, strict=True):
        tensor = prepare(image, config, color_order="bgr")
        results.append(_compare(path, compiled.logits(image), reference(tensor)))
        _report_photo(results[-1], report)
    inference_ms = compiled.time_ms()
    report(f"one inference takes {inference_ms:.2f} ms (median), upload and read-back included")
    _check_errors(results, choice, tolerance_for(precision), report)
    return ClassifyDemoResult(chosen.title, choice, tuple(results), compile_seconds, inference_ms)


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


def _check_errors(
    results: Sequence[PhotoResult], choice: DeviceChoice, tolerance: float, report: Report
) -> None:
    worst = max(results, key=lambda result: result.error)
    if not worst.error <= tolerance:
        raise DeviceError(
            f"the logits for {worst.photo.name} differ from onnxruntime's by {worst.error:.1e} of "
            f"the largest, and {tolerance:.0e} is allowed: {choice.description} computes wrongly"
        )
    report(f"largest difference to onnxruntime's logits: {worst.error:.1e} of the largest")
    for count in (1, 5):
        same = sum(r.ours.class_ids[:count] == r.reference.class_ids[:count] for r in results)
        words = "likeliest class" if count == 1 else f"{count} likeliest classes in the same order"
        report(f"the {words}: on {same} of {len(results)} photos as onnxruntime has it")
