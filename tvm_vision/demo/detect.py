"""Compile the demo's YOEO network, run it on images and a clip, and draw what it finds."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import DeviceError, InputError
from ..models.draw import draw_result
from ..models.results import Timing
from ..models.yoeo import YoeoDetector
from ..runtime.device import DeviceChoice, choose_gpu
from ..runtime.sinks import FrameWriter
from ..runtime.sources import frames, read_image
from .images import MODEL, demo_clip, demo_images

CONFIDENCE = 0.4
MAX_RUNS = 50
MAX_SECONDS = 5.0
Report = Callable[[str], None]


@dataclass(frozen=True)
class DetectDemoResult:
    """What the demo did. timing: medians over frames of one size; written: annotated files;
    package: what was compiled."""

    timing: Timing
    written: tuple[Path, ...]
    package: Path


def run_demo(
    sources: Sequence[str | Path] = (),
    *,
    model: Path = MODEL,
    output: Path = Path("demo_output"),
    precision: str = "fp32",
    device: str = "auto",
    report: Report = print,
) -> DetectDemoResult:
    """Detect on ``sources`` (default: the demo's images and clip), and write them annotated.

    model: ONNX file of a YOEO network that says its names. output: folder for the packages and
    images. precision: "fp32" or "fp16". device: "auto", "vulkan" or "cpu", see ``choose_gpu``.
    report: called with each line to show.

    Raises DeviceError where the results are not onnxruntime's (where that is installed); what the
    importer, the compiler and the device raise goes through.
    """
    stills, videos = _sorted(sources)
    detector, package = _compiled(model, output, choose_gpu(device), precision, report)
    compare_with_onnxruntime(detector, model, stills, report)
    detector.confidence = CONFIDENCE
    written = _detected(detector, [*stills, *videos], output, report)
    timing = time_detector(detector, stills or videos)
    report(
        f"a frame takes {timing.total_ms:.2f} ms (median) on {detector.device_name}: "
        f"{timing.preprocess_ms:.2f} to prepare it, {timing.inference_ms:.2f} for the network, "
        f"{timing.postprocess_ms:.2f} for boxes and mask"
    )
    return DetectDemoResult(timing, tuple(written), package)


def _sorted(sources: Sequence[str | Path]) -> tuple[list[Path], list[Path]]:
    """Images and videos. Raises InputError where there is neither, and for what is none."""
    if sources:
        paths = [Path(source) for source in sources]
        for path in paths:
            # What cannot be read is said before the network is compiled.
            next(frames([path]), None)
        videos = [path for path in paths if path.suffix.lower() in (".avi", ".mkv", ".mp4")]
        return [path for path in paths if path not in videos], videos
    stills, clip = demo_images(), demo_clip()
    if not stills:
        raise InputError(
            "the demo's images are needed, and they are not installed: name some, or install "
            "tvm_vision again"
        )
    return stills, [] if clip is None else [clip]


def _compiled(
    model: Path, output: Path, choice: DeviceChoice, precision: str, report: Report
) -> tuple[YoeoDetector, Path]:
    from ..api import compile as compile_network
    from ..exporters.yoeo.describe import yoeo_model_info

    report(f"device: {choice.description}")
    start = time.perf_counter()
    package = output / f"{model.stem}-{choice.kind}-{precision}.tar"
    target = "vulkan" if choice.kind == "vulkan" else "llvm"
    info = yoeo_model_info(model)
    compile_network(model, package, target=target, precision=precision, model_info=info)
    seconds = time.perf_counter() - start
    report(f"compiled {model.name} to {package} in {seconds:.1f} s")
    detector = YoeoDetector.load(package, choice.kind)
    detector.warm_up()
    return detector, package


def compare_with_onnxruntime(
    detector: YoeoDetector, model: Path, paths: Sequence[Path], report: Report
) -> None:
    """Report how far boxes and masks are the same; on the first frame of each image.

    Raises DeviceError where they are not. Says so where onnxruntime is not installed.
    """
    import importlib.util

    from ..evaluate import Reference, compare_frames

    if importlib.util.find_spec("onnxruntime") is None:
        report("not compared with onnxruntime, which is not installed: pip install onnxruntime")
        return
    images = [read_image(path) for path in paths if path.is_file()]
    settings = detector.confidence, detector.iou, detector.max_detections
    for path, found in zip(paths, compare_frames(detector, Reference(model), images), strict=False):
        if not found.within(detector.precision):
            raise DeviceError(f"{path.name}: results must be onnxruntime's, and are not: {found}")
    detector.confidence, detector.iou, detector.max_detections = settings
    if images:
        report(f"boxes and masks are onnxruntime's on {len(images)} images")


def _detected(
    detector: YoeoDetector, sources: Sequence[Path], output: Path, report: Report
) -> list[Path]:
    """Annotated files of all sources; a line for each image, and one for each video."""
    with FrameWriter(output) as writer:
        for stream, group in itertools.groupby(frames(sources), lambda frame: frame.stream):
            count, seconds = 0, 0.0
            for frame in group:
                result = detector(frame.image)
                count, seconds = count + 1, seconds + result.timing.total_ms / 1e3
                if not stream:
                    report(f"  {frame.name}: {result.describe()}")
                caption = f"{detector.name}, {result.timing.total_ms:.1f} ms, "
                caption += detector.device_name
                writer.write(frame, draw_result(frame.image, result, caption=caption))
            if stream:
                rate = count / seconds
                report(f"  {stream}: {count} frames, {rate:.1f} a second on {detector.device_name}")
    return writer.written


def time_detector(detector: YoeoDetector, sources: Sequence[Path]) -> Timing:
    """The median of each stage, over runs on the first frame."""
    image = next(frames(sources)).image
    timings: list[Timing] = []
    end = time.perf_counter() + MAX_SECONDS
    while len(timings) < MAX_RUNS and (not timings or time.perf_counter() < end):
        timings.append(detector(image).timing)
    return Timing(
        statistics.median(timing.preprocess_ms for timing in timings),
        statistics.median(timing.inference_ms for timing in timings),
        statistics.median(timing.postprocess_ms for timing in timings),
    )
