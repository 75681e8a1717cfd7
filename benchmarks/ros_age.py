"""How old results of the ROS node are, and whether it grows: python -m benchmarks.ros_age --help

A video of 640 x 480 at 30 Hz stands for the camera, stamped when an image is taken, before it is
decoded. The age is from there to the moment in which a listener has the result:

separate: camera, node and listener are three processes; images pass DDS.
own:      the node opens the camera itself (camera:=...); results pass DDS.
same:     the listener is a function in the node's process; nothing passes DDS.
two:      two cameras as "separate", one process with a node for each that share the network.
two-own:  the same with cameras as "own".
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

BIN = Path(sys.executable).parent
WAYS = ("separate", "own", "same")
SIDES = ("left", "right")
TWO = {"two": SIDES, "two-own": SIDES}
# Ages in ms, of each camera; and moments in s with the memory of the node's process in MB.
Measured = tuple[dict[str, list[float]], list[tuple[float, float]]]
Store = Callable[[Any, str], None]
Begin = Callable[[Any, Store], None]
RATE, WIDTH, HEIGHT = 30.0, 640, 480
# What comes before is start-up.
WARM_SECONDS = 5.0
SAMPLE_SECONDS = 2.0
# Until the first result: the node loads TVM and the network meanwhile.
MOST_START_SECONDS = 60.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, required=True, help="a package")
    parser.add_argument("--ways", nargs="+", default=WAYS, choices=(*WAYS, *TWO))
    parser.add_argument("--seconds", type=float, default=20.0, help="for each way")
    parser.add_argument("--as-camera", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--topic", default="image", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.model.exists():
        parser.error(f"--model must be a package, found no '{options.model}'")
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    os.environ.setdefault("ROS_DOMAIN_ID", "78")
    from tvm_vision_ros.main import prepare_environment

    prepare_environment()
    if options.as_camera:
        camera(options.as_camera, options.topic)
        return
    print(
        "| way | results | rate | age p50 | p95 | p99 | largest | memory, slope of its 2nd half |"
    )
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        video = Path(folder) / "camera.avi"
        write_video(video)
        for way in options.ways:
            ages, memory = measure(way, options.model, video, options.seconds)
            for side, found in ages.items():
                print(row(f"{way} {side}".strip(), found, memory, options.seconds), flush=True)


def write_video(path: Path) -> None:
    """Ten seconds of something to see, as a camera with MJPG sends it."""
    import cv2

    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), RATE, (WIDTH, HEIGHT))
    noise = np.random.default_rng(0).integers(0, 256, (HEIGHT // 8, WIDTH // 8, 3), np.uint8)
    scene = cv2.resize(noise, (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC)
    for index in range(int(10 * RATE)):
        writer.write(np.roll(scene, 2 * index, axis=1))
    writer.release()


def camera(video: Path, topic: str) -> None:
    """A camera driver: stamps, decodes, publishes."""
    import rclpy
    from sensor_msgs.msg import Image
    from std_msgs.msg import Header

    from tvm_vision_ros.camera_source import CameraThread, Format, source_of
    from tvm_vision_ros.ros_messages import builder
    from tvm_vision_ros.ros_qos import profile

    rclpy.init()
    node = rclpy.create_node("camera")
    publisher = node.create_publisher(Image, topic, profile("best_effort", 1))
    make = builder()
    thread = CameraThread(
        source_of(str(video)),
        Format(),
        lambda: Header(stamp=node.get_clock().now().to_msg(), frame_id="camera"),
        lambda image, header: publisher.publish(make.image(header, image, "bgr8")),
    )
    spin(node)
    thread.stop()


def measure(way: str, model: Path, video: Path, seconds: float) -> Measured:
    apart = way in ("separate", "two")
    parameters = {"model": str(model), **({} if apart else {"camera": str(video)})}
    if way == "same":
        return measure_here(parameters, seconds)
    given = [word for item in parameters.items() for word in ("-p", "{}:={}".format(*item))]
    sides = TWO.get(way, ("",))
    cameras = ["--cameras", ",".join(sides)] if way in TWO else []
    commands = [[str(BIN / "vision_node"), *cameras, "--ros-args", *given]]
    program = [sys.executable, "-m", "benchmarks.ros_age", "--model", str(model)]
    for side in sides if apart else ():
        topic = f"{side}/image".lstrip("/")
        commands.append([*program, "--as-camera", str(video), "--topic", topic])
    processes = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for command in commands]
    try:
        return listen(seconds, processes[0].pid, lambda node, store: subscribe(node, store, sides))
    finally:
        for process in processes:
            process.send_signal(signal.SIGINT)
        for process in processes:
            process.wait(20)


def measure_here(parameters: dict[str, str], seconds: float) -> Measured:
    """With the node in this process, and a function that listens."""
    import rclpy
    from rclpy.parameter import Parameter

    from tvm_vision_ros.node import VisionNode

    rclpy.init()
    overrides = [Parameter(name, value=value) for name, value in parameters.items()]
    vision = VisionNode(parameter_overrides=overrides)

    def begin(node: Any, store: Store) -> None:
        vision.listen(lambda seen: store(seen.header, ""))
        vision.start()

    try:
        return listen(seconds, os.getpid(), begin, vision)
    finally:
        vision.end()
        rclpy.try_shutdown()


def subscribe(node: Any, store: Store, sides: Sequence[str]) -> None:
    from vision_msgs.msg import Detection2DArray

    for side in sides:
        topic = f"{side}/detections".lstrip("/")
        take = partial(lambda side, message: store(message.header, side), side)
        node.create_subscription(Detection2DArray, topic, take, 10)


def listen(
    seconds: float,
    process: int,
    begin: Begin,
    node: Any = None,
) -> Measured:
    """Collect for so many seconds after the first result and the time to get warm.

    Raises SystemExit where no result comes.
    """
    import rclpy

    own = node is None
    if own:
        rclpy.init()
        node = rclpy.create_node("listener")
    ages: list[tuple[float, float, str]] = []

    def store(header: Any, side: str) -> None:
        now = node.get_clock().now().nanoseconds
        stamp = header.stamp.sec * 1_000_000_000 + header.stamp.nanosec
        ages.append((time.monotonic(), 1e-6 * (now - stamp), side))

    begin(node, store)
    stop = threading.Event()
    thread = threading.Thread(target=spin, args=(node, stop))
    thread.start()
    try:
        latest = time.monotonic() + MOST_START_SECONDS
        while not ages:
            if time.monotonic() > latest:
                raise SystemExit(
                    f"benchmarks.ros_age: no result came in {MOST_START_SECONDS:.0f} s: start "
                    "vision_node by hand with the same --model to see why"
                )
            time.sleep(0.1)
        time.sleep(WARM_SECONDS)
        start, memory = time.monotonic(), []
        while time.monotonic() - start < seconds:
            memory.append((time.monotonic() - start, megabytes(process)))
            time.sleep(min(SAMPLE_SECONDS, seconds / 4))
    finally:
        stop.set()
        thread.join()
        if own:
            node.destroy_node()
            rclpy.try_shutdown()
    counted = [(age, side) for moment, age, side in ages if moment >= start]
    return {
        name: [age for age, side in counted if side == name]
        for name in sorted({side for _, side in counted})
    }, memory


def spin(node: Any, stop: threading.Event | None = None) -> None:
    from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor

    executor = SingleThreadedExecutor()
    executor.add_node(node)
    try:
        while stop is None or not stop.is_set():
            executor.spin_once(timeout_sec=0.1)
    except (ExternalShutdownException, KeyboardInterrupt):
        pass


def megabytes(process: int) -> float:
    """What a process has in memory."""
    pages = int(Path(f"/proc/{process}/statm").read_text("utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def row(way: str, ages: list[float], memory: list[tuple[float, float]], seconds: float) -> str:
    median, high, highest = np.percentile(ages, (50, 95, 99))
    moments, sizes = np.array(memory).T
    # Of the second half: what is loaded and kept once is no growth.
    half = len(sizes) // 2
    slope = 60 * np.polyfit(moments[half:], sizes[half:], 1)[0]
    return (
        f"| {way} | {len(ages)} | {len(ages) / seconds:.1f} Hz | {median:.1f} ms | {high:.1f} ms "
        f"| {highest:.1f} ms | {max(ages):.1f} ms | {sizes[-1]:.0f} MB, {slope:+.2f} MB a minute |"
    )


if __name__ == "__main__":
    main()
