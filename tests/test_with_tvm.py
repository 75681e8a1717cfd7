"""The backend is registered with TVM, whichever comes first; who needs no TVM imports none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.processes import run_python

IS_THERE = "; print(tvm.vulkan(0).exist, tvm_vision.vulkan.backend_in_use(), end=' ')"
ONE_HOOK = "; print([type(f).__name__ for f in sys.meta_path].count('_AfterTvm'))"


@pytest.mark.parametrize("lean", ["0", "1"])
@pytest.mark.parametrize(
    "imports",
    [
        "import tvm, tvm_vision",
        "import tvm_vision, tvm",
        "import tvm_vision; from tvm import runtime; import tvm",
        "import tvm_vision.vulkan, tvm",
        "import tvm_vision.tvm_compat.ffi, tvm",
        "import tvm_vision.runtime.graph_executor, tvm",
    ],
)
def test_the_backend_is_there_with_tvm(imports: str, lean: str) -> None:
    code = "import sys; " + imports + IS_THERE + ONE_HOOK
    done = run_python(code, TVM_USE_RUNTIME_LIB=lean)
    assert done.stdout.strip() == "True tvm_vision 0", done.stderr


def test_the_front_door_alone_imports_neither_tvm_nor_numpy() -> None:
    code = "import sys, tvm_vision; print({'tvm', 'tvm_ffi', 'numpy'} & set(sys.modules))"
    assert run_python(code).stdout.strip() == "set()"


def test_tvm_is_read_by_its_own_loader_afterwards() -> None:
    """Who looks for its source later finds TVM as it is without us."""
    code = (
        "import tvm_vision, tvm, inspect;"
        "print(type(tvm.__loader__).__name__, 'exec_module' in vars(tvm.__loader__),"
        "len(inspect.getsource(tvm)) > 100)"
    )
    assert run_python(code).stdout.strip() == "SourceFileLoader False True"


def test_as_a_module_of_python() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tvm_vision", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )  # fmt: skip
    command = Path(sys.executable).with_name("tvm-vision")
    other = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == other.stdout
