"""Shared by all tests: the validation layer watches, results are poisoned before they are written,
caches stay in a temporary folder."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Of the process that hands out the tests: its workers share what they compile, as robots' processes
# share a cache.
_IS_WORKER = "PYTEST_XDIST_WORKER" in os.environ
_CACHE = None if _IS_WORKER else tempfile.mkdtemp(prefix="tvm_vision-test-cache-")
# Before the devices are opened, which is when the native library reads them.
if _CACHE is not None:
    os.environ["TVM_VISION_CACHE_DIR"] = _CACHE
os.environ.setdefault("TVM_VISION_VULKAN_VALIDATION", "1")
# Processes that tests start import `support` as they do.
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")])
)
if _IS_WORKER:  # which share the cores
    os.environ.setdefault("TVM_NUM_THREADS", "1")
# What tests change of the compiler they change in their own process.
os.environ.setdefault("TVM_VISION_KERNEL_PROCESSES", "off")
# A package that another test made is none that this test's compiler did.
os.environ.setdefault("TVM_VISION_PACKAGE_CACHE", "off")
# xdist gives its workers the width of its own terminal, to which tables would be folded.
os.environ.pop("COLUMNS", None)
# No result may be what a kernel found in memory.
os.environ.setdefault("TVM_VISION_POISON", "on")

import pytest  # noqa: E402

import tvm_vision.vulkan as vulkan  # noqa: E402

_VALIDATION = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """In workers, too, which print no header."""
    if "VK_LAYER_KHRONOS_validation" in vulkan.status():
        os.environ["TVM_VISION_VULKAN_VALIDATION"] = "0"
        vulkan.shutdown()
        config.stash[_VALIDATION] = "OFF, the package vulkan-validationlayers is not installed"


def pytest_collection_finish(session: pytest.Session) -> None:
    """What was collected stays, thousands of tests: the garbage collector need not look at it again
    whenever it, or a test, looks for what nobody holds."""
    gc.collect()
    gc.freeze()


def pytest_report_header(config: pytest.Config) -> list[str]:
    validation = config.stash.get(_VALIDATION, os.environ["TVM_VISION_VULKAN_VALIDATION"])
    lines = [f"vulkan validation: {validation}"]
    lines += [device.describe() for device in vulkan.devices()]
    return lines if vulkan.devices() else [*lines, f"no Vulkan device: {vulkan.status()}"]


def pytest_unconfigure(config: pytest.Config) -> None:
    """After the workers have ended."""
    if _CACHE is not None:
        shutil.rmtree(_CACHE, ignore_errors=True)


@pytest.fixture(scope="session")
def device_info() -> vulkan.DeviceInfo:
    """The first Vulkan device; tests that need one cannot run without a driver."""
    found = vulkan.devices()
    if not found:
        pytest.fail(f"these tests need a Vulkan device (lavapipe will do): {vulkan.status()}")
    return found[0]


@pytest.fixture
def unpoisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks as robots run them: poison comes by copies, behind barriers of their own."""
    monkeypatch.setenv("TVM_VISION_POISON", "off")


# What makes kernels: see tvm_vision/compiler/kernels.
_MAKERS = ("compiler", "schedules", "topi", "vulkan", "package")


@pytest.fixture
def monkeypatch(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """pytest's own. What a compiler makes that a test has changed is not for other tests, which
    share the cache of kernels, nor does such a test get what they made."""
    change = monkeypatch.setattr

    def setattr_(target: Any, *arguments: Any, **options: Any) -> None:
        module = target if isinstance(target, str) else getattr(target, "__module__", None)
        name = str(module or getattr(target, "__name__", ""))
        if name.startswith(tuple(f"tvm_vision.{room}" for room in _MAKERS)):
            monkeypatch.setenv("TVM_VISION_KERNEL_CACHE", "off")
        change(target, *arguments, **options)

    monkeypatch.setattr = setattr_  # type: ignore[method-assign]
    return monkeypatch


@pytest.fixture(autouse=True)
def no_validation_messages() -> Iterator[None]:
    """Every test fails that makes the validation layer speak."""
    vulkan.validation_messages()
    yield
    assert vulkan.validation_messages() == []


class _Faults(logging.Handler):
    """Keeps what schedules say of a template that failed as none may."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if str(record.msg).startswith("schedule %s passed over"):
            self.said.append(record.getMessage())


@pytest.fixture(autouse=True)
def no_faults_of_templates(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test fails whose kernels another schedule had to make, for the one that is meant for
    them has a fault: the results are right, and slow. Those marked ``faulty_templates`` make some.
    """
    faults, logger = _Faults(), logging.getLogger("tvm_vision.schedules")
    logger.addHandler(faults)
    yield
    logger.removeHandler(faults)
    assert not faults.said or request.node.get_closest_marker("faulty_templates")
