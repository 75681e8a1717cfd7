"""One package, made once, and the command as a function."""

import pytest
from click.testing import CliRunner

from support import handmade
from tvm_vision.tools.cli import main


@pytest.fixture(scope="session")
def tiny_package(tmp_path_factory):
    """A package for the CPU; nobody writes to it."""
    return handmade.write_package_file(tmp_path_factory.mktemp("tiny_package") / "tiny.tar")


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """The ONNX file of the same network."""
    return handmade.write_model(tmp_path_factory.mktemp("model") / "tiny.onnx")


@pytest.fixture
def command():
    """Runs ``tvm-vision`` with arguments; the result has exit_code, stdout and stderr."""
    return lambda *arguments: CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def refuses(command):
    """Runs a command that must fail with exit code 1; returns its one line."""

    def run(*arguments):
        result = command(*arguments)
        assert result.exit_code == 1, result.output
        assert isinstance(result.exception, SystemExit), result.exception
        lines = [
            line
            for line in result.stderr.splitlines()
            if not line.startswith(("device: ", "target: "))
        ]
        assert len(lines) == 1, result.output
        return lines[0]

    return run
