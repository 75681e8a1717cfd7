"""With TVM's runtime library alone: neither its Python nor PyTorch is imported, all else works."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from onnx import TensorProto, helper

import tvm_vision
from tvm_vision.tvm_compat import ffi

X = np.array([[1.0, -2.0, 3.0, -4.0]], "float32")


@pytest.fixture(scope="module", params=["vulkan", "llvm"])
def package(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """y = relu(x), and which of it are positive."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("Relu", ["x"], ["y"]),
            helper.make_node("Greater", ["x", "zero"], ["positive"]),
            helper.make_node("TopK", ["y", "one"], ["best", "place"], axis=1),
        ],
        "g",
        [value("x", TensorProto.FLOAT, X.shape)],
        [
            value("y", TensorProto.FLOAT, X.shape),
            value("positive", TensorProto.BOOL, X.shape),
            value("place", TensorProto.INT64, (1, 1)),
        ],
        [
            helper.make_tensor("zero", TensorProto.FLOAT, (), [0.0]),
            helper.make_tensor("one", TensorProto.INT64, (1,), [1]),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path = tmp_path_factory.mktemp("package") / f"{request.param}.tar"
    return Path(tvm_vision.compile(model, path, target=request.param))


def run(code: str, *arguments: object, folder: Path | None = None, **variables: str) -> str:
    environment = {**os.environ, "TVM_USE_RUNTIME_LIB": "1", **variables}
    if folder is not None:
        path = [str(folder), environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(path)
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=environment,
        text=True,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


FRAME = """
import sys, numpy as np, tvm_vision
executor = tvm_vision.load(sys.argv[1])
x = np.array([[1.0, -2.0, 3.0, -4.0]], "float32")
x.flags.writeable = False
executor.set_input(0, x)
executor.run()
def results():
    kept = executor.outputs()
    copied = [executor.get_output(i).numpy() for i in range(3)]
    for one, other in zip(kept.values(), copied, strict=True):
        assert one.dtype == other.dtype and np.array_equal(one, other)
    return [array.tolist() for array in copied]
print(results())
"""
RESULTS = "[[[1.0, 0.0, 3.0, 0.0]], [[True, False, True, False]], [[2]]]"


def test_tvm_is_not_imported(package: Path) -> None:
    code = FRAME + "print([name for name in ('tvm', 'torch') if name in sys.modules])"
    assert run(code, package).splitlines() == [RESULTS, "[]"]


def test_the_device_opens_while_python_imports(package: Path) -> None:
    """Whatever takes long to import comes after the device has begun to open."""
    code = """
import sys
from tvm_vision import side_threads
begun = []
slow = {
    "tvm_vision_vulkan_open": {"tvm", "tvm_ffi", "numpy", "tvm_vision.package.info", "tarfile"},
    "import_executor": {"tvm", "tvm_ffi", "numpy", "cv2"},
}
meanwhile = side_threads.meanwhile
def watched(work, *arguments, **options):
    name = work.__name__
    if name in slow:
        begun.append([name, *(slow[name] & set(sys.modules))])
    return meanwhile(work, *arguments, **options)
side_threads.meanwhile = watched
import tvm_vision
from tvm_vision.models import load_model
try:
    load_model(sys.argv[1])
except tvm_vision.errors.InputError as error:
    print(begun, "is of kind network" in str(error))
"""
    first = ["tvm_vision_vulkan_open"] if package.stem == "vulkan" else []
    begun = [[name] for name in (*first, "import_executor")]
    assert run(code, package) == f"{begun} True"


def test_the_backend_is_there_for_tvm(package: Path) -> None:
    code = "import tvm_vision, tvm; print(tvm.vulkan(0).exist, tvm_vision.vulkan.backend_in_use())"
    assert run(code) == "True tvm_vision"


def test_a_device_that_does_not_open_is_told_to_who_needs_it(package: Path) -> None:
    code = """
import sys, tvm_vision
try:
    tvm_vision.load(sys.argv[1])
except tvm_vision.errors.DeviceError as error:
    print(error)
"""
    told = run(code, package, TVM_VISION_VULKAN_DEVICE="7")
    assert ("TVM_VISION_VULKAN_DEVICE" in told) == (package.stem == "vulkan")


def test_tvm_can_be_imported_before_and_after(package: Path) -> None:
    used = """
import tvm
device = executor.device
assert tvm.device(device.type, device.index).exist
there = tvm.runtime.tensor(x, device=tvm.device(device.type, 0))
executor.set_input(0, there)
executor.run()
print(results(), type(executor.get_output(0)).__module__)
"""
    expected = [RESULTS, f"{RESULTS} tvm.runtime._tensor"]
    assert run(FRAME + used, package).splitlines() == expected
    assert run("import tvm\n" + FRAME + used, package).splitlines() == expected


def test_pytorch_is_not_imported_where_it_is_installed(package: Path, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise SystemExit('PyTorch was imported')\n")
    assert run(FRAME, package, folder=tmp_path) == RESULTS
    # It can be, afterwards.
    (tmp_path / "torch.py").write_text("print('imported')\n")
    assert run(FRAME + "import torch", package, folder=tmp_path) == f"{RESULTS}\nimported"


def test_pytorch_is_hidden_from_one_thread_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch.py").write_text("")
    (tmp_path / "wants_torch.py").write_text(
        "import sys, threading\n"
        "found = []\n"
        "def look():\n"
        "    try:\n"
        "        import torch\n"
        "        found.append(True)\n"
        "    except ImportError:\n"
        "        found.append(False)\n"
        "    sys.modules.pop('torch', None)\n"
        "look()\n"
        "from test_lean_runtime import elsewhere\n"
        "elsewhere(look)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setitem(sys.modules, "test_lean_runtime", sys.modules[__name__])
    hooks = list(sys.meta_path)
    ffi._import_without_torch("wants_torch")
    assert sys.modules.pop("wants_torch").found == [False, True]
    assert sys.meta_path == hooks


def elsewhere(call) -> None:
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


@pytest.mark.parametrize("variables", [{"TVM_USE_RUNTIME_LIB": ""}, {"TVM_LIBRARY_PATH": "/tmp"}])
def test_tvm_is_imported_where_its_library_alone_will_not_do(variables: Any) -> None:
    code = "import sys, tvm_vision.vulkan; print('tvm' in sys.modules)"
    assert run(code, **variables) == "True"


def test_weights_are_read_as_tvm_reads_them(package: Path) -> None:
    from tvm_vision.package import read_package
    from tvm_vision.runtime.loader import _weights

    with read_package(package) as read:
        expected = tvm.runtime.load_param_dict(read.params[:])
        found = _weights(read)
        assert isinstance(found, dict)
        assert sorted(found) == sorted(map(str, expected))
        for name, value in expected.items():
            np.testing.assert_array_equal(found[str(name)], value.numpy())
