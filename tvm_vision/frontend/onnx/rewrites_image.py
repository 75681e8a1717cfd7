"""Rewrites of operators on images and feature maps."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np
import onnx

from .graph import (
    GraphEditor,
    NodeBuilder,
    Rewrite,
    Unsupported,
    attribute,
    attributes,
    constant_input,
    with_attributes,
)
from .resize import CROPS, AxisResize, nearest_indices, outside, weights
from .rewrites_windows import check_window

Nodes = Sequence[onnx.NodeProto] | None
# Before opset 11 no attribute says how a place is rounded.
UNSAID = "unsaid"
# Since when RoiAlign moves boxes by half a pixel where it does not say otherwise.
ROI_PLACES_OPSET = 16
# What an integer is multiplied by that a sum of its parts may lie before: four times the rounding
# of float32, in which the sum is.
BEHIND_ROUNDING = 1 + 2.0**-21
PLACES = "coordinate_transformation_mode"
BATCH_NORM_MODE_OPSET = 14  # since when an attribute says that it is training's mode
# Since when the mask of Dropout is of bools, and since when it is true where nothing is dropped.
BOOL_MASKS, TRUE_MASKS = 10, 12


def resize(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """Resize of every opset with plain sizes for TVM, or a Gather or MatMul for each axis.

    TVM knows neither antialias, axes, nor a policy of the aspect ratio, takes the ratio of the
    sizes for the scale, and refuses empty constants that stand for inputs left out.
    """
    shape = graph.shape(node.input[0])
    if node.op_type == "Upsample" or graph.opset < 11:
        scales = _given(node, graph, 1)
        if scales is None:
            scales = attribute(node, "scales")
        return _resized(node, graph, shape, None, scales, None, "asymmetric", UNSAID)
    roi, scales, sizes = (_given(node, graph, index) for index in (1, 2, 3))
    return _resized(
        node,
        graph,
        shape,
        roi,
        scales,
        sizes,
        attribute(node, PLACES, "half_pixel"),
        attribute(node, "nearest_mode", "round_prefer_floor"),
    )


def local_response(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """LRN of fp16, which is computed in float32."""
    if graph.dtype(node.input[0]) != np.float16:
        return None
    build = NodeBuilder(graph, node)
    found = build(
        "LRN", build.cast(node.input[0], np.float32), **attributes(node, "alpha beta bias size")
    )
    return build.finish(build.cast(found, np.float16))


def _given(node: onnx.NodeProto, graph: GraphEditor, index: int) -> np.ndarray | None:
    """A constant input; None where it is left out, which an empty constant says as well."""
    value = constant_input(node, graph, index)
    return value if value is not None and value.size else None


def _resized(
    node: onnx.NodeProto,
    graph: GraphEditor,
    shape: tuple[int, ...],
    roi: np.ndarray | None,
    scales: Sequence[float] | np.ndarray | None,
    sizes: np.ndarray | None,
    coordinates: str,
    nearest: str,
) -> Nodes:
    axes = [axis % len(shape) for axis in attribute(node, "axes", range(len(shape)))]
    policy = attribute(node, "keep_aspect_ratio_policy", "stretch")
    factors, after = _factors(shape, axes, scales, sizes, policy)
    regions = {}
    if coordinates == CROPS and roi is not None:
        regions = dict(zip(axes, zip(*np.split(roi, 2), strict=True), strict=True))
    plans = [
        AxisResize(
            before,
            after[axis],
            factors[axis],
            coordinates,
            _nearest(nearest, factors[axis]),
            attribute(node, "cubic_coeff_a", -0.75),
            bool(attribute(node, "exclude_outside", 0)),
            bool(attribute(node, "antialias", 0)),
            regions.get(axis, (0.0, 1.0)),
        )
        for axis, before in enumerate(shape)
    ]
    if any(plan.before == plan.after and not plan.unchanged for plan in plans if regions):
        raise Unsupported(
            "a region of an axis that keeps its size, which ONNX crops and onnxruntime does not",
            "cut the region out by a Slice before it",
        )
    mode = attribute(node, "mode", "nearest")
    if after == list(shape) and coordinates != CROPS:  # whatever the scales, as in onnxruntime
        return [onnx.helper.make_node("Identity", node.input[:1], node.output[:1])]
    if _tvm_is_right(plans, mode):
        return _plain_resize(node, graph, plans, mode)
    return _axis_by_axis(node, graph, plans, mode)


def _nearest(mode: str, factor: float) -> str:
    """How a place is rounded along an axis, where that is not said as onnxruntime has it."""
    if mode != UNSAID:
        return mode
    return "ceil" if factor < 1 else "floor"


def _factors(
    shape: tuple[int, ...],
    axes: list[int],
    scales: Sequence[float] | np.ndarray | None,
    sizes: np.ndarray | None,
    policy: str,
) -> tuple[list[float], list[int]]:
    """Scale and size of each axis of the result."""
    factors, after = [1.0] * len(shape), list(shape)
    if sizes is not None:
        ratios = [int(size) / shape[axis] for axis, size in zip(axes, sizes, strict=True)]
        if policy != "stretch":
            ratios = [min(ratios) if policy == "not_larger" else max(ratios)] * len(axes)
        for axis, ratio in zip(axes, ratios, strict=True):
            # In single precision, as in onnxruntime: 14 * (31 / 28) is less than 15.5 there.
            size = np.float32(ratio) * np.float32(shape[axis])
            factors[axis], after[axis] = ratio, int(np.floor(size + np.float32(0.5)))
    elif scales is not None:
        for axis, scale in zip(axes, scales, strict=True):
            factors[axis] = float(scale)
            # In single precision, as the sizes of the model's other values were computed.
            after[axis] = int(np.floor(np.float32(shape[axis]) * np.float32(scale)))
    else:
        raise Unsupported("neither scales nor sizes are given", "give one of them")
    return factors, after


def _tvm_is_right(plans: list[AxisResize], mode: str) -> bool:
    if mode == "nearest" and not _places_are_exact(plans):
        return False
    if len(plans) not in (3, 4, 5) or any(not plan.unchanged for plan in plans[:2]):
        return False
    if mode != "nearest" and any(plan.antialias and plan.scale < 1 for plan in plans):
        return False
    # Regions to crop TVM reads in another order, and forgets what lies outside.
    if plans[0].coordinates in ("half_pixel_symmetric", "tf_half_pixel_for_nn", CROPS):
        return False
    # Between the corners of one element TVM divides by zero.
    if plans[0].coordinates == "align_corners" and any(p.after == 1 < p.before for p in plans):
        return False
    return all(abs(p.scale * p.before - p.after) < 1e-4 for p in plans)


def _places_are_exact(plans: list[AxisResize]) -> bool:
    """Whether places in the input are the same however a device rounds its divisions.

    Vulkan allows them an error of 2.5 ULP (specification, "Precision of Individual Operations"),
    and half way between two pixels that decides. Dividing by a power of two rounds nothing.
    """
    powers = all(math.log2(plan.scale).is_integer() for plan in plans if plan.scale > 0)
    return powers and plans[0].coordinates != "align_corners"


def _plain_resize(
    node: onnx.NodeProto,
    graph: GraphEditor,
    plans: list[AxisResize],
    mode: str,
) -> Nodes:
    sizes = np.array([plan.after for plan in plans], np.int64)
    plain = with_attributes(
        node,
        "axes",
        "keep_aspect_ratio_policy",
        "antialias",
        "scales",
        mode=mode,
        coordinate_transformation_mode=plans[0].coordinates,
        nearest_mode=plans[0].nearest,
    )
    plain.op_type = "Resize"
    plain.input[:] = [node.input[0], "", "", graph.make_constant(sizes, f"{node.name}/sizes")]
    return [plain]


def _axis_by_axis(
    node: onnx.NodeProto, graph: GraphEditor, plans: list[AxisResize], mode: str
) -> Nodes:
    dtype = graph.dtype(node.input[0])
    steps = NodeBuilder(graph, node)
    value = node.input[0]
    # What onnxruntime cuts off from weighted sums, in single precision, of integers.
    is_cut = mode != "nearest" and not np.issubdtype(dtype, np.floating)
    if is_cut and (mode != "linear" or any(plan.antialias for plan in plans)):
        raise Unsupported(f"mode {mode} of {dtype} on these axes", "cast to float first")
    real = np.dtype(np.float32) if is_cut else dtype
    value = steps.cast(value, real) if is_cut else value
    last = len(plans) - 1
    for axis, plan in enumerate(plans):
        if plan.unchanged:
            continue
        try:
            if mode == "nearest":
                value = steps("Gather", value, nearest_indices(plan), axis=axis)
                continue
            matrix = weights(plan, mode).astype(real)
        except ValueError as error:
            raise Unsupported(str(error), "use another one") from None
        if axis == last:
            value = steps("MatMul", value, matrix.T)
        elif axis == last - 1:
            value = steps("MatMul", matrix, value)
        else:
            swap = list(range(len(plans)))
            swap[axis], swap[last] = last, axis
            value = steps("Transpose", value, perm=swap)
            value = steps("MatMul", value, matrix.T)
            value = steps("Transpose", value, perm=swap)
    beyond = functools.reduce(np.logical_or.outer, map(outside, plans))
    if beyond.any():
        filling = np.array(attribute(node, "extrapolation_value", 0.0)).astype(real)
        value = steps("Where", _smallest(beyond), filling, value)
    if is_cut:
        value = steps.cast(steps("Mul", value, np.array(BEHIND_ROUNDING, real)), dtype)
    return steps.finish(value if value != node.input[0] else steps("Identity", value))


def _smallest(mask: np.ndarray) -> np.ndarray:
    """A mask of as few elements as are broadcast to it."""
    for axis in range(mask.ndim):
        first = mask.take([0], axis)
        mask = first if np.array_equal(np.broadcast_to(first, mask.shape), mask) else mask
    return mask


def conv_transpose(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """ConvTranspose with the pads that follow from output_shape, which TVM does not read."""
    check_window(node, graph)
    wanted = attribute(node, "output_shape")
    if not wanted:
        return None
    shape, kernel = graph.shape(node.input[0])[2:], graph.shape(node.input[1])[2:]
    ones = [1] * len(shape)
    strides = attribute(node, "strides", ones)
    dilations = attribute(node, "dilations", ones)
    extra = list(attribute(node, "output_padding", [0] * len(shape)))
    begins, ends = [], []
    for i, size in enumerate(wanted[-len(shape) :]):
        full = strides[i] * (shape[i] - 1) + extra[i] + (kernel[i] - 1) * dilations[i] + 1
        total = full - size
        if total < 0:
            extra[i], total = extra[i] - total, 0
        half = total // 2
        upper = attribute(node, "auto_pad", "NOTSET") == "SAME_UPPER"
        begins.append(half if upper else total - half)
        ends.append(total - begins[-1])
    return [
        with_attributes(node, "auto_pad", "output_shape", pads=begins + ends, output_padding=extra)
    ]


def batch_normalization(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """The training mode, by the statistics of the tensor itself, as layers have it that standardize
    their weights: TVM would take those among its inputs. Behind the result are running mean and
    variance and, before opset 14, where many results say that it is this mode, those of the
    tensor."""
    since = graph.opset >= BATCH_NORM_MODE_OPSET
    if not (attribute(node, "training_mode", 0) if since else len(node.output) > 1):
        return None
    build, dtype = NodeBuilder(graph, node), graph.dtype(node.input[0])
    x, scale, shift, *running = node.input
    rank = len(graph.shape(x))
    others = [axis for axis in range(rank) if axis != 1]
    epsilon = np.array(attribute(node, "epsilon", 1e-5), dtype)
    mean = build.axes("ReduceMean", x, others, keepdims=1)
    apart = build("Sub", x, mean)
    variance = build.axes("ReduceMean", build("Mul", apart, apart), others, keepdims=1)
    unit = build("Div", apart, build("Sqrt", build("Add", variance, epsilon)))
    scale, shift = (build.reshape(each, [-1, *[1] * (rank - 2)]) for each in (scale, shift))
    build.finish(build("Add", build("Mul", unit, scale), shift))
    own = [build.reshape(each, [-1]) for each in (mean, variance)]
    momentum = attribute(node, "momentum", 0.9)
    kept = [
        build(
            "Add",
            build("Mul", before, np.array(momentum, graph.dtype(before))),
            build("Mul", build.cast(now, graph.dtype(before)),
                  np.array(1 - momentum, graph.dtype(before))),
        )
        for before, now in zip(running, own, strict=True)
    ]  # fmt: skip
    for place, value in enumerate((*kept, *own), 1):
        if place < len(node.output) and node.output[place]:
            build.finish(value, place)
    return build.nodes


def dropout(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """Dropout does nothing at inference, nor where nothing is dropped; TVM's mask is of another
    type. That of old versions says nothing, and is 0 in onnxruntime."""
    training = graph.constant(node.input[2]) if len(node.input) > 2 and node.input[2] else False
    ratio = graph.constant(node.input[1]) if len(node.input) > 1 and node.input[1] else None
    training = False if ratio is not None and not ratio.any() else training
    if training is None or bool(training):
        raise Unsupported("training mode", "export the model for inference")
    steps = [onnx.helper.make_node("Identity", node.input[:1], node.output[:1])]
    if len(node.output) > 1 and node.output[1]:
        dtype = graph.dtype(node.input[0]) if graph.opset < BOOL_MASKS else np.dtype(bool)
        full = np.full(graph.shape(node.input[0]), graph.opset >= TRUE_MASKS, dtype)
        mask = graph.make_constant(full, f"{node.name}/mask")
        steps.insert(0, onnx.helper.make_node("Identity", [mask], node.output[1:]))
    return steps


def space_to_depth(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """TVM does not read the mode: in mode CRD the channel varies slowest, PyTorch's unshuffle."""
    if attribute(node, "mode", "DCR") != "CRD":
        return None
    batch, channels, height, width = graph.shape(node.input[0])
    size = attribute(node, "blocksize")
    rows, columns = height // size, width // size
    steps = NodeBuilder(graph, node)
    blocks = np.array([batch, channels, rows, size, columns, size], np.int64)
    value = steps("Reshape", node.input[0], blocks)
    value = steps("Transpose", value, perm=[0, 1, 3, 5, 2, 4])
    deep = np.array([batch, channels * size * size, rows, columns], np.int64)
    return steps.finish(steps("Reshape", value, deep))


def roi_align(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """RoiAlign that says that its boxes do not move by half a pixel: before ROI_PLACES_OPSET."""
    if graph.opset >= ROI_PLACES_OPSET or attribute(node, PLACES, ""):
        return None
    options = attributes(node, "mode output_height output_width sampling_ratio spatial_scale")
    options[PLACES] = "output_half_pixel"
    steps = NodeBuilder(graph, node)
    return steps.finish(steps("RoiAlign", *node.input, **options))


IMAGE_REWRITES: dict[str, Rewrite] = {
    "BatchNormalization": batch_normalization,
    "ConvTranspose": conv_transpose,
    "Dropout": dropout,
    "LRN": local_response,
    "Resize": resize,
    "RoiAlign": roi_align,
    "SpaceToDepth": space_to_depth,
    "Upsample": resize,
}
