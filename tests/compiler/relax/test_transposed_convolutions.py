"""Transposed convolutions as convolutions of their phases give what onnxruntime gives."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from support.onnx_models import make_model, run_on_cpu
from support.relax_models import operators_in
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.relax.transposed_convolutions import transposed_convolutions
from tvm_vision.frontend.onnx.load import import_onnx

RANDOM = np.random.default_rng(5)


def model_of(kernel, strides, sizes, batch=1, inputs=6, outputs=5, group=1, **options):
    """A transposed convolution with bias."""
    weights = RANDOM.standard_normal((inputs, outputs // group, *kernel)).astype("float32")
    bias = RANDOM.standard_normal(outputs).astype("float32")
    node = helper.make_node(
        "ConvTranspose", ["x", "w", "b"], ["y"], strides=strides, group=group, **options
    )
    given = [("x", (batch, inputs, *sizes))]
    return make_model([node], given, [("y", None)], [("w", weights), ("b", bias)])


def left(model):
    """The module behind the pass, and how many transposed convolutions there are in it."""
    module = transposed_convolutions(import_onnx(model)[0])
    return module, sum(name.endswith("_transpose") for name in operators_in(module))


def assert_right(model, found, x):
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (wanted,) = session.run(None, {"x": x})
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=0, atol=3e-6 * np.abs(wanted).max())


def image(model):
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    return RANDOM.standard_normal(shape).astype("float32")


CASES = [
    # Upsampling: windows side by side, of two and four; of generators; with a rest on one side.
    {"kernel": [2, 2], "strides": [2, 2], "sizes": [5, 7]},
    {"kernel": [4, 4], "strides": [4, 4], "sizes": [3, 4], "batch": 2},
    {"kernel": [4, 4], "strides": [2, 2], "sizes": [5, 4], "pads": [1, 1, 1, 1]},
    {
        "kernel": [3, 3],
        "strides": [2, 2],
        "sizes": [5, 4],
        "pads": [1, 1, 1, 1],
        "output_padding": [1, 1],
    },
    {
        "kernel": [5, 3],
        "strides": [3, 2],
        "sizes": [4, 6],
        "pads": [2, 0, 1, 1],
        "output_padding": [2, 0],
    },
    {"kernel": [1, 1], "strides": [2, 2], "sizes": [4, 4]},
    {"kernel": [3, 2], "strides": [1, 2], "sizes": [4, 4], "pads": [1, 0, 1, 0]},
    {"kernel": [2, 3, 4], "strides": [2, 2, 3], "sizes": [3, 4, 2], "pads": [0, 1, 1, 0, 1, 2]},
    {"kernel": [2, 2], "strides": [3, 3], "sizes": [3, 3]},  # pixels that nothing is added to
    *(
        ONE_PHASE := [
            {"kernel": [3, 3], "strides": [1, 1], "sizes": [4, 4]},
            {"kernel": [9, 5], "strides": [1, 1], "sizes": [6, 7], "pads": [4, 2, 4, 1]},
            {
                "kernel": [3, 3],
                "strides": [1, 1],
                "sizes": [6, 5],
                "pads": [2, 0, 1, 3],
                "dilations": [2, 3],
            },
            {"kernel": [3, 3], "strides": [1, 1], "sizes": [4, 4], "outputs": 6, "group": 6},
            {"kernel": [3, 2], "strides": [1, 1], "sizes": [4, 4], "outputs": 4, "group": 2},
            {"kernel": [2, 1, 3], "strides": [1, 1, 1], "sizes": [3, 4, 4], "dilations": [1, 1, 2]},
        ]
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_phases_are_the_transposed_convolution(case):
    model = model_of(**case)
    module, transposed = left(model)
    assert transposed == 0
    x = image(model)
    assert_right(model, run_on_cpu(module, x)[0], x)


# Kernels, strides and sizes: from, and below.
DRAWN = [(1, 6), (1, 4), (7, 11)]


@pytest.mark.parametrize("count", [16, pytest.param(100, marks=pytest.mark.slow)])
def test_of_any_sizes(count):
    """So many drawn at random, those of one phase included."""
    for _ in range(count):
        axes = int(RANDOM.integers(2, 4))
        kernel, strides, sizes = (
            [int(n) for n in RANDOM.integers(low, high, axes)] for low, high in DRAWN
        )
        pads = [int(RANDOM.integers(0, k)) for k in (*kernel, *kernel)]
        model = model_of(kernel, strides, sizes, pads=pads)
        module, transposed = left(model)
        assert transposed == 0
        x = image(model)
        assert_right(model, run_on_cpu(module, x)[0], x)


TWICE = {"strides": [2, 2], "sizes": [4, 4]}


@pytest.mark.parametrize(
    "case",
    [
        {"kernel": [3, 3], **TWICE, "dilations": [2, 2]},
        {"kernel": [3, 3], **TWICE, "strides": [2, 1], "dilations": [2, 1]},
        # Of which more is cut off than a pixel has weights.
        {"kernel": [2, 2], "strides": [1, 1], "sizes": [6, 6], "pads": [2, 0, 0, 0]},
        {"kernel": [4, 4], **TWICE, "inputs": 6, "outputs": 6, "group": 6},
        {"kernel": [2, 2], **TWICE, "inputs": 6, "outputs": 4, "group": 2},  # sums of three
    ],
    ids=str,
)
def test_others_stay_as_they_are(case):
    assert left(model_of(**case))[1] == 1


@pytest.mark.parametrize("case", ONE_PHASE, ids=str)
def test_of_one_phase_everywhere(case):
    """Processors have tiles of their own for strides, and for one phase those of convolutions."""
    module = transposed_convolutions(import_onnx(model_of(**case))[0], phases=False)
    assert not any(name.endswith("_transpose") for name in operators_in(module))
    twice = import_onnx(model_of([2, 2], **TWICE))[0]
    assert any(
        name.endswith("_transpose")
        for name in operators_in(transposed_convolutions(twice, phases=False))
    )


def test_groups_with_long_sums_are_phases():
    options = {"inputs": 80, "outputs": 4, "group": 2, "pads": [1, 0, 1, 1], "batch": 2}
    model = model_of([4, 4], [2, 2], [4, 5], **options)
    module, transposed = left(model)
    assert transposed == 0
    x = image(model)
    assert_right(model, run_on_cpu(module, x)[0], x)


def drawn():
    """A transposed convolution in groups, or dilated, of one to three axes."""
    count = int(RANDOM.choice([1, 2, 2, 3]))
    kernel, strides, dilations, sizes = (
        [int(n) for n in RANDOM.integers(low, high, count)]
        for low, high in ((1, 7), (1, 5), (1, 4), (3, 9 - count))
    )
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    group, inputs, outputs = (int(n) for n in RANDOM.integers(1, (5, 3, 3)))
    return {
        "kernel": kernel, "strides": strides, "dilations": dilations, "sizes": sizes,
        "pads": [int(RANDOM.integers(0, min(n, 3))) for n in reach * 2],
        "output_padding": [int(RANDOM.integers(0, stride)) for stride in strides],
        "batch": int(RANDOM.integers(1, 3)), "group": group, "inputs": group * inputs,
        "outputs": group * outputs,
    }  # fmt: skip


@pytest.mark.parametrize("number", range(8))
def test_of_one_kernel_on_a_vulkan_device(number, tmp_path):
    """With what meets a pixel alone, at whatever strides, pads and dilations."""
    import tvm_vision

    case, precision = drawn(), ("fp32", "fp16")[number % 2]
    model = model_of(**case)
    tvm_vision.compile(model, tmp_path / "net.tar", target="vulkan", precision=precision)
    x = image(model)
    found = tvm_vision.load(tmp_path / "net.tar", device="vulkan").frame({"x": x})["y"]
    (wanted,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    assert found.shape == wanted.shape, case
    bound = 3e-6 if precision == "fp32" else 3e-3
    np.testing.assert_allclose(found, wanted, 0, bound * np.abs(wanted).max(), err_msg=str(case))


ON_A_DEVICE = [CASES[0], CASES[2], CASES[7], CASES[8], ONE_PHASE[1], ONE_PHASE[2]]


@pytest.mark.parametrize("case", ON_A_DEVICE, ids=str)
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_on_a_vulkan_device(case, precision, tmp_path):
    import tvm_vision

    model = model_of(inputs=16, outputs=8, **case)
    tvm_vision.compile(model, tmp_path / "net.tar", target="vulkan", precision=precision)
    x = image(model)
    found = tvm_vision.load(tmp_path / "net.tar", device="vulkan").frame({"x": x})["y"]
    if precision == "fp32":
        assert_right(model, found, x)
    else:
        (wanted,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
        assert np.abs(found - wanted).max() < 3e-3 * np.abs(wanted).max()


@pytest.mark.parametrize("group", [1, 16])
def test_a_gpu_multiplies_with_no_zeros_between_pixels(group):
    """As many operations as there are weights for each pixel, and not the square of the stride
    times as many."""
    imported = import_onnx(model_of([2, 2], [2, 2], [16, 16], inputs=32, outputs=16, group=group))
    kernels = compile_model(*imported, target="vulkan").graph["kernels"]
    once = 2 * 16 * 16 * 32 * 16 * 2 * 2 // group
    assert sum(kernel["operations"] for kernel in kernels) < 1.3 * once
