"""The commands: help with an example each, one line for an error, exit codes."""

import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from click import BadParameter
from click.testing import CliRunner

from tvm_vision.errors import DeviceError
from tvm_vision.tools.cli import main
from tvm_vision.tools.options import OutputFile
from tvm_vision.tools.other_names import COMMANDS as COMMANDS_OF_OTHERS
from tvm_vision.tools.other_names import OPTIONS as OPTIONS_OF_OTHERS

COMMANDS = sorted(main.commands)
TOOLS = Path(__file__).resolve().parents[2] / "tools"
SCRIPTS = {
    script.name: script.value
    for script in metadata.distribution("tvm_vision").entry_points
    if script.value.startswith("tvm_vision.tools")
}


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help_with_an_example(command):
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"tvm-vision {command}" in result.output.partition("Example:")[2]


def commands(group):
    """Those of a group, and of the groups in it."""
    for command in group.commands.values():
        yield command
        yield from commands(command) if hasattr(command, "commands") else ()


def test_each_command_has_quiet_and_verbose():
    for command in [main, *commands(main)]:
        options = {option for param in command.params for option in param.opts}
        assert {"-q", "--quiet", "-v", "--verbose"} <= options, command.name


def test_a_file_to_write_has_an_ending_that_says_what_it_is(tmp_path):
    """Else a page called x.pdf would be HTML. What may also be a folder is checked elsewhere, and
    records are read by their content."""
    either = {"show --output", "merge --output", "prune --output"}
    endings = {}
    for command in commands(main):
        for param in command.params:
            name = f"{command.name} {param.opts[0]}"
            text = f"{param.metavar or ''} {getattr(param, 'help', '') or ''}"
            if isinstance(param.type, OutputFile):
                endings[name] = param.type.endings
                path = tmp_path / f"x{param.type.endings[-1].upper()}"
                assert param.type.convert(str(path), param, None) == path
                with pytest.raises(BadParameter, match=r"a file that ends in .* is needed, found"):
                    param.type.convert(str(tmp_path / "x.odd"), param, None)
            elif re.match(r"FILE(?!\|)|.*\bFile to write", text):
                either.remove(name)
    assert not either and endings["evaluate --html"] == (".html", ".htm")
    assert len(endings) == 13


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
        "doctor",
        "evaluate",
        "inspect",
        "package",
        "profile",
        "quantize",
        "records",
        "replay",
        "rpc-server",
        "run",
        "show",
        "sign",
        "tune",
        "verify",
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


# Of what takes longer to import than a command's help may: all but click and what Python has.
HEAVY = ("cv2", "matplotlib", "numpy", "onnx", "onnxruntime", "rich", "tvm", "tvm_ffi", "yaml")
ASK_ALL = """
import json, sys
from click.testing import CliRunner
from tvm_vision.tools.cli import main
found = {}
for arguments in json.loads(sys.argv[1]):
    done = CliRunner().invoke(main, arguments)
    found[" ".join(arguments)] = [done.exit_code, *(m for m in sys.argv[2:] if m in sys.modules)]
print(json.dumps(found))
"""


def test_help_and_version_import_nothing_that_takes_long():
    """One process for all: what the first of them imports stays, and is found."""
    asked = [["--help"], ["--version"], ["-h"], *([name, "--help"] for name in COMMANDS)]
    done = subprocess.run(
        [sys.executable, "-c", ASK_ALL, json.dumps(asked), *HEAVY],
        text=True, capture_output=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == {" ".join(arguments): [0] for arguments in asked}


@pytest.mark.parametrize("name", [c for c in SCRIPTS if c != "tvm-vision"])
def test_commands_of_their_own_import_as_little(name):
    """Those that are installed beside tvm-vision, too."""
    module, _, command = SCRIPTS[name].partition(":")
    code = (
        f"import sys; from {module} import {command} as c\n"
        "try: c(['--help'])\n"
        f"except SystemExit: print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_version():
    from tvm_vision import __version__

    assert run("--version").output == f"tvm-vision, version {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["predict", "source=0"], "no such command 'predict': use detect"),
        (["val"], "no such command 'val': use evaluate"),
        (["detect", "p.tar", "x.png", "--conf", "0.5"], "option '--conf': use --confidence"),
        (["detect", "p.tar", "x.png", "--imgsz", "640"], "'--imgsz': use compile --input-shape"),
        (["track", "p.tar"], "'track': use detect --track"),
        (["detect", "model=p.tar", "source=0"], "'model=p.tar': use the package as first argument"),
        (["detect", "p.tar", "source=0"], "no such argument 'source=0': use --source 0"),
        (["detect", "p.tar", "0", "save=True"], "no such argument 'save=True': use --save FOLDER"),
        (["detect", "p.tar", "0", "show=True"], "no such argument 'show=True': use --show\n"),
        (["detect", "p.tar", "0", "--save"], "option '--save' needs a value: FOLDER"),
        (
            ["detect", "p.tar", "0", "--device", "cuda:1"],
            "use vulkan, and TVM_VISION_VULKAN_DEVICE=1",
        ),
        (["compile", "m", "-o", "p", "--precision", "int8"], "'tvm-vision quantize' first"),
    ],
)
def test_names_of_other_programs_say_what_does_it_here(arguments, words):
    result = run(*arguments)
    assert result.exit_code == 2
    assert words in result.output


def test_what_is_unknown_everywhere_is_said_as_ever():
    assert "No such command 'fly'" in run("fly").output
    assert "No such option" in run("detect", "--fly").output


def test_what_those_lines_name_is_there():
    for other, words in COMMANDS_OF_OTHERS.items():
        assert other not in COMMANDS
        first = words.replace(",", " ").split()[0]
        assert first in COMMANDS or run(first).exit_code == 0, words
    options = {o for c in main.commands.values() for p in c.params for o in p.opts}
    for name, words in OPTIONS_OF_OTHERS.items():
        assert all(f"--{word}" in options for word in re.findall(r"--([a-z-]+)", words)), words
        assert name not in {o for p in main.commands["detect"].params for o in p.opts}


def test_what_stands_beside_results_can_be_left_out():
    """Lines on standard error are notes, which --quiet leaves out, a warning of danger, or what
    the command fails for at its end."""
    texts = {path.name: path.read_text("utf-8") for path in TOOLS.glob("*.py")}
    found = {name for name, text in texts.items() if re.search(r"\berr=True", text)}
    assert found == {"verbosity.py", "rpc_server.py", "sources.py"}


def test_each_line_of_a_list_of_commands_is_whole_in_80_columns():
    for words in ([], ["records"], ["package"]):
        text = CliRunner().invoke(main, [*words, "--help"], terminal_width=80).output
        listed = text.split("Commands:")[1].splitlines()
        assert not [line for line in listed if line.endswith("...")]
