"""``tvm-vision bag``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import Any

import click

from .class_options import class_option, set_thresholds
from .options import PATH, device_option, interruptible, wanted_target
from .progress import progress
from .verbosity import note


@click.command()
@click.argument("bag", type=PATH)
@click.argument("output", type=PATH)
@click.option("--model", "-m", type=PATH, required=True, help="Package, or a robot's model folder.")
@click.option("--topic", default="", help="Topic of the images, where the bag has several.")
@click.option("--namespace", default="", help="Of the topics of the results.")
@click.option("--confidence", type=float, help="Detections have a score above this.")
@class_option()
@click.option(
    "--iou", type=click.FloatRange(0.0, 1.0), help="Of boxes that overlap by more, one stays."
)
@click.option(
    "--max-image-pixels", type=click.IntRange(min=1), help="Images of more are passed over."
)
@click.option("--track", is_flag=True, help="Give objects ids that stay from image to image.")
@click.option("--results-only", is_flag=True, help="Leave out the messages of the bag itself.")
@click.option("--restart", is_flag=True, help="Drop what an earlier run left.")
@device_option()
def bag(
    bag: Path,
    output: Path,
    model: Path,
    topic: str,
    namespace: str,
    confidence: float | None,
    class_options: Mapping[str, Any],
    iou: float | None,
    max_image_pixels: int | None,
    track: bool,
    results_only: bool,
    restart: bool,
    device: str,
) -> None:
    """Run a network over a recorded bag.

    Over the images of BAG (.mcap, .db3 or a bag's folder), without ROS. OUTPUT, a file that ends in
    .mcap or a folder, has the messages of the bag and, behind each image, its results as the node
    publishes them, with the image's stamp. A run that was cut off goes on where it stopped when it
    is started again.

    \b
    Example:
      tvm-vision bag match.mcap match-seen.mcap --model yoeo.tar
      tvm-vision bag match/ seen.mcap -m yoeo.tar --topic /camera/image_raw --results-only
      tvm-vision bag match.mcap seen.mcap -m yoeo.tar --class-option ball.max_count=1
    """
    from tvm_vision.file_kinds import BAG, FOLDER, need
    from tvm_vision.models.tracking import MEMORY, need_tracker
    from tvm_vision_ros.bag import process_bag
    from tvm_vision_ros.image_headers import MOST_PIXELS
    from tvm_vision_ros.model_loader import ModelRequest, load_and_warm

    # A file that is no bag, or a package that is missing, shows before the network is loaded.
    need(bag, "a bag", BAG, FOLDER)
    if track:
        need_tracker()
    with progress(f"loading {model.name}") as show:
        network = load_and_warm(ModelRequest(str(model), device), wanted_target())
        note(f"device: {network.device_description}")
        wanted = {"confidence": confidence, "iou": iou, "class_options": class_options}
        set_thresholds(network, wanted)
        with interruptible(f"what was done is in {output}.progress; the same command goes on"):
            summary = process_bag(
                bag,
                output,
                network,
                topic=topic,
                namespace=namespace,
                results_only=results_only,
                restart=restart,
                most_pixels=max_image_pixels or MOST_PIXELS,
                tracking=MEMORY if track else 0.0,
                progress=progress_of(bag.name, show),
            )
    for words in summary.lost:
        note(f"note: {words}")
    if summary.resumed:
        note(f"{summary.resumed} images were done by an earlier run")
    if summary.unreadable:
        note(f"note: {summary.unreadable} images have no results; {summary.first_problem}")
    click.echo(f"wrote {output}: {summary.images} images, {summary.messages} messages")


def progress_of(name: str, show: Callable[[str], object]) -> Callable[[int, int], None]:
    """Shows the images that are done, and the time that those which are left take."""
    start: tuple[int, float] | None = None

    def tell(done: int, total: int) -> None:
        nonlocal start
        start = start or (done, monotonic())
        left = seconds_left(done, total, start[0], monotonic() - start[1])
        show(f"{name}: {done} of {total} images{left}")

    return tell


def seconds_left(done: int, total: int, first: int, elapsed: float) -> str:
    """Words for that; first: images that an earlier run did. "" as long as nothing is known."""
    # The first images of a run are no measure: a network warms up.
    if done - first < 10:
        return ""
    return f", {elapsed / (done - first) * (total - done):.0f} s left"
