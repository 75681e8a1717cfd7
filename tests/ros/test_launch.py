"""launch/, executed where launch and launch_ros are installed; config/ always."""

import importlib.util
import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
import yaml

from support import SUPPORT
from support.ros.scenes import scene, send_until
from tvm_vision_ros import space_messages
from tvm_vision_ros.result_topics import IMAGE, RESULT_TOPICS
from tvm_vision_ros.settings import parameters, problem_in, widened

ROOT = Path(__file__).resolve().parents[2]
# What RViz's displays take.
DISPLAYS = {
    "rviz_default_plugins/Image": IMAGE,
    "rviz_default_plugins/PointCloud2": space_messages.POINTS,
}
NEEDED = ("launch", "launch_ros", "ament_index_python", "rclpy")


@pytest.mark.parametrize("path", sorted((ROOT / "config").glob("*.yaml")), ids=lambda p: p.stem)
def test_the_files_of_parameters_are_taken(path):
    content = yaml.safe_load(path.read_text("utf-8"))
    values = content["/**/vision"]["ros__parameters"]
    assert values.keys() <= parameters().keys()
    assert problem_in(values) == ""
    # Doubles are written as such: other tools read these files too.
    assert all(type(value) is type(widened(key, value)) for key, value in values.items())


def test_the_layouts_show_topics_that_there_are():
    """With the messages that a display and a panel take."""
    rviz = yaml.safe_load((ROOT / "config" / "vision.rviz").read_text("utf-8"))
    shown = {
        item["Topic"]["Value"]: DISPLAYS[item["Class"]]
        for item in rviz["Visualization Manager"]["Displays"]
    }
    panels = json.loads((ROOT / "config" / "foxglove.json").read_text("utf-8"))["configById"]
    shown |= {
        item["imageMode"]["imageTopic"]: IMAGE for item in panels.values() if "imageMode" in item
    }
    topics = {f"/{topic.name}": topic.message for topic in RESULT_TOPICS}
    topics |= {"/debug_image": IMAGE, "/points/lines": space_messages.POINTS}
    assert shown.items() <= topics.items()


def test_the_plot_calls_each_latency_what_it_is(ros):
    from tvm_vision_ros.pipeline import Times
    from tvm_vision_ros.ros_outputs import latencies

    panels = json.loads((ROOT / "config" / "foxglove.json").read_text("utf-8"))["configById"]
    paths = panels["Plot!latency"]["paths"]
    names = list(latencies(Times(0.0, 0.0, 0.0, 0.0, 0.0)))
    assert paths
    for path in paths:
        assert path["value"] == f"/latency.data[{names.index(path['label'])}]"


@pytest.fixture
def prefix(tmp_path, monkeypatch):
    """What colcon installs: resource index, executable, launch file and config."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"the launch file was NOT executed: {', '.join(missing)} missing (part of ROS)")
    index = tmp_path / "share" / "ament_index" / "resource_index" / "packages"
    index.mkdir(parents=True)
    (index / "tvm_vision").touch()
    for name in ("launch", "config"):
        shutil.copytree(ROOT / name, tmp_path / "share" / "tvm_vision" / name)
    program = tmp_path / "lib" / "tvm_vision" / "vision_node"
    program.parent.mkdir(parents=True)
    fake = SUPPORT / "ros" / "fake_node.py"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{fake}" "$@"\n')
    program.chmod(0o755)
    others = os.environ.get("AMENT_PREFIX_PATH")
    monkeypatch.setenv("AMENT_PREFIX_PATH", f"{tmp_path}{f':{others}' if others else ''}")
    return tmp_path


@pytest.fixture
def launch(prefix, start):
    """Starts a launch file with arguments."""

    def run(*arguments, file="vision.launch.py"):
        path = prefix / "share" / "tvm_vision" / "launch" / file
        program = SUPPORT / "ros" / "launch_program.py"
        return start(program=program, command=(str(path), *arguments))

    return run


@pytest.mark.parametrize("delay", ["0.0", "0.5"])
@pytest.mark.parametrize("text", ["confidence: 5.0", "confidence: [1, a]"])
def test_a_wrong_file_of_parameters_ends_it_with_its_message(launch, tmp_path, text, delay):
    path = tmp_path / "parameters.yaml"
    path.write_text(f"/**/vision:\n  ros__parameters:\n    {text}\n")
    process = launch(f"params_file:={path}", f"respawn_delay:={delay}")
    process.popen.wait(20)
    process.wait_for("exit code 78: it is not started again")
    assert process.log.count("process started with pid") == 1
    assert "Traceback" not in process.log


def test_a_crash_starts_it_again(graph, launch, models):
    process = launch(f"model:={models('fake')}", "namespace:=crash", "respawn_delay:=0.5")
    graph.wait_for_state("active", "/crash/vision")
    pid = int(process.wait_for("process started with pid").split("[")[-1].rstrip("]"))
    os.kill(pid, signal.SIGSEGV)
    process.wait_for("process has died")
    graph.wait_until(lambda: process.log.count("fake (fake00000000) on") == 2, "a second start")
    assert process.end() == 0, process.log


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("params_file:=/nonexistent.yaml", "params_file must be a file, found '/nonexistent.yaml'"),
        ("autostart:=yes", "autostart must be true or false, found 'yes'"),
        ("respawn:=1", "respawn must be true or false, found '1'"),
        ("debug:=", "debug must be true or false, found ''"),
        ("respawn_delay:=soon", "respawn_delay must be in seconds, found 'soon'"),
    ],
)
def test_wrong_arguments_start_nothing(launch, argument, words):
    process = launch(argument)
    assert process.popen.wait(20) == 1
    process.wait_for(words)
    assert "process started" not in process.log


def test_it_starts_the_node_as_told_and_ends_it(graph, launch, models):
    from vision_msgs.msg import Detection2DArray

    process = launch(
        f"model:={models('fake')}",
        "namespace:=robot",
        "image:=/eye/image",
        "debug:=false",
        "log_level:=debug",
    )
    graph.wait_for_state("active", "/robot/vision")
    assert graph.get("publish_debug_image", "/robot/vision") is False
    # From the file of parameters, which holds for any namespace.
    assert graph.get("device", "/robot/vision") == "auto"
    with graph.listen(Detection2DArray, "/robot/detections"), graph.camera("/eye/image") as eye:
        graph.wait_for_subscriber(eye)
    assert process.end() == 0, process.log
    process.wait_for("process has finished cleanly")


def test_two_cameras_have_one_process_and_one_network(graph, launch, models):
    from vision_msgs.msg import Detection2DArray

    process = launch(f"model:={models('fake')}", "image:=image_raw", file="two_cameras.launch.py")
    for side in ("left", "right"):
        graph.wait_for_state("active", f"/{side}/vision")
        with (
            graph.listen(Detection2DArray, f"/{side}/detections") as inbox,
            graph.camera(f"/{side}/image_raw") as camera,
        ):
            sent = send_until(graph, camera, inbox, lambda: graph.image(scene()))
            assert sent.detections
    assert process.log.count("process started with pid") == 1
    assert process.log.count("loading fake") == 1
    assert process.end() == 0, process.log


@pytest.mark.parametrize("path", sorted((ROOT / "launch").iterdir()), ids=lambda p: p.name)
def test_every_argument_has_a_default_and_a_meaning(prefix, path):
    """What ros2 launch FILE --show-args prints."""
    from launch import LaunchContext
    from launch.launch_description_sources import PythonLaunchDescriptionSource
    from launch.utilities import perform_substitutions

    context = LaunchContext()
    installed = prefix / "share" / "tvm_vision" / "launch" / path.name
    source = PythonLaunchDescriptionSource(str(installed))
    declared = source.try_get_launch_description_without_context().get_launch_arguments()
    assert {"model", "camera", "cameras", "image"} <= {item.name for item in declared}
    for item in declared:
        assert item.description.endswith("."), item.name
        value = perform_substitutions(context, item.default_value)
        if item.name in ("params_file", "dds_profile"):
            assert Path(value).is_file()


@pytest.mark.parametrize("path", sorted((ROOT / "config").glob("*.yaml")), ids=lambda p: p.stem)
def test_each_file_of_parameters_starts_a_node(graph, launch, models, path):
    process = launch(f"model:={models('fake')}", f"params_file:={path}", f"namespace:={path.stem}")
    graph.wait_for_state("active", f"/{path.stem}/vision")
    wanted = yaml.safe_load(path.read_text("utf-8"))["/**/vision"]["ros__parameters"]
    wanted.pop("model", None)
    for name, value in wanted.items():
        assert graph.get(name, f"/{path.stem}/vision") == value, name
    assert "is not known and ignored" not in process.log
    assert process.end() == 0, process.log
