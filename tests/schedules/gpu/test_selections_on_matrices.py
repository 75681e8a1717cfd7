"""A concatenation inside the product that reads it, on cooperative matrices."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import tvm
from onnx import TensorProto
from tvm.target import Target

from support.compiled import MATRICES
from support.emulated_matrices import emulated, need_right_arrays
from support.lowering import HOST
from support.networks import Builder, _upsample
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.build import prepare
from tvm_vision.compiler.compilation import Compilation
from tvm_vision.compiler.pipeline import run
from tvm_vision.compiler.target import parse_target
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.options import CompileOptions
from tvm_vision.runtime import graph_executor
from tvm_vision.schedules.cost import direct_conv as direct_conv_cost
from tvm_vision.vulkan.codegen import build

SIZE = 16


def network(resize: bool) -> Any:
    """Two convolutions, joined for a third; with ``resize`` one of them is enlarged before."""
    b = Builder(3)
    one, two = b.conv("input", 3, 16, 3, 2, act="relu"), b.conv("input", 3, 24, 3, 2, act="leaky")
    if resize:
        two = _upsample(b, b.conv(two, 24, 24, 3, 2, act="relu"))
    joined = b.node("Concat", [two, one], axis=1)
    last = b.conv(joined, 40, 32, 3 if resize else 1, act="relu")
    return b.model(SIZE, [(last, TensorProto.FLOAT)])


def result(model: Any, target: Any) -> np.ndarray:
    module, signature = import_onnx(model)
    made = compile_model(module, signature, target=target, precision="fp16", layout="nhwc")
    executor = graph_executor.create({"graph": made.graph}, made.library.module, tvm.vulkan(0))
    executor.load_params(made.params)
    x = np.random.default_rng(7).standard_normal((1, 3, SIZE, SIZE)).astype("float32")
    executor.set_input(0, x)
    executor.run()
    return np.asarray(executor.get_output(0).numpy())


@pytest.mark.parametrize(
    ("resize", "halo"),
    [
        *(pytest.param(resize, False, marks=pytest.mark.slow) for resize in (False, True)),
        (True, True),
    ],
)
def test_values_on_emulated_matrices(
    resize: bool, halo: bool, monkeypatch: pytest.MonkeyPatch, device_info: Any
) -> None:
    need_right_arrays(device_info)
    monkeypatch.setattr(direct_conv_cost, "pays", lambda shape, limits: halo)
    model, print_kernels = network(resize), build.print_kernels
    inlined: list[Any] = []

    def emulate(*arguments: Any) -> list[Any]:
        kernels = print_kernels(*arguments)
        # Both parts, weights and biases.
        products = [kernel for kernel in kernels if "coopmat" in kernel.source]
        inlined.extend(k for k in products if k.source.count("readonly buffer") == 4)
        return [emulated(kernel) for kernel in kernels]

    monkeypatch.setenv("TVM_VISION_FUSE_DATA_MOVEMENT", "off")
    expected = result(model, "vulkan")
    monkeypatch.setattr(build, "print_kernels", emulate)
    monkeypatch.setenv("TVM_VISION_FUSE_DATA_MOVEMENT", "on")
    own = dict(parse_target("vulkan").attrs)
    found = result(model, {**own, "kind": "vulkan", **MATRICES})
    assert inlined
    assert any("halo_shared" in kernel.source for kernel in inlined) == halo
    np.testing.assert_allclose(found, expected, atol=2e-3 * np.abs(expected).max())


@pytest.mark.parametrize(("resize", "halo"), [(False, False), (True, False), (True, True)])
def test_parts_are_fetched_in_vectors(
    resize: bool, halo: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct_conv_cost, "pays", lambda shape, limits: halo)
    monkeypatch.setenv("TVM_VISION_FUSE_DATA_MOVEMENT", "on")
    limits = {"max_threads_per_block": 1024, "max_shared_memory_per_block": 49152}
    halves = {"supports_float16": True, "supports_16bit_buffer": True, "thread_warp_size": 32}
    target = Target({"kind": "vulkan", **MATRICES, **limits, **halves}, host=Target(HOST))
    module = import_onnx(network(resize))[0]
    graph = prepare(module, target=target, precision="fp16", layout="nhwc")
    chosen = next(k for k in graph.kernels if "concat" in k.function)
    graph.kernels, graph.functions = [chosen], {chosen.function: graph.functions[chosen.function]}
    compilation = Compilation(module, target, CompileOptions(kernel_cache=False), graph=graph)
    run(compilation, first="known_kernels", last="build")
    made = compilation.library.kernels.values()
    sources = [shader.told.source for code in made for shader in code.shaders]
    (source,) = [s for s in sources if "coopmat" in s]
    read = [line for line in source.splitlines() if "readonly buffer" in line]
    assert len(read) == 4  # both parts, weights and biases
    assert all(re.search("uvec4|f16vec4", line) for line in read)
    assert any("uvec4" in line for line in read)  # sixteen bytes at once
    assert ("halo_shared" in source) == halo
