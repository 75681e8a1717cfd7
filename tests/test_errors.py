"""The exceptions: one family, importable without anything heavy."""

import subprocess
import sys

import pytest

from tvm_vision import errors

NAMES = [
    "UnsupportedModelError",
    "UnsupportedKernelError",
    "PackageError",
    "DeviceError",
    "TuningError",
    "InputError",
]


@pytest.mark.parametrize("name", NAMES)
def test_each_is_a_tvm_vision_error(name):
    error = getattr(errors, name)
    assert issubclass(error, errors.TvmVisionError)
    with pytest.raises(errors.TvmVisionError, match="what to do"):
        raise error("needed, found, what to do")


def test_no_other_exception_is_defined():
    defined = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert defined == {*NAMES, "TvmVisionError"}


def test_errors_import_without_tvm():
    code = "import sys, tvm_vision.errors; print('tvm' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True)
    assert done.stdout.strip() == "False"
