"""Each operator as LiteRT computes it: the ONNX model of a file of one operator."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from support.conformance.conformance_worker import executor
from support.tflite_models import Graph
from tvm_vision.evaluate import LiteRtReference, Reference
from tvm_vision.evaluate.litert import has_litert
from tvm_vision.frontend.model import import_model
from tvm_vision.frontend.tflite.complex_numbers import COMPLEX_NUMBERS
from tvm_vision.frontend.tflite.control import CONTROL
from tvm_vision.frontend.tflite.recurrent import RECURRENT_OPERATORS
from tvm_vision.frontend.tflite.states import STATES
from tvm_vision.frontend.tflite.table import BUILT_IN

SAME, VALID = 0, 1
RELU, RELU_N1, RELU6, TANH = 1, 2, 3, 4
RNG = np.random.default_rng(11)
needs_litert = pytest.mark.skipif(not has_litert(), reason="ai-edge-litert is not installed")


@dataclass
class Case:
    """An operator: its inputs, an array for a weight and a shape for what is fed, and options."""

    kind: str
    inputs: Sequence[Any]
    outputs: Sequence[tuple[int, ...]]
    options: dict[str, Any] = field(default_factory=dict)
    dtypes: Sequence[str] = ("float32",)
    fed: str = "float32"

    def __str__(self) -> str:
        words = [f"{k}={v}" for k, v in self.options.items()]
        return "-".join([self.kind, *words, *(str(list(np.shape(o))) for o in self.inputs[:1])])


def case(kind, inputs, *outputs, dtypes=("float32",), fed="float32", **options):
    return Case(kind, inputs, outputs, options, dtypes * len(outputs), fed)


def numbers(*shape, low=-2.0, high=2.0):
    return RNG.uniform(low, high, shape).astype(np.float32)


def ints(*values):
    return np.array(values, np.int32)


class Fed(tuple):
    """The shape of an input."""


def conv(shape, weights, stride, padding, *, dilation=1, activation=0):
    w = numbers(*weights)
    out = [
        -(-n // stride) if padding == SAME else -(-(n - (k - 1) * dilation) // stride)
        for n, k in zip(shape[1:3], weights[1:3], strict=True)
    ]
    return case(
        "CONV_2D", [Fed(shape), w, numbers(weights[0])],
        (shape[0], *out, weights[0]), Padding=padding, StrideH=stride, StrideW=stride,
        DilationHFactor=dilation, DilationWFactor=dilation, FusedActivationFunction=activation,
    )  # fmt: skip


def volume(padding, stride, dilation):
    extents, kernel = (7, 9, 8), (3, 2, 3)
    out = [
        -(-n // stride) if padding == SAME else -(-(n - (k - 1) * dilation) // stride)
        for n, k in zip(extents, kernel, strict=True)
    ]
    steps = {f"Stride{axis}": stride for axis in "DHW"}
    apart = {f"Dilation{axis}Factor": dilation for axis in "DHW"}
    return case(
        "CONV_3D", [Fed((1, *extents, 2)), numbers(*kernel, 2, 4), numbers(4)],
        (1, *out, 4), Padding=padding, FusedActivationFunction=RELU, **steps, **apart,
    )  # fmt: skip


def depthwise(shape, kernel, multiplier, stride, padding, dilation=1):
    channels = shape[3] * multiplier
    out = [
        -(-n // stride) if padding == SAME else -(-(n - (kernel - 1) * dilation) // stride)
        for n in shape[1:3]
    ]
    return case(
        "DEPTHWISE_CONV_2D",
        [Fed(shape), numbers(1, kernel, kernel, channels), numbers(channels)],
        (shape[0], *out, channels), Padding=padding, StrideH=stride, StrideW=stride,
        DilationHFactor=dilation, DilationWFactor=dilation, DepthMultiplier=multiplier,
        FusedActivationFunction=RELU6,
    )  # fmt: skip


def pool(kind, shape, kernel, stride, padding, activation=0):
    out = [
        -(-n // stride) if padding == SAME else -(-(n - kernel + 1) // stride) for n in shape[1:3]
    ]
    return case(
        kind, [Fed(shape)], (shape[0], *out, shape[3]), Padding=padding, StrideH=stride,
        StrideW=stride, FilterHeight=kernel, FilterWidth=kernel, FusedActivationFunction=activation,
    )  # fmt: skip


def strided(shape, begins, ends, steps, out, **masks):
    subscripts = ints(*begins), ints(*ends), ints(*steps)
    return case("STRIDED_SLICE", [Fed(shape), *subscripts], out, **masks)


S = Fed((1, 5, 6, 4))  # an image
V = Fed((2, 3))
PADS = np.array([[0, 0], [2, 1], [0, 3], [0, 0]], np.int32)
CASES = [
    conv((1, 7, 9, 3), (4, 3, 3, 3), 1, SAME),
    conv((1, 8, 8, 3), (4, 3, 3, 3), 2, SAME, activation=RELU),
    conv((2, 7, 6, 4), (6, 2, 3, 4), 2, VALID, activation=RELU_N1),
    conv((1, 9, 9, 2), (3, 3, 3, 2), 1, SAME, dilation=2, activation=RELU6),
    conv((1, 6, 6, 4), (4, 3, 3, 2), 1, SAME),  # two groups
    depthwise((1, 7, 8, 3), 3, 1, 2, SAME),
    depthwise((1, 6, 6, 2), 3, 2, 1, VALID),
    depthwise((1, 9, 9, 2), 3, 1, 1, SAME, dilation=2),
    *(volume(padding, stride, dilation)
      for padding, stride, dilation in ((SAME, 2, 1), (VALID, 1, 2), (SAME, 1, 1))),
    case("CONV_3D_TRANSPOSE", [ints(1, 4, 8, 10, 3), numbers(3, 3, 3, 3, 2), Fed((1, 2, 4, 5, 2))],
         (1, 4, 8, 10, 3), Padding=SAME, StrideD=2, StrideH=2, StrideW=2),
    case("CONV_3D_TRANSPOSE", [ints(1, 5, 9, 7, 3), numbers(3, 3, 2, 3, 2), Fed((1, 3, 4, 3, 2)),
                               numbers(3)],
         (1, 5, 9, 7, 3), Padding=VALID, StrideD=1, StrideH=2, StrideW=2),
    case("TRANSPOSE_CONV", [ints(1, 8, 10, 3), numbers(3, 3, 3, 2), Fed((1, 4, 5, 2))],
         (1, 8, 10, 3), Padding=SAME, StrideH=2, StrideW=2),
    case("TRANSPOSE_CONV", [ints(1, 9, 9, 3), numbers(3, 3, 3, 2), Fed((1, 4, 4, 2)), numbers(3)],
         (1, 9, 9, 3), Padding=VALID, StrideH=2, StrideW=2),
    case("TRANSPOSE_CONV", [ints(1, 7, 7, 2), numbers(2, 2, 2, 2), Fed((1, 4, 4, 2))],
         (1, 7, 7, 2), Padding=SAME, StrideH=2, StrideW=2),
    pool("AVERAGE_POOL_2D", (1, 7, 7, 3), 3, 2, SAME),
    pool("AVERAGE_POOL_2D", (1, 6, 6, 3), 2, 2, VALID, RELU),
    pool("MAX_POOL_2D", (1, 7, 7, 3), 3, 2, SAME),
    pool("MAX_POOL_2D", (1, 7, 7, 3), 2, 1, VALID),
    pool("L2_POOL_2D", (1, 6, 6, 3), 2, 2, VALID),
    *(case("RESIZE_BILINEAR", [S, ints(*to)], (1, *to, 4), **how)
      for to in ((10, 12), (3, 4), (5, 9))
      for how in ({}, {"AlignCorners": True}, {"HalfPixelCenters": True})),
    *(case("RESIZE_NEAREST_NEIGHBOR", [S, ints(*to)], (1, *to, 4), **how)
      for to in ((10, 12), (3, 4), (7, 9))
      for how in ({}, {"AlignCorners": True}, {"HalfPixelCenters": True})),
    case("DEPTH_TO_SPACE", [Fed((1, 3, 4, 8))], (1, 6, 8, 2), BlockSize=2),
    case("SPACE_TO_DEPTH", [Fed((1, 6, 8, 2))], (1, 3, 4, 8), BlockSize=2),
    case("SPACE_TO_BATCH_ND", [S, ints(2, 3), np.array([[1, 0], [0, 3]], np.int32)], (6, 3, 3, 4)),
    case("BATCH_TO_SPACE_ND", [Fed((6, 3, 3, 4)), ints(2, 3), np.array([[1, 0], [0, 3]], np.int32)],
         (1, 5, 6, 4)),
    *(case(kind, [S], tuple(S)) for kind in (
        "ABS", "CEIL", "COS", "ELU", "EXP", "FLOOR", "LOGISTIC", "NEG", "RELU", "RELU6",
        "RELU_N1_TO_1", "RELU_0_TO_1", "ROUND", "SIGN", "SIN", "SQUARE", "TANH", "HARD_SWISH",
        "ZEROS_LIKE", "LOG_SOFTMAX")),
    *(case(kind, [S], tuple(S), fed="positive") for kind in ("LOG", "SQRT", "RSQRT")),
    case("GELU", [S], tuple(S)),
    case("ATAN2", [S, S], tuple(S)),
    case("ATAN2", [Fed((40,)), np.tile(np.array([-2, 0, 0, 2], np.float32), 10)], (40,)),
    case("GELU", [S], tuple(S), Approximate=True),
    case("LEAKY_RELU", [S], tuple(S), Alpha=0.2),
    case("PRELU", [S, numbers(1, 1, 4)], tuple(S)),
    case("SOFTMAX", [S], tuple(S), Beta=1.0),
    case("SOFTMAX", [V], tuple(V), Beta=0.5),
    *(case(kind, [S, S], tuple(S)) for kind in (
        "ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "FLOOR_DIV", "FLOOR_MOD")),
    case("DIV", [S, numbers(1, 1, 4, low=1.0)], tuple(S)),
    case("POW", [Fed((2, 3)), numbers(low=1.5)], (2, 3), fed="positive"),
    case("ADD", [S, numbers(4)], tuple(S), FusedActivationFunction=RELU),
    case("MUL", [S, numbers(1, 1, 1, 4)], tuple(S), FusedActivationFunction=RELU6),
    case("SUB", [numbers(6, 4), S], tuple(S), FusedActivationFunction=RELU_N1),
    case("ADD_N", [S, S, S], tuple(S)),
    case("FLOOR_DIV", [V, ints(3)], tuple(V), dtypes=("int32",), fed="int32"),
    case("FLOOR_MOD", [V, ints(-3)], tuple(V), dtypes=("int32",), fed="int32"),
    *(case(kind, [V, numbers(3)], tuple(V), dtypes=("bool",)) for kind in (
        "EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL")),
    *(case(kind, [V, np.array([True, False, True])], tuple(V), dtypes=("bool",), fed="bool")
      for kind in ("LOGICAL_AND", "LOGICAL_OR")),
    case("LOGICAL_NOT", [V], tuple(V), dtypes=("bool",), fed="bool"),
    case("SELECT_V2", [np.array([True, False, True]), V, numbers(2, 1)], tuple(V)),
    case("SELECT", [np.array([True, False]), V, V], tuple(V)),
    case("FULLY_CONNECTED", [Fed((3, 8)), numbers(5, 8), numbers(5)], (3, 5),
         FusedActivationFunction=RELU),
    case("FULLY_CONNECTED", [Fed((2, 3, 8)), numbers(5, 8)], (2, 3, 5), KeepNumDims=True),
    case("FULLY_CONNECTED", [Fed((2, 2, 4)), numbers(5, 8)], (2, 5)),
    case("BATCH_MATMUL", [Fed((2, 3, 4)), Fed((2, 4, 5))], (2, 3, 5)),
    case("BATCH_MATMUL", [Fed((2, 4, 3)), Fed((2, 5, 4))], (2, 3, 5), AdjX=True, AdjY=True),
    *(case(kind, [Fed((2, 3, 4)), ints(1)], (2, 4)) for kind in (
        "MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")),
    case("MEAN", [S, ints(1, 2)], (1, 1, 1, 4), KeepDims=True),
    case("SUM", [S, ints(-1)], (1, 5, 6)),
    *(case(kind, [Fed((2, 3)), ints(1)], (2,), dtypes=("bool",), fed="bool")
      for kind in ("REDUCE_ANY", "REDUCE_ALL")),
    case("ARG_MAX", [Fed((2, 5)), ints(1)], (2,), dtypes=("int64",), OutputType=4),
    case("ARG_MIN", [Fed((2, 5)), ints(0)], (5,), dtypes=("int32",), OutputType=2),
    Case("TOPK_V2", [Fed((2, 6)), np.array(3, np.int32)], [(2, 3), (2, 3)],
         dtypes=("float32", "int32")),
    case("CUMSUM", [Fed((2, 6)), ints(1)], (2, 6)),
    case("CUMSUM", [Fed((2, 6)), ints(0)], (2, 6), Exclusive=True, Reverse=True),
    case("L2_NORMALIZATION", [S], tuple(S)),
    case("LOCAL_RESPONSE_NORMALIZATION", [S], tuple(S), Radius=1, Bias=1.0, Alpha=0.1, Beta=0.75),
    case("RESHAPE", [S, ints(-1, 8)], (15, 8), NewShape=[-1, 8]),
    case("SQUEEZE", [S], (5, 6, 4), SqueezeDims=[0]),
    case("SQUEEZE", [Fed((1, 3, 1))], (3,)),
    case("EXPAND_DIMS", [V, ints(-1)], (2, 3, 1)),
    case("TRANSPOSE", [S, ints(0, 3, 1, 2)], (1, 4, 5, 6)),
    case("CONCATENATION", [V, V, numbers(2, 2)], (2, 8), Axis=-1),
    case("PACK", [V, V], (2, 2, 3), ValuesCount=2, Axis=1),
    Case("UNPACK", [V], [(2,)] * 3, {"Num": 3, "Axis": 1}, ("float32",) * 3),
    Case("SPLIT", [ints(2), S], [(1, 5, 3, 4)] * 2, {"NumSplits": 2}, ("float32",) * 2),
    Case("SPLIT_V", [V, ints(1, -1), ints(1)], [(2, 1), (2, 2)], {"NumSplits": 2},
         ("float32",) * 2),
    case("SLICE", [S, ints(0, 1, 2, 0), ints(1, 3, -1, 2)], (1, 3, 4, 2)),
    strided(S, (0, 1, 0, 0), (1, 5, 6, 4), (1, 2, 1, 3), (1, 2, 6, 2)),
    strided(S, (0, 4, -2, 0), (0, 0, 1, 0), (1, -1, -1, 1), (1, 4, 3, 4), BeginMask=1, EndMask=9),
    strided(S, (0, 4, 5, 0), (1, 0, 0, 4), (1, -2, -1, 1), (1, 3, 6, 4), EndMask=6),
    strided(S, (0, -1), (0, 0), (1, 1), (5, 4), ShrinkAxisMask=5, EndMask=2, BeginMask=2),
    strided(S, (0, 1), (0, 3), (1, 1), (1, 5, 6, 2), EllipsisMask=1),
    strided(V, (0, 0, 1), (0, 0, 3), (1, 1, 1), (1, 2, 2), NewAxisMask=1, EndMask=2),
    case("GATHER", [S, ints(3, 0, 2)], (1, 5, 3, 4), Axis=2),
    case("GATHER", [Fed((2, 5, 3)), np.array([[4, 0], [1, 1]], np.int32)], (2, 2, 3), Axis=1,
         BatchDims=1),
    case("GATHER", [Fed((2, 4, 5, 3)), np.array([[[4], [0]], [[1], [1]]], np.int32)],
         (2, 4, 2, 1, 3), Axis=2, BatchDims=1),
    case("GATHER", [Fed((2, 3, 5)), np.array([[0, 4, 4], [1, 2, 3]], np.int32)], (2, 3),
         Axis=2, BatchDims=2),
    case("GATHER", [Fed((2, 5)), np.array([[0, 4, 4], [1, 2, 3]], np.int32)], (2, 3),
         Axis=1, BatchDims=-1),
    case("SCATTER_ND", [np.array([[1, 0], [0, 2], [1, 0]], np.int32), Fed((3,)), ints(2, 3)],
         (2, 3)),
    case("SCATTER_ND", [np.array([[3], [0]], np.int32), Fed((2, 4)), ints(5, 4)], (5, 4)),
    case("SEGMENT_SUM", [Fed((5, 3)), ints(0, 0, 1, 1, 2)], (3, 3)),
    *(case(f"UNSORTED_SEGMENT_{kind}", [Fed((5, 3)), ints(3, 0, 3, -1, 1), np.array(5, np.int32)],
           (5, 3), dtypes=(dtype,), fed=dtype)
      for kind in ("SUM", "PROD", "MAX", "MIN") for dtype in ("float32", "int32")),
    case("UNSORTED_SEGMENT_MAX", [Fed((2, 2, 3)), np.array([[1, 0], [0, 1]], np.int32),
                                  np.array(2, np.int32)], (2, 3)),
    *(case("DYNAMIC_UPDATE_SLICE", [S, Fed(part), ints(*start)], tuple(S))
      for part, start in (((1, 2, 6, 4), (0, 1, 0, 0)), ((1, 1, 3, 2), (0, 9, 1, -4)),
                          ((1, 5, 6, 4), (0, 0, 0, 0)), ((1, 5, 6, 1), (0, 0, 0, 2)))),
    *(case("REVERSE_SEQUENCE", [S, ints(*lengths)], tuple(S), SeqDim=time, BatchDim=batch)
      for lengths, time, batch in (((3,), 1, 0), ((0, 1, 2, 3, 4), 2, 1), ((6, 2, 1, 5), 2, 3))),
    case("MATRIX_DIAG", [V], (2, 3, 3)),
    *(case("MATRIX_SET_DIAG", [Fed(shape), Fed((2, min(shape[1:])))], shape)
      for shape in ((2, 3, 3), (2, 2, 4), (2, 4, 3))),
    case("BUCKETIZE", [V], (2, 3), dtypes=("int32",), Boundaries=np.array([-1, 0, 2.5], "f4")),
    case("GATHER_ND", [V, np.array([[1, 0], [0, 2]], np.int32)], (2,)),
    case("EMBEDDING_LOOKUP", [ints(1, 0, 1), V], (3, 3)),
    case("TILE", [V, ints(2, 3)], (4, 9)),
    case("BROADCAST_TO", [V, ints(4, 2, 3)], (4, 2, 3)),
    case("REVERSE_V2", [S, ints(2)], tuple(S)),
    case("PAD", [S, PADS], (1, 8, 9, 4)),
    case("PADV2", [S, PADS, numbers()], (1, 8, 9, 4)),
    case("MIRROR_PAD", [S, PADS], (1, 8, 9, 4)),
    case("MIRROR_PAD", [S, PADS], (1, 8, 9, 4), Mode=1),
    case("CAST", [V], tuple(V), dtypes=("int32",), InDataType=0, OutDataType=2),
    case("FILL", [ints(2, 2), numbers()], (2, 2)),
    case("RANGE", [ints(2).reshape(()), ints(9).reshape(()), ints(3).reshape(())], (3,),
         dtypes=("int32",)),
    case("ONE_HOT", [ints(2, 0, 1), np.array(3, np.int32), numbers(), numbers()], (3, 3), Axis=-1),
    case("FAKE_QUANT", [V], tuple(V), Min=-1.5, Max=1.0, NumBits=8),
    case("SHAPE", [S], (4,), dtypes=("int32",), OutType=2),
    case("RANK", [S], (), dtypes=("int32",)),
    case("QUANTIZE", [V], tuple(V), dtypes=("int8",)),
    case("DEQUANTIZE", [numbers(2, 3).astype(np.float16)], (2, 3)),
]  # fmt: skip
# Of files of several operators, below.
ELSEWHERE = {"DENSIFY", *STATES, *RECURRENT_OPERATORS, *CONTROL, *COMPLEX_NUMBERS}


def fed_array(shape, kind):
    if kind == "bool":
        return RNG.integers(0, 2, shape).astype(bool)
    if kind == "int32":
        return RNG.integers(-9, 9, shape).astype(np.int32)
    return numbers(*shape, low=0.1 if kind == "positive" else -4.0, high=4.0)


def written(case, path):
    """The file of a case, and what is fed to it."""
    graph, fed, places = Graph(), {}, []
    for value in case.inputs:
        if isinstance(value, Fed):
            array = fed_array(value, case.fed)
            number = graph.tensor(value, str(array.dtype))
            fed[f"t{number}"] = array
        else:
            number = graph.tensor(data=value)
        places.append(number)
    scale = 0.03 if case.kind == "QUANTIZE" else None
    outputs = [
        graph.tensor(shape, dtype, scale=scale, zero_point=3)
        for shape, dtype in zip(case.outputs, case.dtypes, strict=True)
    ]
    graph.operator(case.kind, places, outputs, **case.options)
    if not fed:
        # LiteRT wants something to feed.
        extra = graph.tensor((1,))
        fed[f"t{extra}"] = np.zeros(1, np.float32)
    names = [int(name[1:]) for name in fed]
    return graph.write(path, names, outputs), fed


@needs_litert
@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_operator_gives_what_litert_gives(case, tmp_path):
    path, fed = written(case, tmp_path / "one.tflite")
    # Its plain kernel for normalization sums one channel too few at the end of the window.
    fast = case.kind == "LOCAL_RESPONSE_NORMALIZATION"
    wanted = LiteRtReference(path, optimized=fast).run(fed)
    found = Reference(path).run(fed)
    assert found.keys() == wanted.keys()
    for name, values in wanted.items():
        assert found[name].dtype == values.dtype
        np.testing.assert_allclose(found[name], values, rtol=1e-5, atol=1e-5)


def test_every_operator_has_a_case():
    assert {case.kind for case in CASES} | ELSEWHERE == set(BUILT_IN)


@needs_litert
@pytest.mark.parametrize(("padding", "kernel"), [(1, 2), (1, 3), (2, 3)])
def test_mediapipes_transposed_convolution_is_that_of_tflite(padding, kernel, tmp_path):
    """LiteRT has no such operator, but one that is given the sizes of its result."""
    size = 8 if padding == 1 else 3 * 2 + kernel
    fed = numbers(1, 4, 4, 3)
    weights, bias = numbers(5, kernel, kernel, 3), numbers(5)
    results: list[Any] = []
    for custom in (True, False):
        graph = Graph()
        x, w, b = graph.tensor(fed.shape), graph.tensor(data=weights), graph.tensor(data=bias)
        y = graph.tensor((1, size, size, 5))
        if custom:
            attributes = struct.pack("<3i", padding, 2, 2)
            graph.operator("Convolution2DTransposeBias", [x, w, b], [y], custom=attributes)
        else:
            sizes = graph.tensor(data=ints(1, size, size, 5))
            how = {"Padding": padding - 1, "StrideH": 2, "StrideW": 2}
            graph.operator("TRANSPOSE_CONV", [sizes, w, x, b], [y], **how)
        path = graph.write(tmp_path / f"{custom}.tflite", [x], [y])
        engine = Reference(path) if custom else LiteRtReference(path, optimized=False)
        results += engine.run({"t0": fed}).values()
    ours, theirs = results
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@needs_litert
@pytest.mark.parametrize("sizes", [(0, 3), (1, 0, 2), (3, 0)])
def test_a_part_without_elements(sizes, tmp_path):
    """It is computed with, and joined to the others."""
    graph = Graph()
    x = graph.tensor((2, 3))
    parts = [graph.tensor((2, size)) for size in sizes]
    given = [x, graph.tensor(data=ints(*sizes)), graph.tensor(data=np.int32(1))]
    graph.operator("SPLIT_V", given, parts, NumSplits=len(sizes))
    squares = [graph.tensor((2, size)) for size in sizes]
    for part, square in zip(parts, squares, strict=True):
        graph.operator("SQUARE", [part], [square])
    joined = graph.tensor((2, 3), name="y")
    graph.operator("CONCATENATION", squares[::-1], [joined], Axis=1)
    path = graph.write(tmp_path / "parts.tflite", [x], [joined])
    feed = {"t0": numbers(2, 3)}
    ours = executor(import_model(path), "llvm")(feed["t0"])[0]
    np.testing.assert_allclose(ours, LiteRtReference(path).run(feed)["y"], atol=1e-6)


@needs_litert
def test_sizes_of_a_scalar_have_no_bytes(tmp_path):
    """A list of nothing is a constant too, though the file has no buffer for it."""
    graph = Graph()
    x, y = graph.tensor((1, 1)), graph.tensor((), name="y")
    graph.operator("RESHAPE", [x, graph.tensor((0,), "int32")], [y])
    path = graph.write(tmp_path / "scalar.tflite", [x], [y])
    feed = {"t0": numbers(1, 1)}
    found = Reference(path).run(feed)["y"]
    assert found.shape == ()
    np.testing.assert_array_equal(found, LiteRtReference(path).run(feed)["y"])
