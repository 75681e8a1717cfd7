"""TVM is imported sooner than by itself, and is the same then."""

from __future__ import annotations

import pytest

from support.processes import run_python

# The backend, which comes with TVM, has operators of its own.
ALONE = """
import sys
import tvm_vision
from tvm_vision.tvm_compat.quick_import import quickly_imported
sys.meta_path[:] = [f for f in sys.meta_path if type(f).__name__ != "_AfterTvm"]
"""
QUICKLY = ALONE + "with quickly_imported(): import tvm\n"
PLAINLY = ALONE + "import tvm\n"
WHAT_THERE_IS = """
import tvm_ffi
api = sys.modules["tvm.ir._ffi_api"]
for name in sorted(map(str, api.ListOpNames())):
    print(name, api.OpGetAttr(api.GetOp(name), "TScriptPrinterName"))
for name in sorted(sys.modules):
    if name.startswith("tvm") and name.endswith("_ffi_api"):
        print(name, sorted(vars(sys.modules[name])))
for name in sorted(tvm_ffi.registry.get_registered_type_keys()):
    print(name, tvm_ffi.core._object_type_key_to_index(name))
print(sorted(tvm_ffi.registry.list_global_func_names()))
calls = (api.GetOp, api.RegisterOp, api.RegisterOpAttr, tvm_ffi.core._object_type_key_to_index,
         tvm_ffi.init_ffi_api, tvm_ffi.registry.list_global_func_names)
print([(type(call).__name__, getattr(call, "__module__", "")) for call in calls])
"""
# Of C++, which come with a trace: of the first one a third of the import.
ERRORS = """
count = 0
def see(frame, event, argument):
    global count
    count += event == "exception" and hasattr(argument[1], "__tvm_ffi_error__")
    return see
sys.settrace(see)
"""


def test_what_there_is_is_the_same() -> None:
    quickly, plainly = (run_python(way + WHAT_THERE_IS).stdout for way in (QUICKLY, PLAINLY))
    assert "tirx.exp exp" in plainly
    assert quickly == plainly


# A look at where TVM is leaves its import quick, as that of ``compile`` for a package made before.
LOOK = "from importlib.util import find_spec; find_spec('tvm')\n"


@pytest.mark.parametrize("look", ["", LOOK])
@pytest.mark.parametrize("first", ["tvm", "tvm_vision.tvm_compat.ffi, tvm"])
@pytest.mark.parametrize("lean", ["0", "1"])
def test_whoever_comes_in_by_the_front_door_imports_it_quickly(
    lean: str, first: str, look: str
) -> None:
    ours = f"import sys, tvm_vision{ERRORS}{look}import {first}\nprint(count)"
    done = run_python(ours, TVM_USE_RUNTIME_LIB=lean)
    assert done.stdout.strip() == "0", done.stderr


def test_by_itself_it_meets_a_hundred_errors() -> None:
    """Where there are none any more, what avoids them can go."""
    done = run_python(ALONE + ERRORS + "import tvm\nprint(count)")
    assert int(done.stdout) > 100
