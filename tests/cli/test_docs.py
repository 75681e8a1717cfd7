"""docs/reference/commands.md is what the commands say of themselves."""

import difflib
from pathlib import Path

import click
import pytest

from support.scripts import load_script
from tvm_vision.tools.cli import main

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script():
    return load_script("scripts/commands_doc.py")


def every_command(command=main, path="tvm-vision"):
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from every_command(child, f"{path} {name}")


COMMANDS = dict(every_command())


def test_the_document_is_up_to_date(script):
    written = script.TARGET.read_text("utf-8").splitlines()
    changes = list(difflib.unified_diff(written, script.document().splitlines(), lineterm=""))
    assert not changes, "docs/reference/commands.md is older: python scripts/commands_doc.py"


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_is_documented(script, path):
    assert f"## {path}\n" in script.TARGET.read_text("utf-8")


@pytest.mark.parametrize("path", [path for path in COMMANDS if path != "tvm-vision"])
def test_every_command_has_help_for_each_option_and_an_example(path):
    command = COMMANDS[path]
    assert command.help
    assert f"{path} " in f"{command.help.partition('Example:')[2]} ".replace("\n", " ")
    for parameter in command.params:
        assert isinstance(parameter, click.Argument) or parameter.help, parameter.name


def test_the_list_of_commands_is_not_cut(script):
    listing = next(script.helps(main, "tvm-vision"))[1]
    assert "..." not in listing.partition("Commands:")[2]
