"""A fixed sample of ONNX's node tests on llvm and on vulkan; all of them under ``-m slow``.

The full run and the page it generates are made by run.py.
"""

from __future__ import annotations

import pytest

from support.conformance.onnx_cases import node_cases
from support.conformance.operator_report import differences, totals
from support.conformance.run import TARGETS, run_cases
from support.conformance.variants import SIGN, number_names

# One case for each operator that vision networks are made of.
VISION = (
    "test_add_bcast",
    "test_argmax_keepdims_example",
    "test_averagepool_2d_ceil",
    "test_basic_conv_with_padding",
    "test_batchnorm_example",
    "test_clip_example",
    "test_concat_2d_axis_1",
    "test_conv_with_strides_and_asymmetric_padding",
    "test_convinteger_with_padding",
    "test_convtranspose_output_shape",
    "test_convtranspose_pads",
    "test_depthtospace_crd_mode_example",
    "test_flatten_axis1",
    "test_gather_1",
    "test_gemm_all_attributes",
    "test_globalaveragepool",
    "test_gridsample",
    "test_hardsigmoid_example",
    "test_hardswish",
    "test_instancenorm_example",
    "test_leakyrelu_example",
    "test_lrn",
    "test_matmul_3d",
    "test_maxpool_2d_same_upper",
    "test_mul_bcast",
    "test_prelu_broadcast",
    "test_qlinearconv",
    "test_quantizelinear_axis",
    "test_reduce_mean_keepdims_random",
    "test_relu",
    "test_reshape_negative_dim",
    "test_resize_downsample_scales_linear_antialias",
    "test_resize_upsample_scales_nearest",
    "test_resize_upsample_sizes_cubic",
    "test_sigmoid",
    "test_slice",
    "test_softmax_axis_1",
    "test_softplus",
    "test_spacetodepth_crd_mode_example",
    "test_spacetodepth_example",
    "test_split_equal_parts_2d",
    "test_sub_bcast",
    "test_tanh",
    "test_top_k",
    "test_transpose_all_permutations_3",
    "test_unsqueeze_axis_1",
    "test_upsample_nearest",
    "test_where_example",
)
EVERY = 320
TIMEOUT = 60.0  # seconds, a case on a target


def test_a_sample_is_right_on_both_targets() -> None:
    """What passes on llvm passes on vulkan, nothing dies, and vision operators pass on both."""
    known = node_cases()
    # An older onnx lacks the youngest cases.
    vision = {name for name in VISION if name in known}
    assert len(vision) >= len(VISION) - 2
    names = sorted({*list(known)[::EVERY], *vision})
    results = list(run_cases(names, TARGETS, jobs=2, timeout=TIMEOUT))
    assert len(results) == len(TARGETS) * len(names)
    assert differences(results) == []
    assert [r for r in results if r["outcome"] in ("crashed", "timeout", "failed")] == []
    assert [r for r in results if r["case"] in VISION and r["outcome"] != "passed"] == []


# What onnxruntime itself overflows in; and what no network of fixed tensors is made of.
NOT_IN_HALF = ("ReduceLogSumExp", "MaxUnpool", "BatchNormalization")


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_files_of_float16_with_numbers_whose_sums_leave_it(every: int) -> None:
    """First tests of operators: none is refused, and none is infinite where its result is not."""
    first: dict[str, str] = {}
    for name in number_names():
        if f"type=float16{SIGN}scale=300" in name:
            first.setdefault(node_cases()[name.partition(SIGN)[0]].operator, name)
    names = [name for operator, name in first.items() if operator not in NOT_IN_HALF]
    assert len(names) >= 100
    results = list(run_cases(names[::every], ["vulkan"], jobs=2, timeout=TIMEOUT))
    assert [r for r in results if r["outcome"] not in ("passed", "skipped")] == []
    assert totals(results, "vulkan")["passed"] >= 70 // every


@pytest.mark.slow
def test_every_case_that_passes_on_llvm_passes_on_vulkan() -> None:
    results = list(run_cases(node_cases(), TARGETS, jobs=2, timeout=120.0))
    assert differences(results) == []
    assert totals(results, "llvm")["passed"] >= 1300
