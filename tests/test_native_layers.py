"""Which file of the native library may include which: one list, from the bottom up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "tvm_vision"
SOURCES = sorted(path for path in PACKAGE.glob("*/csrc/*.[ch]*"))
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)

# A file includes files of its own row and of rows above it. What stands in the first two rows of
# the backend decides, and has no handle of Vulkan's; all else acts.
LAYERS = [
    "vulkan: cache_file device_options error folder_names frame_wait hazard_tracker kernel_code "
    "launch_log module_format range_allocator refusals shader_types spirv_reader wait_limit",
    "vulkan: device_features device_plan driver_search kernel_needs mesa_cache vk_api",
    "vulkan: device_handle device_snapshot instance",
    "vulkan: device device_list device_memory memory pipeline stream",
    "vulkan: buffer_registry capture device_api device_info module process_end",
    "runtime: cpu_denormals cpu_threads graph_cpu graph_executor graph_launches graph_runner "
    "graph_spec graph_vulkan one_user",
]
# The executor knows of the backend how errors, options, launches and limits are told; one file
# knows the device.
KNOWS_THE_DEVICE = "graph_vulkan"
TOLD_TO_ALL = {"error", "device_options", "launch_log", "refusals", "wait_limit"}


def _rows() -> dict[str, int]:
    rows = {}
    for number, row in enumerate(LAYERS):
        room, _, stems = row.partition(": ")
        rows.update({f"{room}/{stem}": number for stem in stems.split()})
    return rows


ROWS = _rows()


def _name(path: Path) -> str:
    return f"{path.parents[1].name}/{path.stem}"


def _included(path: Path) -> list[str]:
    """The files of ours that a file includes, each as room/stem; wrong ones as they are written."""
    names = []
    for written in INCLUDE.findall(path.read_text()):
        beside = path.parent / written
        found = beside if beside.exists() else PACKAGE / written
        names.append(_name(found) if found.exists() else written)
    return names


def test_every_file_has_a_layer() -> None:
    assert {_name(path) for path in SOURCES} == set(ROWS)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: f"{path.parents[1].name}/{path.name}")
def test_what_a_file_includes(path: Path) -> None:
    upward = [name for name in _included(path) if ROWS.get(name, len(LAYERS)) > ROWS[_name(path)]]
    assert not upward, f"{path.name} includes what stands on it: {upward}"


def test_one_file_of_the_executor_knows_the_device() -> None:
    for path in SOURCES:
        known = {name for name in _included(path) if name.startswith("vulkan/")}
        if _name(path).startswith("runtime/") and path.stem != KNOWS_THE_DEVICE:
            assert known <= {f"vulkan/{stem}" for stem in TOLD_TO_ALL}, path.name
