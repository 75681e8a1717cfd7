"""Scales of channels in weights, and what is left out of them where fp16 has no digits for it."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

from support.interpreter import run
from support.relax_models import constant, module_of, operators_in
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.relax.fold_scale_axis import fold_scales
from tvm_vision.compiler.relax.kernel_calls import bindings_of
from tvm_vision.compiler.relax.operators import operator_of
from tvm_vision.compiler.relax.rewriting import constant_of

KINDS = ("product", "convolution", "transposed")
IN, OUT = 32, 32  # whole blocks of any processor


def layer_of(kind, scale):
    """A linear operator, a bias and a layer scale, with its signature; and the weights, (IN, OUT),
    biases and scales, both (OUT,)."""
    expr, weights = constant(1, IN, OUT, low=-0.1, high=0.1)
    row = (OUT,) if kind == "product" else (OUT, 1, 1)
    _, biases = constant(2, OUT)
    scales = (scale * constant(3, OUT, low=0.5, high=1.5)[1]).astype("float32")

    def build(builder, x):
        if kind == "product":
            sums = relax.op.matmul(x, expr)
        elif kind == "convolution":
            sums = relax.op.nn.conv2d(x, relax.const(weights.T.reshape(OUT, IN, 1, 1)))
        else:
            sums = relax.op.nn.conv2d_transpose(x, relax.const(weights.reshape(IN, OUT, 1, 1)))
        biased = relax.op.add(builder.emit(sums), relax.const(biases.reshape(row)))
        scaled = relax.op.multiply(builder.emit(biased), relax.const(scales.reshape(row)))
        return builder.emit(scaled)

    shape = (4, IN) if kind == "product" else (1, IN, 5, 5)
    return *module_of(build, shape), weights, biases, scales


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e-5, 1e-6, 1e-9, 1e-30])
def test_scaled_layers_are_right_in_fp16(kind, scale):
    """With weights of fp16, which have their digits. A convolution's result may be stored as fp16
    in another order before it is given, and a step of fp16 is 2^-24 there."""
    module, signature, weights, biases, scales = layer_of(kind, scale)
    compiled = compile_model(module, signature, target="llvm", precision="fp16")
    stored = {value.dtype.name for value in compiled.params.values() if value.size == IN * OUT}
    assert stored == {"float16"}
    x = np.random.default_rng(4).uniform(-1, 1, signature.inputs[0].shape).astype("float32")
    (found,) = run(compiled, [x])
    step = 0.0 if kind == "product" else 2.0**-24
    rows = x if kind == "product" else np.moveaxis(x, 1, -1)
    wanted = (rows.astype(np.float64) @ weights + biases) * scales
    found = found if kind == "product" else np.moveaxis(found, 1, -1)
    assert np.abs(found - wanted).max() < 2e-3 * np.abs(wanted).max() + step


# Scales, shifts, means and variances of a batch norm that nothing linear comes before.
NORM = [constant(i, IN, low=low, high=2.0) for i, low in enumerate((0.5, -1.0, -1.0, 0.1))]


@pytest.mark.parametrize("axis", [1, 3])
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("target", ["llvm", "vulkan"])
def test_a_normalization_before_a_block_is_one_kernel(axis, precision, target):
    """With the ReLU behind it, which saw an item of a tuple."""
    shape = (1, IN, 5, 5) if axis == 1 else (1, 5, 5, IN)

    def build(builder, x):
        given = [expr for expr, _ in NORM]
        made = relax.op.nn.batch_norm(x, *given, axis=axis, training=False)
        item = builder.emit(relax.TupleGetItem(builder.emit(made), 0), "norm")
        return builder.emit(relax.op.nn.relu(item))

    module, signature = module_of(build, shape)
    compiled = compile_model(module, signature, target=target, precision=precision)
    assert len(compiled.graph["kernels"]) == 1
    x = np.random.default_rng(5).uniform(-1, 1, shape).astype("float32")
    (found,) = run(compiled, [x])
    scale, shift, mean, variance = (value for _, value in NORM)
    wanted = (np.moveaxis(x, axis, -1) - mean) / np.sqrt(variance + 1e-5) * scale + shift
    wanted = np.maximum(np.moveaxis(wanted, -1, axis), 0)
    np.testing.assert_allclose(found, wanted, atol=(1e-6 if precision == "fp32" else 1e-2))


def test_a_tensor_that_is_read_elsewhere_begins_anew():
    """Of a chain of operators the first two are handed out, too."""
    rows = [constant(seed, IN, 1, 1, low=0.5) for seed in range(5)]

    def build(builder, x):
        inner = builder.emit(relax.op.subtract(x, rows[0][0]))
        inner = builder.emit(relax.op.divide(inner, rows[1][0]))
        outer = builder.emit(relax.op.multiply(inner, rows[2][0]))
        outer = builder.emit(relax.op.subtract(rows[3][0], outer))
        return [inner, builder.emit(relax.op.divide(outer, rows[4][0]))]

    module, signature = module_of(build, (1, IN, 3, 3))
    made = relax.transform.DeadCodeElimination()(fold_scales(module))
    names = [name for name in operators_in(made) if name]
    assert names == ["subtract", "divide", "multiply", "add"]
    compiled = compile_model(module, signature, target="llvm")
    x = np.random.default_rng(6).uniform(-1, 1, (1, IN, 3, 3)).astype("float32")
    a, b, c, d, e = (value for _, value in rows)
    inner, outer = run(compiled, [x])
    np.testing.assert_allclose(inner, (x - a) / b, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(outer, (d - (x - a) / b * c) / e, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("scale", "left"), [(1.0, False), (0.05, False), (1e-3, True)])
def test_one_operator_more_where_weights_would_be_too_small(kind, scale, left):
    module, *_ = layer_of(kind, scale)
    made = relax.transform.DeadCodeElimination()(fold_scales(module))
    calls = [value for _, value in bindings_of(made["main"]) if isinstance(value, relax.Call)]
    names = [operator_of(call).removeprefix("relax.") for call in calls]
    assert names[1:] == (["multiply", "add"] if left else ["add"])
    weights = constant_of(calls[0].args[1], dict(bindings_of(made["main"])).get)
    assert weights is not None and np.abs(weights).max() > 2.0**-10


@pytest.mark.parametrize("largest", [1e-6, 5e-4, 2e-3, 0.0])
@pytest.mark.parametrize("biased", [True, False])
def test_weights_that_are_small_in_the_model_are_larger_too(largest, biased):
    """As where an exporter has folded a layer scale, by which no product of fp16 is left."""
    weights = np.random.default_rng(7).uniform(-1, 1, (8, 6)).astype("float32")
    weights *= np.float32(largest) / np.abs(weights).max()

    def build(builder, x):
        y = builder.emit(relax.op.matmul(x, relax.const(weights)))
        return builder.emit(relax.op.add(y, constant(1, 6)[0])) if biased else y

    module, signature = module_of(build, (5, 8))
    made = relax.transform.DeadCodeElimination()(fold_scales(module))
    names = [name for name in operators_in(made) if name]
    small = 0 < largest < 2.0**-10
    assert names == ["matmul", *["multiply"] * small, *["add"] * biased]
    if small:
        calls = [value for _, value in bindings_of(made["main"]) if isinstance(value, relax.Call)]
        kept = constant_of(calls[0].args[1], dict(bindings_of(made["main"])).get)
        assert kept is not None and 0.04 < np.abs(kept).max() < 0.1
    x = np.random.default_rng(8).uniform(-1, 1, (5, 8)).astype("float32")
    (found,) = run(compile_model(module, signature, target="llvm"), [x])
    expected = x @ weights + (constant(1, 6)[1] if biased else 0)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * (1 if biased else largest))
