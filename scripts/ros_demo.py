"""The node at work without a robot: make ros-demo.

A camera (tvm-vision replay), the node and this listener are three processes that talk over DDS.
Prints what arrives, and writes the debug images.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

BIN = Path(sys.executable).parent
PACKAGE = Path("build") / "models" / "yoeo_demo.tar"
PATIENCE_SECONDS = 60


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("demo_output"))
    parser.add_argument("--model", type=Path, help="a package instead of the demo's")
    parser.add_argument("--source", type=Path, help="images, a video or a bag instead")
    parser.add_argument("--images", type=int, default=8, help="results to wait for")
    options = parser.parse_args()
    # Apart from whatever else runs ROS in this network.
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    os.environ.setdefault("ROS_DOMAIN_ID", "77")
    model = options.model or compiled()
    processes = [
        start("vision_node", "--ros-args", "-p", f"model:={model}", "-p", "debug_rate:=0.0"),
        start(
            "tvm-vision", "replay", str(options.source or demo_images()), "--rate", "4", "--loop"
        ),
    ]
    try:
        listen(options.images, options.output)
    finally:
        for process in processes:
            process.send_signal(signal.SIGINT)
        codes = [process.wait(20) for process in processes]
    print(f"camera and node ended with exit codes {codes[1]} and {codes[0]}")


def compiled() -> Path:
    """The demo's network for this machine, compiled once."""
    from tvm_vision.demo.images import MODEL
    from tvm_vision.runtime.device import choose_gpu

    if not PACKAGE.exists():
        target = "vulkan" if choose_gpu().kind == "vulkan" else "llvm"
        print(f"compiling {MODEL.name} for {target}", flush=True)
        tool, package = str(BIN / "tvm-vision"), str(PACKAGE)
        command = [tool, "compile", str(MODEL), "-o", package, "--target", target]
        subprocess.run(command, check=True)
    return PACKAGE


def demo_images() -> Path:
    from tvm_vision.demo.images import FOLDER

    return FOLDER


def start(program: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([BIN / program, *arguments])


def listen(images: int, output: Path) -> None:
    """Print detections and latency until there are enough; write the debug images."""
    from tvm_vision_ros.main import prepare_environment

    prepare_environment()
    import rclpy
    from diagnostic_msgs.msg import DiagnosticArray
    from sensor_msgs.msg import Image
    from std_msgs.msg import Float32MultiArray
    from vision_msgs.msg import Detection2DArray

    rclpy.init()
    node = rclpy.create_node("listener")
    seen: dict[str, Any] = {"images": 0}

    def on_detections(message: Any) -> None:
        names = (
            f"{item.results[0].hypothesis.class_id} {item.results[0].hypothesis.score:.2f}"
            for item in message.detections
        )
        print(f"/detections    {', '.join(names) or 'nothing'}")

    def on_latency(message: Any) -> None:
        names = message.layout.dim[0].label.split(", ")
        pairs = zip(names, message.data, strict=True)
        print(f"/latency [ms]  {', '.join(f'{name} {value:.1f}' for name, value in pairs)}")

    def on_debug_image(message: Any) -> None:
        seen["images"] += 1
        write(message, output / f"debug_image_{seen['images']}.png")

    def on_diagnostics(message: Any) -> None:
        seen["diagnostics"] = message

    node.create_subscription(Detection2DArray, "detections", on_detections, 5)
    node.create_subscription(Float32MultiArray, "latency", on_latency, 5)
    node.create_subscription(Image, "debug_image", on_debug_image, 5)
    node.create_subscription(DiagnosticArray, "/diagnostics", on_diagnostics, 5)
    end = node.get_clock().now().nanoseconds + PATIENCE_SECONDS * 1_000_000_000
    while seen["images"] < images or "diagnostics" not in seen:
        rclpy.spin_once(node, timeout_sec=0.2)
        if node.get_clock().now().nanoseconds > end:
            sys.exit(f"no results within {PATIENCE_SECONDS} s: see what the node says above")
    for status in seen["diagnostics"].status:
        print(f"/diagnostics   {status.name}: {status.message}")
    node.destroy_node()
    rclpy.try_shutdown()
    print(f"wrote {seen['images']} debug images into {output}")


def write(message: Any, path: Path) -> None:
    import cv2

    from tvm_vision_ros.images import image_from

    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), image_from(message))


if __name__ == "__main__":
    main()
