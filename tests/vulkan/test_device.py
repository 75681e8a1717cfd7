"""Devices, targets, memory and copies through TVM's own interfaces."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm.target import Target

import tvm_vision.vulkan as vulkan
from support.processes import run_python
from tvm_vision.errors import DeviceError, InputError, TvmVisionError, UnsupportedKernelError

pytestmark = pytest.mark.usefixtures("device_info")


def test_device_attributes(device_info: vulkan.DeviceInfo) -> None:
    dev = tvm.vulkan(0)
    assert dev.exist
    assert not tvm.vulkan(len(vulkan.devices())).exist
    assert dev.device_name == device_info.name
    assert dev.warp_size == device_info.thread_warp_size >= 1
    assert dev.max_threads_per_block == device_info.max_threads_per_block >= 128
    assert dev.max_shared_memory_per_block >= 16384
    assert dev.total_global_memory == device_info.memory_bytes
    assert dev.compute_version == device_info.api_version
    assert device_info.type in ("discrete", "integrated", "virtual", "cpu", "other")
    assert device_info.name in device_info.describe()
    assert ("no GPU" in device_info.describe()) == device_info.is_cpu
    if device_info.is_cpu:
        # It takes the instruction, and writes it out.
        assert not device_info.supports_integer_dot_product


def test_target_has_the_numbers_of_the_device(device_info: vulkan.DeviceInfo) -> None:
    for written in (
        {"kind": "vulkan", "from_device": 0},
        '{"kind": "vulkan", "from_device": 0}',
    ):
        target = Target(written)
        for name, value in device_info.properties.items():
            if name in target.attrs:
                assert target.attrs[name] == value, name
        assert target.attrs["thread_warp_size"] == device_info.thread_warp_size
        assert target.attrs["max_num_threads"] == device_info.max_threads_per_block
    from_device = Target.from_device(tvm.vulkan(0))
    assert from_device.attrs["max_threads_per_block"] == device_info.max_threads_per_block


def test_target_keeps_what_the_user_wrote() -> None:
    target = Target({"kind": "vulkan", "from_device": 0, "max_threads_per_block": 32}, "llvm")
    assert target.attrs["max_threads_per_block"] == 32
    assert target.host.kind.name == "llvm"
    assert Target("vulkan").attrs["thread_warp_size"] == 1
    assert Target("llvm").kind.name == "llvm"


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int16", "float16", "int32", "float32", "int64", "float64"]
)
@pytest.mark.parametrize("shape", [(1,), (7, 5), (3, 1, 1000), (0,), (2, 0, 3), ()])
def test_copies_keep_every_bit(dtype: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    host = (rng.random(shape) * 100).astype(dtype)
    on_device = tvm.runtime.tensor(host, tvm.vulkan(0))
    second = tvm.runtime.empty(shape, dtype, tvm.vulkan(0))
    on_device.copyto(second)
    np.testing.assert_array_equal(on_device.numpy(), host)
    np.testing.assert_array_equal(second.numpy(), host)


def test_large_copy_crosses_staging_chunks() -> None:
    host = np.random.default_rng(4).integers(0, 2**31, (9_000_001,), np.int32)
    first = tvm.runtime.tensor(host, tvm.vulkan(0))
    second = tvm.runtime.empty(host.shape, "int32", tvm.vulkan(0))
    first.copyto(second)
    np.testing.assert_array_equal(second.numpy(), host)


def test_views_copy_from_their_offset() -> None:
    host = np.arange(64, dtype="float32").reshape(8, 8)
    whole = tvm.runtime.tensor(host, tvm.vulkan(0))
    view = whole._create_view((2, 8), "float32", 3 * 8 * 4)
    np.testing.assert_array_equal(view.numpy(), host[3:5])
    view.copyfrom(np.full((2, 8), -1, "float32"))
    host[3:5] = -1
    np.testing.assert_array_equal(whole.numpy(), host)


def test_ten_thousand_allocations_leave_nothing() -> None:
    before = vulkan.memory_in_use()
    kept = []
    for i in range(10_000):
        tensor = tvm.runtime.empty((i % 997 + 1, 25), "float32", tvm.vulkan(0))
        if i % 100 == 0:
            kept.append(tensor)
    during = vulkan.memory_in_use()
    assert during["allocations"] >= before["allocations"] + 100
    assert during["blocks"] < 10
    del kept, tensor
    after = vulkan.memory_in_use()
    assert after["allocations"] == before["allocations"]
    assert after["used_bytes"] == before["used_bytes"]


def test_out_of_memory_is_an_exception_and_not_the_end() -> None:
    with pytest.raises(DeviceError, match=r"out of device memory .* needed .* free tensors"):
        tvm.runtime.empty((1 << 42,), "float32", tvm.vulkan(0))
    host = np.arange(10, dtype="float32")
    np.testing.assert_array_equal(tvm.runtime.tensor(host, tvm.vulkan(0)).numpy(), host)


def test_no_such_device() -> None:
    with pytest.raises(DeviceError, match=r"vulkan\(99\) was asked for, but this machine has"):
        tvm.runtime.empty((1,), "float32", tvm.vulkan(99))
    assert issubclass(DeviceError, TvmVisionError)


def test_threads_copy_at_once() -> None:
    failures: list[Exception] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        try:
            for _ in range(50):
                host = rng.random((int(rng.integers(1, 5000)),), "float32")
                np.testing.assert_array_equal(tvm.runtime.tensor(host, tvm.vulkan(0)).numpy(), host)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


REPORT = """
import tvm, tvm_vision.vulkan as v
print(tvm.vulkan(0).exist, len(v.devices()), v.status(), sep="|")
try:
    tvm.runtime.empty((1,), "float32", tvm.vulkan(0))
except v.device.DeviceError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (
            {"TVM_VISION_VULKAN_LOADER": "/nonexistent/libvulkan.so.1"},
            "names /nonexistent/libvulkan.so.1, which is not there; name a Vulkan loader, or unset",
        ),
        (
            {"VK_DRIVER_FILES": "/nonexistent.json", "VK_ICD_FILENAMES": "/nonexistent.json"},
            "VK_DRIVER_FILES names /nonexistent.json, which is not there; name the JSON file",
        ),
        ({"TVM_VISION_VULKAN_DEVICE": "no such gpu"}, 'names "no such gpu", but this machine has'),
    ],
)
def test_without_a_device_the_process_lives_on(environment: dict[str, str], message: str) -> None:
    done = run_python(REPORT, **environment)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first.startswith("False|0|")
    assert message in first
    assert second.startswith("a Vulkan device was needed, but")
    assert message in second


def test_device_is_chosen_by_name(device_info: vulkan.DeviceInfo) -> None:
    part = device_info.name.split()[0].lower()
    code = "import tvm_vision.vulkan as v; print(v.devices()[0].name)"
    done = run_python(code, TVM_VISION_VULKAN_DEVICE=part)
    assert done.stdout.strip() == device_info.name, done.stderr


def test_backend_choice_is_checked() -> None:
    assert vulkan.backend_in_use() == "tvm_vision"
    with pytest.raises(InputError, match="a backend is tvm_vision or tvm, found 'cuda'"):
        vulkan.register("cuda")


def test_forked_child_is_told_so() -> None:
    code = """
import os, sys, numpy as np, tvm, tvm_vision.vulkan as v
kept = tvm.runtime.tensor(np.ones(8, "float32"), tvm.vulkan(0))
if os.fork() == 0:
    try:
        tvm.runtime.empty((1,), "float32", tvm.vulkan(0))
    except v.device.DeviceError as error:
        print("child:", error, flush=True)
    os._exit(0)  # as multiprocessing ends its children: drivers' exit handlers are the parent's
print("child ended with", os.wait()[1])
print("parent:", kept.numpy().sum())
"""
    done = run_python(code)
    child, ended, parent = done.stdout.splitlines()
    assert "cannot be used in the child; start it with multiprocessing's method spawn" in child
    assert ended == "child ended with 0"
    assert parent == "parent: 8.0"


def test_exit_leaves_no_validation_message() -> None:
    code = """
import numpy as np, tvm, tvm_vision.vulkan as v
kept = tvm.runtime.tensor(np.ones(1000, "float32"), tvm.vulkan(0))
copy = tvm.runtime.empty((1000,), "float32", tvm.vulkan(0))
kept.copyto(copy)
del copy
v.shutdown()
assert kept.numpy().sum() == 1000  # its device lives as long as the tensor
again = tvm.runtime.tensor(np.ones(5, "float32"), tvm.vulkan(0))
del kept, again
v.shutdown()
print(v.validation_messages())
"""
    done = run_python(code)
    assert done.stdout.strip() == "[]", done.stderr


def test_runtime_only_tvm_needs_no_compiler() -> None:
    code = """
import tvm, tvm_vision.vulkan as v, numpy as np, sys
print(tvm.runtime.tensor(np.arange(3, dtype="int32"), tvm.vulkan(0)).numpy().tolist())
compiling = ("tvm_vision.vulkan.codegen", "tvm.relax")
print([m for m in sys.modules if m.startswith(compiling)])
"""
    done = run_python(code, TVM_USE_RUNTIME_LIB="1")
    assert done.stdout.split("\n")[:2] == ["[0, 1, 2]", "[]"], done.stderr


def test_exceptions_keep_their_class_through_tvm() -> None:
    def refuse() -> None:
        raise UnsupportedKernelError("kernel k: told in one line")

    with pytest.raises(UnsupportedKernelError, match="told in one line"):
        tvm_ffi.convert(refuse)()
