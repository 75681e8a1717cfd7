"""The backend is registered with TVM, whichever comes first; who needs no TVM imports none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.processes import run_python

IS_THERE = "; print(tvm.vulkan(0).exist, tvm_vision.vulkan.backend_in_use(), end=' ')"
ONE_HOOK = "; print([type(f).__name__ for f in sys.meta_path].count('_AfterTvm'))"


FIRST = (
    "import tvm, tvm_vision",
    "import tvm_vision, tvm",
    "import tvm_vision.tvm_compat.ffi, tvm",
    "import tvm_vision.vulkan, tvm",
    "import tvm_vision; from tvm import runtime; import tvm",
    "import tvm_vision; from importlib.util import find_spec; find_spec('tvm'); import tvm",
    "import tvm_vision.runtime.graph_executor, tvm",
)
# Each is a process that imports TVM: these show each way in once, a full run takes all.
USUAL = {(FIRST[1], "0"), (FIRST[2], "0"), (FIRST[2], "1"), (FIRST[5], "0")}
CASES = [
    pytest.param(imports, lean, marks=() if (imports, lean) in USUAL else pytest.mark.slow)
    for imports in FIRST
    for lean in ("0", "1")
]


@pytest.mark.parametrize(("imports", "lean"), CASES)
def test_the_backend_is_there_with_tvm(imports: str, lean: str) -> None:
    """And TVM is read by its own loader, as if we had not been there."""
    own = "; print(type(tvm.__loader__).__name__, 'exec_module' in vars(tvm.__loader__), end=' ')"
    done = run_python(
        "import sys; " + imports + IS_THERE + own + ONE_HOOK, TVM_USE_RUNTIME_LIB=lean
    )
    assert done.stdout.strip() == "True tvm_vision SourceFileLoader False 0", done.stderr


def test_the_front_door_alone_imports_neither_tvm_nor_numpy() -> None:
    code = "import sys, tvm_vision; print({'tvm', 'tvm_ffi', 'numpy'} & set(sys.modules))"
    assert run_python(code).stdout.strip() == "set()"


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
