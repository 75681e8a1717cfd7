"""The environment: who reads it, and that a wrong value is one line wherever it counts."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tvm_vision.vulkan as vulkan
from tvm_vision import environment
from tvm_vision.errors import InputError
from tvm_vision.options import CompileOptions, variable_of

ROOT = Path(__file__).resolve().parents[1]
# What touches os.environ, and why. Options of devices come by vulkan.device_options().
OFFLINE = ("drivers", "intel", "pipelines", "unpacked")
READERS = {
    "tvm_vision/options.py": "the options of the compiler",
    "tvm_vision/environment.py": "what has to be known before the native library is there",
    "tvm_vision/whole_files.py": "where temporary files are",
    "tools/table.py": "whether there is a width to keep to",
    "tvm_vision/doctor/finding.py": "the surroundings that are looked at",
    "tvm_vision/runtime/sources.py": "what FFmpeg is to say, which has no other switch",
    "tvm_vision/runtime/window.py": "whether there is a screen",
    "tvm_vision/child_processes.py": "what a child process gets",
    "tvm_vision/tuning/worker.py": "a child process sets its own",
    **dict.fromkeys(
        [f"tvm_vision/offline/{name}.py" for name in OFFLINE],
        "folders of the user's, and what a child process gets",
    ),
    "tools/device_report.py": "shows which of ours are set",
    "ros2_node/dds_profile.py": "ROS's variables",
    "ros2_node/main.py": "ROS's variables and systemd's; it asks for TVM's runtime alone",
}
# Names and folders may be anything; all others have values.
NAMES = {
    "TVM_VISION_VULKAN_DEVICE",
    "TVM_VISION_VULKAN_LOADER",
    "TVM_VISION_CACHE_DIR",
    "TVM_VISION_DUMP_SHADERS",
}
CHECKED = [name for name, *_ in vulkan.describe_options() if name not in NAMES]
WRONG = "neither"


def test_only_these_files_touch_the_environment() -> None:
    found = set()
    for folder in ("tvm_vision", "tools", "ros2_node"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv"):
                    found.add(str(path.relative_to(ROOT)))
    assert found == set(READERS)


def test_one_file_of_the_native_library_reads_the_environment() -> None:
    found = {
        path.name
        for path in (ROOT / "tvm_vision").glob("*/csrc/**/*.[ch]*")
        if re.search(r"\b(secure_)?getenv\b|\benviron\b", path.read_text("utf-8"))
    }
    assert found == {"device_options.cc"}


def test_no_variable_is_in_both_tables() -> None:
    options = {variable_of(name) for name, *_ in CompileOptions.describe()}
    assert not options & {name for name, *_ in vulkan.describe_options()}


def test_the_options_are_all_that_are_described() -> None:
    assert set(vulkan.device_options()) == {name for name, *_ in vulkan.describe_options()}


def test_what_is_set_is_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    name = os.fsdecode(b"/tmp/\xff")
    monkeypatch.setenv("TVM_VISION_CACHE_DIR", name)
    monkeypatch.setenv("TVM_VISION_VULKAN_POLL_US", "200")
    found = vulkan.device_options()
    assert found["TVM_VISION_CACHE_DIR"] == name
    assert found["TVM_VISION_VULKAN_POLL_US"] == "200"


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"HOME": ""},
        {"HOME": "/home/ann"},
        {"XDG_CACHE_HOME": "/caches", "HOME": "/home/ann"},
        {"XDG_CACHE_HOME": "", "HOME": os.fsdecode(b"/home/\xff")},
        {"TVM_VISION_CACHE_DIR": "", "HOME": "/home/ann"},
        {"TVM_VISION_CACHE_DIR": "mine", "XDG_CACHE_HOME": "/caches"},
    ],
)
def test_the_cache_is_where_the_native_library_has_it(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TVM_VISION_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert environment.cache_folder() == vulkan.device_options()["TVM_VISION_CACHE_DIR"]


@pytest.mark.parametrize("variable", CHECKED)
def test_a_wrong_value_is_an_input_error(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, WRONG)
    with pytest.raises(InputError, match=f'^{variable} must be .*, found "{WRONG}"; unset it'):
        vulkan.device_options()


@pytest.mark.parametrize("variable", CHECKED)
def test_a_command_says_it_in_one_line(variable: str) -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("tvm-vision"), "devices"],
        env={**os.environ, variable: WRONG},
        text=True,
        capture_output=True,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.fullmatch(f'Error: {variable} must be .*, found "{WRONG}"; .*\n', done.stderr)


AUTO = """
import tvm_vision.vulkan as v
from tvm_vision.errors import InputError
from tvm_vision.runtime.device import choose_device
for ask in (v.devices, v.status, choose_device, lambda: v.memory_in_use(0)):
    try:
        print(ask())
    except InputError as error:
        print(error)
v.shutdown()
"""


def test_no_device_is_used_or_passed_over_with_a_wrong_value() -> None:
    """Above all "auto" is not the processor then."""
    done = subprocess.run(
        [sys.executable, "-c", AUTO],
        env={**os.environ, "TVM_VISION_VULKAN_MEMORY": "mine"},
        text=True,
        capture_output=True,
    )
    line = (
        'TVM_VISION_VULKAN_MEMORY must be auto or separate, found "mine"; unset it for the default'
    )
    assert done.stdout.splitlines() == [line] * 4, done.stderr


def test_tvms_own_vulkan_that_is_not_there() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("tvm-vision"), "devices"],
        env={**os.environ, "TVM_VISION_VULKAN_BACKEND": "tvm"},
        text=True,
        capture_output=True,
    )
    assert done.returncode == 1
    assert re.fullmatch("Error: TVM's own Vulkan was asked for .* unset the var.*\n", done.stderr)
