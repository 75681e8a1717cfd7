"""Node processes from their start to their end: time, lifecycle, networks that change, signals."""

import ast
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from support import SUPPORT
from support.ros import SURE

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
    assert process.popen.wait(20) == os.EX_CONFIG
    process.wait_for(words)
    assert "Traceback" not in process.log


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "Error opening YAML file"),
        ("vision:\n  ros__parameters: [1, 2]\n", "Cannot have a value before ros__parameters"),
        ("vision:\n  confidence: 0.4\n", "Cannot have a value before ros__parameters"),
        ("vision:\n  ros__parameters:\n    top: [1, a]\n", "Sequence should be of same type"),
        ("vision: {\n", "Couldn't parse params file"),
        ("\x7fELF\0\0", "Couldn't parse params file"),
        ("vision:\n  ros__parameters:\n    confidence: 5.0\n", "confidence must be in 0 to 1"),
        ("vision:\n  ros__parameters:\n    use_sim_time: 5\n", "use_sim_time"),
    ],
)
def test_wrong_files_of_parameters_end_it_with_one_line(start, tmp_path, text, words):
    path = tmp_path / "parameters.yaml"
    if text is not None:
        path.write_text(text)
    process = start(ros=("--params-file", str(path)))
    assert process.popen.wait(20) == os.EX_CONFIG
    assert "vision_node: " in process.wait_for(words)
    assert "Traceback" not in process.log


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-r", "__ns:=bad//name"), "Couldn't parse remap rule"),
        (("-r", "__node:=a-b"), "Couldn't parse remap rule"),
        (("-p", "confidence"), "Couldn't parse parameter override rule"),
        (("--log-level", "loud"), "Couldn't parse log level"),
    ],
)
def test_wrong_arguments_end_it_with_one_line(start, arguments, words):
    process = start(ros=arguments)
    assert process.popen.wait(20) == os.EX_CONFIG
    line = process.wait_for(words)
    assert line.startswith("vision_node: ROS cannot be started: ")
    assert "/src/" not in line
    assert "Traceback" not in process.log


def test_parameters_without_their_letter_end_it_with_one_line(start):
    process = start(ros=("model:=yoeo.tar",))
    assert process.popen.wait(20) == os.EX_CONFIG
    process.wait_for("found ['model:=yoeo.tar']: put -p or -r before them")
    assert "Traceback" not in process.log


def test_help_is_printed_and_no_node_starts(start):
    process = start(command=("--help",))
    assert process.popen.wait(20) == 0
    process.wait_for("vision_node --ros-args -p model:=/path/to/yoeo.tar")


def test_arguments_that_are_none_of_ros_are_refused(start):
    process = start(command=("yoeo.tar",))
    assert process.popen.wait(20) == os.EX_CONFIG
    process.wait_for("found 'yoeo.tar': see vision_node --help")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--ros-args", "-r", f"__ns:=/{'n' * 230}"),
        ("--ros-args", "-r", f"__node:={'n' * 300}"),
        ("--cameras", f"{'n' * 300},right"),
    ],
    ids=["namespace", "name", "camera"],
)
def test_names_that_are_too_long_end_it_with_one_line(start, arguments):
    process = start(command=arguments)
    assert process.popen.wait(20) == os.EX_CONFIG
    line = process.wait_for("vision_node: ROS takes no such node: ")
    assert "should not exceed" in line and "/src/" not in line
    assert "Traceback" not in process.log


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("ROS_DOMAIN_ID", "abc", "ROS_DOMAIN_ID is not an integral number"),
        ("ROS_DOMAIN_ID", "300", "ROS_DOMAIN_ID must be in 0 to 232, found 300"),
        ("ROS_LOG_DIR", "/proc/none", "/proc/none"),
    ],
)
def test_a_wrong_environment_ends_it_with_one_line(start, monkeypatch, variable, value, words):
    monkeypatch.setenv(variable, value)
    process = start("model:=fake")
    assert process.popen.wait(20) == os.EX_CONFIG
    assert process.wait_for(words).startswith("vision_node: ")
    assert "Traceback" not in process.log


def test_parameters_that_are_not_known_are_named(start, tmp_path):
    path = tmp_path / "parameters.yaml"
    path.write_text("vision:\n  ros__parameters:\n    confidenc: 0.4\n    color: red\n")
    process = start("use_sim_time:=false", ros=("--params-file", str(path)))
    process.wait_for("the parameter confidenc is not known and ignored: did you mean 'confidence'?")
    process.wait_for(
        "the parameter color is not known and ignored: docs/reference/node.md lists all"
    )
    assert "use_sim_time" not in process.log


@pytest.mark.parametrize(
    "package", ["rclpy", "diagnostic_msgs", "rcl_interfaces", "sensor_msgs", "std_msgs", "std_srvs"]
)
def test_without_ros_it_says_what_is_missing(tmp_path, package):
    """In a process of its own, where the package cannot be imported, as without setup.bash."""
    (tmp_path / package).mkdir()
    missing = f"raise ModuleNotFoundError(\"No module named '{package}'\\nSee the docs\")"
    (tmp_path / package / "__init__.py").write_text(missing)
    found = subprocess.run(
        [sys.executable, SUPPORT / "ros" / "vision_node_program.py"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert found.returncode == os.EX_CONFIG
    assert found.stdout == ""
    (line,) = found.stderr.splitlines()
    assert line.startswith("vision_node: vision_node needs ROS 2, and ")
    assert f"No module named '{package}'" in line
    assert line.endswith("source /opt/ros/$ROS_DISTRO/setup.bash, or, without ROS, make ros")


def test_the_environment_can_be_prepared_before_tvm_and_ros_are_imported():
    """Both read it once: and a launch file imports the module to know names and codes."""
    program = (
        "import sys, tvm_vision_ros.main; print(*{'tvm', 'rclpy', 'numpy'} & set(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (0, "\n"), found.stderr


def test_everything_that_the_node_imports_of_ros_is_looked_for():
    from tvm_vision_ros.main import ROS_PACKAGES

    folder = Path(__file__).resolve().parents[2] / "ros2_node"
    imported = set()
    for name in ("node.py", *(path.name for path in folder.glob("ros_*.py"))):
        for item in ast.walk(ast.parse((folder / name).read_text("utf-8"))):
            if isinstance(item, ast.ImportFrom) and not item.level and item.module:
                imported.add(item.module)
    foreign = {
        name
        for name in imported
        if name.split(".")[0] not in (*sys.stdlib_module_names, "tvm_vision", "numpy")
    }
    assert {name for name in foreign if not name.startswith("rclpy.")} <= set(ROS_PACKAGES)


def test_a_file_of_parameters_for_any_namespace(graph, start, tmp_path):
    path = tmp_path / "parameters.yaml"
    path.write_text("/**/vision:\n  ros__parameters:\n    model: fake\n    confidence: 1\n")
    start(ros=("--params-file", str(path), "-r", "__ns:=/robot"))
    graph.wait_for_state("active", "/robot/vision")
    assert graph.get("confidence", "/robot/vision") == 1.0


def test_two_nodes_in_one_domain(graph, start):
    from vision_msgs.msg import Detection2DArray

    start("model:=fake", SURE, ros=("-r", "__ns:=/left"))
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


def test_a_twin_that_is_seen_late_is_told_of_once() -> None:
    """It is looked for after longer and longer, until it is there."""
    from tvm_vision_ros.node import VisionNode

    own = ("vision", "/right")
    names, waits = [own], []
    told: list[str] = []
    node = SimpleNamespace(
        get_name=lambda: own[0],
        get_namespace=lambda: own[1],
        get_fully_qualified_name=lambda: "/right/vision",
        get_node_names_and_namespaces=lambda: names,
        get_logger=lambda: SimpleNamespace(warning=told.append),
        _name_check_after=2.0,
    )
    for _ in range(2):
        VisionNode._check_name(node)
        waits.append(node._name_check_due - time.monotonic())
    assert waits == [pytest.approx(4, abs=0.5), pytest.approx(8, abs=0.5)] and not told
    names.append(own)
    VisionNode._check_name(node)
    assert len(told) == 1 and "/right/vision" in told[0] and not node._name_check_due


@pytest.mark.parametrize("delay", [0.05, 0.3, 0.6, 0.9, 1.3, 2.0])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_it_cleanly_at_any_moment(start, number, delay):
    process = start("model:=slow" if delay > 1 else "model:=fake:100")
    process.wait_for("started")
    time.sleep(delay)
    assert process.end(number) == 0, process.log
    assert "Traceback" not in process.log


def test_signals_in_the_middle_of_a_frame(graph, start):
    from vision_msgs.msg import Detection2DArray

    process = start("model:=fake:300", SURE)
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
