"""A camera and listeners in the node's process, in a real graph; QoS by a file of parameters."""

import queue
import threading
import time

import cv2
import numpy as np
import pytest

from support.ros import fakes


@pytest.fixture(scope="module")
def video(tmp_path_factory):
    """A bright ball that moves, at 50 Hz."""
    path = tmp_path_factory.mktemp("video") / "ball.avi"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 50.0, (64, 48))
    for index in range(20):
        image = np.zeros((48, 64, 3), np.uint8)
        image[16:32, 2 * index : 2 * index + 16] = 255
        writer.write(image)
    writer.release()
    return path


def test_a_video_as_a_camera_and_overrides(graph, start, models, tmp_path, video):
    from rclpy.qos import ReliabilityPolicy
    from vision_msgs.msg import Detection2DArray

    from support.ros.graph import lines_of

    path = tmp_path / "parameters.yaml"
    path.write_text(
        "/**/vision:\n  ros__parameters:\n    camera_frame_id: eye\n"
        "    qos_overrides:\n      /detections:\n        publisher: {reliability: best_effort}\n"
        "      /image:\n        subscription: {reliability: reliable, depth: 9}\n"
        "      /detection:\n        publisher: {depth: 9}\n"
    )
    process = start(
        f"model:={models('fake')}",
        f"camera:={video}",
        "diagnostics_period:=0.2",
        ros=("--params-file", str(path)),
    )
    with (
        graph.listen(Detection2DArray, "detections", reliability="best_effort") as inbox,
        graph.diagnostics() as diagnostics,
    ):
        found = inbox.until(lambda message: bool(message.detections))
        assert found.header.frame_id == "eye"
        stamp = found.header.stamp.sec + 1e-9 * found.header.stamp.nanosec
        assert 0 <= inbox.last_received - stamp < 5.0
        (own,) = graph.node.get_publishers_info_by_topic("/detections")
        assert own.qos_profile.reliability == ReliabilityPolicy.BEST_EFFORT
        name = "qos_overrides./detections.publisher.reliability"
        assert graph.get(name) == "best_effort"
        process.wait_for("qos_overrides./detection.publisher changes nothing: the node has no")
        assert "qos_overrides./image" not in process.log
        values = lines_of(diagnostics.until(lambda m: "done" in lines_of(m)["frames"][2]))[
            "frames"
        ][2]
        assert values["image topic"] == "ball.avi"
        # Back to the topic, live: its subscription is overridden as well.
        assert "camera must be a number" in graph.set(camera="webcam")
        assert graph.set(camera="") == ""
        graph.wait_until(
            lambda: bool(graph.node.get_subscriptions_info_by_topic("/image")), "a subscription"
        )
        (listens,) = graph.node.get_subscriptions_info_by_topic("/image")
        assert listens.qos_profile.reliability == ReliabilityPolicy.RELIABLE


def test_what_is_no_camera_ends_it_with_one_line(ros, start):
    process = start("camera:=webcam")
    assert process.popen.wait(20) == 78
    process.wait_for("vision_node: camera must be a number, a device as /dev/video0")
    assert "Traceback" not in process.log
    process.popen.returncode = 0


def test_a_listener_in_the_same_process_gets_results_without_a_message(graph, models, video):
    """The program of a team that has the node in its own executor."""
    from rclpy.parameter import Parameter

    from tvm_vision_ros.node import VisionNode

    given = {"model": models("fake"), "camera": str(video)}
    overrides = [Parameter(name, value=value) for name, value in given.items()]
    node = graph.in_executor(
        VisionNode, fakes.load, context=graph.context, parameter_overrides=overrides
    )

    def is_open() -> bool:
        return node.camera.waiting is not None

    seen: queue.Queue = queue.Queue()
    remove = node.listen(seen.put)
    graph.executor.add_node(node)
    try:
        node.start()
        item = seen.get(timeout=20)
        assert item.image.shape == (48, 64, 3)
        assert item.result.detections is not None
        # The executor's thread owns the camera, and may still be about to open it: the image came
        # by a thread that the opening started.
        assert graph.in_executor(is_open)
        remove()
        # Nobody listens any more: the camera is let go.
        graph.wait_until(lambda: not graph.in_executor(is_open), "the camera to be let go")
        assert node.statistics.snapshot().counts["done"] >= 1
    finally:
        graph.executor.remove_node(node)
        graph.in_executor(node.end)


@pytest.fixture
def in_many_threads(graph):
    """Runs a node's callbacks in several threads, as a team's own executor may."""
    from rclpy.executors import MultiThreadedExecutor

    executor = MultiThreadedExecutor(4, context=graph.context)
    stop = threading.Event()
    nodes = []

    def spin():
        while not stop.is_set():
            executor.spin_once(timeout_sec=0.05)

    thread = threading.Thread(target=spin)

    def run(node):
        nodes.append(node)
        executor.add_node(node)
        thread.start()

    yield run
    stop.set()
    thread.join(10)
    executor.shutdown()
    for node in nodes:
        node.end()


def test_an_executor_of_several_threads_runs_one_of_its_callbacks_at_a_time(
    graph, models, monkeypatch, in_many_threads
):
    from rclpy.parameter import Parameter
    from std_srvs.srv import Trigger

    from tvm_vision_ros.networks import Networks
    from tvm_vision_ros.node import VisionNode

    busy, beside = threading.Lock(), []
    for kind, name in (
        (VisionNode, "_tick"),
        (VisionNode, "_start"),
        (Networks, "ask"),
        (Networks, "_take_over"),
    ):
        call = getattr(kind, name)

        def alone(*arguments, call=call, name=name):
            if not busy.acquire(blocking=False):
                beside.append(name)
                return None
            try:
                time.sleep(0.08)
                return call(*arguments)
            finally:
                busy.release()

        monkeypatch.setattr(kind, name, alone)
    node = VisionNode(
        fakes.load,
        namespace="threads",
        context=graph.context,
        parameter_overrides=[Parameter("model", value=models("fake"))],
    )
    node.start()
    in_many_threads(node)
    graph.wait_for_state("active", "/threads/vision")
    for _ in range(3):
        assert graph.call(Trigger, "/threads/vision/load_model", Trigger.Request()).success
    assert beside == []
