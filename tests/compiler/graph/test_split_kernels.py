"""Operators of more tensors than a device lets a kernel see: right, or refused when compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.target import Target

from support.compiled import executor_of
from support.relax_models import module_of
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.build import prepare
from tvm_vision.compiler.target import parse_target
from tvm_vision.errors import UnsupportedKernelError, UnsupportedModelError

MANY = 43
SHAPE = (1, 2, 3, 4)


def inputs_of(shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    random = np.random.default_rng(5)
    return [random.standard_normal(shape).astype("float32") for shape in shapes]


def limited(tensors: int) -> Target:
    """The first device, as if it let a kernel see so many tensors."""
    device = dict(parse_target("vulkan").export())
    return Target({**device, "max_per_stage_descriptor_storage_buffer": tensors}, "llvm")


def run(module: tvm.IRModule, signature: Any, target: Any, **options: Any) -> list[np.ndarray]:
    made = compile_model(module, signature, target=target, **options)
    executor = executor_of(made)
    for number, value in enumerate(inputs_of([spec.shape for spec in signature.inputs])):
        executor.set_input(number, value)
    executor.run()
    return [executor.get_output(i).numpy() for i in range(len(signature.outputs))]


@pytest.mark.parametrize("tensors", [4, 8, 32])
@pytest.mark.parametrize(("opt_level", "precision"), [(0, "fp32"), (3, "fp32"), (3, "fp16")])
@pytest.mark.parametrize("axis", [1, 2])
def test_concatenations(
    device_info: Any, axis: int, opt_level: int, precision: str, tensors: int
) -> None:
    shapes = [SHAPE] * MANY
    module, signature = module_of(
        lambda b, *x: relax.op.concat([b.emit(relax.op.nn.relu(v)) for v in x], axis=axis), *shapes
    )
    found = run(module, signature, limited(tensors), opt_level=opt_level, precision=precision)
    expected = np.concatenate([np.maximum(v, 0) for v in inputs_of(shapes)], axis)
    assert np.abs(found[0] - expected).max() <= (1e-3 if precision == "fp16" else 0) * 5


@pytest.mark.parametrize("tensors", [4, 8, 32])
@pytest.mark.parametrize("opt_level", [0, 3])
def test_splits(device_info: Any, opt_level: int, tensors: int) -> None:
    shape = (1, 2 * MANY, 5)

    def split(b: Any, x: Any) -> Any:
        parts = b.emit(relax.op.split(relax.op.sigmoid(x), MANY, axis=1))
        return [b.emit(relax.TupleGetItem(parts, i)) for i in range(MANY)]

    module, signature = module_of(split, shape)
    found = run(module, signature, limited(tensors), opt_level=opt_level)
    expected = np.split(1 / (1 + np.exp(-inputs_of([shape])[0])), MANY, axis=1)
    for one, other in zip(found, expected, strict=True):
        assert np.abs(one - other).max() <= 1e-6


@pytest.mark.parametrize("target", ["vulkan", "llvm"])
@pytest.mark.parametrize("opt_level", [0, 3])
def test_parts_without_elements(device_info: Any, opt_level: int, target: str) -> None:
    """As rotary embeddings of whole heads have them: all is in one part, and others are joined."""
    shape = (2, 3, 8)

    def split(b: Any, x: Any) -> Any:
        parts = b.emit(relax.op.split(relax.op.sigmoid(x), [8], axis=2))
        everything, nothing = (b.emit(relax.TupleGetItem(parts, i)) for i in range(2))
        joined = relax.op.concat([relax.op.negative(everything), nothing], axis=2)
        return [b.emit(joined), nothing]

    module, signature = module_of(split, shape)
    made = compile_model(module, signature, target=target, opt_level=opt_level)
    executor = executor_of(made, tvm.cpu(0) if target == "llvm" else None)
    (value,) = inputs_of([shape])
    executor.set_input(0, value)
    executor.run()
    joined, nothing = (executor.get_output(i).numpy() for i in range(2))
    assert np.abs(joined + 1 / (1 + np.exp(-value))).max() <= 1e-6 and nothing.shape == (2, 3, 0)


def test_small_operators_stay_as_they_are() -> None:
    module, _ = module_of(lambda b, *x: relax.op.concat(list(x), axis=2), *[SHAPE] * 4)
    graph = prepare(module, target=limited(5))
    assert len(graph.kernels) == 1


def test_what_cannot_be_split_is_refused_when_it_is_compiled(device_info: Any) -> None:
    """A choice has three inputs and a result."""
    module, signature = module_of(
        lambda b, c, x, y: relax.op.where(relax.op.astype(c, "bool"), x, y), *[SHAPE] * 3
    )
    with pytest.raises(UnsupportedKernelError, match="4 tensors, the target lets a kernel see 3"):
        compile_model(module, signature, target=limited(3), opt_level=0)


def test_a_tensor_larger_than_a_kernel_may_see_is_refused_when_it_is_compiled() -> None:
    module, signature = module_of(lambda b, x: relax.op.nn.relu(x), (1, 3, 100, 100))
    device = {**dict(parse_target("vulkan").export()), "max_storage_buffer_range": 119_999}
    with pytest.raises(UnsupportedModelError, match="at most 119999 bytes .* 1×3×100×100 float32"):
        compile_model(module, signature, target=Target(device, "llvm"))
