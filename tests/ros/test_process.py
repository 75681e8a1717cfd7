"""Node processes from their start to their end: time, lifecycle, networks that change, signals."""

import os
import signal
import time

import numpy as np
import pytest

LOADED = "a processor of the tests"


def image(graph, shape=(480, 640)):
    return graph.image(np.full((*shape, 3), 9, np.uint8))


def resources(pid):
    """Threads, open files and resident KiB of a process."""
    status = dict(
        line.split(":", 1)
        for line in open(f"/proc/{pid}/status").read().splitlines()
        if ":" in line
    )
    return (
        int(status["Threads"]),
        len(os.listdir(f"/proc/{pid}/fd")),
        int(status["VmRSS"].split()[0]),
    )


def test_lifecycle_a_hundred_times_without_a_leak(graph, start):
    process = start("model:=fake", "autostart:=false")
    graph.wait_for_state("unconfigured")
    assert not graph.change("activate")
    names = ("configure", "activate", "deactivate", "cleanup")
    found = []
    with graph.camera() as camera:
        for cycle in range(100):
            for name in names:
                assert graph.change(name), process.log
            camera.publish(image(graph, (48, 64)))
            if cycle in (19, 99):
                found.append(resources(process.popen.pid))
    (threads, files, memory), after = found
    assert after[:2] == (threads, files)
    assert after[2] - memory < 4096
    for name in names[:2]:
        assert graph.change(name)


def test_missing_network_then_another(graph, start, tmp_path):
    process = start("model:=broken")
    process.wait_for("mod.so must have the SHA-256")
    assert graph.state() == "unconfigured"
    assert graph.set(model="fake") == ""
    graph.wait_for_state("active")


def test_an_error_that_nobody_expected_is_told(graph, start):
    process = start("model:=odd")
    process.wait_for("cannot be loaded (RuntimeError: an error that nobody expected)")
    assert graph.state() == "unconfigured"


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("confidence:=high", "confidence must be a double, found 'high' (string)"),
        ("max_rate:=-1.0", "max_rate must be in 0 to 1000 Hz, found -1.0"),
        ("model:=5", "model must be a string, found 5 (integer): put it in quotes"),
    ],
)
def test_wrong_parameters_end_it_with_one_line(start, argument, words):
    process = start(argument)
    assert process.popen.wait(20) == 1
    process.wait_for(words)
    assert "Traceback" not in process.log


def test_a_file_of_parameters_for_any_namespace(graph, start, tmp_path):
    path = tmp_path / "parameters.yaml"
    path.write_text("/**/vision:\n  ros__parameters:\n    model: fake\n    confidence: 1\n")
    start(ros=("--params-file", str(path), "-r", "__ns:=/robot"))
    graph.wait_for_state("active", "/robot/vision")
    assert graph.get("confidence", "/robot/vision") == 1.0


def test_two_nodes_in_one_domain(graph, start):
    from vision_msgs.msg import Detection2DArray

    start("model:=fake", ros=("-r", "__ns:=/left"))
    start("model:=fake", ros=("-r", "__ns:=/right"))
    twin = start("model:=fake", ros=("-r", "__ns:=/right"))
    graph.wait_for_state("active", "/left/vision")
    with (
        graph.listen(Detection2DArray, "/left/detections") as left,
        graph.listen(Detection2DArray, "/right/detections") as right,
        graph.camera("/left/image") as camera,
    ):
        graph.wait_for_subscriber(camera)
        camera.publish(image(graph))
        left.next()
        assert right.all() == []
    twin.wait_for("another node is called /right/vision, and both answer")


@pytest.mark.parametrize("delay", [0.05, 0.3, 0.6, 0.9, 1.3, 2.0])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_it_cleanly_at_any_moment(start, number, delay):
    process = start("model:=slow" if delay > 1 else "model:=fake:100")
    process.wait_for("started")
    time.sleep(delay)
    assert process.end(number) == 0, process.log
    assert "Traceback" not in process.log


def test_signals_in_the_middle_of_a_frame(graph, start):
    from vision_msgs.msg import Detection2DArray

    process = start("model:=fake:300")
    graph.wait_for_state("active")
    with graph.listen(Detection2DArray, "detections"), graph.camera() as camera:
        graph.wait_for_subscriber(camera)
        camera.publish(image(graph))
        time.sleep(0.1)
        process.popen.send_signal(signal.SIGINT)
        process.popen.send_signal(signal.SIGTERM)
        assert process.end(signal.SIGINT) == 0, process.log
    assert "Traceback" not in process.log


def test_without_a_home(start, monkeypatch):
    for name in ("HOME", "ROS_HOME", "ROS_LOG_DIR"):
        monkeypatch.delenv(name, raising=False)
    process = start("model:=fake")
    process.wait_for(LOADED)
    assert process.end() == 0, process.log


@pytest.mark.parametrize(
    ("distribution", "names"),
    [
        ("jazzy", {"FASTDDS_DEFAULT_PROFILES_FILE", "FASTRTPS_DEFAULT_PROFILES_FILE"}),
        ("kilted", {"FASTDDS_DEFAULT_PROFILES_FILE"}),
        (None, {"FASTDDS_DEFAULT_PROFILES_FILE"}),
    ],
)
def test_the_profile_is_set_by_the_name_that_is_read(monkeypatch, distribution, names):
    from tvm_vision_ros import main

    environment = {} if distribution is None else {"ROS_DISTRO": distribution}
    monkeypatch.setattr(main.os, "environ", {"HOME": "/", **environment})
    main.prepare_environment()
    found = {name for name in main.os.environ if name.endswith("PROFILES_FILE")}
    assert found == names
    assert all(main.os.environ[name].endswith("config/fastdds.xml") for name in names)


def test_a_profile_that_is_chosen_stays(monkeypatch):
    from tvm_vision_ros import main

    chosen = {"HOME": "/", "ROS_DISTRO": "jazzy", "FASTRTPS_DEFAULT_PROFILES_FILE": "mine.xml"}
    monkeypatch.setattr(main.os, "environ", dict(chosen))
    main.prepare_environment()
    assert main.os.environ == {**chosen, "TVM_USE_RUNTIME_LIB": "1"}
