"""What the device can do at most, measured through our own backend: bytes, operations, launches."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import te
from tvm.target import Target

from tvm_vision import vulkan
from tvm_vision.runtime.graph_executor import create
from tvm_vision.vulkan.codegen import spirv

THREADS = 256
COPY_BYTES = 512 << 20
# Every device takes 65535 groups along an axis.
ROW = 32768
GROUPS = 132 * 32
LOOPS = 2048
ACCUMULATORS = 8
# Matrix units are that much faster than the others, at least.
MATRIX_SHARE = 8
CHAIN = 200
# A kernel that needs a size of subgroups says so in bits 16 to 23 of its flags.
SUBGROUP_SHIFT = 16

COPY = """#version 450
layout(local_size_x = 256) in;
layout(set = 0, binding = 0) readonly buffer A { vec4 a[]; };
layout(set = 0, binding = 1) writeonly buffer B { vec4 b[]; };
void main() {
  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  uint i = group * 256 + gl_LocalInvocationID.x;
  if (i < a.length()) b[i] = a[i];
}
"""

MULTIPLY_ADD = """#version 450
#extension GL_EXT_control_flow_attributes : require
%(extensions)s
layout(local_size_x = 256) in;
layout(set = 0, binding = 0) readonly buffer A { float a[]; };
layout(set = 0, binding = 1) writeonly buffer B { float b[]; };
void main() {
  uint i = gl_GlobalInvocationID.x;
  %(type)s scale = %(type)s(a[i %% 1024]), shift = %(type)s(a[(i + 1) %% 1024]), sum[%(count)d];
  [[unroll]] for (int k = 0; k < %(count)d; ++k) sum[k] = scale + %(type)s(k);
  for (int step = 0; step < %(loops)d; ++step)
    [[unroll]] for (int k = 0; k < %(count)d; ++k) sum[k] = fma(sum[k], scale, shift);
  [[unroll]] for (int k = 1; k < %(count)d; ++k) sum[0] += sum[k];
  b[i] = float(sum[0].x + sum[0].y + sum[0].z + sum[0].w);
}
"""

MATRIX = """#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
layout(local_size_x = 256) in;
layout(set = 0, binding = 0) readonly buffer A { float16_t a[]; };
layout(set = 0, binding = 1) writeonly buffer B { float b[]; };
#define MATRIX(type, rows, columns, use) coopmat<type, gl_ScopeSubgroup, rows, columns, use>
void main() {
  MATRIX(float16_t, %(m)d, %(k)d, gl_MatrixUseA) left;
  MATRIX(float16_t, %(k)d, %(n)d, gl_MatrixUseB) right;
  coopMatLoad(left, a, 0, %(k)d, gl_CooperativeMatrixLayoutRowMajor);
  coopMatLoad(right, a, 0, %(n)d, gl_CooperativeMatrixLayoutRowMajor);
  MATRIX(float, %(m)d, %(n)d, gl_MatrixUseAccumulator) sum[%(count)d];
  [[unroll]] for (int i = 0; i < %(count)d; ++i)
    sum[i] = MATRIX(float, %(m)d, %(n)d, gl_MatrixUseAccumulator)(float(i));
  for (int step = 0; step < %(loops)d; ++step)
    [[unroll]] for (int i = 0; i < %(count)d; ++i) sum[i] = coopMatMulAdd(left, right, sum[i]);
  uint place = (gl_WorkGroupID.x * 256 + gl_LocalInvocationID.x) / %(lanes)d * %(count)d;
  [[unroll]] for (int i = 0; i < %(count)d; ++i)
    coopMatStore(sum[i], b, (place + i) * %(m)d * %(n)d, %(n)d,
                 gl_CooperativeMatrixLayoutRowMajor);
}
"""


def measure_ceilings(scale: float = 1.0) -> dict[str, float]:
    """copy_gb_s (read and written), fp32_tflops, launch_us, and where the device has them
    fp16_tflops (plain arithmetic) and matrix_tflops (cooperative matrices, float32 sums).

    scale: share of the usual work, for a trial on a slow device.
    """
    info = vulkan.devices()[0]
    groups = max(1, int(GROUPS * scale))
    result = {"copy_gb_s": _copy(info, scale), "fp32_tflops": _plain("vec4", "", groups)}
    if info.supports_float16:
        wanted = "#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require"
        result["fp16_tflops"] = _plain("f16vec4", wanted, groups)
    shape = _matrix_shape(info)
    if shape is not None:
        result["matrix_tflops"] = _matrix(shape, info.thread_warp_size, groups)
    result["launch_us"] = _launch()
    return {name: float(f"{value:.4g}") for name, value in result.items()}


def _copy(info: Any, scale: float) -> float:
    size = min(int(COPY_BYTES * scale), info.max_storage_buffer_range, info.memory_bytes // 8)
    groups = size // (16 * THREADS)
    source = np.random.default_rng(0).random(groups * THREADS * 4, "float32")
    a = tvm.runtime.tensor(source, tvm.vulkan(0))
    b = tvm.runtime.empty(source.shape, "float32", tvm.vulkan(0))
    rows = -(-groups // ROW)
    seconds = _time("copy", COPY, (a, b), (min(groups, ROW), rows))
    assert np.array_equal(b.numpy(), source), "the copy kernel copies wrongly"
    return 2 * source.nbytes / seconds / 1e9


def _plain(kind: str, extensions: str, groups: int) -> float:
    words = {"type": kind, "extensions": extensions, "count": ACCUMULATORS, "loops": LOOPS}
    a = tvm.runtime.tensor(np.full(1024, 0.5, "float32"), tvm.vulkan(0))
    b = tvm.runtime.empty((groups * THREADS,), "float32", tvm.vulkan(0))
    seconds = _time(f"fma_{kind}", MULTIPLY_ADD % words, (a, b), (groups, 1))
    # 0.5 + 0.5 x has the fixed point 1: all four lanes of all sums.
    assert np.allclose(b.numpy(), 4 * ACCUMULATORS, rtol=0.01), "the multiply-adds are wrong"
    return 2 * 4 * ACCUMULATORS * LOOPS * groups * THREADS / seconds / 1e12


def _matrix_shape(info: Any) -> tuple[int, int, int] | None:
    """The largest (m, n, k) of fp16 with float32 sums."""
    wanted = ("float16", "float16", "float32", "float32")
    shapes = [s[:3] for s in info.cooperative_matrix_shapes if tuple(s[3:7]) == wanted]
    return max(shapes, key=lambda s: s[0] * s[1] * s[2], default=None)


def _matrix(shape: tuple[int, int, int], lanes: int, groups: int) -> float:
    m, n, k = shape
    words = {"m": m, "n": n, "k": k, "count": ACCUMULATORS, "loops": LOOPS, "lanes": lanes}
    groups = max(1, groups // MATRIX_SHARE)
    subgroups = groups * THREADS // lanes
    a = tvm.runtime.tensor(np.full(max(m, n) * k, 2.0**-8, "float16"), tvm.vulkan(0))
    b = tvm.runtime.empty((subgroups * ACCUMULATORS * m * n,), "float32", tvm.vulkan(0))
    flags = lanes << SUBGROUP_SHIFT
    seconds = _time("matrix", MATRIX % words, (a, b), (groups, 1), flags)
    expected = np.arange(ACCUMULATORS) + LOOPS * k * 2.0**-16
    found = b.numpy().reshape(-1, ACCUMULATORS, m * n)
    assert np.allclose(found, expected[:, None], rtol=1e-3), "the matrix products are wrong"
    return 2 * m * n * k * ACCUMULATORS * LOOPS * subgroups / seconds / 1e12


def _time(
    name: str, glsl: str, buffers: tuple[Any, Any], grid: tuple[int, int], flags: int = 0
) -> float:
    """Seconds of a run on the device, the median of several after some to warm up."""
    kernels = {
        name: {
            "name": name,
            "arg_types": ["handle", "handle"],
            "launch_param_tags": ["blockIdx.x", "blockIdx.y", "threadIdx.x"],
            "flags": flags,
        }
    }
    make = tvm_ffi.get_global_func("tvm_vision.vulkan.module_create")
    shader = spirv.compile_glsl(glsl, name=name, target_env="vulkan1.2")
    module = make(json.dumps(kernels), {name: shader}, {"glsl": glsl})
    timer = module.time_evaluator(name, tvm.vulkan(0), number=3, repeat=7)
    return float(np.median(timer(*buffers, *grid, THREADS).results))


def _launch() -> float:
    """Microseconds of a kernel that does next to nothing and waits for the one before."""
    x = te.placeholder((THREADS,), name="x")
    y = te.compute((THREADS,), lambda i: x[i] + 1.0, name="y")
    schedule = tvm.s_tir.Schedule(te.create_prim_func([x, y]).with_attr("global_symbol", "step"))
    (loop,) = schedule.get_loops(schedule.get_sblock("y"))
    block, thread = schedule.split(loop, [1, THREADS])
    schedule.bind(block, "blockIdx.x")
    schedule.bind(thread, "threadIdx.x")
    target = Target({"kind": "vulkan", "from_device": 0}, host={"kind": "llvm"})
    library = tvm.compile(tvm.IRModule({"step": schedule.mod["main"]}), target).mod
    executor = create(_chain_graph(), library, tvm.vulkan(0))
    executor.run(x=np.zeros(THREADS, "float32"))
    assert float(executor.get_output(0).numpy()[0]) == CHAIN, "the chain of kernels is broken"
    return executor.profile(repeat=50).span_us / CHAIN


def _chain_graph() -> dict[str, Any]:
    """CHAIN times x + 1, in turn from one storage into another."""
    tensors = [
        {"shape": [THREADS], "dtype": "float32", "storage": i, "offset": 0} for i in range(4)
    ]
    places = [0, *(1 + i % 2 for i in range(CHAIN - 1)), 3]
    kernels = [
        {"function": "step", "args": [a, b], "num_outputs": 1, "nodes": []}
        for a, b in itertools.pairwise(places)
    ]
    graph = {
        "storages": [4 * THREADS] * 4, "tensors": tensors, "params": {}, "inputs": [0],
        "outputs": [3], "kernels": kernels,
    }  # fmt: skip
    return {"graph": graph, "inputs": [{"name": "x"}], "outputs": [{"name": "y"}]}
