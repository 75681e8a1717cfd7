"""Convolutions whose taps are moved by offsets give what ONNX's reference gives, far outside of the
image and in each form."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import tvm_vision
from support.onnx_models import make_model

FORMS = [  # image, results, window, groups, offset groups, factors
    ((1, 4, 5, 6), 4, (3, 3), 1, 1, True, {"pads": [1] * 4}),
    ((2, 6, 7, 5), 6, (3, 2), 2, 3, False,
     {"pads": [0, 1, 1, 0], "strides": [2, 1], "dilations": [1, 2]}),
    ((1, 10, 6, 4), 3, (1, 3), 1, 2, True, {"pads": [0, 1, 0, 1]}),
]  # fmt: skip


@cache
def known(number: int) -> tuple[Any, dict[int | str, Any], Any]:
    """A model of a form, what it is given, and what it is to give: the reference takes seconds."""
    shape, results, kernel, groups, parts, factors, more = FORMS[number]
    random = np.random.default_rng(number)
    batch, channels, *sizes = shape
    pads = more["pads"]
    steps, spreads = more.get("strides", (1, 1)), more.get("dilations", (1, 1))
    after = [
        (sizes[i] + pads[i] + pads[i + 2] - spreads[i] * (kernel[i] - 1) - 1) // steps[i] + 1
        for i in range(2)
    ]
    taps = parts * math.prod(kernel)
    given = {"x": shape, "offsets": (batch, 2 * taps, *after)}
    given |= {"factors": (batch, taps, *after)} if factors else {}
    weights = random.standard_normal((results, channels // groups, *kernel)).astype("float32") / 9
    node = helper.make_node(
        "DeformConv", ["x", "w", "offsets", "", "factors"][: 5 if factors else 3], ["y"],
        kernel_shape=kernel, group=groups, offset_group=parts, **more,
    )  # fmt: skip
    model = make_model([node], list(given.items()), [("y", None)], [("w", weights)], opset=19)
    feeds: dict[int | str, Any] = {
        name: random.standard_normal(size).astype("float32") for name, size in given.items()
    }
    feeds["offsets"] *= 3
    return model, feeds, ReferenceEvaluator(model).run(None, feeds)[0]


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize("form", range(len(FORMS)), ids=["plain", "parts", "factors"])
@pytest.mark.parametrize(
    ("target", "precision"), [("vulkan", "fp32"), ("vulkan", "fp16"), ("llvm", "fp32")]
)
def test_deformed_taps(form: int, target: str, precision: str, tmp_path: Path) -> None:
    model, feeds, wanted = known(form)
    tvm_vision.compile(model, tmp_path / "net.tar", target=target, precision=precision)
    found = tvm_vision.load(tmp_path / "net.tar").frame(feeds)["y"]
    np.testing.assert_allclose(found, wanted, 0, 1e-5 if precision == "fp32" else 5e-3)
