"""Shared arrays that take each other's place: which may, where, and that results stay right."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tvm.script import tirx as T

from support import lowering

RNG = np.random.default_rng(0)
N = 256  # threads; each has four neighbours


def reversed_twice(dtype: str, second: str, overlap: bool = False):
    """Turns a tensor round through an array, and the result once more through another; with
    ``overlap`` the first array is read at the end, too."""

    @T.prim_func(s_tir=True)
    def kernel(a: T.Buffer((4 * N,), dtype), b: T.Buffer((4 * N,), second)):
        for tx in T.thread_binding(N, "threadIdx.x"):
            one = T.alloc_buffer((4 * N,), dtype, scope="shared")
            two = T.alloc_buffer((4 * N,), second, scope="shared")
            own = T.alloc_buffer((4,), second, scope="local")
            for i in T.vectorized(4):
                one[tx * 4 + i] = a[tx * 4 + i]
            T.evaluate(T.tvm_storage_sync("shared"))
            for i in T.vectorized(4):
                own[i] = T.Cast(second, one[(N - 1 - tx) * 4 + i])
            for i in T.vectorized(4):
                two[tx * 4 + i] = own[i]
            T.evaluate(T.tvm_storage_sync("shared"))
            for i in T.vectorized(4):
                b[tx * 4 + i] = two[(tx ^ 1) * 4 + i] + T.Cast(
                    second, one[tx * 4 + i] if overlap else T.Cast(dtype, 0)
                )

    return kernel


@pytest.mark.parametrize("second", ["float32", "int32", "uint32"])
@pytest.mark.parametrize("first", ["float32", "int32", "uint32"])
@pytest.mark.usefixtures("device_info")
def test_results_stay_right(first: str, second: str) -> None:
    a = RNG.integers(0, 1 << 20, 4 * N).astype(first)
    found = lowering.execute(reversed_twice(first, second), a, np.zeros(4 * N, second))[1]
    turned = a.reshape(N, 4)[::-1][np.arange(N) ^ 1].ravel()
    np.testing.assert_array_equal(found, turned.astype(second))


def test_the_second_takes_the_place_of_the_first_behind_a_barrier() -> None:
    (kernel,) = lowering.kernels(reversed_twice("float32", "int32"))
    (declared,) = re.findall(r"shared (\w+) (\w+)\[(\d+)\];", kernel.source)
    assert declared == ("uvec4", "shared_words", str(N))
    # The one that is put in stands between the last load of the first and the second's store.
    steps = re.findall(r"barrier\(\)|shared_words\[[^=\n]*\] = |shared_words", kernel.source)
    kinds = ["store" if "=" in s else "barrier" if "barrier" in s else "load" for s in steps[1:]]
    assert kinds == ["store", "barrier", "load", "barrier", "store", "barrier", "load"]


def test_arrays_in_use_together_stay_apart() -> None:
    (kernel,) = lowering.kernels(reversed_twice("float32", "float32", overlap=True))
    assert len(re.findall(r"shared vec4 \w+\[256\];", kernel.source)) == 2


def test_arrays_of_single_numbers_stay_apart() -> None:
    @T.prim_func(s_tir=True)
    def singles(a: T.Buffer((64,), "float32")):
        for tx in T.thread_binding(64, "threadIdx.x"):
            one = T.alloc_buffer((64,), "float32", scope="shared")
            two = T.alloc_buffer((64,), "int32", scope="shared")
            one[tx] = a[tx]
            T.evaluate(T.tvm_storage_sync("shared"))
            a[tx] = one[63 - tx]
            two[tx] = tx
            T.evaluate(T.tvm_storage_sync("shared"))
            a[tx] = a[tx] + T.Cast("float32", two[63 - tx])

    (kernel,) = lowering.kernels(singles)
    assert "uvec4" not in kernel.source


def test_a_third_array_lies_where_the_smaller_two_were() -> None:
    # Of a type of its own: TVM itself lets arrays of one type share their place.
    @T.prim_func(s_tir=True)
    def three(a: T.Buffer((64,), "float32"), b: T.Buffer((128,), "float32")):
        for tx in T.thread_binding(16, "threadIdx.x"):
            one = T.alloc_buffer((64,), "float32", scope="shared")
            two = T.alloc_buffer((64,), "int32", scope="shared")
            both = T.alloc_buffer((128,), "uint32", scope="shared")
            for i in T.vectorized(4):
                one[tx * 4 + i] = a[tx * 4 + i]
            for i in T.vectorized(4):
                two[tx * 4 + i] = T.Cast("int32", a[tx * 4 + i])
            T.evaluate(T.tvm_storage_sync("shared"))
            for i in T.vectorized(4):
                b[tx * 4 + i] = one[(15 - tx) * 4 + i] + T.Cast("float32", two[(tx ^ 1) * 4 + i])
            for i in T.vectorized(4):
                both[tx * 8 + i] = T.uint32(1)
            for i in T.vectorized(4):
                both[tx * 8 + 4 + i] = T.uint32(2)
            T.evaluate(T.tvm_storage_sync("shared"))
            for i in T.vectorized(4):
                b[64 + tx * 4 + i] = T.Cast("float32", both[(15 - tx) * 4 + i])

    (kernel,) = lowering.kernels(three)
    assert re.findall(r"shared \w+ \w+\[\d+\];", kernel.source) == [
        "shared uvec4 shared_words[32];"
    ]
