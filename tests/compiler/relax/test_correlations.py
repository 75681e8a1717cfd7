"""Maps that compare two images place by place as one kernel, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from support.compiled import FIXED, kernels_of
from support.conformance.conformance_worker import executor
from support.onnx_models import make_model
from support.relax_models import operators_in
from tvm_vision.compiler.relax.correlations import NAME, Steps
from tvm_vision.frontend.onnx.load import import_onnx

pytestmark = pytest.mark.usefixtures("device_info")

SHAPE = (2, 6, 9, 14)
SQUARE = [(down, aside) for down in range(5) for aside in range(5)]
ROW = [(0, 7 - place) for place in range(8)]


def volume(
    offsets: list[tuple[int, int]],
    *,
    reach: tuple[int, int],
    groups: int = 1,
    sum_of: str = "ReduceMean",
    stacked: bool = False,
    groups_last: bool = False,
) -> Any:
    """A model of maps of ``a`` and of ``b``, which is larger by ``reach``, at each offset.

    Those of several groups are concatenated along an axis of their own, or, groups last, as
    channels; stacked: those of one group are without an axis before.
    """
    images, channels, rows, width = SHAPE
    constants: dict[str, np.ndarray] = {"axes": np.array([2, 3])}
    grouped = groups > 1
    nodes, maps = [], []
    if grouped:
        constants["split"] = np.array([images, groups, channels // groups, rows, width])
        nodes.append(helper.make_node("Reshape", ["a", "split"], ["left"]))
    left = "left" if grouped else "a"
    for n, (down, aside) in enumerate(offsets):
        constants[f"from{n}"] = np.array([down, aside])
        constants[f"to{n}"] = np.array([down + rows, aside + width])
        nodes.append(helper.make_node("Slice", ["b", f"from{n}", f"to{n}", "axes"], [f"s{n}"]))
        right = f"s{n}"
        if grouped:
            right = f"r{n}"
            nodes.append(helper.make_node("Reshape", [f"s{n}", "split"], [right]))
        operands = [left, right] if n % 2 else [right, left]
        nodes.append(helper.make_node("Mul", operands, [f"p{n}"]))
        constants["over"] = np.array([2 if grouped else 1])
        kept = int(not (groups_last or stacked))
        nodes.append(helper.make_node(sum_of, [f"p{n}", "over"], [f"m{n}"], keepdims=kept))
        maps.append(f"m{n}")
        if stacked:
            nodes.append(helper.make_node("Unsqueeze", [f"m{n}", "over"], [f"u{n}"]))
            maps[-1] = f"u{n}"
    axis = 2 if grouped and not groups_last else 1
    nodes.append(helper.make_node("Concat", maps, ["y"], axis=axis))
    larger = (images, channels, rows + reach[0], width + reach[1])
    inputs = [("a", SHAPE), ("b", larger)]
    return make_model(nodes, inputs, [("y", None)], list(constants.items()), opset=18)


FORMS: dict[str, Any] = {
    "a square": volume(SQUARE, reach=(4, 4)),
    "a square, column by column": volume([(x, y) for y, x in SQUARE], reach=(4, 4)),
    "every other place": volume([(2 * y, 2 * x) for y, x in SQUARE], reach=(8, 8)),
    "sums": volume(SQUARE, reach=(4, 4), sum_of="ReduceSum"),
    "a row": volume(ROW, reach=(0, 7)),
    "a row, stacked": volume(ROW, reach=(0, 7), stacked=True),
    "groups": volume(ROW, reach=(0, 7), groups=3),
    "groups behind places": volume(ROW, reach=(0, 7), groups=3, groups_last=True),
}
OTHERS: dict[str, Any] = {
    "places without an order": volume([(0, 0), (1, 1), (0, 3), (2, 2), (1, 0)], reach=(2, 3)),
    "few": volume(ROW[:3], reach=(0, 7)),
    "largest": volume(ROW, reach=(0, 7), sum_of="ReduceMax"),
}


@pytest.mark.parametrize("form", [*FORMS, *OTHERS])
def test_correlations_are_those_of_onnxruntime(form: str) -> None:
    model = FORMS.get(form) or OTHERS[form]
    kernels, _ = kernels_of(import_onnx(model)[0], FIXED)
    made = [NAME in str(name) for name in kernels.get_global_vars()]
    assert sum(made) == (form in FORMS)
    if form in FORMS:  # and a reshape, which moves nothing
        assert operators_in(kernels).count("call_tir") <= 2
    random = np.random.default_rng(3)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    inputs = [
        random.standard_normal(each.shape).astype(np.float32) for each in session.get_inputs()
    ]
    (wanted,) = session.run(None, dict(zip("ab", inputs, strict=True)))
    for options, bound in (({}, 1e-5), ({"precision": "fp16"}, 2e-3)):
        (found,) = executor(import_onnx(model), "vulkan", **options)(*inputs)
        assert found.shape == wanted.shape
        assert np.abs(found - wanted).max() <= bound * np.abs(wanted).max()


@pytest.mark.parametrize(
    ("offsets", "counts"),
    [(SQUARE, (5, 5)), (ROW, (1, 8)), ([(4, 4)] * 4, (1, 4)), (SQUARE[:7], None)],
    ids=["square", "row", "one place", "a square that ends early"],
)
def test_steps_are_those_of_places(
    offsets: list[tuple[int, int]], counts: tuple[int, int] | None
) -> None:
    found = Steps.of(offsets)
    assert (found and found.counts) == counts
    if found is not None:
        outer, inner = found.counts
        assert [found.at(i, j) for i in range(outer) for j in range(inner)] == offsets
