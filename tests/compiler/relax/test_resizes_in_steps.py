"""Resizing along one axis after the other gives the numbers of both at once."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

from support.interpreter import run
from support.relax_models import constant, module_of
from tvm_vision.compiler import compile_model

OP = relax.op
MODES = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")


def both(build, *shapes, opt_levels=(3, 0), **options):
    """Results with and without steps, and the names of the first's kernels."""
    module, signature = module_of(build, *shapes)
    random = np.random.default_rng(1)
    inputs = [random.standard_normal(shape).astype("float32") for shape in shapes]
    compiled = [
        compile_model(module, signature, target="llvm", opt_level=level, **options)
        for level in opt_levels
    ]
    (found,), (wanted,) = (run(model, inputs) for model in compiled)
    return found, wanted, [str(kernel["function"]) for kernel in compiled[0].graph["kernels"]]


def resized(size, mode="half_pixel", method="linear"):
    def build(builder, x):
        y = builder.emit(
            OP.image.resize2d(
                x, size, layout="NCHW", method=method, coordinate_transformation_mode=mode,
                rounding_method="round" if method == "nearest_neighbor" else "",
            )
        )  # fmt: skip
        return builder.emit(OP.nn.relu(y))

    return build


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("method", ["linear", "cubic"])
@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((1, 5, 40, 30), (81, 77)),
        ((2, 3, 33, 90), (66, 60)),
        ((2, 3, 90, 33), (60, 66)),
        ((1, 7, 120, 100), (50, 60)),
        ((1, 2, 1, 1), (100, 90)),
    ],
)
def test_numbers_are_the_same(mode, method, shape, size):
    found, wanted, kernels = both(resized(size, mode, method), shape)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-6 * np.abs(wanted).max())
    assert any("resize_columns" in kernel for kernel in kernels)
    assert any("resize_rows" in kernel for kernel in kernels)


@pytest.mark.parametrize(
    ("shape", "size", "method"),
    [
        ((1, 3, 20, 20), (40, 40), "linear"),  # few
        ((1, 8, 60, 60), (60, 120), "linear"),  # along one axis
        ((1, 8, 60, 60), (120, 120), "nearest_neighbor"),
    ],
)
def test_what_stays_as_it_is(shape, size, method):
    mode = "asymmetric" if method == "nearest_neighbor" else "half_pixel"
    found, wanted, kernels = both(resized(size, mode, method), shape)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6)
    assert not any("resize_rows" in kernel for kernel in kernels)


@pytest.mark.parametrize("kind", ["uint8", "int32"])
def test_integers_are_cut_off_once(kind):
    def build(builder, x):
        large = builder.emit(OP.multiply(x, relax.const(np.float32(40.0))))
        whole = builder.emit(OP.astype(builder.emit(OP.abs(large)), kind))
        y = OP.image.resize2d(whole, (131, 100), layout="NCHW", method="linear")
        return builder.emit(OP.astype(builder.emit(y), "float32"))

    found, wanted, kernels = both(build, (1, 3, 60, 70))
    np.testing.assert_array_equal(found, wanted)
    assert not any("resize_rows" in kernel for kernel in kernels)


@pytest.mark.parametrize("channels", [21, 32])
@pytest.mark.parametrize(("size", "in_steps"), [((80, 72), True), ((22, 20), False)])
def test_what_is_enlarged_at_the_end_is_unpacked_before(channels, size, in_steps):
    """Classes of pixels: blocks of channels end where there are fewer numbers."""

    def build(builder, x):
        y = builder.emit(OP.nn.conv2d(x, constant(1, channels, 12, 1, 1)[0]))
        return builder.emit(OP.image.resize2d(y, size, layout="NCHW", method="linear"))

    found, wanted, kernels = both(build, (1, 12, 20, 18))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=3e-6 * np.abs(wanted).max())
    assert any("resize_rows" in kernel for kernel in kernels) == in_steps
