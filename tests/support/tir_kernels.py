"""Kernels in TensorIR whose order of reading, writing and barriers matters."""

from __future__ import annotations

from tvm.script import tirx as T


@T.prim_func(s_tir=True)
def argmax(a: T.Buffer((100,), "float32"), out: T.Buffer((1,), "int64")):
    for _ in T.thread_binding(1, "threadIdx.x"):
        at = T.alloc_buffer((1,), "int64", scope="local")
        best = T.alloc_buffer((1,), "float32", scope="local")
        at[0] = T.int64(-1)
        best[0] = T.float32(-1e30)
        for i in T.serial(T.int64(100)):
            at[0] = T.if_then_else(best[0] < a[i], i, at[0])
            best[0] = T.max(best[0], a[i])
        out[0] = at[0]


@T.prim_func(s_tir=True)
def scan(a: T.Buffer((128,), "float32"), out: T.Buffer((128,), "float32")):
    for bx in T.thread_binding(4, "blockIdx.x"):
        for tx in T.thread_binding(32, "threadIdx.x"):
            s = T.alloc_buffer((32,), "float32", scope="shared")
            s[tx] = a[bx * 32 + tx]
            for i in T.unroll(5):
                if tx >= T.shift_left(1, i):
                    s[tx] = s[tx] + s[tx - T.shift_left(1, i)]
            out[bx * 32 + tx] = s[tx]


@T.prim_func(s_tir=True)
def shared_dynamic(
    a: T.Buffer((256,), "float32"), b: T.Buffer((256,), "float16"), c: T.Buffer((256,), "float32")
):
    for _ in T.thread_binding(1, "blockIdx.x"):
        for tx in T.thread_binding(64, "threadIdx.x"):
            s = T.alloc_buffer((256,), "float32", scope="shared.dyn")
            h = T.alloc_buffer((256,), "float16", scope="shared.dyn")
            for v in T.vectorized(4):
                s[tx * 4 + v] = a[tx * 4 + v]
            for v in T.vectorized(4):
                h[tx * 4 + v] = b[tx * 4 + v]
            for v in T.vectorized(4):
                c[tx * 4 + v] = s[255 - (tx * 4 + v)] + T.Cast("float32", h[255 - (tx * 4 + v)])


@T.prim_func(s_tir=True)
def gated_by_few(a: T.Buffer((256, 4096), "float32"), b: T.Buffer((256, 4096), "float32")):
    for bx in T.thread_binding(2, "blockIdx.x"):
        for tx in T.thread_binding(128, "threadIdx.x"):
            for pixel in range(4096):
                b[bx * 128 + tx, pixel] = a[bx * 128 + tx, pixel] * T.float32(2)
