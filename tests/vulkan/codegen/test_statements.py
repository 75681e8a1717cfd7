"""Control flow, memory scopes, barriers, subgroups and atomics on the device against numpy."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.s_tir import dlight
from tvm.script import tirx as T

from support import lowering
from support.tir_kernels import argmax, scan, shared_dynamic
from tvm_vision import vulkan

pytestmark = pytest.mark.usefixtures("device_info")
RNG = np.random.default_rng(0)
# VK_SUBGROUP_FEATURE_SHUFFLE_BIT and VK_SUBGROUP_FEATURE_SHUFFLE_RELATIVE_BIT.
SHUFFLES = 0x10 | 0x20


def zeros(n: int, dtype: str = "float32") -> np.ndarray:
    return np.zeros(n, dtype)


def test_arg_max_of_64_bits() -> None:
    a = RNG.standard_normal(100).astype("float32")
    assert lowering.execute(argmax, a, zeros(1, "int64"))[1][0] == a.argmax()


def test_scan_that_counts_on_lockstep() -> None:
    a = RNG.integers(0, 9, 128).astype("float32")
    found = lowering.execute(scan, a, zeros(128))[1]
    np.testing.assert_array_equal(found, a.reshape(4, 32).cumsum(1).ravel())


def test_dynamic_shared_memory_of_two_types(device_info: vulkan.DeviceInfo) -> None:
    if not device_info.supports_16bit_buffer:
        pytest.skip("float16 has no form without buffers of 16 bits")
    a = RNG.standard_normal(256).astype("float32")
    b = RNG.standard_normal(256).astype("float16")
    found = lowering.execute(shared_dynamic, a, b, zeros(256))[2]
    np.testing.assert_array_equal(found, a[::-1] + b[::-1].astype("float32"))


@T.prim_func(s_tir=True)
def nested_barriers(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")):
    for tx in T.thread_binding(64, "threadIdx.x"):
        s = T.alloc_buffer((64,), "float32", scope="shared")
        s[tx] = a[tx]
        T.evaluate(T.tvm_storage_sync("shared"))
        if tx < 32:
            for _ in T.serial(3):
                x: T.let[T.float32] = s[tx] + s[tx + 32]
                T.evaluate(T.tvm_storage_sync("shared"))
                if tx >= 16:
                    s[tx] = x
                    T.evaluate(T.tvm_storage_sync("shared"))
                    s[tx - 16] = s[tx] * T.float32(0.5)
                T.evaluate(T.tvm_storage_sync("shared"))
        else:
            s[tx] = s[tx] * T.float32(2)
            T.evaluate(T.tvm_storage_sync("shared"))
        b[tx] = s[tx]


def test_barriers_in_branches_of_branches() -> None:
    """The threads of the else branch run after those of the other: each branch sees itself only."""
    a = RNG.integers(0, 9, 64).astype("float32")
    s = a.copy()
    for _ in range(3):
        x = s[:32] + s[32:]
        s[16:32] = x[16:]
        s[:16] = s[16:32] * np.float32(0.5)
    s[32:] *= 2
    found = lowering.execute(nested_barriers, a, zeros(64))[1]
    np.testing.assert_array_equal(found, s)


@T.prim_func(s_tir=True)
def collatz(a: T.Buffer((256,), "int32"), b: T.Buffer((256,), "int32")):
    for bx in T.thread_binding(4, "blockIdx.x"):
        for tx in T.thread_binding(64, "threadIdx.x"):
            n = T.alloc_buffer((1,), "int32", scope="local")
            steps = T.alloc_buffer((1,), "int32", scope="local")
            n[0] = a[bx * 64 + tx]
            steps[0] = 0
            while n[0] != 1:
                n[0] = T.Select(n[0] % 2 == 0, n[0] // 2, 3 * n[0] + 1)
                steps[0] = steps[0] + 1
            b[bx * 64 + tx] = steps[0]


def test_while() -> None:
    def steps(n: int) -> int:
        count = 0
        while n != 1:
            n, count = (n // 2 if n % 2 == 0 else 3 * n + 1), count + 1
        return count

    a = np.arange(1, 257, dtype="int32")
    found = lowering.execute(collatz, a, zeros(256, "int32"))[1]
    assert list(found) == [steps(n) for n in range(1, 257)]


@T.prim_func(s_tir=True)
def histogram(
    a: T.Buffer((1024,), "int32"), count: T.Buffer((16,), "int32"), half: T.Buffer((16,), "float32")
):
    for bx in T.thread_binding(4, "blockIdx.x"):
        for tx in T.thread_binding(256, "threadIdx.x"):
            at: T.let[T.int32] = a[bx * 256 + tx]
            T.evaluate(T.call_intrin("int32", "tirx.atomic_add", T.address_of(count[at]), 1))
            T.evaluate(
                T.call_intrin("float32", "tirx.atomic_add", T.address_of(half[at]), T.float32(0.5))
            )


def test_atomics() -> None:
    a = RNG.integers(0, 16, 1024).astype("int32")
    _, count, half = lowering.execute(histogram, a, zeros(16, "int32"), zeros(16))
    np.testing.assert_array_equal(count, np.bincount(a, minlength=16))
    np.testing.assert_array_equal(half, count * 0.5)


def shuffles(size: int):
    @T.prim_func(s_tir=True)
    def function(a: T.Buffer((256,), "float32"), b: T.Buffer((4, 256), "float32")):
        for bx in T.thread_binding(4, "blockIdx.x"):
            for tx in T.thread_binding(64, "threadIdx.x"):
                at: T.let[T.int32] = bx * 64 + tx
                b[0, at] = T.tvm_warp_shuffle_down(T.tvm_warp_activemask(), a[at], 1, 4, size)
                b[1, at] = T.tvm_warp_shuffle_up(T.tvm_warp_activemask(), a[at], 1, size, size)
                b[2, at] = T.tvm_warp_shuffle(T.tvm_warp_activemask(), a[at], 3, 4, size)
                b[3, at] = T.tvm_warp_shuffle_xor(T.tvm_warp_activemask(), a[at], 1, size, size)

    return function


def test_subgroup_shuffles() -> None:
    attributes = lowering.Target({"kind": "vulkan", "from_device": 0}).attrs
    if int(attributes["supported_subgroup_operations"]) & SHUFFLES != SHUFFLES:
        pytest.skip("the device has no subgroup shuffles")
    size = int(attributes["thread_warp_size"])
    a = np.arange(256, dtype="float32")
    found = lowering.execute(shuffles(size), a, np.zeros((4, 256), "float32"))[1]
    i = np.arange(256)
    np.testing.assert_array_equal(found[0], a[np.where(i % 4 + 1 < 4, i + 1, i)])
    np.testing.assert_array_equal(found[1], a[np.where(i % size >= 1, i - 1, i)])
    np.testing.assert_array_equal(found[2], a[i // 4 * 4 + 3])
    np.testing.assert_array_equal(found[3], a[i ^ 1])


@pytest.mark.parametrize("length", [1, 33, 100, 1000])
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_scans_of_relax(name: str, length: int) -> None:
    """cumsum counts on lockstep; cumprod declares local buffers that nobody allocates."""
    x = relax.Var("x", relax.TensorType((3, length), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(getattr(relax.op, name)(x, axis=-1))
        builder.emit_func_output(out)
    on = lowering.Target({"kind": "vulkan", "from_device": 0})
    with on:
        mod = relax.backend.DispatchSortScan()(builder.finalize())
        mod = relax.transform.LegalizeOps()(mod)
        mod = dlight.ApplyDefaultSchedule(dlight.gpu.Fallback())(mod)
    a = (1 + 0.01 * RNG.standard_normal((3, length))).astype("float32")
    device = tvm.vulkan(0)
    machine = relax.VirtualMachine(relax.build(mod, on), device)
    found = machine["main"](tvm.runtime.tensor(a, device)).numpy()
    np.testing.assert_allclose(found, getattr(np, name)(a.astype("float64"), axis=-1), rtol=1e-5)


@pytest.mark.parametrize("blocks", [1, 65535, 65537, 200_003])
def test_grids_of_any_size(blocks: int) -> None:
    a = np.arange(blocks * 32, dtype="int32")
    function = lowering.elementwise(lambda x: x * 3, ["int32"], blocks * 32)
    np.testing.assert_array_equal(lowering.execute(function, a, zeros(a.size, "int32"))[1], a * 3)
