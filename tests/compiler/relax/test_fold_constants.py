"""Folding with numpy: the same results as TVM's operators, and nothing folded that depends on x."""

import numpy as np
import onnx
import pytest
import tvm
from tvm import relax

from support.compiled import MATRIX_GPU
from support.lowering import HOST
from support.networks import Builder
from support.quantized_networks import Quantized
from tvm_vision.compiler.compilation import Compilation
from tvm_vision.compiler.pipeline import run as run_pipeline
from tvm_vision.compiler.relax.fold_constants import fold_constants, fold_moves
from tvm_vision.compiler.relax.kernel_calls import bindings_of
from tvm_vision.compiler.relax.rewriting import constant_of
from tvm_vision.compiler.target import parse_target
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.options import CompileOptions

SEED = 5


def module_of(build):
    """Module with main(x: float32[4]) that returns what ``build(builder, x)`` makes."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([4], "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(build(builder, x))
        builder.emit_func_output(result)
    return builder.get()


def run(module, x):
    executable = tvm.compile(module, tvm.target.Target(HOST))
    machine = relax.VirtualMachine(executable, tvm.cpu())
    return machine["main"](tvm.runtime.tensor(x)).numpy()


def operators(module):
    bindings = [b for block in module["main"].body.blocks for b in block.bindings]
    return [b.value.op.name for b in bindings if isinstance(b.value, relax.Call)]


def clip(builder, x):
    low = relax.const(np.float32(-1.0))
    unknown = builder.emit(relax.op.isnan(low))
    bound = builder.emit(relax.op.where(unknown, relax.const(np.float32(-np.inf)), low))
    return relax.op.maximum(x, bound)


def reshaped(builder, x):
    table = relax.const(np.random.default_rng(SEED).standard_normal((2, 2)).astype(np.float32))
    return relax.op.add(x, builder.emit(relax.op.reshape(table, (4,))))


def measured(builder, x):
    """The sizes of a value, one of them taken, and compared: what importers make of ScatterND."""
    sizes = builder.emit(relax.op.shape_to_tensor(builder.emit(relax.op.shape_of(x))))
    last = builder.emit(relax.op.take(sizes, relax.const(0, "int64"), axis=0, mode="wrap"))
    small = builder.emit(relax.op.less(last, relax.const(9, "int64")))
    return relax.op.where(small, x, relax.const(np.zeros(4, np.float32)))


def empty(builder, x):
    nothing = builder.emit(relax.op.reshape(relax.const(np.zeros((0, 2), np.float32)), (0,)))
    return relax.op.concat([x, nothing])


def test_what_depends_on_the_input_stays():
    module = module_of(lambda builder, x: relax.op.reshape(x, (2, 2)))
    assert operators(fold_constants(module)) == ["relax.reshape"]


def transposed(builder, x):
    """By axes, and reversed where there are none."""
    table = relax.const(np.random.default_rng(SEED).standard_normal((2, 2, 1)).astype(np.float32))
    turned = builder.emit(relax.op.permute_dims(table, [1, 2, 0]))
    turned = builder.emit(relax.op.permute_dims(turned))
    return relax.op.add(x, builder.emit(relax.op.reshape(turned, (4,))))


def padded(mode):
    def build(builder, x):
        row = relax.const(np.array([[1, 2]], np.float32))
        row = builder.emit(relax.op.nn.pad(row, [0, 0, 1, 1], mode, 0.5))
        return relax.op.add(x, builder.emit(relax.op.reshape(row, (4,))))

    return build


def bytes_of(axis, scale, zero):
    """Weights of bytes, with numbers for each row of ``axis`` or for all."""

    def build(builder, x):
        table = relax.const(np.arange(-8, 8, dtype=np.int8).reshape(4, 4))
        parts = relax.const(np.float32(scale)), relax.const(np.int8(zero))
        plain = builder.emit(relax.op.dequantize(table, *parts, axis, "float32"))
        return relax.op.matmul(x, plain)

    return build


@pytest.mark.parametrize(
    ("fold", "build", "left"),
    [
        (fold_constants, clip, ["relax.maximum"]),
        (fold_constants, reshaped, ["relax.add"]),
        (fold_constants, empty, ["relax.concat"]),
        (fold_constants, measured, ["relax.shape_of", "relax.where"]),
        (fold_moves, bytes_of(0, [0.1, 0.2, 0.3, 0.4], [0, 1, -2, 3]), ["relax.matmul"]),
        (fold_moves, bytes_of(1, [0.7, 0.2, 0.3, 0.4], [0, 127, -128, 3]), ["relax.matmul"]),
        (fold_moves, bytes_of(0, 0.1, 5), ["relax.matmul"]),
        (fold_moves, transposed, ["relax.add"]),
        (fold_moves, padded("constant"), ["relax.add"]),
        (fold_moves, padded("reflect"), ["relax.nn.pad", "relax.reshape", "relax.add"]),
    ],
)
def test_constants_fold_to_the_same_result(fold, build, left):
    module = module_of(build)
    folded = fold(module)
    assert operators(folded) == left
    x = np.random.default_rng(SEED).standard_normal(4).astype(np.float32)
    np.testing.assert_array_equal(run(folded, x), run(module, x))


def network():
    """Three kinds of convolutions, and a product of matrices."""
    b = Builder(2)
    x = b.conv("input", 3, 16, 3, 2, act="relu")
    x = b.conv(b.conv(x, 16, 16, 3, groups=16), 16, 32, 1)
    return b.model(16, [(b.head(x, 32, 10), onnx.TensorProto.FLOAT)])


def quantized_network():
    net = Quantized((1, 3, 16, 16))
    x = net.rounded("x", 0.01, 3)
    x = net.rounded(net.conv(x, 16, 3, 3, 3, scale=0.01, pads=[1] * 4), 0.01, 3)
    x = net.conv(x, 16, 1, 3, 3, scale=0.01, pads=[1] * 4, group=16)
    return net.model(net.rounded(x, 0.01, 3))


@pytest.mark.parametrize("build", [network, quantized_network])
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("target", ["llvm", "renoir", MATRIX_GPU])
def test_no_weights_are_left_to_be_compiled(build, layout, target):
    """TVM would build a function with LLVM for each, in every compilation."""
    module, _ = import_onnx(build())
    options = CompileOptions.of(None, layout=layout, precision="fp16", int8="on")
    made = Compilation(module, parse_target(target), options)
    main = run_pipeline(made, last="fold_moves").module["main"]
    lookup = dict(bindings_of(main)).get
    left = [
        value.op.name
        for _, value in bindings_of(main)
        if isinstance(value, relax.Call)
        and all(
            isinstance(arg.ty, relax.ShapeType) or constant_of(arg, lookup) is not None
            for arg in value.args
        )
    ]
    assert left == []


@pytest.mark.parametrize("operator", ["mean", "sum", "variance"])
@pytest.mark.parametrize("axis", [None, [1]], ids=str)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_sums_of_constants_lose_nothing(operator, axis, dtype):
    """Of 3000 numbers near a half, which stand still at 1024 where they are added up in float16."""
    numbers = (np.random.default_rng(SEED).random((4, 3000)) + 0.01).astype(dtype)
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([4, 1], dtype))
    with builder.function("main", [x]):
        with builder.dataflow():
            made = getattr(relax.op, operator)(relax.const(numbers, dtype), axis, True)
            result = builder.emit_output(relax.op.add(x, builder.emit(made)))
        builder.emit_func_output(result)
    module = fold_constants(builder.get())
    assert operators(module) == ["relax.add"]
    folded = next(value for _, value in bindings_of(module["main"]))
    known = getattr(np, {"variance": "var"}.get(operator, operator))
    expected = known(numbers.astype(np.float64), axis=None if axis is None else 1, keepdims=True)
    found = constant_of(folded, lambda _: None)
    assert found is not None
    np.testing.assert_allclose(found, expected, rtol=2e-3)
