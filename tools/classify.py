"""``tvm-vision classify``."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .options import device_option, interruptible, package_argument
from .session import load_network
from .sources import readable, source_options

if TYPE_CHECKING:
    from tvm_vision.models.classifier import Classifier
    from tvm_vision.models.results import Classification
    from tvm_vision.runtime.sources import Frame


@click.command()
@package_argument()
@source_options
@click.option("--top", type=click.IntRange(min=1), default=5, show_default=True, help="Classes.")
@click.option(
    "--labels", help="Text file with a label a line, or 'imagenet'; else the package's labels."
)
@click.option("--limit", type=click.IntRange(min=1), help="Stop after so many frames.")
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each frame.")
@device_option()
def classify(
    package: Path,
    sources: tuple[str, ...],
    top: int,
    labels: str | None,
    limit: int | None,
    as_json: bool,
    device: str,
) -> None:
    """Say what images or videos show.

    With the classifier in the package PACKAGE, for each frame of SOURCES. A source is an
    image, a folder of images, a pattern of these in quotes, a video file, the number of a camera,
    or the address of a stream (rtsp://, http://, ...).

    \b
    Example:
      tvm-vision classify model.tar cat.jpg dog.png
      tvm-vision classify model.tar photos/ --top 1 --json
      tvm-vision classify model.tar --source 0 --limit 100
    """
    from tvm_vision.models.classifier import Classifier, read_labels
    from tvm_vision.runtime.sources import frames

    names = None if labels is None else read_labels(labels)
    classifier = Classifier(load_network(package, device), labels=names)
    count = itertools.count()
    with interruptible(lambda: f"{next(count)} frames are done"), readable() as passed_over:
        stream = itertools.islice(frames(sources, passed_over), limit)
        for frame, result in results(classifier, stream, top):
            if as_json:
                click.echo(json.dumps(record(frame, result), ensure_ascii=False))
            else:
                click.echo(frame.name)
                for label, probability in result:
                    click.echo(f"  {label:<40.40} {100 * probability:6.2f} %")
            next(count)


def results(
    classifier: Classifier, source: Iterable[Frame], top: int
) -> Iterator[tuple[Frame, Classification]]:
    """Each frame with its classes, as many at once as the network takes."""
    stream = iter(source)
    while batch := list(itertools.islice(stream, classifier.batch)):
        yield from zip(batch, classifier([frame.image for frame in batch], top=top), strict=True)


def record(frame: Frame, result: Classification) -> dict[str, object]:
    """One frame as plain data for JSON."""
    classes = [
        {"id": index, "label": label, "probability": round(probability, 6)}
        for index, (label, probability) in zip(result.class_ids, result, strict=True)
    ]
    return {"name": frame.name, "classes": classes}
