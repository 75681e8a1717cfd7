"""launch/vision.launch.py, executed where launch and launch_ros are installed; config/ always."""

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from tvm_vision_ros.settings import parameters, problem_in, widened

ROOT = Path(__file__).resolve().parents[2]
NEEDED = ("launch", "launch_ros", "ament_index_python", "rclpy")


@pytest.mark.parametrize("name", ["yoeo.yaml", "classifier.yaml"])
def test_the_files_of_parameters_are_taken(name):
    content = yaml.safe_load((ROOT / "config" / name).read_text("utf-8"))
    values = content["/**/vision"]["ros__parameters"]
    assert values.keys() <= parameters().keys()
    assert problem_in(values) == ""
    # Doubles are written as such: other tools read these files too.
    assert all(type(value) is type(widened(key, value)) for key, value in values.items())


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
    fake = Path(__file__).parent / "fake_node.py"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{fake}" "$@"\n')
    program.chmod(0o755)
    others = os.environ.get("AMENT_PREFIX_PATH")
    monkeypatch.setenv("AMENT_PREFIX_PATH", f"{tmp_path}{f':{others}' if others else ''}")
    return tmp_path


def test_it_starts_the_node_as_told_and_ends_it(graph, prefix, models, start):
    from vision_msgs.msg import Detection2DArray

    path = prefix / "share" / "tvm_vision" / "launch" / "vision.launch.py"
    process = start(
        program=Path(__file__).parent / "launch_program.py",
        command=(
            str(path),
            f"model:={models('fake')}",
            "namespace:=robot",
            "image:=/eye/image",
            "debug:=false",
            "log_level:=debug",
        ),
    )
    graph.wait_for_state("active", "/robot/vision")
    assert graph.get("publish_debug_image", "/robot/vision") is False
    # From the file of parameters, which holds for any namespace.
    assert graph.get("device", "/robot/vision") == "auto"
    with graph.listen(Detection2DArray, "/robot/detections"), graph.camera("/eye/image") as eye:
        graph.wait_for_subscriber(eye)
    assert process.end() == 0, process.log
    process.wait_for("process has finished cleanly")
