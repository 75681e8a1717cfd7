"""Sorts and scans on a GPU: right, and with no memory beside the plan."""

import numpy as np
import pytest
from tvm import relax

from support.interpreter import run
from support.relax_models import module_of
from tvm_vision.compiler import compile_model
from tvm_vision.schedules import ScheduleConfig
from tvm_vision.schedules.cost.gemm_tile import GemmTile

OP = relax.op
X = np.random.default_rng(3).permutation(3 * 300).reshape(3, 300).astype("float32")


def takes_memory(compiled):
    """The kernels that take memory from the device when they are called."""
    kernels = compiled.library.kernels.items()
    return [name for name, code in kernels if b"TVMBackendAllocWorkspace" in code.host]


def test_a_function_that_takes_memory_is_found():
    """On a processor they do."""
    module, signature = module_of(lambda b, x: b.emit(OP.sort(x, axis=-1)), (2, 1000))

    def build(b, x):
        return b.emit(OP.nn.softmax(x))

    module, signature = module_of(build, (8, 1000))
    assert takes_memory(compile_model(module, signature, target="llvm")) != []


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize(
    ("build", "expected", "workspaces"),
    [
        (lambda b, x: b.emit(OP.sort(x, axis=-1)), np.sort(X), 1),
        (lambda b, x: b.emit(OP.argsort(x, axis=-1)), np.argsort(X), 3),
    ],
    ids=["sort", "argsort"],
)
def test_what_one_launch_hands_to_the_next_is_planned(
    build, expected, workspaces, precision, device_info
):
    module, signature = module_of(build, X.shape)
    compiled = compile_model(module, signature, target="vulkan", precision=precision)
    (kernel,) = compiled.graph["kernels"]
    assert kernel["num_outputs"] == 1 + workspaces
    assert takes_memory(compiled) == []
    np.testing.assert_array_equal(run(compiled, [X])[0], expected)
    assert compiled.memory["peak"] == sum(compiled.graph["storages"])


def test_scans_are_kernels(device_info):
    module, signature = module_of(lambda b, x: b.emit(OP.cumsum(x, axis=1)), X.shape)
    compiled = compile_model(module, signature, target="vulkan")
    np.testing.assert_allclose(run(compiled, [X])[0], np.cumsum(X, axis=1), rtol=1e-5)


def test_blocks_beside_hand_written_threads_are_bound(device_info):
    """A scatter comes with a transposition of its indices in the same function."""
    rows = np.array([[2], [0]], "int64")

    def build(builder, data, updates):
        return builder.emit(OP.scatter_nd(data, relax.const(rows), updates))

    module, signature = module_of(build, X.shape, (2, 300))
    compiled = compile_model(module, signature, target="vulkan")
    updates = np.ones((2, 300), "float32")
    expected = X.copy()
    expected[rows[:, 0]] = updates
    np.testing.assert_array_equal(run(compiled, [X, updates])[0], expected)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_partial_sums_are_planned(precision, device_info):
    """Two convolutions whose sums are cut hand them on in the same memory."""
    rng = np.random.default_rng(4)
    image = rng.standard_normal((1, 32, 7, 7)).astype("float32")
    weights = [rng.standard_normal((32, 32, 3, 3)).astype("float32") / 17 for _ in range(2)]

    def build(builder, x):
        for w in weights:
            x = builder.emit(OP.nn.relu(OP.nn.conv2d(x, relax.const(w), padding=1)))
        return x

    def compiled(parts):
        module, signature = module_of(build, image.shape)
        tile = ScheduleConfig("contraction", GemmTile(32, 32, 32, split_k=parts))
        return compile_model(
            module, signature, target="vulkan", precision=precision, choose=lambda _: tile
        )

    whole, cut = compiled(1), compiled(4)
    first, second = [k for k in cut.graph["kernels"] if "conv2d" in k["function"]]
    assert first["num_outputs"] == second["num_outputs"] == 2
    storage = [t["storage"] for t in cut.graph["tensors"]]
    assert storage[first["args"][-1]] == storage[second["args"][-1]]
    assert takes_memory(cut) == []
    expected = run(whole, [image])[0]
    np.testing.assert_allclose(run(cut, [image])[0], expected, atol=3e-3, rtol=1e-3)
