"""Folding with numpy: the same results as TVM's operators, and nothing folded that depends on x."""

import numpy as np
import pytest
import tvm
from tvm import relax

from tvm_vision.compiler.relax.fold_constants import fold_constants

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
    executable = tvm.compile(module, tvm.target.Target("llvm"))
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


def empty(builder, x):
    nothing = builder.emit(relax.op.reshape(relax.const(np.zeros((0, 2), np.float32)), (0,)))
    return relax.op.concat([x, nothing])


@pytest.mark.parametrize(
    ("build", "left"),
    [(clip, ["relax.maximum"]), (reshaped, ["relax.add"]), (empty, ["relax.concat"])],
)
def test_constants_fold_to_the_same_result(build, left):
    module = module_of(build)
    folded = fold_constants(module)
    assert operators(folded) == left
    x = np.random.default_rng(SEED).standard_normal(4).astype(np.float32)
    np.testing.assert_array_equal(run(folded, x), run(module, x))


def test_what_depends_on_the_input_stays():
    module = module_of(lambda builder, x: relax.op.reshape(x, (2, 2)))
    assert operators(fold_constants(module)) == ["relax.reshape"]
