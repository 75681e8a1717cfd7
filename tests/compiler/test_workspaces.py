"""Sorts and scans on a GPU: right, and with no memory beside the plan."""

import re

import numpy as np
import pytest
from interpreter import run
from relax_models import module_of
from tvm import relax

from tvm_vision.compiler import compile_model

OP = relax.op
X = np.random.default_rng(3).permutation(3 * 300).reshape(3, 300).astype("float32")


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize(
    ("build", "expected", "workspaces"),
    [
        (lambda b, x: b.emit(OP.sort(x, axis=-1)), np.sort(X), 1),
        (lambda b, x: b.emit(OP.argsort(x, axis=-1)), np.argsort(X), 3),
        (
            lambda b, x: b.emit(OP.topk(x, k=5, axis=-1, ret_type="values")),
            -np.sort(-X)[:, :5],
            None,
        ),
    ],
    ids=["sort", "argsort", "topk"],
)
def test_what_one_launch_hands_to_the_next_is_planned(
    build, expected, workspaces, precision, device_info
):
    module, signature = module_of(build, X.shape)
    compiled = compile_model(module, signature, target="vulkan", precision=precision)
    (kernel,) = compiled.graph["kernels"]
    if workspaces is not None:
        assert kernel["num_outputs"] == 1 + workspaces
    functions = re.findall(r"^.*AllocWorkspace.*$", compiled.library.inspect_source("ll"), re.M)
    assert [line for line in functions if not line.startswith("@")] == []
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
