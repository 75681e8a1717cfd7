"""``tvm-vision bag``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import Any

import click

from .class_options import class_option, set_thresholds
from .options import FRACTION, PATH, device_option, frame_timeout, interruptible, wanted_target
from .progress import progress
from .verbosity import note


@click.command()
@click.argument("bag", type=PATH)
@click.argument("output", type=PATH)
@click.option("--model", "-m", type=PATH, required=True, help="Package, or a robot's model folder.")
@click.option("--topic", default="", help="Topic of the images, where the bag has several.")
@click.option("--namespace", default="", help="Of the topics of the results.")
@click.option("--confidence", type=FRACTION, help="Detections have a score above this.")
@class_option()
@click.option("--iou", type=FRACTION, help="Of boxes that overlap by more, one stays.")
@click.option(
    "--max-image-pixels", type=click.IntRange(min=1), help="Images of more are passed over."
)
@click.option("--track", is_flag=True, help="Give objects ids that stay from image to image.")
@click.option(
    "--locate-by",
    type=click.Choice(["depth", "ground", "diameter"]),
    help="Give detections a place in space, on detections_3d, by the bag's camera_info.",
)
@click.option("--locate-frame", default="", help="Frame of the places; else the camera's own.")
@click.option(
    "--ground-frame",
    default="base_footprint",
    show_default=True,
    help="With z upwards and z = 0 on the ground, by /tf.",
)
@click.option("--ball-diameter", type=click.FloatRange(0.0, 10.0), default=0.0, help="In metres.")
@click.option("--rectified", is_flag=True, help="The images have no distortion any more.")
@click.option("--camera-info-topic", default="", help="Else beside the images, or the only one.")
@click.option("--depth-topic", default="", help="Of --locate-by depth; else the only other images.")
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
    locate_by: str | None,
    locate_frame: str,
    ground_frame: str,
    ball_diameter: float,
    rectified: bool,
    camera_info_topic: str,
    depth_topic: str,
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
      tvm-vision bag match.mcap seen.mcap -m yoeo.tar --locate-by ground --ball-diameter 0.14
    """
    from tvm_vision.file_kinds import BAG, FOLDER, need
    from tvm_vision.models.tracking import MEMORY, need_tracker
    from tvm_vision_ros.bag import process_bag
    from tvm_vision_ros.image_headers import MOST_PIXELS
    from tvm_vision_ros.model_loader import ModelRequest, load_and_warm
    from tvm_vision_ros.settings import Settings

    # A file that is no bag, or a package that is missing, shows before the network is loaded.
    need(bag, "a bag", BAG, FOLDER)
    if track:
        need_tracker()
    told = (locate_frame, ball_diameter, rectified, camera_info_topic, depth_topic)
    if not locate_by and any(told):
        raise click.UsageError("frames, topics and diameters count with --locate-by")
    locate = None
    if locate_by:
        locate = Settings(
            locate_by=locate_by,
            locate_frame=locate_frame,
            ground_frame=ground_frame,
            ball_diameter=ball_diameter,
            image_rectified=rectified,
            camera_info_topic=camera_info_topic,
            depth_topic=depth_topic,
        )
    request = ModelRequest(str(model), device, frame_timeout=frame_timeout())
    with progress(f"loading {model.name}") as show:
        network = load_and_warm(request, wanted_target())
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
                locate=locate,
                progress=progress_of(bag.name, show),
            )
    for words in summary.lost:
        note(f"note: {words}")
    if summary.resumed:
        note(f"{summary.resumed} images were done by an earlier run")
    if summary.unreadable:
        note(f"note: {summary.unreadable} images have no results; {summary.first_problem}")
    if summary.unlocated:
        note(f"note: {summary.unlocated} images have no places; {summary.first_unlocated}")
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
