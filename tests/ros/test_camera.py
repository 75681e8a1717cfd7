"""Images that do not come, or come with stamps of another clock: what is said, and what works."""

import time

import numpy as np
import pytest

from support import SUPPORT
from support.ros.scenes import scene, send_until
from tvm_vision_ros.dds_profile import profile_variables

DEFAULTS = {"input_reliability": "best_effort", "image_transport": "raw", "lazy": False}


@pytest.fixture(scope="module")
def process(graph):
    from support.ros.graph import Process

    values = ("diagnostics_period:=0.1", "stall_timeout:=0.4", "lazy:=false")
    with Process("model:=fake:2", *values) as made:
        graph.wait_for_state("active")
        yield made


@pytest.fixture
def node(graph, process):
    yield process
    assert process.popen.poll() is None, process.log
    assert graph.set(**DEFAULTS) == ""


@pytest.fixture
def detections(graph, node):
    from vision_msgs.msg import Detection2DArray

    with graph.listen(Detection2DArray, "detections") as inbox:
        yield inbox


def frames_line(graph, words):
    """The line of the frames, once it has these words."""
    from support.ros.graph import lines_of

    with graph.diagnostics() as inbox:
        message = inbox.until(lambda m: words in lines_of(m)["frames"][1])
    return lines_of(message)["frames"]


@pytest.mark.parametrize(
    ("topic", "kind", "settings", "words"),
    [
        ("nothing", "Image", {}, "images are on /nothing: set image_topic, or remap it"),
        ("image/compressed", "CompressedImage", {}, "set image_transport to compressed"),
        ("image", "Image", {"image_transport": "compressed"}, "set image_transport to raw"),
        ("image", "CompressedImage", {}, "/tester publishes sensor_msgs/msg/CompressedImage there"),
        ("image", "Imu", {}, "/tester publishes sensor_msgs/msg/Imu there, and sensor_msgs/msg/Im"),
        ("image", "Image", {"input_reliability": "reliable"}, "set input_reliability to best_eff"),
        (
            "image",
            "Image",
            {},
            "/tester is connected. Either it sends none (ros2 topic hz /image)",
        ),
        ("image", "Image", {}, "_DEFAULT_PROFILES_FILE="),
        (None, None, {}, "nobody publishes it: start the camera"),
    ],
)
def test_silence_has_its_reason(graph, node, topic, kind, settings, words):
    import sensor_msgs.msg

    assert graph.set(**settings) == ""
    told = len(node.lines)
    if topic is None:
        level = frames_line(graph, words)[0]
    else:
        with graph.camera(topic, "best_effort", getattr(sensor_msgs.msg, kind)):
            level = frames_line(graph, words)[0]
            graph.wait_until(lambda: any(words in line for line in node.lines), "the log")
    assert level == 1
    # Told once, and again only when it is another reason.
    reasons = [line for line in node.lines[told:] if "no image on" in line and words in line]
    assert len(reasons) <= 1


def test_large_images_that_are_lost_name_the_profile(graph, node, start):
    program = SUPPORT / "ros" / "camera_program.py"
    start(program=program, command=("1920", "1080"), unset=profile_variables())
    level, words, values = frames_line(graph, "_DEFAULT_PROFILES_FILE=")
    assert level == 1
    if "lost on the way" in words:
        assert int(values["lost"]) > 0


@pytest.mark.parametrize("seconds", [0.7, 60.0, 1800.0, 3599.0, 90_000.0, -0.7, -60.0])
def test_stamps_of_another_clock_give_results_and_a_warning(graph, node, detections, seconds):
    from support.ros.graph import lines_of

    direction = "behind" if seconds > 0 else "ahead of"
    # A new subscription, for which the last test's clock is forgotten.
    assert graph.set(input_depth=2) == "" and graph.set(input_depth=1) == ""
    with graph.camera() as camera:

        def image():
            message = graph.image(scene())
            nanoseconds = time.time_ns() - int(seconds * 1e9)
            message.header.stamp.sec = nanoseconds // 10**9
            message.header.stamp.nanosec = nanoseconds % 10**9
            return message

        send_until(graph, camera, detections, image)
        with graph.diagnostics() as inbox:

            def warned(message):
                camera.publish(image())
                _, _, values = lines_of(message)["frames"]
                return float(values["clock offset [s]"]) == pytest.approx(seconds, abs=0.3)

            level, words, _ = lines_of(inbox.until(warned))["frames"]
    assert level == 1
    assert f"s {direction} this node's clock" in words


def test_images_without_a_stamp(graph, node, detections):
    with graph.camera() as camera:

        def image():
            message = graph.image(scene())
            message.header.stamp.sec = message.header.stamp.nanosec = 0
            return message

        found = send_until(graph, camera, detections, image)
        assert found.header.stamp.sec == 0
    node.wait_for("the images have no stamp (it is 0)")


def test_a_simulation_without_a_clock_works_and_says_so(graph, start):
    from vision_msgs.msg import Detection2DArray

    from support.ros.graph import lines_of

    start("model:=fake", "use_sim_time:=true", "max_rate:=5.0", ros=("-r", "__ns:=/still"))
    graph.wait_for_state("active", "/still/vision")
    with (
        graph.listen(Detection2DArray, "/still/detections") as inbox,
        graph.camera("/still/image") as camera,
        graph.diagnostics() as diagnostics,
    ):
        for _ in range(3):
            send_until(graph, camera, inbox, lambda: graph.image(scene()))
        message = diagnostics.until(
            lambda m: "still" in m.status[0].name and "/clock" in m.status[0].message
        )
        assert "nothing comes on /clock" in lines_of(message)["frames"][1]


def test_a_simulation_that_begins_anew(graph, start):
    from rosgraph_msgs.msg import Clock
    from vision_msgs.msg import Detection2DArray

    start("model:=fake", "use_sim_time:=true", ros=("-r", "__ns:=/sim"))
    graph.wait_for_state("active", "/sim/vision")
    with (
        graph.listen(Detection2DArray, "/sim/detections") as inbox,
        graph.camera("/sim/image") as camera,
        graph.camera("/clock", kind=Clock) as clock,
    ):
        graph.wait_for_subscriber(clock)
        for start_at in (1000, 50, 50):
            step = iter(range(10**6))

            def image(start_at=start_at, step=step):
                message = graph.image(np.full((48, 64, 3), 255, np.uint8))
                index = next(step)
                message.header.stamp.sec = start_at + index // 10
                message.header.stamp.nanosec = index % 10 * 10**8
                clock.publish(Clock(clock=message.header.stamp))
                return message

            inbox.clear()
            for _ in range(3):
                send_until(graph, camera, inbox, image)
