"""Steps of images that fewer networks have, and rarer forms of those that all have."""

from __future__ import annotations

from typing import Any

import numpy as np

from .network import Network, step


@step(4, weight=2)
def sampled(net: Network, value: str) -> str | None:
    """At places between pixels, also outside: a constant grid, or one that is computed."""
    batch, _, height, width = net.shapes[value]
    mode = net.one_of("linear", "linear", "nearest", "cubic")
    attributes: dict[str, Any] = {
        "mode": mode, "padding_mode": net.one_of("zeros", "border", "reflection"),
        "align_corners": int(net.maybe()),
    }  # fmt: skip
    rows, columns = net.between(2, 9), net.between(2, 9)
    if net.maybe(0.3):
        turn = net.random.uniform(-1, 1, (batch, 2, 3))
        size = net.whole(batch, 1, rows, columns)
        grid = net.add(
            "AffineGrid", net.constant(turn), size, align_corners=attributes["align_corners"]
        )
    elif net.maybe():
        places = net.constant(net.random.uniform(-1.2, 1.2, (1, height, width, 2)))
        moves = net.add("ReduceMean", value, net.whole(1), keepdims=0)
        moves = net.add("Mul", net.add("Tanh", moves), net.constant(0.3))
        grid = net.add("Add", places, net.add("Unsqueeze", moves, net.whole(-1)))
    else:
        grid = net.constant(net.random.uniform(-1.2, 1.2, (batch, rows, columns, 2)))
    return net.add("GridSample", value, grid, **attributes)


@step(4)
def pooled_otherwise(net: Network, value: str) -> str | None:
    kernel = net.one_of(2, 3)
    kind = net.one_of("LpPool", "GlobalMaxPool", "GlobalLpPool", "MaxPool", "AveragePool")
    if kind.startswith("Global"):
        return net.add(kind, value, **({"p": net.one_of(1, 2)} if "Lp" in kind else {}))
    attributes: dict[str, Any] = {
        "kernel_shape": [kernel, kernel], "strides": [net.one_of(1, 2), net.one_of(1, 2, 3)],
    }  # fmt: skip
    if kind == "LpPool":
        return net.add(kind, value, p=net.one_of(1, 2), **attributes)
    attributes["dilations"] = [net.one_of(1, 2), net.one_of(1, 2)]
    attributes["pads"] = [net.between(0, kernel // 2) for _ in range(4)]
    attributes["ceil_mode"] = int(net.maybe(0.4))
    if kind == "AveragePool":
        # onnxruntime takes the pads of another axis for those that count, from opset 19 on.
        attributes["count_include_pad"] = int(len(set(attributes["pads"])) == 1 and net.maybe())
    return net.add(kind, value, **attributes)


@step(3)
def pooled_rows(net: Network, value: str) -> str | None:
    kind = net.one_of("MaxPool", "AveragePool", "LpPool")
    return net.add(
        kind, value, kernel_shape=[net.one_of(2, 3)], strides=[net.one_of(1, 2)],
        auto_pad=net.one_of("VALID", "SAME_UPPER", "SAME_LOWER"),
    )  # fmt: skip


@step(5, weight=2)
def volumes(net: Network, value: str) -> str | None:
    """Three axes of space."""
    channels = net.shapes[value][1]
    kind = net.one_of("Conv", "ConvTranspose", "MaxPool", "AveragePool", "Resize")
    if kind == "Resize":
        scales = net.constant([1, 1, 2, 1, 2])
        return net.add("Resize", value, "", scales, mode=net.one_of("nearest", "linear"))
    if kind.endswith("Pool"):
        return net.add(kind, value, kernel_shape=[1, 2, 2], strides=[1, net.one_of(1, 2), 2])
    outputs = net.width(1, 4, 6)
    sizes = (outputs, channels) if kind == "Conv" else (channels, outputs)
    kernel = [net.one_of(1, 2, 3) for _ in range(3)]
    weight = net.normal(*sizes, *kernel, scale=(channels * np.prod(kernel)) ** -0.5)
    pads = [(size - 1) // 2 for size in kernel]
    return net.add(kind, value, weight, pads=pads * 2, strides=[1, net.one_of(1, 2), 1])


@step(4)
def transposed_convolution_of_any_form(net: Network, value: str) -> str | None:
    """With groups, dilations, and the ways to say how large the result is."""
    channels, height, width = net.shapes[value][1:]
    groups = net.one_of(*[g for g in (1, 2, 3, channels) if channels % g == 0])
    kernel, stride = net.one_of(1, 2, 3, 4), net.one_of(1, 2, 2, 3)
    each = net.one_of(1, 2, 3)
    weight = net.normal(channels, each, kernel, kernel, scale=(channels / groups * kernel) ** -0.5)
    attributes: dict[str, Any] = {"strides": [stride, stride], "group": groups}
    how = net.one_of("pads", "auto", "shape", "dilated")
    if how == "auto":
        attributes["auto_pad"] = net.one_of("SAME_UPPER", "SAME_LOWER", "VALID")
    elif how == "shape":
        attributes["output_shape"] = [height * stride, width * stride]
    elif how == "dilated":
        attributes["dilations"] = [2, net.one_of(1, 2)]
    else:
        attributes["pads"] = [net.between(0, (kernel - 1) // 2) for _ in range(4)]
    return net.add("ConvTranspose", value, weight, **attributes)


@step(4)
def convolution_with_computed_weights(net: Network, value: str) -> str | None:
    """What a network before it says is the weight, as in trackers and dynamic convolutions."""
    batch, channels = net.shapes[value][:2]
    if batch != 1:
        return None
    mean = net.add("GlobalAveragePool", value)
    flat = net.add("Reshape", mean, net.whole(1, channels))
    made = net.add("Gemm", flat, net.normal(channels, channels * 9, scale=channels**-0.5))
    if net.maybe():
        weight = net.add("Reshape", made, net.whole(channels, 1, 3, 3))
        return net.add("Conv", value, weight, group=channels, pads=[1, 1, 1, 1])
    return net.add("Conv", value, net.add("Reshape", made, net.whole(1, channels, 3, 3)))


@step(4)
def regions(net: Network, value: str) -> str | None:
    batch, _, height, width = net.shapes[value]
    count = net.between(1, 4)
    corners = net.random.uniform(0, 0.6, (count, 2)) * [width, height]
    sizes = net.random.uniform(0.1, 0.6, (count, 2)) * [width, height]
    boxes = net.constant(np.concatenate([corners, corners + sizes], 1))
    images = net.constant(net.random.integers(0, batch, count), "int64")
    return net.add(
        "RoiAlign", value, boxes, images, output_height=net.between(1, 4),
        output_width=net.between(1, 4), sampling_ratio=net.one_of(1, 2),
        spatial_scale=net.one_of(1.0, 0.5),
        coordinate_transformation_mode=net.one_of("half_pixel", "output_half_pixel"),
    )  # fmt: skip


@step(4, weight=2)
def resized_otherwise(net: Network, value: str) -> str | None:
    """Axes by name, one axis alone, smaller with a filter, part of the image, fractions."""
    height, width = net.shapes[value][2:]
    mode = net.one_of("linear", "linear", "cubic", "nearest")
    attributes: dict[str, Any] = {"mode": mode}
    how = net.one_of("axes", "one", "antialias", "crop", "fraction", "policy")
    if mode == "cubic":
        attributes["cubic_coeff_a"] = net.one_of(-0.5, -0.75)
        attributes["exclude_outside"] = int(net.maybe())
    if how == "axes":
        scales = net.constant([net.one_of(1.5, 2.0), net.one_of(0.7, 2.0)])
        return net.add("Resize", value, "", scales, axes=net.one_of([2, 3], [-2, -1]), **attributes)
    if how == "one":
        return net.add("Resize", value, "", net.constant([1, 1, 1, 2.5]), **attributes)
    if how == "antialias" and mode != "nearest":
        sizes = net.whole(max(1, height // 2), max(1, width // 3))
        return net.add("Resize", value, "", "", sizes, axes=[2, 3], antialias=1, **attributes)
    if how == "crop" and mode != "cubic":
        part = net.constant([0, 0, 0.2, -0.1, 1, 1, 0.9, 1.2])
        return net.add(
            "Resize", value, part, "", net.whole(*net.shapes[value][:2], height + 1, width + 2),
            coordinate_transformation_mode="tf_crop_and_resize",
            extrapolation_value=net.one_of(0.0, 0.5), **attributes,
        )  # fmt: skip
    if how == "policy":
        sizes = net.whole(height + 3, width + 2)
        policy = net.one_of("not_larger", "not_smaller")
        return net.add(
            "Resize", value, "", "", sizes, axes=[2, 3], keep_aspect_ratio_policy=policy,
            **attributes,
        )  # fmt: skip
    scale = net.one_of(0.6, 1.3, 1.7)
    return net.add("Resize", value, "", net.constant([1, 1, scale, scale]), **attributes)


@step(4)
def normalization_otherwise(net: Network, value: str) -> str | None:
    channels = net.shapes[value][1]
    kind = net.one_of("GroupNormalization", "LRN", "MeanVarianceNormalization", "LpNormalization")
    if kind == "GroupNormalization":  # of parts: the operator's weights changed with its version
        groups = net.one_of(*[g for g in (1, 2, 3, 4) if channels % g == 0])
        shape = net.add("Shape", value)
        apart = net.add("Reshape", value, net.whole(0, groups, -1))
        normal = net.add(
            "InstanceNormalization", apart, net.constant([1.0] * groups),
            net.constant([0.0] * groups),
        )  # fmt: skip
        whole = net.add("Reshape", normal, shape)
        scaled = net.add("Mul", whole, net.normal(channels, 1, 1))
        return net.add("Add", scaled, net.normal(channels, 1, 1))
    if kind == "LRN":
        return net.add(kind, value, size=net.one_of(1, 3, 5), alpha=0.1, beta=0.75, bias=1.0)
    if kind == "LpNormalization":
        return net.add(kind, value, axis=net.one_of(1, -1), p=net.one_of(1, 2))
    return net.add(kind, value, axes=net.one_of([0, 2, 3], [1, 2, 3], [2, 3]))


@step(4)
def unpooled(net: Network, value: str) -> str | None:
    size = net.shapes[value][2:]
    if any(extent % 2 for extent in size):
        return None
    pooled = net.add("MaxPool", value, outputs=2, kernel_shape=[2, 2], strides=[2, 2])
    if pooled is None or min(size) < 4:
        return None
    changed = net.add("Tanh", pooled[0])
    whole = net.whole(*net.shapes[value])
    return net.add("MaxUnpool", changed, pooled[1], whole, kernel_shape=[2, 2], strides=[2, 2])


@step(4)
def columns_to_image(net: Network, value: str) -> str | None:
    """Overlapping blocks added up: torch's fold."""
    batch, channels, height, width = net.shapes[value]
    if channels % 4:
        return None
    flat = net.add("Reshape", value, net.whole(batch, channels, height * width))
    size = net.whole(height + 1, width + 1)
    return net.add("Col2Im", flat, size, net.whole(2, 2))


@step(4)
def cropped(net: Network, value: str) -> str | None:
    height, width = net.shapes[value][2:]
    size = net.whole(max(1, height + net.between(-3, 3)), max(1, width + net.between(-3, 3)))
    return net.add("CenterCropPad", value, size, axes=[2, 3])


@step(4, weight=2)
def quantized_between(net: Network, value: str) -> str | None:
    """A convolution between steps of int8 or uint8, as trainers of quantized networks write it."""
    channels = net.shapes[value][1]
    dtype = net.one_of("uint8", "int8")
    scale, zero = net.constant(0.05), net.constant(3 if dtype == "int8" else 128, dtype)

    def steps(name: str | None) -> str | None:
        return net.add(
            "DequantizeLinear", net.add("QuantizeLinear", name, scale, zero), scale, zero
        )

    outputs = net.width(4, 7, 8)
    whole = net.constant(net.random.integers(-127, 128, (outputs, channels, 1, 1)), "int8")
    if net.maybe():
        sizes = net.constant(net.random.uniform(0.002, 0.01, outputs))
        weight = net.add("DequantizeLinear", whole, sizes, axis=0)
    else:
        weight = net.add("DequantizeLinear", whole, net.constant(0.005))
    made = net.add("Conv", steps(value), weight, net.normal(outputs))
    return steps(net.add("Relu", made) if net.maybe() else made)
