"""A graph of its own for each module of tests: one node process, shared by its tests."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
from collections.abc import Iterator
from typing import Any

import pytest

from support.ros.domains import free_domain

NEEDED = (
    "rclpy",
    "sensor_msgs",
    "std_srvs",
    "diagnostic_msgs",
    "lifecycle_msgs",
    "vision_msgs",
    "soccer_vision_2d_msgs",
)


def missing() -> str:
    """Why there is no ROS graph here, "" where there is one."""
    absent = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if not absent:
        return ""
    how = "run make ros"
    if platform.machine() != "x86_64":
        how = f"PyPI has them for x86_64 only, this is {platform.machine()}: source ROS instead"
    return f"needs {', '.join(absent)}: {how}"


@pytest.fixture(scope="session")
def ros() -> Iterator[None]:
    """Skips where ROS's packages are not installed; else a domain that nobody else uses."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    domain, claim = free_domain()
    os.environ["ROS_DOMAIN_ID"] = str(domain)
    from tvm_vision_ros.main import prepare_environment

    with whole_tvm():
        prepare_environment()
    yield
    claim.close()


@pytest.fixture(autouse=True)
def _whole_tvm_for_others() -> Iterator[None]:
    with whole_tvm():
        yield


@contextlib.contextmanager
def whole_tvm() -> Iterator[None]:
    """The node asks for TVM's runtime alone; the processes of other tests need its compiler."""
    before = os.environ.get("TVM_USE_RUNTIME_LIB")
    yield
    if before is None:
        os.environ.pop("TVM_USE_RUNTIME_LIB", None)


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The path of a file by the name that tells fakes.py what to be."""
    folder = tmp_path_factory.mktemp("models")

    def path(name: str) -> str:
        (folder / name).touch()
        return str(folder / name)

    return path


@pytest.fixture(scope="module")
def graph(ros: None) -> Iterator[Any]:
    """This process's side of the graph."""
    from support.ros.graph import Graph

    made = Graph()
    yield made
    made.close()


@pytest.fixture
def start(graph: Any) -> Iterator[Any]:
    """Starts node processes; what still runs at the end is ended, and must end cleanly."""
    from support.ros.graph import Process

    processes = []

    def run(*arguments: str, **more: Any) -> Any:
        process = Process(*arguments, **more)
        processes.append(process)
        return process

    yield run
    codes = []
    for process in processes:
        try:
            if process.popen.poll() is None:
                codes.append(process.end())
        finally:
            # Whatever happened: the next test must not meet it.
            process.kill()
    assert not any(codes), "\n".join(process.log for process in processes)
