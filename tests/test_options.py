"""CompileOptions: one value from arguments, text and the environment, checked everywhere."""

from __future__ import annotations

import dataclasses
import os
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tvm_vision.errors import InputError
from tvm_vision.options import CompileOptions, variable_of
from tvm_vision.tools.cli import main

NAMES = [field.name for field in dataclasses.fields(CompileOptions)]


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(variable_of(name), raising=False)


def test_what_is_given_counts_then_the_environment_then_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert CompileOptions.of() == CompileOptions()
    monkeypatch.setenv("TVM_VISION_WINOGRAD", "2")
    monkeypatch.setenv("TVM_VISION_SPLIT_K", "0")
    monkeypatch.setenv("TVM_VISION_HALO", "")
    found = CompileOptions.of({"layout": "nhwc"}, winograd="off", precision=None)
    assert found == CompileOptions(layout="nhwc", winograd="off", split_k=False)
    # A value stands for itself, whatever the environment says by then.
    assert CompileOptions.of(found, opt_level=1) == dataclasses.replace(found, opt_level=1)
    assert CompileOptions() == CompileOptions.from_json(CompileOptions().to_json())


@pytest.mark.parametrize("name", NAMES)
def test_every_option_takes_its_values_and_no_other(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values, default = CompileOptions.values_of(name)
    assert default in values and getattr(CompileOptions(), name) == default
    for value in values:
        made = CompileOptions.of({name: value})
        assert getattr(made, name) == value
        text = "on" if value is True else "off" if value is False else str(value)
        assert CompileOptions.parse(f"{name}={text}") == (name, value)
        assert CompileOptions.parse(f"{name.replace('_', '-')} = {text.upper()}") == (name, value)
        monkeypatch.setenv(variable_of(name), text)
        assert CompileOptions.of() == made
        assert made.changed() == ({} if value == default else {name: text})
    others: list[Any] = ["no such", 17, None, 3.5, [], True if default is not True else 2]
    for wrong in others:
        if wrong in values or wrong is None:
            continue
        with pytest.raises(InputError, match=f"^option {name} must be .* or .*, found "):
            CompileOptions(**{name: wrong})
    monkeypatch.setenv(variable_of(name), "perhaps")
    message = f"^{variable_of(name)} must be .*, found 'perhaps': unset it for the default$"
    with pytest.raises(InputError, match=message):
        CompileOptions.of()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"options": {"rim": "off"}}, "options are needed, found 'rim': there are opt_level, "),
        ({"winograd": "2", "options": {"winograd": "4"}}, "given once, found winograd twice"),
    ],
)
def test_options_that_cannot_be(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        CompileOptions.of(**given)


def test_options_of_another_version() -> None:
    values = CompileOptions().to_json()
    with pytest.raises(InputError, match="another about 'rim'"):
        CompileOptions.from_json({**values, "rim": True})
    del values["halo"]
    with pytest.raises(InputError, match="another about 'halo'"):
        CompileOptions.from_json(values)


@pytest.mark.parametrize("command", ["compile", "tune", "yoeo-onnx-to-tvm"])
def test_commands_list_and_refuse_options(command: str) -> None:
    runner = CliRunner()
    listed = runner.invoke(main, [command, "--help-options"])
    assert listed.exit_code == 0
    for name in NAMES:
        assert re.search(rf"^{name}: .*\[default: ", listed.output, re.MULTILINE)
    for written, message in (
        ("rim=off", "an option as NAME=VALUE is needed, found 'rim=off': there are opt_level, "),
        ("winogard=off", "found 'winogard=off': did you mean 'winograd'?"),
        ("halo", "an option as NAME=VALUE is needed, found 'halo': add = and on or off"),
        ("halo=perhaps", "option halo must be on or off, found 'perhaps'"),
    ):
        file = "--records" if command == "tune" else "--output"
        refused = runner.invoke(main, [command, "model.onnx", file, "x", "--option", written])
        assert refused.exit_code == 2 and message in " ".join(refused.output.split())


def test_no_other_code_reads_these_variables() -> None:
    root = Path(__file__).parents[1]
    for file in [*root.glob("tvm_vision/**/*.py"), *root.glob("tools/**/*.py")]:
        if file.name != "options.py":
            found = {v for v in map(variable_of, NAMES) if f'"{v}"' in file.read_text("utf-8")}
            assert not found, f"{file} names {found}"
    assert not {variable_of(name) for name in NAMES} & set(os.environ)
