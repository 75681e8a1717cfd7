"""The table: an operator, its inputs at a size that some network has, and its attributes.

Each is a network of one operator, or of few where it needs another one's indices. What a network
computes of its image is an input; what its file holds is a constant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

OPSET, IR_VERSION = 20, 9
Array = np.ndarray[Any, np.dtype[Any]]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Indices:
    """An input of int64: random numbers of 0 to ``below``; ``apart``: each of them once."""

    shape: Shape
    below: int
    apart: bool = False

    def draw(self, random: np.random.Generator) -> Array:
        if self.apart:
            return random.permutation(self.below)[: math.prod(self.shape)].reshape(self.shape)
        return random.integers(0, self.below, self.shape)


@dataclass(frozen=True)
class Boxes:
    """An input of float32: ``count`` boxes in an image of ``size`` pixels, begin before end.

    ``rois``: a batch's index before each, as MaxRoiPool takes them.
    """

    count: int
    size: float
    rois: bool = False

    @property
    def shape(self) -> Shape:
        return (self.count, 5 if self.rois else 4)

    def draw(self, random: np.random.Generator) -> Array:
        begin = random.random((self.count, 2)) * 0.8 * self.size
        end = begin + (0.05 + 0.15 * random.random((self.count, 2))) * self.size
        boxes = np.concatenate([begin, end], axis=1).astype(np.float32)
        return np.pad(boxes, ((0, 0), (1, 0))) if self.rois else boxes


@dataclass(frozen=True)
class Weights:
    """Random constants of float32, small enough for sums of them to stay so. Drawn where a network
    has them: all of the table take most of a gigabyte."""

    shape: Shape

    @property
    def nbytes(self) -> int:
        return 4 * math.prod(self.shape)

    def draw(self) -> Array:
        random = np.random.default_rng(len(self.shape))
        drawn = random.standard_normal(self.shape, dtype=np.float32)
        return drawn / math.sqrt(math.prod(self.shape[1:]))


# What a node takes: an input of the network, a constant, or "" for nothing.
Input = Shape | Indices | Boxes | Weights | Array | str


@dataclass(frozen=True)
class Case:
    """An operator at a size.

    Attributes:
        name: in the table.
        nodes, constants, outputs: of the model's graph.
        inputs: of it, by name: a shape stands for normal numbers of float32.
        products: multiplications and additions that no way of computing it goes without; 0 where
            its data say how long it takes.
    """

    name: str
    nodes: tuple[onnx.NodeProto, ...]
    inputs: dict[str, Shape | Indices | Boxes]
    constants: dict[str, Weights | Array]
    outputs: tuple[str, ...]
    products: int = 0
    opset: int = OPSET

    def model(self) -> onnx.ModelProto:
        """The network, with its shapes inferred."""
        inputs = [
            helper.make_tensor_value_info(name, _element(each), _shape(each))
            for name, each in self.inputs.items()
        ]
        constants = [
            onnx.numpy_helper.from_array(v.draw() if isinstance(v, Weights) else v, name)
            for name, v in self.constants.items()
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in self.outputs]
        graph = helper.make_graph(list(self.nodes), "operator", inputs, outputs, constants)
        opsets = [helper.make_opsetid("", self.opset)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
        return onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)

    def sizes(self, model: onnx.ModelProto) -> tuple[int, int, int]:
        """Bytes of its inputs, its constants and its outputs, as its ``model`` has them."""
        graph = model.graph
        constants = sum(value.nbytes for value in self.constants.values())
        return sum(map(_bytes, graph.input)), constants, sum(map(_bytes, graph.output))

    @property
    def is_lookup(self) -> bool:
        """Whether it reads rows of a constant table."""
        return self.nodes[0].op_type == "Gather" and bool(self.constants)

    def feed(self, seed: int = 0) -> dict[str, Array]:
        """Random inputs: numbers are normal."""
        random = np.random.default_rng(seed)
        return {
            name: random.standard_normal(each, dtype=np.float32)
            if isinstance(each, tuple)
            else each.draw(random)
            for name, each in self.inputs.items()
        }


def _shape(each: Shape | Indices | Boxes) -> Shape:
    return each if isinstance(each, tuple) else each.shape


def _bytes(value: onnx.ValueInfoProto) -> int:
    """Of a tensor; an axis that data decide counts as one."""
    kind = value.type.tensor_type
    size = helper.tensor_dtype_to_np_dtype(kind.elem_type).itemsize
    return size * math.prod(max(1, axis.dim_value) for axis in kind.shape.dim)


def _element(each: Shape | Indices | Boxes) -> int:
    return TensorProto.INT64 if isinstance(each, Indices) else TensorProto.FLOAT


def weights(*shape: int) -> Weights:
    return Weights(shape)


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


def floats(*values: float) -> Array:
    return np.array(values, np.float32)


def case(
    name: str,
    operator: str,
    *inputs: Input,
    products: int = 0,
    outputs: int = 1,
    domain: str = "",
    opset: int = OPSET,
    **attributes: Any,
) -> Case:
    """A network of one node, all of whose outputs are the network's."""
    taken: list[str] = []
    drawn: dict[str, Shape | Indices | Boxes] = {}
    constants: dict[str, Weights | Array] = {}
    for number, each in enumerate(inputs):
        taken.append("" if isinstance(each, str) else f"in{number}")
        if isinstance(each, (np.ndarray, Weights)):
            constants[taken[-1]] = each
        elif not isinstance(each, str):
            drawn[taken[-1]] = each
    results = tuple(f"out{number}" for number in range(outputs))
    node = helper.make_node(operator, taken, list(results), domain=domain, **attributes)
    return Case(name, (node,), drawn, constants, results, products, opset)


def convolution(
    name: str,
    image: Shape,
    out: int,
    window: Shape,
    stride: int = 1,
    groups: int = 1,
    dilation: int = 1,
    transposed: bool = False,
) -> Case:
    """Convolutions whose results are as large as their images, or as the stride makes them."""
    axes = len(window)
    inner = image[1] // groups
    kernel = (
        weights(image[1], out // groups, *window) if transposed else weights(out, inner, *window)
    )
    reach = [dilation * (size - 1) for size in window]
    if transposed:
        reach = [max(0, each + 1 - stride) for each in reach]
    pads = [each // 2 for each in reach] + [each - each // 2 for each in reach]
    pixels = math.prod(image[2:]) if transposed else math.prod(-(-n // stride) for n in image[2:])
    return case(
        name,
        "ConvTranspose" if transposed else "Conv",
        image,
        kernel,
        products=image[0] * pixels * math.prod(kernel.shape),
        strides=[stride] * axes,
        pads=pads,
        dilations=[dilation] * axes,
        group=groups,
    )


def product(name: str, left: Shape, right: Shape | Weights) -> Case:
    """A product of matrices; the right one is a constant, or an input, too."""
    shape = right.shape if isinstance(right, Weights) else right
    rows = np.broadcast_shapes(left[:-2], shape[:-2])
    products = math.prod(rows) * left[-2] * left[-1] * shape[-1]
    return case(name, "MatMul", left, right, products=products)


CONVOLUTIONS = (
    convolution("conv 7x7/2 of 3 to 64 at 224", (1, 3, 224, 224), 64, (7, 7), 2),
    convolution("conv 3x3 of 64 at 56", (1, 64, 56, 56), 64, (3, 3)),
    convolution("conv 3x3 of 512 at 7", (1, 512, 7, 7), 512, (3, 3)),
    convolution("conv 3x3/2 of 128 at 80", (1, 128, 80, 80), 256, (3, 3), 2),
    convolution("conv 1x1 of 256 to 64 at 56", (1, 256, 56, 56), 64, (1, 1)),
    convolution("conv 1x1 of 64 to 1 at 320", (1, 64, 320, 320), 1, (1, 1)),
    convolution("conv 9x9 of 3 to 64 at 256", (1, 3, 256, 256), 64, (9, 9)),
    convolution("conv 9x9 of 64 to 3 at 256", (1, 64, 256, 256), 3, (9, 9)),
    convolution("conv 7x7 of 64 to 3 at 256", (1, 64, 256, 256), 3, (7, 7)),
    convolution("conv 3x3 of 64 to 3 at 256", (1, 64, 256, 256), 3, (3, 3)),
    convolution("conv 3x3 of 32 to 1 at 320", (1, 32, 320, 320), 1, (3, 3)),
    convolution("conv 3x3, 32 groups of 4 at 56", (1, 128, 56, 56), 128, (3, 3), groups=32),
    convolution("conv 3x3, dilated by 12, of 256 at 40", (1, 256, 40, 40), 256, (3, 3),
        dilation=12),
    convolution("depthwise 3x3 of 144 at 56", (1, 144, 56, 56), 144, (3, 3), groups=144),
    convolution("depthwise 5x5/2 of 240 at 28", (1, 240, 28, 28), 240, (5, 5), 2, groups=240),
    convolution("depthwise 7x7 of 96 at 56", (1, 96, 56, 56), 96, (7, 7), groups=96),
    convolution("depthwise 13x13 of 192 at 28", (1, 192, 28, 28), 192, (13, 13), groups=192),
    convolution("depthwise 9x9 of 128 at 28", (1, 128, 28, 28), 128, (9, 9), groups=128),
    convolution("depthwise 11x11 of 96 at 40", (1, 96, 40, 40), 96, (11, 11), groups=96),
    convolution("depthwise 5x51 of 64 at 56", (1, 64, 56, 56), 64, (5, 51), groups=64),
    convolution("depthwise 31x31 of 128 at 56", (1, 128, 56, 56), 128, (31, 31), groups=128),
    convolution("depthwise 1x21 of 64 at 56", (1, 64, 56, 56), 64, (1, 21), groups=64),
    convolution("depthwise 3x3, dilated by 3, of 64 at 56", (1, 64, 56, 56), 64, (3, 3), 1, 64, 3),
    convolution("conv of rows, 3 of 384 at 1500", (1, 384, 1500), 384, (3,)),
    convolution("conv of rows, 31 by channel of 256 at 800", (1, 256, 800), 256, (31,), groups=256),
    convolution("conv of rows, 10/5 of 1 to 512 at 16000", (1, 1, 16000), 512, (10,), 5),
    convolution("conv 3x3x3 of 16 at 16x56x56", (1, 16, 16, 56, 56), 32, (3, 3, 3)),
    convolution("transposed conv 2x2/2 of 128 at 40", (1, 128, 40, 40), 64, (2, 2), 2,
        transposed=True),
    convolution("transposed conv 4x4/2 of 256 at 32", (1, 256, 32, 32), 256, (4, 4), 2,
        transposed=True),
    convolution(
        "transposed conv 16x16/8 of 21 at 40, by channel", (1, 21, 40, 40), 21, (16, 16), 8, 21,
        transposed=True,
    ),
)  # fmt: skip

PRODUCTS = (
    product("product 197x768 by 3072", (1, 197, 768), weights(768, 3072)),
    product("product 1x4096 by 4096", (1, 4096), weights(4096, 4096)),
    product("product 1x25088 by 4096", (1, 25088), weights(25088, 4096)),
    product("12 products 197x64 by 197", (12, 197, 64), (12, 64, 197)),
    product("product 300x256 by 91", (1, 300, 256), weights(256, 91)),
    product("product of one column, 20000x128", (20000, 128), weights(128, 1)),
    case(
        "einsum bhwc,hkc->bhwk 14x14x64", "Einsum", (12, 14, 14, 64), (14, 14, 64),
        equation="bhwc,hkc->bhwk", products=12 * 14 * 14 * 14 * 64,
    ),
)  # fmt: skip

POOLS = (
    case("max pool 3x3/2 of 64 at 112", "MaxPool", (1, 64, 112, 112), kernel_shape=[3, 3],
         strides=[2, 2], pads=[1] * 4),
    case("max pool 13x13 of 256 at 20", "MaxPool", (1, 256, 20, 20), kernel_shape=[13, 13],
         pads=[6] * 4),
    case("max pool 5x5 of 1 at 512", "MaxPool", (1, 1, 512, 512), kernel_shape=[5, 5],
         pads=[2] * 4),
    case("max pool with indices 2x2/2 of 64 at 128", "MaxPool", (1, 64, 128, 128), outputs=2,
         kernel_shape=[2, 2], strides=[2, 2]),
    case("average pool 3x3 of 192 at 35", "AveragePool", (1, 192, 35, 35), kernel_shape=[3, 3],
         pads=[1] * 4),
    case("average pool 31x31 of 32 at 128", "AveragePool", (1, 32, 128, 128), kernel_shape=[31, 31],
         pads=[15] * 4),
    case("average pool 10x10/10 of 512 at 60", "AveragePool", (1, 512, 60, 60),
         kernel_shape=[10, 10], strides=[10, 10]),
    case("average pool 60x60/60 of 512 at 60", "AveragePool", (1, 512, 60, 60),
         kernel_shape=[60, 60], strides=[60, 60]),
    case("global average of 1280 at 7", "GlobalAveragePool", (1, 1280, 7, 7)),
    case("global average of 16 at 160", "GlobalAveragePool", (1, 16, 160, 160)),
    case("global max of 64 at 112", "GlobalMaxPool", (1, 64, 112, 112)),
    case("Lp pool 3x3/2 of 64 at 56", "LpPool", (1, 64, 56, 56), kernel_shape=[3, 3], strides=[2,
         2]),
)  # fmt: skip

REDUCTIONS = (
    case("mean of a million", "ReduceMean", (1, 1_000_000), ints(1), keepdims=0),
    case("max of a million", "ReduceMax", (1, 1_000_000), ints(1), keepdims=0),
    case("product of a million", "ReduceProd", (1, 1_000_000), ints(1), keepdims=0),
    case("log of the sum of exponentials of a million", "ReduceLogSumExp", (1, 1_000_000), ints(1)),
    case("L2 norm over 256 channels at 64", "ReduceL2", (1, 256, 64, 64), ints(1)),
    case("sum over columns of 4096x256", "ReduceSum", (1, 4096, 256), ints(1)),
    case("max over the middle of 17x4096x16", "ReduceMax", (17, 4096, 16), ints(1)),
    case("arg max of 21 classes at 512", "ArgMax", (1, 21, 512, 512), axis=1),
    case("arg max of a million", "ArgMax", (1, 1_000_000), axis=1),
    case("arg max of 17 maps of 64x48", "ArgMax", (17, 3072), axis=1),
    case("softmax of 21 classes at 512", "Softmax", (1, 21, 512, 512), axis=1),
    case("softmax of 12x197x197", "Softmax", (12, 197, 197), axis=-1),
    case("softmax of a million", "Softmax", (1, 1_000_000), axis=1),
    case("softmax of 16 bins of 4x8400", "Softmax", (1, 4, 16, 8400), axis=2),
    case("log softmax of 64x32000", "LogSoftmax", (64, 32000), axis=1),
    case("hardmax of 64x1000", "Hardmax", (64, 1000), axis=1),
    case("running sum of 17x200000", "CumSum", (17, 200_000), ints(1)),
    case("running sum down 512x512", "CumSum", (1, 512, 512), ints(1)),
    case("running sum of a million", "CumSum", (1_000_000,), ints(0)),
)  # fmt: skip

NORMALIZATIONS = (
    case("layer norm of 197x768", "LayerNormalization", (1, 197, 768), weights(768), weights(768)),
    case("layer norm of 3136x96", "LayerNormalization", (1, 3136, 96), weights(96), weights(96)),
    case("layer norm of an image 64x56x56", "LayerNormalization", (1, 64, 56, 56),
         weights(64, 56, 56), weights(64, 56, 56), axis=1),
    case("instance norm of 64 at 128", "InstanceNormalization", (1, 64, 128, 128), weights(64),
         weights(64)),
    case("instance norm of 32 rows of 32768", "InstanceNormalization", (1, 32, 32768), weights(32),
         weights(32)),
    case("batch norm of 64 at 112", "BatchNormalization", (1, 64, 112, 112), weights(64),
         weights(64),
         weights(64), np.abs(weights(64).draw()) + 1),
    case("local response norm of 96 at 55", "LRN", (1, 96, 55, 55), size=5),
    case("L2 normalization of 256 channels at 60x80", "LpNormalization", (1, 256, 60, 80), axis=1),
    case("L1 normalization of 1000x512", "LpNormalization", (1000, 512), axis=1, p=1),
)  # fmt: skip

MOVES = (
    case("transpose 64 channels behind 112x112", "Transpose", (1, 64, 112, 112), perm=[0, 2, 3, 1]),
    case("transpose channels of 112x112 before them", "Transpose", (1, 112, 112, 64),
         perm=[0, 3, 1, 2]),
    case("transpose windows 8x8 of 64x64x96", "Transpose", (1, 8, 8, 8, 8, 96),
         perm=[0, 1, 3, 2, 4, 5]),
    case("transpose 1024x1024", "Transpose", (1024, 1024), perm=[1, 0]),
    case("reverse six axes", "Transpose", (8, 8, 8, 8, 8, 8), perm=[5, 4, 3, 2, 1, 0]),
    case("gather 512 of 30000 rows", "Gather", weights(30000, 768), Indices((1, 512), 30000)),
    case("gather 300 of 8400 columns", "Gather", (256, 8400), Indices((300,), 8400), axis=1),
    case("gather elements 300x256 of 8400", "GatherElements", (8400, 256),
         Indices((300, 256), 8400), axis=0),
    case("gather 100000 points of an image", "GatherND", (256, 256, 16), Indices((100_000, 2),
         256)),
    case("scatter 8400 rows of 64", "ScatterND", (8400, 64), Indices((4000, 1), 8400, apart=True),
         (4000, 64)),
    case("scatter elements 4096x64", "ScatterElements", (8192, 64), Indices((4096, 64), 8192),
         (4096, 64), axis=0),
    case("add up 20000 rows of 64 in 128x128", "ScatterND", (16384, 64),
         Indices((20_000, 1), 16384), (20_000, 64), reduction="add"),
    case("add up 100000 numbers in 256x256", "ScatterND", (256, 256), Indices((100_000, 2), 256),
         (100_000,), reduction="add"),
    case("add up elements, 20000x16 in 4096", "ScatterElements", (4096, 16),
         Indices((20_000, 16), 4096), (20_000, 16), axis=0, reduction="add"),
    case("largest of 20000 rows of 64 in 128x128", "ScatterND", (16384, 64),
         Indices((20_000, 1), 16384), (20_000, 64), reduction="max"),
    case("every second pixel of 3 at 640", "Slice", (1, 3, 640, 640), ints(0, 0), ints(640, 640),
         ints(2, 3), ints(2, 2)),
    case("mirror 64 at 128", "Slice", (1, 64, 128, 128), ints(-1), ints(-1000), ints(3), ints(-1)),
    case("join 64 and 64 at 80", "Concat", (1, 64, 80, 80), (1, 64, 80, 80), axis=1),
    case("join rows behind columns", "Concat", (4096, 64), (4096, 64), axis=1),
    case("split in 3", "Split", (1, 197, 2304), outputs=3, axis=2, num_outputs=3),
    case("reflect by 3, 64 at 128", "Pad", (1, 64, 128, 128), ints(0, 0, 3, 3, 0, 0, 3, 3),
         mode="reflect"),
    case("repeat edges by 40, 3 at 512", "Pad", (1, 3, 512, 512), ints(0, 0, 40, 40, 0, 0, 40, 40),
         mode="edge"),
    case("tile 4x4 of 16 at 32", "Tile", (1, 16, 32, 32), ints(1, 1, 4, 4)),
    case("expand 1x64x1x1 to 112x112", "Expand", (1, 64, 1, 1), ints(1, 64, 112, 112)),
    case("depth to space, 2 of 256 at 64", "DepthToSpace", (1, 256, 64, 64), blocksize=2,
         mode="CRD"),
    case("space to depth, 2 of 3 at 640", "SpaceToDepth", (1, 3, 640, 640), blocksize=2),
    case("upper triangle of 1024x1024", "Trilu", (1, 1024, 1024), upper=1),
    case("one of 32000 for 256", "OneHot", Indices((256,), 32000), ints(32000), floats(0, 1)),
)  # fmt: skip

IMAGES = (
    case("enlarge by 2, linear, 64 at 80", "Resize", (1, 64, 80, 80), "", floats(1, 1, 2, 2),
         mode="linear"),
    case("enlarge by 8, linear, 21 at 64", "Resize", (1, 21, 64, 64), "", floats(1, 1, 8, 8),
         mode="linear"),
    case("enlarge by 2, nearest, 128 at 40", "Resize", (1, 128, 40, 40), "", floats(1, 1, 2, 2),
         mode="nearest"),
    case("enlarge by 4, cubic, 3 at 128", "Resize", (1, 3, 128, 128), "", floats(1, 1, 4, 4),
         mode="cubic"),
    case("shrink 3 of 1080x1920 to 384, linear", "Resize", (1, 3, 1080, 1920), "", "",
         ints(1, 3, 384, 384), mode="linear"),
    case("shrink 3 of 1080x1920 to 384, antialiased", "Resize", (1, 3, 1080, 1920), "", "",
         ints(1, 3, 384, 384), mode="linear", antialias=1),
    case("resize 37x37 to 24x24, cubic, 384 channels", "Resize", (1, 384, 37, 37), "", "",
         ints(1, 384, 24, 24), mode="cubic"),
    case("sample a grid, linear, 64 at 64", "GridSample", (1, 64, 64, 64), (1, 128, 128, 2),
         mode="linear"),
    case("sample a grid, cubic, 3 at 256", "GridSample", (1, 3, 256, 256), (1, 256, 256, 2),
         mode="cubic"),
    case("sample 8 grids of 4 points, 32 at 64", "GridSample", (8, 32, 64, 64), (8, 300, 4, 2),
         mode="linear"),
    case("affine grid 256x256", "AffineGrid", (1, 2, 3), ints(1, 3, 256, 256)),
    case("align 100 boxes, 7x7 of 256 at 50", "RoiAlign", (1, 256, 50, 50), Boxes(100, 400),
         ints(*[0] * 100), output_height=7, output_width=7, sampling_ratio=2, spatial_scale=0.125),
    case("align 1000 boxes, 7x7 of 256 at 50", "RoiAlign", (1, 256, 50, 50), Boxes(1000, 400),
         ints(*[0] * 1000), output_height=7, output_width=7, sampling_ratio=2, spatial_scale=0.125),
    case("align 100 boxes, adaptive, 14x14 of 256 at 50", "RoiAlign", (1, 256, 50, 50),
         Boxes(100, 400), ints(*[0] * 100), output_height=14, output_width=14, spatial_scale=0.125),
    case("pool 300 boxes, 7x7 of 512 at 38", "MaxRoiPool", (1, 512, 38, 38),
         Boxes(300, 600, rois=True), pooled_shape=[7, 7], spatial_scale=0.0625),
    case("deformable conv 3x3 of 128 at 40", "DeformConv", (1, 128, 40, 40), weights(128, 128, 3,
         3),
         (1, 18, 40, 40), "", (1, 9, 40, 40), pads=[1] * 4, products=128 * 128 * 9 * 1600,
         opset=19),
    case("columns back to an image, 3x3 of 64 at 56", "Col2Im", (1, 576, 3136), ints(56, 56),
         ints(3, 3), pads=[1] * 4),
)  # fmt: skip

ORDERS = (
    case("300 largest of 8400", "TopK", (1, 8400), ints(300), outputs=2),
    case("1000 largest of 76725", "TopK", (1, 76_725), ints(1000), outputs=2),
    case("300 largest of 672000", "TopK", (1, 672_000), ints(300), outputs=2),
    case("largest of 80 for 8400", "TopK", (8400, 80), ints(1), outputs=2),
    case("5 largest of 1000", "TopK", (1, 1000), ints(5), outputs=2),
    case("order of 20000", "TopK", (1, 20_000), ints(20_000), outputs=2),
    case("16 nearest of 1024 for 1024", "TopK", (1024, 1024), ints(16), outputs=2, largest=0),
    case("suppression of 8400 boxes of 1 class", "NonMaxSuppression", (1, 8400, 4), (1, 1, 8400),
         ints(300), floats(0.5), floats(0.5)),
)  # fmt: skip

ELEMENTWISE = (
    case("GELU of 197x3072", "Gelu", (1, 197, 3072)),
    case("mish of 64 at 160", "Mish", (1, 64, 160, 160)),
    case("error function of a million", "Erf", (1_000_000,)),
    case("sine of a million", "Sin", (1_000_000,)),
    case("remainder of a million", "Mod", (1_000_000,), floats(0.7), fmod=1),
    case("sum of rows and columns, 2048x2048", "Add", (2048, 1), (1, 2048)),
    case("where, of an image and a row", "Where", np.arange(512) % 3 == 0, (1, 16, 512, 512),
         (512,)),
    case("parametric ReLU of 64 at 112", "PRelu", (1, 64, 112, 112), weights(64, 1, 1)),
    case("to uint8, 3 at 1080x1920", "QuantizeLinear", (1, 3, 1080, 1920), np.array(0.02,
         np.float32),
         np.array(128, np.uint8)),
)  # fmt: skip

SEQUENCES = (
    case("LSTM, 100 steps of 1x256", "LSTM", (100, 1, 256), weights(1, 1024, 256),
         weights(1, 1024, 256), outputs=3, hidden_size=256, products=100 * 1024 * 512),
    case("LSTM of both directions, 80 steps of 32x256", "LSTM", (80, 32, 256), weights(2, 1024,
         256),
         weights(2, 1024, 256), outputs=3, hidden_size=256, direction="bidirectional",
         products=2 * 80 * 32 * 1024 * 512),
    case("GRU, 100 steps of 1x128", "GRU", (100, 1, 128), weights(1, 384, 128), weights(1, 384,
         128),
         outputs=2, hidden_size=128, products=100 * 384 * 256),
    case("Fourier transform of 64x1024", "DFT", (64, 1024, 1), onesided=1, opset=17, axis=1),
    case("short-time Fourier transform of 16000", "STFT", (1, 16000, 1), ints(160),
         np.hanning(400).astype(np.float32), np.array(400), onesided=1),
    case("determinants of 1000 matrices 3x3", "Det", (1000, 3, 3)),
    case("attention, 8 heads of 1024x64", "Attention", (1, 8, 1024, 64), (1, 8, 1024, 64),
         (1, 8, 1024, 64), products=2 * 8 * 1024 * 1024 * 64, opset=23),
    case("attention, 8 heads of 100x32 to 2048", "Attention", (1, 8, 100, 32), (1, 8, 2048, 32),
         (1, 8, 2048, 32), products=2 * 8 * 100 * 2048 * 32, opset=23),
)  # fmt: skip

CASES = (
    *CONVOLUTIONS,
    *PRODUCTS,
    *POOLS,
    *REDUCTIONS,
    *NORMALIZATIONS,
    *MOVES,
    *IMAGES,
    *ORDERS,
    *ELEMENTWISE,
    *SEQUENCES,
)
