"""Images that are resized, or read at places between pixels: right against onnxruntime."""

import math

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from support.conformance.conformance_worker import executor
from support.onnx_models import assert_equals_onnxruntime, image, make_model, run_on_cpu
from tvm_vision.errors import UnsupportedModelError
from tvm_vision.evaluate import Reference
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.frontend.onnx.rewrites import rewrite


def resize_model(shape, output, inputs, opset=19, **attributes):
    """``inputs``: roi, scales and sizes; an empty array is an empty constant, None is left out."""
    names, weights = ["x"], []
    for name, dtype, value in zip(
        ("roi", "scales", "sizes"), (np.float32, np.float32, np.int64), inputs, strict=True
    ):
        names.append("" if value is None else name)
        if value is not None:
            weights.append((name, np.array(value, dtype)))
    node = helper.make_node("Resize", names, ["y"], **attributes)
    return make_model([node], [("x", shape)], [("y", output)], weights, opset=opset)


@pytest.mark.parametrize(
    ("output", "inputs", "attributes"),
    [
        # Empty constants stand for inputs that are left out, as old exporters wrote them.
        ((1, 2, 10, 14), ([], [], [1, 2, 10, 14]), {"mode": "linear"}),
        ((1, 2, 10, 14), ([], [1, 1, 2, 2], None), {"mode": "nearest"}),
        # The scale is not the ratio of the sizes: 7 * 0.6 is 4.2, and the size 4.
        ((1, 2, 3, 4), (None, [1, 1, 0.6, 0.6], None), {"mode": "linear"}),
        ((1, 2, 3, 4), (None, [1, 1, 0.6, 0.6], None), {"mode": "cubic"}),
        ((1, 2, 3, 4), (None, None, [1, 2, 3, 4]), {"mode": "linear", "antialias": 1}),
        ((1, 2, 3, 4), (None, None, [1, 2, 3, 4]), {"mode": "cubic", "antialias": 1}),
        ((1, 2, 10, 7), (None, None, [10]), {"mode": "linear", "axes": [2]}),
        ((1, 4, 5, 7), (None, [1, 2, 1, 1], None), {"mode": "nearest"}),
        (
            (1, 2, 1, 1),
            (None, None, [1, 2, 1, 1]),
            {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
        ),
        (
            (1, 2, 9, 13),
            (None, None, [1, 2, 9, 13]),
            {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
        ),
    ],
)
def test_resize(output, inputs, attributes):
    model = resize_model((1, 2, 5, 7), output, inputs, **attributes)
    assert_equals_onnxruntime(model, image(1, 2, 5, 7))


@pytest.mark.parametrize("kind", ["uint8", "int8", "int32"])
@pytest.mark.parametrize(
    ("shape", "scales", "coordinates"),
    [
        ((1, 5, 6, 3), (1, 2, 2, 1), "half_pixel"),  # channels last
        ((1, 5, 6, 3), (1, 1.7, 0.6, 1), "align_corners"),
        ((1, 3, 5, 6), (1, 1, 1.5, 2.5), "half_pixel_symmetric"),
        ((5, 6), (2, 2), "asymmetric"),
    ],
)
def test_integers_between_integers(shape, scales, coordinates, kind):
    """Cut off, as onnxruntime does; one less is what it makes of sums that come to an integer."""
    node = helper.make_node(
        "Resize", ["x", "", "scales"], ["y"], mode="linear",
        coordinate_transformation_mode=coordinates,
    )  # fmt: skip
    of_type = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    value = helper.make_tensor_value_info("x", of_type, shape)
    graph = helper.make_graph(
        [node], "test", [value], [helper.make_tensor_value_info("y", of_type, None)],
        [onnx.numpy_helper.from_array(np.array(scales, np.float32), "scales")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    execute = executor(import_onnx(model), "llvm")
    random, limits = np.random.default_rng(3), np.iinfo(kind)
    low, high = max(limits.min, -999), min(limits.max, 999)
    x = random.integers(low, high + 1, shape).astype(kind)
    (wanted,) = Reference(model, optimized=False).run({"x": x}).values()
    (found,) = execute(x)
    assert found.dtype == wanted.dtype
    off = np.abs(found.astype(int)) - np.abs(wanted.astype(int))
    assert set(np.unique(off)) <= {0, 1}
    assert np.mean(off) < 0.2
    (flat,) = execute(np.full(shape, high, kind))
    assert np.all(flat == high)


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("size", [(6, 8), (1, 3), (9, 1)])
@pytest.mark.parametrize(
    "region",
    [
        (0.2, 0.1, 0.9, 0.8),
        (0.2, -0.1, 0.9, 1.2),  # what lies outside is the value that is given for it
        (0.5, 0, 0.1, 1),  # from the far end to the near one
        (0, 0, 1, 1),
    ],
)
def test_a_region_that_is_cropped(mode, size, region):
    roi = [0, 0, *region[:2], 1, 1, *region[2:]]
    how = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 0.5}
    model = resize_model((1, 2, 5, 7), (1, 2, *size), (roi, None, [1, 2, *size]), mode=mode, **how)
    assert_equals_onnxruntime(model, image(1, 2, 5, 7))


@pytest.mark.parametrize(("before", "wanted"), [((28, 14), (31, 15)), ((14, 28), (15, 31))])
def test_a_size_of_the_other_axis_that_is_half_way(before, wanted):
    how = {"axes": [2, 3], "keep_aspect_ratio_policy": "not_smaller", "mode": "linear"}
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], **how)
    sizes = [("sizes", np.array(wanted))]
    model = make_model([node], [("x", (1, 1, *before))], [("y", None)], sizes, opset=18)
    assert_equals_onnxruntime(model, image(1, 1, *before))


@pytest.mark.parametrize("start", [0, 0.2])
def test_a_region_along_an_axis_that_keeps_its_size(start):
    """onnxruntime copies it; of the whole there is one reading."""
    how = {"coordinate_transformation_mode": "tf_crop_and_resize", "mode": "linear"}
    roi, sizes = [0, 0, start, 0, 1, 1, 1, 1], [1, 2, 5, 9]
    model = resize_model((1, 2, 5, 7), sizes, (roi, None, sizes), **how)
    if start == 0:
        assert_equals_onnxruntime(model, image(1, 2, 5, 7))
        return
    with pytest.raises(UnsupportedModelError, match="cut the region out by a Slice before it"):
        import_onnx(model)


@pytest.mark.parametrize("coordinates", ["half_pixel", "asymmetric", "align_corners"])
@pytest.mark.parametrize("factor", [0.5, 1.5, 2, 3, 3.5, 4])
def test_no_device_decides_which_pixel_is_nearest(factor, coordinates):
    """GPUs round divisions either way: places are theirs to compute only where nothing rounds."""
    after = [round(8 * factor), round(6 * factor)]
    attributes = {
        "mode": "nearest",
        "coordinate_transformation_mode": coordinates,
        "nearest_mode": "floor" if coordinates == "asymmetric" else "round_prefer_floor",
    }
    sizes = (None, None, [1, 2, *after])
    model = resize_model((1, 2, 8, 6), (1, 2, *after), sizes, **attributes)
    exact = factor in (0.5, 2, 4) and coordinates != "align_corners"
    rewritten = onnx.ModelProto()
    rewritten.CopyFrom(model)
    rewrite(rewritten)
    kinds = {node.op_type for node in rewritten.graph.node}
    assert kinds == ({"Resize"} if exact else {"Gather"})
    assert_equals_onnxruntime(model, image(1, 2, 8, 6))


@pytest.mark.parametrize("mode", ["linear", "cubic", "nearest"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "asymmetric", "align_corners"])
@pytest.mark.parametrize("factor", [0.34, 0.6, 1.7])
def test_a_size_that_is_rounded_down_has_the_places_of_onnxruntime(mode, coordinates, factor):
    """PyTorch's networks are exported with factors that fill no whole number of pixels."""
    if mode == "cubic" and coordinates == "asymmetric":
        pytest.skip("PyTorch has no such form")
    after = (1, 2, math.floor(8 * factor), math.floor(6 * factor))
    attributes = {
        "mode": mode,
        "coordinate_transformation_mode": coordinates,
        "nearest_mode": "floor",
    }
    scales = (None, [1, 1, factor, factor], None)
    model = resize_model((1, 2, 8, 6), after, scales, **attributes)
    assert_equals_onnxruntime(model, image(1, 2, 8, 6))


@pytest.mark.parametrize("factors", [(2, 3), (0.6, 0.4), (0.5, 1.7), (1.1, 1.05)])
def test_resize_of_opset_10_is_that_of_onnxruntime(factors):
    """Places are rounded up where an axis shrinks; a size that stays is a copy."""
    node = helper.make_node("Resize", ["x", "scales"], ["y"], mode="nearest")
    weights = [("scales", np.array([1, 1, *factors], np.float32))]
    after = [math.floor(8 * factors[0]), math.floor(7 * factors[1])]
    model = make_model([node], [("x", (1, 2, 8, 7))], [("y", (1, 2, *after))], weights, opset=10)
    assert_equals_onnxruntime(model, image(1, 2, 8, 7))


@pytest.mark.parametrize(
    ("image_type", "places_type"),
    [("f4", "f8"), ("f2", "f4"), ("f4", "f2"), ("f8", "f4"), ("f2", "f2")],
)
def test_an_image_is_sampled_at_places_of_another_type(image_type, places_type):
    """As in networks that compute where they look in float64: TVM gave the type of the places."""
    kinds = [helper.np_dtype_to_tensor_dtype(np.dtype(of)) for of in (image_type, places_type)]
    shapes = (("x", (2, 3, 6, 7)), ("g", (2, 4, 5, 2)))
    inputs = [
        helper.make_tensor_value_info(name, kind, shape)
        for (name, shape), kind in zip(shapes, kinds, strict=True)
    ]
    output = helper.make_tensor_value_info("y", kinds[0], (2, 3, 4, 5))
    node = helper.make_node("GridSample", ["x", "g"], ["y"], mode="linear")
    graph = helper.make_graph([node], "sampled", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    x = image(2, 3, 6, 7).astype(image_type)
    places = (1.8 * image(2, 4, 5, 2) - 0.9).astype(places_type)
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x, "g": places})
    module, signature = import_onnx(model)
    (found,) = run_on_cpu(module, x, places)
    assert found.dtype == expected.dtype == np.dtype(image_type)
    assert signature.outputs[0].dtype == str(found.dtype)
    # The reference computes the places in halves, too, where they are.
    bound = 1e-2 if "f2" in (image_type, places_type) else 1e-5
    np.testing.assert_allclose(found.astype("f8"), expected.astype("f8"), atol=bound)


@pytest.mark.parametrize(
    ("mode", "sizes"), [("nearest", (4, 1)), ("linear", (1, 5)), ("cubic", (1, 1))]
)
def test_places_reflected_at_the_corners_of_one_pixel(mode, sizes):
    """It lies at all of them: the axis counts for nothing, as in an image of two that are equal."""
    kinds = [TensorProto.FLOAT] * 2
    ends = [
        helper.make_tensor_value_info(name, kind, shape)
        for name, kind, shape in zip("xg", kinds, ((1, 2, *sizes), (1, 3, 4, 2)), strict=True)
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 2, 3, 4))
    how = {"mode": mode, "padding_mode": "reflection", "align_corners": 1}
    graph = helper.make_graph(
        [helper.make_node("GridSample", "xg", "y", **how)], "g", ends, [output]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    x, places = image(1, 2, *sizes), 5 * image(1, 3, 4, 2) - 2.5
    (found,) = run_on_cpu(import_onnx(model)[0], x, places)
    wide = np.concatenate([x, x, x], 2) if sizes[0] == 1 else x
    wide = np.concatenate([wide, wide, wide], 3) if sizes[1] == 1 else wide
    (expected,) = ReferenceEvaluator(model).run(None, {"x": wide, "g": places})
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("padding", ["zeros", "border"])
@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize(
    ("mode", "sizes"),
    [("nearest", (6, 7)), ("linear", (6, 7)), ("cubic", (6, 7)), ("cubic", (1, 2))],
)
def test_places_far_outside_of_an_image(mode, sizes, aligned, padding):
    """As a flow that nobody trained points to, beyond int32 too: nothing is there, or the border.
    What lies near is as it was."""
    shapes = {"x": (1, 2, *sizes), "g": (1, 12, 6, 2), "y": (1, 2, 12, 6)}
    x, g, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in shapes.items()
    )
    how = {"mode": mode, "padding_mode": padding, "align_corners": aligned}
    graph = helper.make_graph([helper.make_node("GridSample", "xg", "y", **how)], "g", [x, g], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    pixels, ends = image(*shapes["x"]), np.array([-1e30, -1e10, -20, 20, 1e10, 1e30], np.float32)
    far = np.stack(np.meshgrid(ends, ends[::-1]), -1)[None]
    near = np.linspace(-2, 2, far.size, dtype=np.float32).reshape(far.shape)
    places = np.concatenate([far, near], 1)
    (found,) = run_on_cpu(import_onnx(model)[0], pixels, places)
    expected = Reference(model).run({"x": pixels, "g": places})["y"]
    np.testing.assert_allclose(found[:, :, 6:], expected[:, :, 6:], atol=1e-5)
    if aligned and 1 in sizes and padding == "zeros":
        return  # every place of an axis of one pixel is at it
    row, column = ((far[0, ..., axis] > 0) * (sizes[1 - axis] - 1) for axis in (1, 0))
    at_border = pixels[:, :, row, column] if padding == "border" else 0
    np.testing.assert_allclose(found[:, :, :6] - at_border, 0, atol=1e-5)
