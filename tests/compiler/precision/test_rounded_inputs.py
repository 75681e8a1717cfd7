"""Copies in fp16 of a network's inputs: where matrices gain by them, and the results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relax
from tvm.target import Target

from support.interpreter import run
from support.relax_models import constant, module_of
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.build import prepare
from tvm_vision.compiler.precision import rounded_inputs
from tvm_vision.devices import known_devices
from tvm_vision.schedules import TargetLimits, likeliest

WIDTH = 128


def points(rows: int) -> tuple[Any, Any]:
    """Two layers of points as they come, and a sum with them as they are."""

    def build(builder: Any, x: Any) -> Any:
        flat = builder.emit(relax.op.reshape(x, (rows, WIDTH)))
        weights = constant(1, WIDTH, WIDTH)[0], constant(2, WIDTH, WIDTH)[0]
        one = builder.emit(relax.op.nn.relu(builder.emit(relax.op.matmul(flat, weights[0]))))
        two = builder.emit(relax.op.matmul(one, weights[1]))
        return builder.emit(relax.op.add(two, flat))

    return module_of(build, (rows // 4, 4, WIDTH))


def templates(rows: int, device: str, precision: str = "fp16") -> list[str]:
    """Of the two products."""
    target = Target(known_devices()[device].target_config())
    graph = prepare(points(rows)[0], target=target, precision=precision)
    limits = TargetLimits.of(target)
    found = [likeliest(graph.functions[kernel.function], limits) for kernel in graph.kernels]
    names = [choice.template for choice in found if choice is not None]
    return [name for name in names if name in ("contraction", "coopmat_gemm")]


@pytest.mark.parametrize(
    ("rows", "device", "first", "second"),
    [
        (65536, "phoenix", "coopmat_gemm", "coopmat_gemm"),
        (64, "phoenix", "coopmat_gemm", "coopmat_gemm"),
        (65536, "renoir", "contraction", "contraction"),  # no matrices
    ],
)
def test_inputs_of_large_products_are_rounded_for_matrices(
    rows: int, device: str, first: str, second: str
) -> None:
    assert templates(rows, device) == [first, second]


def test_float32_stays_as_it_is() -> None:
    assert templates(65536, "phoenix", "fp32") == ["contraction", "contraction"]


@pytest.mark.parametrize("target", ["llvm", "vulkan"])
def test_results_with_copies(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what is no product the input stays as it is; checked against numpy, rounded alike."""
    monkeypatch.setattr(rounded_inputs, "_gains", lambda function, *_: len(function.params) == 3)
    module, signature = points(64)
    compiled = compile_model(module, signature, target=target, precision="fp16")
    copied = any("copy" in kernel["function"] for kernel in compiled.graph["kernels"])
    assert copied is (target == "vulkan")  # processors have no matrices to ask of
    x = np.random.default_rng(4).standard_normal((16, 4, WIDTH)).astype("float32")
    (found,) = run(compiled, [x])
    first, second = (constant(seed, WIDTH, WIDTH)[1] for seed in (1, 2))
    flat = x.reshape(64, WIDTH)
    expected = np.maximum(flat @ first, 0) @ second + flat
    assert np.abs(found - expected).max() <= 5e-3 * np.abs(expected).max()
