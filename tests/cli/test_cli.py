"""The commands: help with an example each, one line for an error, exit codes."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from tvm_vision.errors import DeviceError
from tvm_vision.tools.cli import main

COMMANDS = sorted(main.commands)


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help_with_an_example(command):
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"tvm-vision {command}" in result.output.partition("Example:")[2]


def test_the_commands():
    assert COMMANDS == [
        "bag",
        "benchmark",
        "calibrate",
        "check",
        "classifier-to-onnx",
        "classify",
        "compile",
        "demo",
        "demo-classifier",
        "detect",
        "devices",
        "inspect",
        "package",
        "profile",
        "quantize",
        "records",
        "replay",
        "rpc-server",
        "run",
        "tune",
        "yoeo-onnx-to-tvm",
        "yoeo-to-onnx",
    ]


def test_an_error_is_one_line_and_exit_code_1(tmp_path):
    missing = tmp_path / "none.png"
    result = run("demo-classifier", missing, "--device", "cpu")
    assert result.exit_code == 1
    assert result.output.startswith(f"Error: an image is needed, and '{missing}' is not there")
    assert result.output.count("\n") == 1


def test_a_usage_error_is_exit_code_2():
    assert run("demo-classifier", "--device", "toaster").exit_code == 2


def test_devices_without_vulkan(monkeypatch):
    from tvm_vision import vulkan

    def none():
        raise DeviceError("the Vulkan loader was not found: apt install libvulkan1")

    monkeypatch.setattr(vulkan, "devices", none)
    result = run("devices")
    assert result.exit_code == 1
    assert "Error: the Vulkan loader was not found: apt install libvulkan1\n" == result.output


def test_help_imports_neither_opencv_nor_onnx():
    code = (
        "import sys; from tvm_vision.tools.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: print('cv2' in sys.modules, 'onnx' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True)
    assert done.stdout.splitlines()[-1] == "False False"


def test_version():
    from tvm_vision import __version__

    assert run("--version").output == f"tvm-vision, version {__version__}\n"
