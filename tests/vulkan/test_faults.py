"""Vulkan's calls fail, one after the other, in every way that the specification has for them.

A loader of ours (cpp/faulty_loader.cc) stands between the library and the real one. A process
lives through a network's whole life with each fault (faulty_program.py), under the validation
layer, and through a short one after it without: memory that is freed while the device works on it,
what is never freed, and work that is lost and counted on show there. ``make faults`` tries all of
them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from support import ROOT
from support.faults import MEMORY, lives, outcome, problems, write_kernel, write_network
from support.loaders import compile_loader, run_with_faults
from support.vulkan_results import RESULTS, VALUES

pytestmark = pytest.mark.usefixtures("device_info")
CSRC = ROOT / "tvm_vision" / "vulkan" / "csrc"
HEADER = CSRC / "vk_api.h"
REGISTRY = Path("/usr/share/vulkan/registry/vk.xml")
VULKAN_CORE = Path("/usr/include/vulkan/vulkan_core.h")
ORDER = list(MEMORY)


@pytest.fixture(scope="module")
def loader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The loader that fails, compiled."""
    return compile_loader("faulty_loader", tmp_path_factory.mktemp("loader"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network, an input, and its output."""
    folder = tmp_path_factory.mktemp("network")
    write_network(folder)
    write_kernel(folder)
    return folder


def assert_sound(found: list[dict[str, Any]]) -> None:
    assert [line for life in found for line in problems(life)] == []


@pytest.mark.parametrize("memory", ORDER)
def test_each_function_fails_in_each_way(folder: Path, loader: Path, memory: str) -> None:
    """One call for each way, half of them with each kind of memory."""
    found = lives(folder, loader, "sample", memory, (ORDER.index(memory), len(MEMORY)))
    assert_sound(found)
    assert len(found) > 30
    assert {outcome(life) for life in found} == {"absorbed", "error", "rebuilt"}


def test_a_loader_that_does_not_tell_its_version_is_asked_again(folder: Path, loader: Path) -> None:
    found = lives(folder, loader, "start", ORDER[0])
    assert_sound(found)
    assert [(life["failed"] > 0, outcome(life)) for life in found] == [(True, "error")]


@pytest.mark.slow
@pytest.mark.parametrize("memory", ORDER)
@pytest.mark.parametrize("which", ["calls", "lost", "hang", "tune"])
def test_every_single_call_fails(folder: Path, loader: Path, which: str, memory: str) -> None:
    assert_sound(lives(folder, loader, which, memory))


def test_who_opens_ahead_and_comes_late_leaves_the_device_closed(loader: Path) -> None:
    """On a busy machine a thread came after shutdown, and nobody closed what it opened."""
    assert run_with_faults("late_program.py", loader.parent) == [1, 0]


def _given(name: str) -> set[str]:
    """Without the suffixes that extensions had before they were promoted."""
    return {re.sub("_(KHR|EXT)$", "", code) for code in name.split(",") if code}


@pytest.mark.skipif(not REGISTRY.exists(), reason="Debian's libvulkan-dev has the registry")
def test_the_ways_to_fail_are_those_of_the_specification() -> None:
    for command in ElementTree.parse(REGISTRY).getroot().find("commands") or ():
        name = command.findtext("proto/name") or ""
        if name in RESULTS:
            codes = (command.get(kind, "") for kind in ("successcodes", "errorcodes"))
            assert set().union(*map(_given, codes)) - {"VK_SUCCESS"} == set(RESULTS[name]), name


@pytest.mark.skipif(not VULKAN_CORE.exists(), reason="Vulkan's headers are not installed")
def test_every_function_that_can_fail_does() -> None:
    """Those of the library are those of the loader, but for two of them."""
    # It has nothing but success to give; Debian 12's headers and drivers do not know it.
    left_out = {"vkResetDescriptorPool", "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"}
    core = VULKAN_CORE.read_text()
    used = set(re.findall(r"F\((vk\w+)\)", HEADER.read_text()))
    fallible = set(re.findall(r"typedef VkResult \(VKAPI_PTR \*PFN_(vk\w+)\)", core))
    assert used & fallible - left_out == set(RESULTS)
    text = (ROOT / "tests" / "vulkan" / "cpp" / "faulty_loader.cc").read_text()
    assert set(re.findall(r"F\((vk\w+)\)", text)) == set(RESULTS)
    for name, value in VALUES.items():
        assert re.search(rf"\b{name} = {value},", core), name


def test_every_function_is_looked_up_by_the_tables() -> None:
    """What is asked for by a name of its own is in no table, and so failed in no test."""
    tables = set(re.findall(r"F\((vk\w+)\)", HEADER.read_text()))
    looked_up = re.compile(r"(?:ProcAddr|dlsym)\([^;]*?\"(vk\w+)\"")
    named = {name for path in CSRC.glob("*.cc") for name in looked_up.findall(path.read_text())}
    # Later names of functions that the tables have.
    named = {name.removesuffix("KHR") + "EXT" if name.endswith("KHR") else name for name in named}
    assert named - {"vkGetInstanceProcAddr"} <= tables
