"""The node on an rclpy with what Humble's has: parameters count, transitions end nothing."""

import importlib.util

import pytest

from support import SUPPORT
from support.ros.scenes import scene, send_until


def test_on_what_humble_has(graph, start, models):
    from std_srvs.srv import SetBool
    from vision_msgs.msg import Detection2DArray

    from support.ros.graph import TRANSITIONS

    newer = importlib.util.find_spec("rclpy.event_handler") is not None
    program = SUPPORT / "ros" / ("humble_node.py" if newer else "fake_node.py")
    process = start(f"model:={models('fake')}", program=program)
    graph.wait_for_state("active")
    with graph.listen(Detection2DArray, "detections") as inbox, graph.camera() as camera:
        assert send_until(graph, camera, inbox, lambda: graph.image(scene())).detections
        # Counts at once, and 1 is 1.0.
        assert graph.set(confidence=1) == ""
        assert graph.get("confidence") == 1.0
        assert graph.set(confidence=2.0) != ""
        assert (
            graph.set(confidenc=0.5) == "confidenc is no parameter here: did you mean 'confidence'?"
        )
        assert graph.set(**{"classes.ball.enabled": False}, confidence=0.1) == ""
        inbox.clear()
        found = send_until(graph, camera, inbox, lambda: graph.image(scene()))
        assert not found.detections
    answer = graph.call(SetBool, "/vision/enable", SetBool.Request(data=False))
    assert answer.success and graph.get("enabled") is False
    assert not graph.change("activate") and graph.state() == "active"
    assert graph.set(model=models("good")) == ""
    process.wait_for("good (")
    # As a manager of lifecycles ends it, and who ends the process after that.
    assert graph.change("active_shutdown")
    assert not any(graph.change(name) for name in TRANSITIONS)
    assert graph.set(model=models("broken")) == ""
    assert graph.state() == "finalized"
    assert process.end() == 0, process.log
    assert "Traceback" not in process.log


@pytest.mark.parametrize(
    ("distribution", "variable"),
    [("humble", "FASTRTPS_DEFAULT_PROFILES_FILE="), ("kilted", "FASTDDS_DEFAULT_PROFILES_FILE=")],
)
def test_the_profile_is_called_what_fast_dds_calls_it(ros, monkeypatch, distribution, variable):
    from tvm_vision_ros.ros_camera import room_for_large_images

    monkeypatch.setenv("ROS_DISTRO", distribution)
    assert f" with {variable}" in room_for_large_images()
