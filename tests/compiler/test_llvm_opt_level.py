"""How much LLVM does for kernels on processors: it changes their code, and values by no more than
the order of sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from onnx import TensorProto

from support.compiled import FIXED, executor_of
from support.networks import Builder
from support.relax_models import module_of
from tvm_vision.compiler import CompiledModel, compile_model
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.options import CompileOptions

LEVELS, DEFAULT = CompileOptions.values_of("llvm_opt_level")
OTHERS = [level for level in LEVELS if level != DEFAULT]


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_VISION_KERNEL_CACHE", "off")
    monkeypatch.delenv("TVM_VISION_LLVM_OPT_LEVEL", raising=False)


def compiled(target: Any, **options: Any) -> CompiledModel:
    return compile_model(*module_of(softmax, (4, 40)), target=target, **options)


def softmax(builder: Any, x: Any) -> Any:
    return builder.emit(tvm.relax.op.nn.softmax(x))


def code(target: Any, **options: Any) -> list[bytes]:
    return [kernel.to_bytes() for kernel in compiled(target, **options).library.kernels.values()]


def test_less_is_other_code() -> None:
    assert code("llvm", llvm_opt_level=0) != code("llvm")
    assert code("llvm", llvm_opt_level=DEFAULT) == code("llvm")


@pytest.mark.parametrize("own", LEVELS)
def test_a_targets_own_level_wins(own: int) -> None:
    target = {"kind": "llvm", "opt-level": own}
    found = [code(target, llvm_opt_level=level) for level in LEVELS]
    assert found == [code("llvm", llvm_opt_level=own)] * len(LEVELS)


def test_the_package_names_the_target_that_was_given() -> None:
    targets = {str(compiled("llvm", llvm_opt_level=level).target) for level in LEVELS}
    assert len(targets) == 1 and "opt-level" not in targets.pop()


def test_code_that_launches_kernels_of_a_gpu_is_the_same() -> None:
    assert code(FIXED, llvm_opt_level=0) == code(FIXED)


@pytest.mark.parametrize("level", OTHERS)
def test_values_are_the_same(level: int) -> None:
    """Convolutions, depthwise and of one pixel, pools, an enlargement, softmax and arg max."""
    b = Builder(3)
    x = b.conv("input", 3, 16, 3, 2, act="relu6")
    x = b.conv(b.conv(x, 16, 16, 3, groups=16), 16, 24, act="relu")
    small = b.node("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2])
    scores = b.node("Softmax", [b.conv(small, 24, 5)], axis=1)
    sizes = b.constant(np.array([1, 1, 2, 2], "float32"))
    large = b.node("Resize", [scores, "", sizes], mode="nearest")
    places = b.node("ArgMax", [large], axis=1, keepdims=0)
    ends = [(scores, TensorProto.FLOAT), (x, TensorProto.FLOAT), (places, TensorProto.INT64)]
    model = b.model(32, ends)
    image = np.random.default_rng(4).random((1, 3, 32, 32), "float32")
    found = []
    for option in (level, DEFAULT):
        made = compile_model(*import_onnx(model), target="llvm", llvm_opt_level=option)
        executor = executor_of(made, tvm.cpu())
        executor.run(input=image)
        found.append(executor.outputs())
    assert len(found[0]) == len(ends)
    for one, other in zip(found[0].values(), found[1].values(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
