"""The exceptions: one family, importable without anything heavy."""

import ast
import inspect

import pytest

from tvm_vision import errors

NAMES = [
    "UnsupportedModelError",
    "UnsupportedKernelError",
    "SharedMemoryError",
    "PackageError",
    "DeviceError",
    "DeviceLostError",
    "TuningError",
    "InputError",
]


@pytest.mark.parametrize("name", NAMES)
def test_each_is_a_tvm_vision_error(name):
    error = getattr(errors, name)
    assert issubclass(error, errors.TvmVisionError)
    with pytest.raises(errors.TvmVisionError, match="what to do"):
        raise error("needed, found, what to do")


def test_kernels_are_refused_with_the_error_that_tvm_raises():
    assert issubclass(errors.UnsupportedKernelError, RuntimeError)


def test_no_other_exception_is_defined():
    defined = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert defined == {*NAMES, "TvmVisionError"}


def test_the_module_is_a_leaf():
    tree = ast.parse(inspect.getsource(errors))
    assert not [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]


@pytest.mark.parametrize("name", ["a\nb", "a\r\u2028b", "a\x1b[2Jb", "a\ud800b", "a\0b"])
def test_a_message_is_a_line_whatever_a_file_calls_things(name: str) -> None:
    text = str(errors.TvmVisionError(f"'{name}' is none"))
    assert text.isprintable() and text.startswith("'a\\") and text.encode()
