"""``tvm-vision bag``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
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
    from tvm_vision_ros.bag import process_bag
    from tvm_vision_ros.model_loader import ModelRequest, load_and_warm

    # A file that is no bag shows before the network is loaded.
    need(bag, "a bag", BAG, FOLDER)
    with progress(f"loading {model.name}") as show:
        network = load_and_warm(ModelRequest(str(model), device), wanted_target())
        note(f"device: {network.device_description}")
        set_thresholds(network, {"confidence": confidence, "class_options": class_options})
        with interruptible(f"what was done is in {output}.progress; the same command goes on"):
            summary = process_bag(
                bag,
                output,
                network,
                topic=topic,
                namespace=namespace,
                results_only=results_only,
                restart=restart,
                progress=lambda done, total: show(f"{bag.name}: {done} of {total} images"),
            )
    if summary.resumed:
        note(f"{summary.resumed} images were done by an earlier run")
    if summary.unreadable:
        note(f"note: {summary.unreadable} images have no results; {summary.first_problem}")
    click.echo(f"wrote {output}: {summary.images} images, {summary.messages} messages")
