"""Networks that nobody drew: operators of vision networks, put together by chance.

    python -m tests.support.random_networks --count 200 --seed 1 build/random
    python -m tests.support.zoo build/random --results build/random.jsonl --targets llvm,vulkan

What is right node by node can be wrong together: fusions, layouts, slices and concatenations in
place, folded scales. Each seed gives one file, always the same. Weights keep values near 1, so that
errors show; sizes are small and odd, so that edges and remainders are everywhere.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET, IR_VERSION = 18, 8
FEWEST, MOST = 4, 14  # steps of a network
LARGEST = 1 << 15  # elements of a tensor
Shape = tuple[int, ...]
Step = Callable[["Network", str], "str | None"]
STEPS: dict[int, list[Step]] = {}


def step(*ranks: int, weight: int = 1) -> Callable[[Step], Step]:
    """Marks what a network may do with a tensor of these ranks, weight times as often."""

    def mark(function: Step) -> Step:
        for rank in ranks:
            STEPS.setdefault(rank, []).extend([function] * weight)
        return function

    return mark


class Network:
    """A graph that grows. Each method that adds something returns the name of the result, or None
    where the operator cannot take its inputs."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.shapes: dict[str, Shape] = {}
        self.kinds: dict[str, int] = {}

    # Chance.
    def one_of(self, *values: Any) -> Any:
        return values[int(self.random.integers(len(values)))]

    def maybe(self, share: float = 0.5) -> bool:
        return bool(self.random.random() < share)

    def between(self, low: int, high: int) -> int:
        """Both included."""
        return int(self.random.integers(low, high + 1))

    # Growth.
    def input(self, name: str, shape: Shape) -> str:
        self.shapes[name], self.kinds[name] = shape, TensorProto.FLOAT
        return name

    def constant(self, value: Any, dtype: str = "float32") -> str:
        name = f"w{len(self.weights)}"
        array = np.asarray(value, dtype)
        self.weights.append(numpy_helper.from_array(array, name))
        self.shapes[name] = array.shape
        self.kinds[name] = helper.np_dtype_to_tensor_dtype(array.dtype)
        return name

    def normal(self, *shape: int, scale: float = 1.0) -> str:
        return self.constant(scale * self.random.standard_normal(shape))

    def whole(self, *values: int) -> str:
        return self.constant(values, "int64")

    def add(self, operator: str, *inputs: str | None, outputs: int = 1, **attributes: Any) -> Any:
        """One name, or with ``outputs`` a list; None where an input is, or where no shape fits."""
        if None in inputs:
            return None
        names = [f"t{len(self.nodes)}_{number}" for number in range(outputs)]
        node = helper.make_node(operator, list(inputs), names, **attributes)
        constants = [w for w in self.weights if w.name in inputs]
        known = [
            helper.make_tensor_value_info(name, self.kinds[name], self.shapes[name])
            for name in dict.fromkeys(inputs)
            if name
        ]
        graph = helper.make_graph(
            [node], "one", known, [helper.make_empty_tensor_value_info(n) for n in names], constants
        )
        try:
            model = onnx.shape_inference.infer_shapes(
                _model(graph), check_type=True, strict_mode=True, data_prop=True
            )
        except onnx.shape_inference.InferenceError:
            return None
        found = {}
        for value in model.graph.output:
            sizes = value.type.tensor_type.shape.dim
            shape = tuple(size.dim_value for size in sizes)
            if min(shape, default=1) < 1 or np.prod(shape, dtype=np.int64) > LARGEST:
                return None
            found[value.name] = (shape, value.type.tensor_type.elem_type)
        for name, (shape, kind) in found.items():
            self.shapes[name], self.kinds[name] = shape, kind
        self.nodes.append(node)
        return names if outputs > 1 else names[0]

    def floats(self) -> list[str]:
        """Tensors to go on with, those of late first."""
        made = [name for node in self.nodes for name in node.output]
        return [n for n in ["x", *made][::-1] if self.kinds.get(n) == TensorProto.FLOAT]

    def others(self, shape: Shape) -> list[str]:
        return [name for name in self.floats() if self.shapes[name] == shape]

    def grow(self, count: int) -> None:
        tries = 0
        while count and tries < 200:
            tries += 1
            late = self.floats()
            value = late[min(int(self.random.exponential(1.2)), len(late) - 1)]
            choices = STEPS.get(len(self.shapes[value]))
            nodes, weights = len(self.nodes), len(self.weights)
            if choices and self.one_of(*choices)(self, value) is not None:
                count -= 1
            else:  # what was begun is no part of it
                del self.nodes[nodes:], self.weights[weights:]

    def model(self) -> onnx.ModelProto:
        """Its outputs: what nothing reads, and at times a tensor between."""
        read = {name for node in self.nodes for name in node.input}
        made = [name for node in self.nodes for name in node.output]
        ends = [name for name in made if name not in read]
        if len(made) > 3 and self.maybe(0.3):
            ends.append(self.one_of(*[n for n in made if n not in ends] or ends))
        outputs = [
            helper.make_tensor_value_info(name, self.kinds[name], self.shapes[name])
            for name in dict.fromkeys(ends)
        ]
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shapes["x"])]
        return _model(helper.make_graph(self.nodes, "random", inputs, outputs, self.weights))


def _model(graph: onnx.GraphProto) -> onnx.ModelProto:
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
    )


def random_network(seed: int) -> onnx.ModelProto:
    """The network of a seed, checked, in opset 18; its input is "x", float32."""
    network = Network(seed)
    rank = network.one_of(4, 4, 4, 4, 3, 2)
    batch = network.one_of(1, 1, 1, 2, 3)
    if rank == 4:
        channels = network.one_of(1, 3, 3, 4, 5, 8, 12, 16)
        shape: Shape = (batch, channels, network.between(4, 17), network.between(4, 17))
    elif rank == 3:
        shape = (batch, network.between(3, 17), network.one_of(4, 6, 8, 12, 16, 24))
    else:
        shape = (batch, network.between(4, 40))
    network.input("x", shape)
    network.grow(network.between(FEWEST, MOST))
    model = network.model()
    onnx.checker.check_model(model, full_check=True)
    return model


# Convolutions.


@step(4, weight=6)
def convolution(net: Network, value: str) -> str | None:
    channels, height, width = net.shapes[value][1:]
    kernel = [min(net.one_of(1, 1, 3, 3, 3, 5, 7, 2), extent + 2) for extent in (height, width)]
    if net.maybe(0.8):
        kernel[1] = kernel[0]
    groups = net.one_of(1, 1, 1, channels, *[g for g in (2, 3, 4) if channels % g == 0])
    outputs = groups * net.one_of(1, 1, 2, 3) if groups > 1 else net.one_of(1, 3, 4, 8, 10, 16, 24)
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
    outputs = net.one_of(1, 3, 8, 10)
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
    kernel, outputs = net.one_of(1, 3, 5), net.one_of(2, 8, 12)
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
    return net.add("AveragePool", value, count_include_pad=int(net.maybe()), **attributes)


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


# Tokens.


@step(3)
def tokens_to_pixels(net: Network, value: str) -> str | None:
    batch, count, channels = net.shapes[value]
    widths = [w for w in range(1, count + 1) if count % w == 0]
    width = net.one_of(*widths)
    turned = net.add("Transpose", value, perm=[0, 2, 1])
    return net.add("Reshape", turned, net.whole(batch, channels, count // width, width))


@step(3, 2, weight=4)
def dense(net: Network, value: str) -> str | None:
    inputs, outputs = net.shapes[value][-1], net.one_of(1, 4, 8, 12, 17, 24)
    if len(net.shapes[value]) == 2 and net.maybe():
        turned = net.maybe()
        weight = net.normal(*((outputs, inputs) if turned else (inputs, outputs)), scale=0.3)
        return net.add(
            "Gemm", value, weight, net.normal(outputs), transB=int(turned),
            alpha=net.one_of(1.0, 1.0, 0.5), beta=net.one_of(1.0, 1.0, 2.0),
        )  # fmt: skip
    product = net.add("MatMul", value, net.normal(inputs, outputs, scale=inputs**-0.5))
    if product is None or net.maybe(0.3):
        return product
    bias = net.normal(outputs)
    return net.add("Add", *net.one_of((product, bias), (bias, product)))


@step(3, weight=3)
def attention(net: Network, value: str) -> str | None:
    batch, count, channels = net.shapes[value]
    heads = [h for h in (1, 2, 3, 4) if channels % h == 0]
    number = net.one_of(*heads)
    size = channels // number
    parts: list[Any] = []
    if net.maybe():
        both = net.add("MatMul", value, net.normal(channels, 3 * channels, scale=channels**-0.5))
        apart = net.add("Reshape", both, net.whole(batch, count, 3, number, size))
        turned = net.add("Transpose", apart, perm=[2, 0, 3, 1, 4])
        if turned is None:
            return None
        parts = [
            net.add("Gather", turned, net.constant(index, "int64"), axis=0) for index in range(3)
        ]
    else:
        for _ in range(3):
            weight = net.normal(channels, channels, scale=channels**-0.5)
            apart = net.add(
                "Reshape", net.add("MatMul", value, weight), net.whole(0, -1, number, size)
            )
            parts.append(net.add("Transpose", apart, perm=[0, 2, 1, 3]))
    if None in parts:
        return None
    turned = net.add("Transpose", parts[1], perm=[0, 1, 3, 2])
    scores = net.add("MatMul", parts[0], turned)
    scaled = net.add("Mul", scores, net.constant(size**-0.5))
    if net.maybe(0.3):
        scaled = net.add("Add", scaled, net.normal(1, number, count, count))
    shares = net.add("Softmax", scaled, axis=-1)
    mixed = net.add("Transpose", net.add("MatMul", shares, parts[2]), perm=[0, 2, 1, 3])
    return net.add("Reshape", mixed, net.whole(batch, count, channels))


@step(2, 3, 4)
def layer_normalization(net: Network, value: str) -> str | None:
    axis = net.one_of(-1, -1, 1)
    rest = net.shapes[value][axis:] if axis != 1 else net.shapes[value][1:]
    if np.prod(rest) < 2:
        return None
    scale, shift = net.normal(*rest), net.normal(*rest)
    if net.maybe():
        return net.add("LayerNormalization", value, scale, shift, axis=axis)
    axes = net.whole(*range(-len(rest), 0))
    centred = net.add("Sub", value, net.add("ReduceMean", value, axes))
    squares = net.add("Pow", centred, net.constant(2.0))
    variance = net.add("Add", net.add("ReduceMean", squares, axes), net.constant(1e-5))
    normal = net.add("Div", centred, net.add("Sqrt", variance))
    return net.add("Add", net.add("Mul", normal, scale), shift)


# Any rank.


@step(2, 3, 4, 5, weight=4)
def activation(net: Network, value: str) -> str | None:
    kind, attributes = net.one_of(
        ("Relu", {}), ("LeakyRelu", {"alpha": 0.1}), ("Sigmoid", {}), ("Tanh", {}),
        ("HardSigmoid", {"alpha": 0.2, "beta": 0.5}), ("HardSwish", {}), ("Elu", {}),
        ("Selu", {}), ("Softplus", {}), ("Softsign", {}), ("Mish", {}), ("Celu", {}),
        ("Abs", {}), ("Neg", {}), ("Erf", {}), ("ThresholdedRelu", {"alpha": 0.3}),
        ("Sin", {}), ("Cos", {}), ("Atan", {}),
    )  # fmt: skip
    return net.add(kind, value, **attributes)


@step(2, 3, 4, 5, weight=2)
def activation_of_parts(net: Network, value: str) -> str | None:
    def silu() -> str | None:
        return net.add("Mul", value, net.add("Sigmoid", value))

    def gelu() -> str | None:
        inner = net.add("Erf", net.add("Div", value, net.constant(2**0.5)))
        outer = net.add("Mul", value, net.add("Add", inner, net.constant(1.0)))
        return net.add("Mul", outer, net.constant(0.5))

    def hard_swish() -> str | None:
        shifted = net.add("Add", value, net.constant(3.0))
        clipped = net.add("Clip", shifted, net.constant(0.0), net.constant(6.0))
        return net.add("Mul", value, net.add("Div", clipped, net.constant(6.0)))

    def prelu() -> str | None:
        shape = [1] * (len(net.shapes[value]) - 1)
        shape[:1] = [net.shapes[value][1]] if shape else []
        return net.add("PRelu", value, net.normal(*shape, scale=0.3))

    def clip() -> str | None:
        return net.add("Clip", value, net.constant(-0.5), net.constant(net.one_of(0.5, 6.0)))

    def root() -> str | None:
        positive = net.add("Add", net.add("Abs", value), net.constant(0.1))
        return net.add(net.one_of("Sqrt", "Log", "Reciprocal"), positive)

    return net.one_of(silu, gelu, hard_swish, prelu, clip, root)()


@step(2, 3, 4, 5, weight=4)
def with_another(net: Network, value: str) -> str | None:
    """Element by element, with a tensor or a constant of a shape that is broadcast."""
    shape = net.shapes[value]
    others = [other for other in net.others(shape) if other != value]
    if others and net.maybe(0.6):
        other = net.one_of(*others)
    else:
        sizes = [net.one_of(size, size, 1) for size in shape]
        other = net.normal(*sizes[net.between(0, len(sizes) - 1) :])
    operator = net.one_of("Add", "Add", "Add", "Mul", "Mul", "Sub", "Max", "Min", "Div")
    if operator == "Div":
        other = net.add("Add", net.add("Abs", other), net.constant(1.0))
        return net.add("Div", value, other)
    return net.add(operator, *net.one_of((value, other), (other, value)))


@step(2, 3, 4, 5, weight=2)
def chosen(net: Network, value: str) -> str | None:
    """Where a condition holds, one of two."""
    others = net.others(net.shapes[value])
    condition = net.add(net.one_of("Greater", "LessOrEqual"), value, net.constant(0.1))
    return net.add("Where", condition, net.one_of(*others), net.add("Neg", value))


@step(2, 3, 4, 5, weight=3)
def joined(net: Network, value: str) -> str | None:
    rank = len(net.shapes[value])
    axis = 1 if net.maybe(0.6) else net.between(0, rank - 1)
    fits = [
        name
        for name in net.floats()
        if len(net.shapes[name]) == rank
        and all(
            a == b or number == axis
            for number, (a, b) in enumerate(zip(net.shapes[name], net.shapes[value], strict=True))
        )
    ]
    parts = [value, *(net.one_of(*fits) for _ in range(net.between(1, 3)))]
    net.random.shuffle(parts)
    return net.add("Concat", *map(str, parts), axis=net.one_of(axis, axis - rank))


@step(2, 3, 4, 5, weight=2)
def split(net: Network, value: str) -> str | None:
    """Pieces of which one goes on by itself, and comes back into a concatenation at times."""
    shape = net.shapes[value]
    axis = 1 if net.maybe(0.7) else net.between(0, len(shape) - 1)
    if shape[axis] < 2:
        return None
    first = net.between(1, shape[axis] - 1)
    sizes = net.whole(first, shape[axis] - first)
    parts = net.add("Split", value, sizes, outputs=2, axis=axis)
    if parts is None or net.maybe():
        return parts and parts[0]
    changed = net.add(net.one_of("Relu", "Sigmoid", "Neg"), parts[net.between(0, 1)])
    return net.add("Concat", *net.one_of(parts, parts[::-1]), changed, axis=axis)


@step(2, 3, 4, 5, weight=2)
def cut(net: Network, value: str) -> str | None:
    shape = net.shapes[value]
    axes = [a for a in range(len(shape)) if shape[a] > 1 and net.maybe()]
    if not axes:
        return None
    backwards = [net.maybe(0.15) for _ in axes]
    steps = [net.one_of(1, 1, 2, 3) * (-1 if back else 1) for back in backwards]
    starts, ends = [], []
    for axis, back in zip(axes, backwards, strict=True):
        low = net.between(0, shape[axis] - 2)
        high = net.between(low + 1, shape[axis])
        starts.append(high - 1 if back else net.one_of(low, low - shape[axis]))
        ends.append((low - 1 if low else -(1 << 40)) if back else net.one_of(high, 1 << 40))
    named = [net.one_of(axis, axis - len(shape)) for axis in axes]
    return net.add("Slice", value, *(net.whole(*values) for values in (starts, ends, named, steps)))


@step(2, 3, 4, 5, weight=2)
def padded(net: Network, value: str) -> str | None:
    shape = net.shapes[value]
    mode = net.one_of("constant", "constant", "reflect", "edge")
    pads = [net.one_of(0, 0, 1, 2, 3) for _ in range(2 * len(shape))]
    if mode == "constant" and net.maybe(0.2):
        pads[net.between(0, len(pads) - 1)] = -1
    if mode == "reflect":
        pads = [min(pad, size - 1) for pad, size in zip(pads, 2 * shape, strict=True)]
    if len(shape) > 3:
        pads[:2] = pads[len(shape) : len(shape) + 2] = [0, 0]
    inputs = [value, net.whole(*pads)]
    if mode == "constant" and net.maybe():
        inputs.append(net.constant(net.one_of(0.5, -1.0)))
    return net.add("Pad", *inputs, mode=mode)


@step(2, 3, 4, 5, weight=2)
def transposed(net: Network, value: str) -> str | None:
    order = net.random.permutation(len(net.shapes[value]))
    return net.add("Transpose", value, perm=[int(axis) for axis in order])


@step(2, 3, 4, 5, weight=2)
def reshaped(net: Network, value: str) -> str | None:
    """Two axes made one, or one made two."""
    shape = list(net.shapes[value])
    axis = net.between(0, len(shape) - 1)
    if len(shape) > 2 and net.maybe():
        axis = min(axis, len(shape) - 2)
        shape[axis : axis + 2] = [shape[axis] * shape[axis + 1]]
    elif len(shape) < 5:
        parts = [part for part in range(1, shape[axis] + 1) if shape[axis] % part == 0]
        part = net.one_of(*parts)
        shape[axis : axis + 1] = [part, shape[axis] // part]
    else:
        return None
    return net.add("Reshape", value, net.whole(*shape))


@step(2, 3, 4, 5, weight=2)
def reduced(net: Network, value: str) -> str | None:
    rank = len(net.shapes[value])
    axes = [axis for axis in range(rank) if net.maybe(0.4)] or [rank - 1]
    keep = int(rank - len(axes) < 2 or net.maybe())
    kind = net.one_of("ReduceMean", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceSum")
    scaled = value
    if kind == "ReduceSum":
        scaled = net.add("Mul", value, net.constant(0.1))
    return net.add(kind, scaled, net.whole(*axes), keepdims=keep)


@step(2, 3, 4, 5)
def softmax(net: Network, value: str) -> str | None:
    kind = net.one_of("Softmax", "Softmax", "LogSoftmax")
    return net.add(kind, value, axis=net.between(-1, len(net.shapes[value]) - 1))


@step(2, 3, 4, 5)
def gathered(net: Network, value: str) -> str | None:
    shape = net.shapes[value]
    axis = net.between(0, len(shape) - 1)
    count = net.one_of(shape[axis], shape[axis] + 1, max(1, shape[axis] - 1))
    places = net.random.integers(-shape[axis], shape[axis], count)
    return net.add("Gather", value, net.constant(places, "int64"), axis=axis)


@step(2, 3, 4)
def repeated(net: Network, value: str) -> str | None:
    shape = net.shapes[value]
    if net.maybe():
        return net.add("Tile", value, net.whole(*[net.one_of(1, 1, 2) for _ in shape]))
    return net.add("Expand", value, net.whole(*[1 if s != 1 else net.one_of(1, 3) for s in shape]))


@step(2, 3, 4)
def ordered(net: Network, value: str) -> str | None:
    axis = net.between(0, len(net.shapes[value]) - 1)
    if net.maybe():
        return net.add("CumSum", value, net.constant(axis, "int64"))
    count = net.between(1, net.shapes[value][axis])
    found = net.add("TopK", value, net.whole(count), outputs=2, axis=axis)
    return found and found[0]


@step(5)
def fewer_axes(net: Network, value: str) -> str | None:
    shape = net.shapes[value]
    return net.add("Reshape", value, net.whole(shape[0], shape[1] * shape[2], *shape[3:]))


@step(2)
def more_axes(net: Network, value: str) -> str | None:
    return net.add("Unsqueeze", value, net.whole(net.between(0, 2)))


def write(folder: Path, seeds: Sequence[int]) -> None:
    """SEED.onnx for each."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        onnx.save(random_network(seed), folder / f"{seed:06}.onnx")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="the first")
    options = parser.parse_args()
    write(options.folder, range(options.seed, options.seed + options.count))


if __name__ == "__main__":
    main()
