"""``tvm-vision detect``."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .class_options import class_option, set_thresholds
from .options import (
    FRACTION,
    PATH,
    device_option,
    interruptible,
    package_argument,
    wanted_target,
)
from .progress import progress
from .session import recovery
from .sources import export_options, exports, readable, source_options
from .verbosity import note

if TYPE_CHECKING:
    from tvm_vision.models.exports import Export
    from tvm_vision.models.results import Detections, VisionResult
    from tvm_vision.runtime.sources import Frame


@click.command()
@package_argument()
@source_options
@click.option(
    "--save", type=PATH, metavar="FOLDER",
    help="Write annotated images (PNG) and videos (MP4) there.",
)  # fmt: skip
@export_options
@click.option("--show", is_flag=True, help="Show them in a window; q or Escape ends it.")
@click.option(
    "--confidence", type=FRACTION,
    help="Boxes have a higher score than this.  [default: as the package says; YOEO: 0.5]",
)  # fmt: skip
@click.option(
    "--iou", type=FRACTION,
    help="Of boxes that overlap by more (intersection over union), the best stays.  [default: as "
    "the package says; YOEO: 0.4]",
)  # fmt: skip
@click.option(
    "--max-detections", type=click.IntRange(min=1),
    help="Boxes in a frame at the most.  [default: as the package says; YOEO: 300]",
)  # fmt: skip
@class_option()
@click.option("--limit", type=click.IntRange(min=1), help="Stop after so many frames.")
@click.option(
    "--track", is_flag=True, help="Give objects ids that stay from frame to frame of a video."
)
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each frame.")
@device_option()
def detect(
    package: Path,
    sources: tuple[str, ...],
    save: Path | None,
    show: bool,
    confidence: float | None,
    iou: float | None,
    max_detections: int | None,
    class_options: Mapping[str, Any],
    limit: int | None,
    track: bool,
    as_json: bool,
    device: str,
    **saved: Any,
) -> None:
    """Show what a network sees in images or videos.

    With the network in the package PACKAGE, of any kind but 'network', for each frame of SOURCES:
    boxes, masks, keypoints, oriented boxes, classes of pixels, depth or classes. A source is an
    image, a folder of images, a pattern of these in quotes, a video file, the number of a camera,
    or the address of a stream (rtsp://, http://, ...).

    Prints a line for each frame: time, boxes with their scores in percent, how much of the image
    each class takes of those that the mask shows, the range of depths. With --json boxes are x1,
    y1, x2, y2 in pixels, corners of oriented boxes and keypoints x and y, and masks run lengths as
    COCO's.

    \b
    Example:
      tvm-vision detect yoeo.tar photos/ --save annotated
      tvm-vision detect yoeo.tar game.mp4 --save annotated --confidence 0.3
      tvm-vision detect yoeo.tar game.mp4 --class-option ball.max_count=1
      tvm-vision detect yoeo.tar game.mp4 --track --save annotated
      tvm-vision detect yoeo.tar --source 0 --json --limit 100
      tvm-vision detect yoeo.tar "photos/**/*.jpg" --save-txt labels --save-json found.json
      tvm-vision detect yoeo.tar rtsp://robot.local/camera --show
    """
    from tvm_vision.models import load_model
    from tvm_vision.models.draw import draw_result
    from tvm_vision.models.tracking import FrameTracker
    from tvm_vision.runtime.sources import frames

    with progress(f"loading {package.name}"):
        detector = load_model(
            package, device, wanted_target(), recovery=recovery(),
            confidence=confidence, iou=iou, max_detections=max_detections,
        )  # fmt: skip
        set_thresholds(detector, {"class_options": class_options})
        detector.warm_up()
    follow = FrameTracker(detector) if track else None
    note(f"device: {detector.device_description}")
    kept = exports(**saved, produces=detector.produces, name=detector.name)
    count = itertools.count()
    seen = interruptible(lambda: f"{next(count)} frames are done; what is listed is written")
    with seen, readable() as passed_over, outputs(save, show, kept) as (writer, window):
        for frame in itertools.islice(frames(sources, passed_over), limit):
            result = detector(frame.image)
            result = result if follow is None else follow(frame, result)
            next(count)
            for export in kept:
                export.write(frame, result)
            line = json.dumps(record(frame, result), ensure_ascii=False) if as_json else None
            click.echo(
                line or f"{frame.name}  {result.timing.total_ms:.1f} ms  {result.describe()}"
            )
            if writer is None and window is None:
                continue
            caption = f"{detector.name}, {result.timing.total_ms:.1f} ms, {detector.device_name}"
            image = draw_result(frame.image, result, caption=caption)
            if writer is not None:
                writer.write(frame, image)
            if window is not None and not window.show(image, wait=not frame.stream):
                break


@contextlib.contextmanager
def outputs(
    folder: Path | None, show: bool, exports: Sequence[Export]
) -> Iterator[tuple[Any, Any]]:
    """A FrameWriter and a Window, or None for what is not wanted; says then what was written, by
    ``exports`` too, which end with the block."""
    from tvm_vision.runtime.sinks import FrameWriter
    from tvm_vision.runtime.window import DisplayWindow

    writer, ended = None, False
    try:
        with contextlib.ExitStack() as stack:
            for export in exports:
                stack.enter_context(export)
            window = stack.enter_context(DisplayWindow("tvm-vision detect")) if show else None
            writer = None if folder is None else stack.enter_context(FrameWriter(folder))
            yield writer, window
        ended = True
    finally:
        for path in writer.written if writer is not None else ():
            note(f"wrote {path}")
        for export in exports:
            # That there is nothing is no news where an error says why.
            if ended or export.written:
                note(wrote(export.written))


def wrote(paths: Sequence[Path]) -> str:
    """A line for the files of an export."""
    if len(paths) == 1:
        return f"wrote {paths[0]}"
    return f"wrote {len(paths)} files" + (f", the last one {paths[-1]}" if paths else "")


def record(frame: Frame, result: VisionResult) -> dict[str, object]:
    """One frame as plain data for JSON."""
    document: dict[str, object] = {"name": frame.name}
    if result.detections is not None:
        document["detections"] = objects(result.detections)
    if result.segmentation is not None:
        # The first class is the background.
        document["segmentation"] = {
            name: round(result.segmentation.share(name), 4)
            for name in result.segmentation.class_names[1:]
        }
    if result.depth is not None:
        values = result.depth.values
        document["depth"] = {
            "least": round(float(values.min()), 4),
            "most": round(float(values.max()), 4),
            "unit": result.depth.unit,
        }
    if result.classification is not None:
        document["classes"] = [
            {"label": label, "probability": round(part, 6)} for label, part in result.classification
        ]
    timing = result.timing
    document["milliseconds"] = {
        "preprocess": round(timing.preprocess_ms, 3),
        "inference": round(timing.inference_ms, 3),
        "postprocess": round(timing.postprocess_ms, 3),
    }
    return document


def objects(found: Detections) -> list[dict[str, object]]:
    """The objects of one frame as plain data for JSON."""
    from tvm_vision.models.converters import run_lengths

    listed: list[dict[str, object]] = [
        {"name": name, "score": round(score, 4), "box": [round(edge, 1) for edge in box]}
        for name, score, box in found
    ]
    corners = found.corners()
    for item, number in zip(listed, found.track_names(), strict=True):
        if number:
            item["id"] = int(number)
    for index, item in enumerate(listed):
        if corners is not None:
            item["corners"] = corners[index].round(1).tolist()
        if found.keypoints is not None:
            item["keypoints"] = found.keypoints[index].round(3).tolist()
        if found.masks is not None:
            item["mask"] = run_lengths(found.masks[index])
    return listed
