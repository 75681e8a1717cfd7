"""The memory plan: nothing alive is overwritten, and reuse is as good as TVM's own planner."""

import re

import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax

from support.compiled import kernels_of
from support.networks import NETWORKS, mainly
from tvm_vision.compiler.graph.lower import lower_to_graph
from tvm_vision.compiler.graph.memory_plan import LiveRange, plan_memory
from tvm_vision.compiler.graph.static_graph import live_ranges
from tvm_vision.compiler.target import parse_target
from tvm_vision.frontend.onnx.load import import_onnx

SIZE = 64


@st.composite
def live_range(draw):
    first = draw(st.integers(0, 30))
    return LiveRange(draw(st.integers(0, 5000)), first, first + draw(st.integers(0, 10)))


@settings(max_examples=300, deadline=None)
@given(st.lists(live_range(), max_size=40))
def test_no_two_live_tensors_share_memory_and_all_fit(ranges):
    plan = plan_memory(ranges)
    assert len(plan.storage_of) == len(ranges)
    for i, a in enumerate(ranges):
        assert plan.sizes[plan.storage_of[i]] >= a.nbytes
        for j in range(i):
            assert (
                plan.storage_of[i] != plan.storage_of[j]
                or a.last < ranges[j].first
                or ranges[j].last < a.first
            )
    alive = (sum(r.nbytes for r in ranges if r.first <= s.first <= r.last) for s in ranges)
    assert max(alive, default=0) <= plan.total <= sum(r.nbytes for r in ranges)
    assert set(plan.storage_of) == set(range(len(plan.sizes)))
    assert plan_memory(ranges) == plan


@pytest.mark.parametrize(
    ("ranges", "total"),
    [
        ([], 0),
        ([LiveRange(10, 0, 1)], 10),
        # A chain: two storages take turns.
        ([LiveRange(10, i, i + 1) for i in range(6)], 20),
        # The large one comes last: a small storage does not have to grow.
        ([LiveRange(1, 0, 0), LiveRange(5, 1, 2), LiveRange(100, 2, 3)], 105),
    ],
)
def test_plans_of_known_size(ranges, total):
    assert plan_memory(ranges).total == total


@pytest.mark.parametrize("wrong", [(-1, 0, 0), (1, 2, 1)])
def test_ranges_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match="first <= last"):
        LiveRange(*wrong)


@pytest.mark.parametrize("name", mainly("blocks", "yoeo_like"))
def test_reuse_is_as_good_as_static_plan_block_memory(name):
    module, _ = import_onnx(NETWORKS[name](SIZE))
    kernels, nodes = kernels_of(module, parse_target("llvm"))
    ours = plan_memory(list(live_ranges(lower_to_graph(kernels, nodes)).values())).total
    assert ours <= _planned_by_tvm(kernels)


def _planned_by_tvm(kernels):
    """Bytes of the storages that TVM plans; as ours, without inputs, outputs and parameters."""
    passes = [
        relax.transform.RewriteDataflowReshape(),
        relax.transform.ToNonDataflow(),
        relax.transform.RemovePurityChecking(),
        relax.transform.CallTIRRewrite(),
        relax.transform.StaticPlanBlockMemory(),
    ]
    with parse_target("llvm"):
        planned = tvm.transform.Sequential(passes)(kernels)
    sizes = re.findall(r"alloc_storage\(R\.shape\(\[(\d+)\]\)", planned["main"].script())
    return sum(map(int, sizes))
