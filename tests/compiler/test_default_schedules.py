"""Which kernels share their sums among threads: decided by the number of outputs."""

import pytest
import tvm
from tvm import te, tirx

from tvm_vision.compiler.default_schedules import (
    MANY_OUTPUTS,
    FewOutputs,
    default_schedules,
    reduction_outputs,
)

TARGET = tvm.target.Target(
    {
        "kind": "vulkan",
        "max_threads_per_block": 256,
        "max_shared_memory_per_block": 32768,
        "thread_warp_size": 32,
    },
    host="llvm",
)


def row_sums(rows, columns):
    """The kernel of float32 [rows, columns] -> [rows]."""
    source = te.placeholder((rows, columns), name="source")
    axis = te.reduce_axis((0, columns), name="axis")
    sums = te.compute((rows,), lambda row: te.sum(source[row, axis], axis=axis), name="sums")
    return te.create_prim_func([source, sums])


def doubled(size):
    source = te.placeholder((size,), name="source")
    return te.create_prim_func([source, te.compute((size,), lambda i: source[i] * 2)])


class Always:
    """A rule that takes every kernel."""

    def apply(self, func, target, tunable):
        return "a schedule"


@pytest.mark.parametrize(
    ("func", "outputs"), [(row_sums(6, 4), 6), (row_sums(1, 4), 1), (doubled(8), 0)]
)
def test_outputs_of_reductions_are_counted(func, outputs):
    assert reduction_outputs(func) == outputs


@pytest.mark.parametrize(
    ("rows", "expected"), [(MANY_OUTPUTS - 1, "a schedule"), (MANY_OUTPUTS, None)]
)
def test_rules_for_reductions_are_kept_from_many_outputs(rows, expected):
    assert FewOutputs(Always()).apply(row_sums(rows, 9), TARGET, False) == expected


@pytest.mark.parametrize("func", [row_sums(3, 1000), row_sums(MANY_OUTPUTS, 9), doubled(70000)])
def test_every_kernel_gets_threads(func):
    with TARGET:
        module = default_schedules()(tvm.IRModule({"kernel": func}))
    scheduled = module["kernel"]
    assert isinstance(scheduled, tirx.PrimFunc)
    assert "threadIdx.x" in scheduled.script()
