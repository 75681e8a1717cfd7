"""``tvm-vision replay``."""

from __future__ import annotations

from pathlib import Path

import click

from .options import PATH
from .verbosity import note


@click.command()
@click.argument("source", type=PATH)
@click.option("--topic", default="image", show_default=True, help="To publish on.")
@click.option("--rate", type=click.FloatRange(0.1, 1000.0), help="In Hz; else as recorded, or 10.")
@click.option("--fast", is_flag=True, help="As fast as possible.")
@click.option("--loop", is_flag=True, help="Begin again at the end.")
@click.option("--limit", type=click.IntRange(min=1), help="Stop after so many images.")
@click.option("--wait", is_flag=True, help="Begin when somebody subscribes.")
@click.option("--bag-topic", default="", help="Topic of the images, where a bag has several.")
@click.option("--frame-id", default="camera", show_default=True, help="Of the images' headers.")
@click.option(
    "--reliability",
    type=click.Choice(["reliable", "best_effort"]),
    default="reliable",
    show_default=True,
    help="QoS; reliable serves every subscriber.",
)
def replay(
    source: Path,
    topic: str,
    rate: float | None,
    fast: bool,
    loop: bool,
    limit: int | None,
    wait: bool,
    bag_topic: str,
    frame_id: str,
    reliability: str,
) -> None:
    """Publish recorded images like a camera.

    SOURCE is a bag (.mcap, .db3 or its folder), a video, a folder of images or an image; its
    images are published as sensor_msgs/Image. Needs ROS 2, or what `make ros` installs.

    \b
    Example:
      tvm-vision replay match.mcap --bag-topic /camera/image_raw
      tvm-vision replay photos/ --rate 5 --loop --topic /camera/image_raw
      tvm-vision replay drive.mp4 --fast
    """
    from tvm_vision_ros.replay import ReplayCamera, endless, paced, publish, shots
    from tvm_vision_ros.stop import Stop

    stop = Stop()
    stop.on_signals()

    def make():
        return shots(source, rate=rate or 0.0, topic=bag_topic, tell=note)

    stream = endless(make) if loop else make()
    images = (shot.image for shot in stream) if fast else paced(stream, sleep=stop.wait)
    camera = ReplayCamera(topic, frame_id, reliability, wait)
    count = publish(images, camera, limit, stop)
    click.echo(f"published {count} images on {topic}")
