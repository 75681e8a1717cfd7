"""Steps of images: [batch, channels, height, width]."""

from __future__ import annotations

from typing import Any

from .network import Network, step


@step(4, weight=6)
def convolution(net: Network, value: str) -> str | None:
    channels, height, width = net.shapes[value][1:]
    kernel = [min(net.one_of(1, 1, 3, 3, 3, 5, 7, 2), extent + 2) for extent in (height, width)]
    if net.maybe(0.8):
        kernel[1] = kernel[0]
    groups = net.one_of(1, 1, 1, channels, *[g for g in (2, 3, 4) if channels % g == 0])
    outputs = groups * net.one_of(1, 1, 2, 3) if groups > 1 else net.width(1, 3, 4, 8, 10, 16, 24)
    if min(height, width) < 2 * max(kernel):  # the window fits, whatever its dilation
        kernel = [1, 1]
    fan = channels // groups * kernel[0] * kernel[1]
    inputs = [value, net.normal(outputs, channels // groups, *kernel, scale=fan**-0.5)]
    if net.maybe(0.7):
        inputs.append(net.normal(outputs, scale=0.3))
    attributes: dict[str, Any] = {"group": groups, "strides": [net.one_of(1, 1, 1, 2, 3)] * 2}
    dilation = net.one_of(1, 1, 1, 2)
    attributes["dilations"] = [dilation, dilation]
    # onnxruntime knows no "auto" with dilations.
    kind = net.one_of("same", "same", "any", "auto" if dilation == 1 else "same")
    if kind == "auto":
        attributes["auto_pad"] = net.one_of("SAME_UPPER", "SAME_LOWER", "VALID")
    elif kind == "same":
        pads = [dilation * (size - 1) // 2 for size in kernel]
        attributes["pads"] = pads * 2
    else:
        attributes["pads"] = [net.between(0, 2) for _ in range(4)]
    return net.add("Conv", *inputs, kernel_shape=kernel, **attributes)


@step(4)
def transposed_convolution(net: Network, value: str) -> str | None:
    channels = net.shapes[value][1]
    kernel, stride = net.one_of(2, 3, 4), net.one_of(1, 2, 2, 3)
    outputs = net.width(1, 3, 8, 10)
    weight = net.normal(channels, outputs, kernel, kernel, scale=(channels * kernel) ** -0.5)
    inputs = [value, weight] + ([net.normal(outputs)] if net.maybe() else [])
    attributes: dict[str, Any] = {"strides": [stride] * 2}
    if stride > 1 and net.maybe(0.3):
        attributes["output_padding"] = [net.between(0, stride - 1) for _ in range(2)]
    pad = net.between(0, kernel - 1)
    return net.add("ConvTranspose", *inputs, pads=[pad] * 4, **attributes)


@step(3)
def convolution_of_rows(net: Network, value: str) -> str | None:
    channels = net.shapes[value][1]
    kernel, outputs = net.one_of(1, 3, 5), net.width(2, 8, 12)
    weight = net.normal(outputs, channels, kernel, scale=(channels * kernel) ** -0.5)
    return net.add(
        "Conv", value, weight, pads=[kernel // 2] * 2, strides=[net.one_of(1, 1, 2)]
    )  # fmt: skip


@step(4, weight=2)
def pool(net: Network, value: str) -> str | None:
    kernel = net.one_of(2, 2, 3, 3, 5)
    attributes: dict[str, Any] = {
        "kernel_shape": [kernel, net.one_of(kernel, kernel, kernel, 1)],
        "strides": [net.one_of(1, 2, 2)] * 2,
        "ceil_mode": int(net.maybe(0.3)),
    }
    if net.maybe(0.3):
        attributes["auto_pad"] = net.one_of("SAME_UPPER", "SAME_LOWER")
        attributes["ceil_mode"] = 0
    else:
        attributes["pads"] = [
            net.between(0, (size - 1) // 2) for size in attributes["kernel_shape"]
        ] * 2
    if net.maybe():
        return net.add("MaxPool", value, **attributes)
    # onnxruntime takes the pads of another axis for those that count, from opset 19 on.
    counts = "auto_pad" not in attributes and len(set(attributes["pads"])) == 1 and net.maybe()
    return net.add("AveragePool", value, count_include_pad=int(counts), **attributes)


@step(4, weight=2)
def gate(net: Network, value: str) -> str | None:
    """Squeeze and excite."""
    channels = net.shapes[value][1]
    mean = net.one_of(
        lambda: net.add("GlobalAveragePool", value),
        lambda: net.add("ReduceMean", value, net.whole(2, 3), keepdims=1),
    )()
    few = max(1, channels // 4)
    down = net.add("Conv", mean, net.normal(few, channels, 1, 1, scale=channels**-0.5))
    up = net.add(net.one_of("Relu", "HardSwish"), down)
    weights = net.add("Conv", up, net.normal(channels, few, 1, 1), net.normal(channels))
    share = net.add(net.one_of("Sigmoid", "HardSigmoid"), weights)
    return net.add("Mul", *net.one_of((value, share), (share, value)))


@step(4)
def focus(net: Network, value: str) -> str | None:
    """Every second pixel, four times."""
    parts = []
    for down in (0, 1):
        for right in (0, 1):
            size = [extent // 2 * 2 for extent in net.shapes[value][2:]]
            part = net.add(
                "Slice", value, net.whole(down, right), net.whole(*size), net.whole(2, 3),
                net.whole(2, 2),
            )  # fmt: skip
            if part is None:
                return None
            parts.append(part)
    return net.add("Concat", *parts, axis=1)


@step(4, weight=2)
def shuffle(net: Network, value: str) -> str | None:
    """Channels of groups, taken in turns."""
    batch, channels, height, width = net.shapes[value]
    groups = [g for g in (2, 3, 4) if channels % g == 0]
    if not groups:
        return None
    count = net.one_of(*groups)
    apart = net.add("Reshape", value, net.whole(batch, count, channels // count, height, width))
    turned = net.add("Transpose", apart, perm=[0, 2, 1, 3, 4])
    return net.add("Reshape", turned, net.whole(batch, channels, height, width))


@step(4)
def depth_and_space(net: Network, value: str) -> str | None:
    channels, height, width = net.shapes[value][1:]
    if channels % 4 == 0:
        mode = net.one_of("DCR", "CRD")
        return net.add("DepthToSpace", value, blocksize=2, mode=mode)
    if height % 2 or width % 2:
        return None
    return net.add("SpaceToDepth", value, blocksize=2)


@step(4, weight=2)
def resize(net: Network, value: str) -> str | None:
    height, width = net.shapes[value][2:]
    mode = net.one_of("nearest", "nearest", "linear", "linear", "cubic")
    places = ["asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel"]
    attributes: dict[str, Any] = {
        "mode": mode,
        "coordinate_transformation_mode": net.one_of(*places),
    }
    if mode == "nearest":
        attributes["nearest_mode"] = net.one_of("floor", "round_prefer_floor", "ceil")
    if net.maybe(0.6):
        scale = net.one_of(2.0, 2.0, 3.0, 0.5)
        scales = net.constant([1, 1, scale, scale])
        return net.add("Resize", value, "", scales, **attributes)
    sizes = net.whole(*net.shapes[value][:2], height + net.between(-2, 9), width * 2)
    return net.add("Resize", value, "", "", sizes, **attributes)


@step(4)
def normalization(net: Network, value: str) -> str | None:
    channels = net.shapes[value][1]
    if net.maybe(0.6):
        inputs = [net.normal(channels, scale=0.5), net.normal(channels), net.normal(channels)]
        variance = net.constant(0.5 + net.random.random(channels))
        return net.add("BatchNormalization", value, *inputs, variance)
    scale, shift = net.normal(channels), net.normal(channels)
    return net.add("InstanceNormalization", value, scale, shift)


@step(4)
def pixels_to_tokens(net: Network, value: str) -> str | None:
    batch, channels, height, width = net.shapes[value]
    flat = net.add("Reshape", value, net.whole(batch, channels, height * width))
    return net.add("Transpose", flat, perm=[0, 2, 1]) if net.maybe(0.7) else flat


@step(4)
def windows(net: Network, value: str) -> str | None:
    """Channels last, cut into windows, as in Swin."""
    batch, channels, height, width = net.shapes[value]
    size = net.one_of(2, 3, 4)
    last = net.add("Transpose", value, perm=[0, 2, 3, 1])
    down, right = -height % size, -width % size
    if down or right:
        last = net.add("Pad", last, net.whole(0, 0, 0, 0, 0, down, right, 0))
    rows, columns = (height + down) // size, (width + right) // size
    apart = net.add("Reshape", last, net.whole(batch, rows, size, columns, size, channels))
    turned = net.add("Transpose", apart, perm=[0, 1, 3, 2, 4, 5])
    return net.add("Reshape", turned, net.whole(batch * rows * columns, size * size, channels))
