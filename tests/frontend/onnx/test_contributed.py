"""Operators of onnxruntime's own domain, as its quantizer writes them."""

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from support.mutate_models import Mutator
from support.onnx_models import make_model, run_on_cpu, undeclared
from tvm_vision.errors import TvmVisionError
from tvm_vision.frontend.onnx.contributed import DOMAIN, standard_operators
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.frontend.refusals import NodesRefused, RefusedNodes

SEED = 11


def rounded(dtype: type, per_channel: bool):
    """x rounded to integers, and those of a weight [3, 4, 2] as numbers, in one file."""
    rng = np.random.default_rng(SEED)
    limits = ml_dtypes.iinfo(dtype)

    def integers(*shape):
        found = rng.integers(int(limits.min), int(limits.max), shape, np.int64, endpoint=True)
        return np.array(found).astype(dtype)

    size, axis = ((4,), {"axis": 1}) if per_channel else ((), {})
    scale = np.float32(0.05)
    constants = {
        "scale": np.array(scale), "zero": integers(), "weight": integers(3, 4, 2),
        "scales": np.array(rng.uniform(0.01, 0.1, size), np.float32), "zeros": integers(*size),
    }  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"], domain=DOMAIN),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"], domain=DOMAIN),
        helper.make_node(
            "DequantizeLinear", ["weight", "scales", "zeros"], ["w"], domain=DOMAIN, **axis
        ),
        helper.make_node("Add", ["y", "w"], ["z"]),
    ]
    ends = [("x", (3, 4, 2))], [("z", (3, 4, 2))]
    model = make_model(nodes, *ends, list(constants.items()), opset=17, domain=DOMAIN)
    # Beyond both ends, and halves.
    return model, (rng.integers(-70000, 70000, (3, 4, 2)) / 2).astype(np.float32) * scale


@pytest.mark.parametrize("per_channel", [False, True], ids=["whole", "per channel"])
@pytest.mark.parametrize(
    "dtype", [np.int8, np.uint8, np.int16, np.uint16, ml_dtypes.int4, ml_dtypes.uint4]
)
def test_values_are_rounded_as_onnxruntime_does(dtype, per_channel):
    model, x = rounded(dtype, per_channel)
    module, _ = import_onnx(model)
    (result,) = run_on_cpu(module, x)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (expected,) = session.run(None, {"x": x})
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def values(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


BYTES: dict[str, np.ndarray] = {"s": np.array(np.float32(0.02)), "z": np.array(np.uint8(128))}
FINE: dict[str, np.ndarray] = {"t": np.array(np.float32(1 / 256)), "o": np.array(np.uint8(0))}
STEPS = np.random.default_rng(4).integers(-127, 128, (5, 8), np.int8)
CONVOLUTION: dict[str, np.ndarray] = {
    **BYTES, **FINE, "t": np.array(np.float32(0.05)), "o": np.array(np.uint8(120)),
    "g": np.random.default_rng(5).integers(-127, 128, (6, 4, 3, 3), np.int8),
    "v": np.linspace(0.001, 0.003, 6, dtype=np.float32), "w": np.zeros(6, np.int8),
}  # fmt: skip
WEIGHT = np.random.default_rng(3).integers(0, 256, (5, 2, 8), np.uint8)


def quantized(operator, *inputs, **attributes):
    """x rounded to bytes, an operator of them, and its result as real numbers."""
    return [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["a"]),
        helper.make_node(operator, inputs, ["b"], domain=DOMAIN, **attributes),
        helper.make_node("DequantizeLinear", ["b", *inputs[-2:]], ["y"]),
    ]


def one(operator, *inputs, domain=DOMAIN, outputs=("y",), **attributes):
    return [helper.make_node(operator, ["x", *inputs], list(outputs), domain=domain, **attributes)]


# name: nodes from x to y, the shape of x and of y, weights
LAYERS = {
    "Gelu": (one("Gelu"), (2, 8), (2, 8), {}),
    "BiasGelu": (one("BiasGelu", "b"), (2, 8), (2, 8), {"b": values(8)}),
    "FastGelu": (one("FastGelu", "b"), (2, 8), (2, 8), {"b": values(8)}),
    "QuickGelu": (one("QuickGelu", alpha=1.5), (2, 8), (2, 8), {}),
    "FusedMatMul": (
        one("FusedMatMul", "w", transB=1, alpha=0.5), (3, 8), (3, 5), {"w": values(5, 8)},
    ),
    "turned": (one("FusedMatMul", "w", transA=1), (2, 8, 3), (2, 3, 5), {"w": values(2, 8, 5)}),
    "FusedMatMul of a vector, which is not turned": (
        one("FusedMatMul", "w", transB=1), (3, 8), (3,), {"w": values(8)},
    ),
    "FusedConv": (
        one("FusedConv", "w", "b", activation="LeakyRelu", activation_params=[0.2], pads=[1] * 4),
        (1, 3, 6, 6), (1, 4, 6, 6), {"w": values(4, 3, 3, 3), "b": values(4)},
    ),
    "FusedConv and a sum": (
        one("FusedConv", "w", "b", "r", activation="Relu", strides=[2, 2]),
        (1, 3, 6, 6), (1, 4, 2, 2),
        {"w": values(4, 3, 3, 3), "b": values(4), "r": values(1, 4, 2, 2)},
    ),
    "FusedGemm": (
        one("FusedGemm", "w", "b", activation="Relu", transB=1), (3, 8), (3, 5),
        {"w": values(5, 8), "b": values(5)},
    ),
    **{
        f"FusedGemm and {kind}": (
            one(
                "FusedGemm", "w", "b", activation=kind, transB=1,
                **{f"activation_{name}": number for name, number in numbers.items()},
            ),
            (3, 8), (3, 5), {"w": values(5, 8), "b": values(5)},
        )
        for kind, numbers in {
            "Elu": {"alpha": 0.7}, "HardSigmoid": {"alpha": 0.3, "beta": 0.4},
            "LeakyRelu": {"alpha": 0.2}, "Selu": {"alpha": 1.5, "gamma": 1.1}, "Sigmoid": {},
            "Softplus": {}, "Softsign": {}, "Tanh": {}, "ThresholdedRelu": {"alpha": 0.6},
        }.items()
    },
    "SkipLayerNormalization": (
        one("SkipLayerNormalization", "r", "g", "h", "b", epsilon=1e-5), (1, 3, 8), (1, 3, 8),
        {"r": values(1, 3, 8), "g": values(8), "h": values(8), "b": values(8)},
    ),
    "its sum": (
        [
            *one("SkipLayerNormalization", "r", "g", outputs=("n", "", "", "m"), epsilon=1e-5),
            helper.make_node("Mul", ["n", "m"], ["y"]),
        ],
        (1, 3, 8), (1, 3, 8), {"r": values(1, 3, 8), "g": values(8)},
    ),
    "its mean, which nothing reads": (
        one("SkipLayerNormalization", "r", "g", outputs=("y", "u", "d", "m"), epsilon=1e-5),
        (1, 3, 8), (1, 3, 8), {"r": values(1, 3, 8), "g": values(8)},
    ),
    "LayerNormalization before opset 17, its mean, which nothing reads": (
        one("LayerNormalization", "g", domain="", outputs=("y", "u", "d"), axis=-1),
        (1, 3, 8), (1, 3, 8), {"g": values(8)},
    ),
    "SkipSimplifiedLayerNormalization": (
        one("SkipSimplifiedLayerNormalization", "r", "g", epsilon=1e-5), (1, 3, 8), (1, 3, 8),
        {"r": values(1, 3, 8), "g": values(8)},
    ),
    "SimplifiedLayerNormalization": (
        one("SimplifiedLayerNormalization", "g", domain="", axis=-1), (1, 3, 8), (1, 3, 8),
        {"g": values(8)},
    ),
    "LayerNormalization before opset 17": (
        one("LayerNormalization", "g", "h", domain="", axis=-1), (1, 3, 8), (1, 3, 8),
        {"g": values(8), "h": values(8)},
    ),
    "LayerNormalization before opset 17, over two axes": (
        one("LayerNormalization", "g", "h", domain="", axis=1), (2, 3, 8), (2, 3, 8),
        {"g": values(3, 8), "h": values(3, 8)},
    ),
    "LayerNormalization before opset 17, its mean and deviation": (
        [
            *one("LayerNormalization", "g", domain="", outputs=("n", "u", "d"), axis=-2),
            helper.make_node("Mul", ["n", "d"], ["p"]), helper.make_node("Add", ["p", "u"], ["y"]),
        ],
        (2, 3, 8), (2, 3, 8), {"g": values(3, 8)},
    ),
    "SimplifiedLayerNormalization, its deviation": (
        [
            *one("SimplifiedLayerNormalization", "g", domain="", outputs=("n", "d"), axis=1),
            helper.make_node("Mul", ["n", "d"], ["y"]),
        ],
        (2, 3, 8), (2, 3, 8), {"g": values(3, 8)},
    ),
    "Attention": (
        one("Attention", "w", "b", num_heads=2), (1, 5, 8), (1, 5, 8),
        {"w": values(8, 24), "b": values(24)},
    ),
    "masked Attention": (
        one("Attention", "w", "b", "m", num_heads=2), (1, 5, 8), (1, 5, 8),
        {"w": values(8, 24), "b": values(24), "m": np.array([[1, 1, 1, 0, 0]], np.int32)},
    ),
    "MultiHeadAttention": (
        one("MultiHeadAttention", "k", "v", "b", num_heads=2), (1, 5, 8), (1, 5, 8),
        {"k": values(1, 6, 8), "v": values(1, 6, 9)[..., :8], "b": values(24)},
    ),
    "Attention that looks back": (
        one("Attention", "w", "b", num_heads=2, unidirectional=1), (2, 5, 8), (2, 5, 8),
        {"w": values(8, 24), "b": values(24)},
    ),
    "Attention with a mask of each query": (
        one("Attention", "w", "b", "m", num_heads=2), (1, 3, 8), (1, 3, 8),
        {"w": values(8, 24), "b": values(24), "m": np.tri(3, dtype=np.int32)[None]},
    ),
    "MultiHeadAttention that looks back": (
        one("MultiHeadAttention", "k", "v", num_heads=2, unidirectional=1), (1, 5, 8), (1, 5, 8),
        {"k": values(1, 5, 8), "v": values(1, 5, 9)[..., :8]},
    ),
    "Attention of so many keys": (
        one("Attention", "w", "b", "m", num_heads=2), (2, 5, 8), (2, 5, 8),
        {"w": values(8, 24), "b": values(24), "m": np.array([3, 5], np.int32)},
    ),
    "MultiHeadAttention of keys in heads": (
        one("MultiHeadAttention", "k", "v", num_heads=2), (1, 5, 8), (1, 5, 8),
        {"k": values(1, 2, 6, 4), "v": values(1, 2, 6, 5)[..., :4]},
    ),
    "FusedMatMul of batches behind": (
        one("FusedMatMul", "w", transBatchA=1), (3, 2, 4), (2, 3, 5), {"w": values(2, 4, 5)},
    ),
    "FusedMatMul of batches behind, turned": (
        one("FusedMatMul", "w", transBatchB=1, transB=1), (2, 3, 4), (2, 3, 5),
        {"w": values(5, 2, 4)},
    ),
    "TransposeMatMul": (
        one("TransposeMatMul", "w", transB=1, alpha=0.5), (2, 3, 4), (2, 3, 5),
        {"w": values(2, 5, 4)},
    ),
    "EmbedLayerNormalization": (
        [
            helper.make_node("Cast", ["x"], ["f"], to=TensorProto.INT32),
            helper.make_node("Abs", ["f"], ["i"]),
            helper.make_node(
                "EmbedLayerNormalization", ["i", "o", "w", "p", "s", "g", "h", "m"],
                ["n", "k"], domain=DOMAIN,
            ),
            helper.make_node("Cast", ["k"], ["c"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["n", "c"], ["y"]),
        ],
        (1, 5), (1, 5, 8),
        {
            "o": np.array([[0, 1, 1, 0, 1]], np.int32), "w": values(16, 8), "p": values(6, 8),
            "s": values(2, 8), "g": values(8), "h": values(8),
            "m": np.array([[1, 1, 1, 0, 7]], np.int32),
        },
    ),
    "GridSample": (
        one("GridSample", "g", mode="bicubic", padding_mode="border", align_corners=1),
        (1, 2, 4, 4), (1, 2, 3, 3), {"g": values(1, 3, 3, 2)},
    ),
    "CDist": (
        one("CDist", "w", metric="euclidean"), (3, 8), (3, 5), {"w": values(5, 8)},
    ),
    "CDist, squared": (
        one("CDist", "w", metric="sqeuclidean"), (3, 8), (3, 5), {"w": values(5, 8)},
    ),
    "ConvTransposeWithDynamicPads": (
        one("ConvTransposeWithDynamicPads", "w", "p", "b", strides=[2, 2], group=2),
        (1, 4, 5, 6), (1, 6, 9, 10),
        {"w": values(4, 3, 4, 4), "p": np.array([1, 2, 2, 2]), "b": values(6)},
    ),
    "CropAndResize": (
        one("CropAndResize", "b", "i", "n", extrapolation_value=0.5), (2, 3, 9, 7), (4, 3, 5, 6),
        {
            "b": np.array(
                [[0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1], [-0.2, 0.5, 0.6, 1.3], [0.9, 0.7, 0.1, 0.2]],
                np.float32,
            ),
            "i": np.array([0, 1, 1, 0], np.int32), "n": np.array([5, 6], np.int32),
        },
    ),
    "CropAndResize to one pixel": (
        one("CropAndResize", "b", "i", "n"), (1, 3, 9, 7), (1, 3, 1, 1),
        {
            "b": np.array([[0.1, 0.2, 0.7, 0.9]], np.float32), "i": np.array([0], np.int32),
            "n": np.array([1, 1], np.int32),
        },
    ),
    **{
        f"Inverse of {size}": (
            [
                helper.make_node("Add", ["x", "i"], ["a"]),
                helper.make_node("Inverse", ["a"], ["y"], domain=DOMAIN),
            ],
            (2, size, size), (2, size, size), {"i": 3 * np.eye(size, dtype=np.float32)},
        )
        for size in (1, 2, 3, 4)
    },
    "Range": (
        [
            helper.make_node("Shape", ["x"], ["s"]),
            helper.make_node("Slice", ["s", "a", "b"], ["n"]),
            helper.make_node("Range", ["a", "n"], ["r"], domain=DOMAIN),
            helper.make_node("Gather", ["x", "r"], ["y"], axis=1),
        ],
        (2, 8), (2, 7), {"a": np.array([1]), "b": np.array([2])},
    ),
    "Trilu": (one("Trilu", "k", upper=0), (2, 4, 5), (2, 4, 5), {"k": np.array(1)}),
    "Trilu before opset 14": (one("Trilu"), (4, 5), (4, 5), {}),
    "UnfoldTensor": (one("UnfoldTensor", dim=1, size=3, step=2), (2, 9, 4), (2, 4, 4, 3), {}),
    "GatherND": (one("GatherND", "i"), (3, 4), (2,), {"i": np.array([[0, 1], [2, 3]])}),
    "Pad": (
        one("Pad", "i", mode="edge"), (3, 4), (4, 6), {"i": np.array([1, 0, 0, 2])},
    ),
    "RotaryEmbedding": (
        one("RotaryEmbedding", "p", "cos", "sin"), (2, 4, 24), (2, 4, 24),
        {"p": np.array([[0, 1, 2, 3], [4, 1, 0, 5]]), "cos": values(6, 4), "sin": values(4, 6).T},
    ),
    "RotaryEmbedding of heads, in pairs": (
        one("RotaryEmbedding", "p", "cos", "sin", interleaved=1), (1, 2, 4, 8), (1, 2, 4, 8),
        {"p": np.array([2]), "cos": values(6, 4), "sin": values(4, 6).T},
    ),
    "RotaryEmbedding of a part": (
        one("RotaryEmbedding", "p", "cos", "sin", num_heads=2, rotary_embedding_dim=4),
        (1, 4, 16), (1, 4, 16),
        {"p": np.array([1]), "cos": values(6, 2), "sin": values(2, 6).T},
    ),
    "QLinearAdd": (quantized("QLinearAdd", *"aszaszsz"), (2, 8), (2, 8), BYTES),
    "QLinearMul": (quantized("QLinearMul", *"aszaszsz"), (2, 8), (2, 8), BYTES),
    "QLinearSigmoid": (quantized("QLinearSigmoid", *"aszto"), (2, 8), (2, 8), BYTES | FINE),
    "QLinearLeakyRelu": (quantized("QLinearLeakyRelu", *"aszsz", alpha=0.1), (2, 8), (2, 8), BYTES),
    "QLinearSoftmax": (
        quantized("QLinearSoftmax", *"aszto", axis=-1, opset=13), (2, 8), (2, 8), BYTES | FINE,
    ),
    "QLinearConcat": (
        [
            quantized("", *"sz")[0],
            helper.make_node("QLinearConcat", [*"szaszasz"], ["b"], domain=DOMAIN, axis=1),
            quantized("", *"sz")[2],
        ],
        (2, 8), (2, 16), BYTES,
    ),
    "QLinearGlobalAveragePool": (
        quantized("QLinearGlobalAveragePool", *"aszsz", channels_last=0), (1, 4, 5, 5),
        (1, 4, 1, 1), BYTES,
    ),
    "its channels last": (
        quantized("QLinearGlobalAveragePool", *"aszsz", channels_last=1), (1, 5, 5, 4),
        (1, 1, 1, 4), BYTES,
    ),
    "QLinearAveragePool": (
        quantized("QLinearAveragePool", *"aszsz", kernel_shape=[2, 2], strides=[2, 2]),
        (1, 4, 6, 6), (1, 4, 3, 3), BYTES,
    ),
    "NhwcMaxPool": (
        [
            quantized("", *"sz")[0],
            helper.make_node(
                "NhwcMaxPool", ["a"], ["b"], domain=DOMAIN, kernel_shape=[3, 2], strides=[2, 1]
            ),
            quantized("", *"sz")[2],
        ],
        (1, 5, 6, 4), (1, 2, 5, 4), BYTES,
    ),
    "QLinearConv": (
        quantized("QLinearConv", *"aszgvwto", channels_last=1, pads=[1, 1, 0, 0], strides=[2, 1]),
        (1, 5, 6, 4), (1, 2, 5, 6), CONVOLUTION,
    ),
    "QLinearConv of a line, with a bias": (
        [
            quantized("", *"sz")[0],
            helper.make_node(
                "QLinearConv", [*"aszgvwtoc"], ["b"], domain=DOMAIN, channels_last=1, group=2
            ),
            quantized("", *"to")[2],
        ],
        (2, 7, 4), (2, 5, 6),
        CONVOLUTION
        | {"g": CONVOLUTION["g"][:, :2, 0], "c": np.arange(6, dtype=np.int32) * 300},
    ),
    "QLinearConv, channels first": (
        quantized("QLinearConv", *"aszgvwto", channels_last=0), (1, 4, 5, 6), (1, 6, 3, 4),
        CONVOLUTION,
    ),
    "QGemm": (
        quantized("QGemm", *"aszuvwcto", transB=1), (3, 8), (3, 5),
        {
            **BYTES, **FINE, "u": STEPS, "v": np.full(5, 0.003, np.float32),
            "w": np.zeros(5, np.int8), "c": np.arange(5, dtype=np.int32) * 300,
        },
    ),
    "QGemm of real numbers": (
        [
            quantized("", *"sz")[0],
            helper.make_node("QGemm", [*"aszuvwb"], ["y"], domain=DOMAIN, transB=1, alpha=0.5),
        ],
        (3, 8), (3, 5),
        {
            **BYTES, "u": STEPS, "v": np.array(np.float32(0.003)), "w": np.array(np.int8(0)),
            "b": np.arange(5, dtype=np.int32) * 300,
        },
    ),
    "DynamicQuantizeMatMul": (
        one("DynamicQuantizeMatMul", "w", "t", "", "b"), (3, 8), (3, 5),
        # Of seven bits: processors without VNNI add two products of bytes in 16.
        {"w": WEIGHT[:, 0].T.astype(np.int8) // 2, "b": values(5), **FINE},
    ),
    "MatMulNBits": (
        one("MatMulNBits", "w", "f", K=32, N=5, bits=4, block_size=16), (3, 32), (3, 5),
        {"w": WEIGHT, "f": np.abs(values(10))},
    ),
    "MatMulNBits with zero points": (
        one("MatMulNBits", "w", "f", "p", K=32, N=5, bits=4, block_size=16), (3, 32), (3, 5),
        {"w": WEIGHT, "f": np.abs(values(10)), "p": WEIGHT[:, 0, 0].copy()},
    ),
    "MatMulNBits in an order of its own": (
        one("MatMulNBits", "w", "f", "", "g", K=32, N=5, bits=4, block_size=16), (3, 32), (3, 5),
        {"w": WEIGHT, "f": np.abs(values(10)), "g": np.arange(32, dtype=np.int32) % 3 // 2},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_layers_of_its_optimizer_and_quantizer(name):
    older = 13 if "Trilu before" in name else 16
    compare(*LAYERS[name], opset=older if "before" in name else 17)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zeros", ["", "packed", "real"])
def test_weights_of_few_bits_and_terms_that_fill_no_block(bits, zeros):
    """As they are unpacked here by hand: onnxruntime takes 2 bits in its newer versions alone."""
    rows, terms, block = 5, 40, 16
    blocks, each = 3, 8 // bits
    rng = np.random.default_rng(SEED)
    weight = rng.integers(0, 256, (rows, blocks, block // each), np.uint8)
    packed = rng.integers(0, 256, (rows, -(-blocks // each)), np.uint8)
    scale = np.abs(values(rows, blocks))

    def numbers(octets, count):
        every = [octets.reshape(rows, -1) >> bits * place & 2**bits - 1 for place in range(each)]
        return np.stack(every, -1).reshape(rows, -1)[:, :count].astype(np.float32)

    points = {
        "": np.full((rows, blocks), 2.0 ** (bits - 1)),
        "packed": numbers(packed, blocks),
        "real": values(blocks, rows).T,
    }[zeros]
    weights = {"w": weight, "f": scale.reshape(-1)}
    if zeros:
        chosen = packed.reshape(-1) if zeros == "packed" else points.astype(np.float32).reshape(-1)
        weights["p"] = chosen
    nodes = one("MatMulNBits", *weights, K=terms, N=rows, bits=bits, block_size=block)
    ends = [("x", (3, terms))], [("y", (3, rows))]
    model = make_model(nodes, *ends, list(weights.items()), opset=17, domain=DOMAIN)
    of = np.arange(terms) // block
    real = (numbers(weight, terms) - points[:, of]) * scale[:, of]
    x = values(3, terms)
    found = run_on_cpu(import_onnx(model)[0], x)[0]
    np.testing.assert_allclose(found, x @ real.T, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("scales", [(0.02, 0.02, 0.04), (0.1, 0.05, 0.2), (0.3, 0.7, 0.2)])
def test_halves_of_sums_are_rounded_as_onnxruntime_does(scales, dtype):
    """All pairs of bytes, by scales that make halves, and an odd zero point."""
    weights = {name: np.array(np.float32(size)) for name, size in zip("stu", scales, strict=True)}
    weights |= {name: np.array(dtype(zero)) for name, zero in zip("opz", (3, 7, 11), strict=True)}
    every = np.arange(256).astype(np.uint8).view(dtype)
    weights["b"] = every[:, None].copy()
    nodes = [
        helper.make_node("Cast", ["x"], ["a"], to=helper.np_dtype_to_tensor_dtype(every.dtype)),
        helper.make_node("QLinearAdd", [*"asobtpuz"], ["c"], domain=DOMAIN),
        helper.make_node("Cast", ["c"], ["y"], to=TensorProto.FLOAT),
    ]
    model = make_model(
        nodes, [("x", (1, 256))], [("y", (256, 256))], list(weights.items()), opset=17,
        domain=DOMAIN,
    )  # fmt: skip
    x = every[None].astype(np.float32)
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    (result,) = run_on_cpu(import_onnx(model)[0], x)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("QLinearAveragePool", {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("QLinearGlobalAveragePool", {"channels_last": 0}),
        ("QLinearGlobalAveragePool", {"channels_last": 1}),
    ],
)
def test_halves_of_means_are_rounded_as_onnxruntime_does(operator, attributes):
    """By scales that make halves, and an odd zero point."""
    scales = {"s": 0.25, "t": 0.5}
    weights = {name: np.array(np.float32(size)) for name, size in scales.items()}
    weights |= {"o": np.array(np.uint8(5)), "z": np.array(np.uint8(3))}
    nodes = [
        helper.make_node("Cast", ["x"], ["a"], to=TensorProto.UINT8),
        helper.make_node(operator, [*"asotz"], ["c"], domain=DOMAIN, **attributes),
        helper.make_node("Cast", ["c"], ["y"], to=TensorProto.FLOAT),
    ]
    x = np.random.default_rng(SEED).integers(0, 256, (4, 16, 16, 8)).astype(np.float32)
    model = make_model(
        nodes, [("x", x.shape)], [("y", None)], list(weights.items()), opset=17, domain=DOMAIN
    )
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    (result,) = run_on_cpu(import_onnx(model)[0], x)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize(("opset", "of_node"), [(12, 13), (17, 12)])
def test_a_softmax_of_bytes_is_of_its_nodes_opset(opset, of_node, axis):
    """Before 13 it was over all axes from one on; a file may say one, its node the other."""
    nodes = quantized("QLinearSoftmax", *"aszto", axis=axis, opset=of_node)
    compare(nodes, (2, 3, 4), (2, 3, 4), BYTES | FINE, opset)


@pytest.mark.parametrize("around", ["If", "Loop"])
def test_those_of_branches_and_bodies(around):
    """A layer, which takes new weights, and a quantized one inside of a node."""
    inside = [*one("QuickGelu", outputs=("g",), alpha=1.5)]
    inside += quantized("QLinearAdd", *"aszaszsz")
    inside[1].input[0] = "g"
    if around == "If":
        other = helper.make_graph([helper.make_node("Neg", ["x"], ["n"])], "b", [], [value("n")])
        branch = helper.make_graph(inside, "a", [], [value("y")])
        nodes = [
            helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
            helper.make_node("Greater", ["most", "s"], ["chosen"]),
            helper.make_node("If", ["chosen"], ["y"], then_branch=branch, else_branch=other),
        ]
    else:
        inside[0].input[0] = "carried"
        ends = [value("turn", (), TensorProto.INT64), value("on", (), TensorProto.BOOL)]
        body = helper.make_graph(
            [helper.make_node("Identity", ["on"], ["still"]), *inside], "b",
            [*ends, value("carried")], [value("still", (), TensorProto.BOOL), value("y")],
        )  # fmt: skip
        nodes = [helper.make_node("Loop", ["turns", "", "x"], ["y"], body=body)]
    weights = {**BYTES, "turns": np.array(2)}
    used = {name for node in [*nodes, *inside] for name in node.input}
    compare(nodes, (2, 8), (2, 8), weights, 17, used)


def value(name, shape=(2, 8), dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def compare(nodes, given, made, weights, opset, read=()):
    """With onnxruntime. read: names that branches and bodies read, too."""
    read = {*read, *(each for node in nodes for each in node.input)}
    needed = [(key, value) for key, value in weights.items() if key in read]
    model = make_model(nodes, [("x", given)], [("y", made)], needed, opset=opset, domain=DOMAIN)
    options = onnxruntime.SessionOptions()  # whose optimizer would fuse what is fused already
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    x = values(*given)
    (expected,) = session.run(None, {"x": x})
    module, signature = import_onnx(model)
    assert import_onnx(undeclared(model))[1].outputs == signature.outputs
    (result,) = run_on_cpu(module, x)
    step = 0.021 if nodes[-1].op_type == "DequantizeLinear" else 0.0  # where halves round
    np.testing.assert_allclose(result, expected, rtol=2e-5, atol=max(2e-5, step))
    assert np.mean(np.abs(result - expected) > 1e-4 * np.abs(expected).max()) < 0.1


def damaged(model):
    """Without each of its attributes, inputs and outputs; and changed at random."""
    for index, node in enumerate(model.graph.node):
        fields = [
            *(("attribute", place) for place in range(len(node.attribute))),
            *(("input", place) for place in range(len(node.input))), ("output", 0),
        ]  # fmt: skip
        for field, place in fields if node.domain == DOMAIN else ():
            for end in {place + 1, len(getattr(node, field))}:
                copy = type(model)()
                copy.CopyFrom(model)
                del getattr(copy.graph.node[index], field)[place:end]
                yield copy
            if field == "input":
                copy.graph.node[index].input.append("")
                yield copy
    yield from (Mutator(seed).damaged(model) for seed in range(30))


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize(
    "read", [standard_operators, pytest.param(import_onnx, marks=pytest.mark.slow)]
)
def test_damaged_ones_are_refused_in_one_line(name, read):
    """ONNX's checker knows nothing of them."""
    nodes, given, made, weights = LAYERS[name]
    model = make_model(
        nodes, [("x", given)], [("y", made)], list(weights.items()), opset=17, domain=DOMAIN
    )
    for copy in damaged(model):
        try:
            read(copy)
        except (RefusedNodes, TvmVisionError) as error:
            assert len(str(error).splitlines()) == 1


@pytest.mark.parametrize(
    ("nodes", "weights", "reason"),
    [
        (
            one("Attention", "w", num_heads=2, do_rotary=1), {"w": values(8, 24)},
            "turns queries and keys by their places",
        ),
        (
            one("FusedConv", "w", activation="Swish"), {"w": values(4, 3, 3, 3)},
            "its activation is Swish",
        ),
        (
            one("MatMulNBits", "w", "f", K=32, N=5, bits=3, block_size=16),
            {"w": WEIGHT, "f": values(10)}, "of 3 bits",
        ),
        (one("Inverse"), {}, "it inverts 8 rows"),
        (one("SparseAttention", "w"), {"w": values(8)}, "not a standard ONNX operator"),
    ],
)  # fmt: skip
def test_what_has_no_such_words_is_refused_with_a_remedy(nodes, weights, reason):
    ends = [("x", (1, 3, 8, 8))], [("y", None)]
    model = make_model(nodes, *ends, list(weights.items()), opset=17, domain=DOMAIN)
    with pytest.raises(NodesRefused, match=reason) as error:
        import_onnx(model)
    assert nodes[0].op_type in str(error.value)


@pytest.mark.parametrize("with_zeros", [False, True])
@pytest.mark.parametrize(
    ("kind", "bits"),
    [(TensorProto.INT4, 4), (TensorProto.UINT4, 4), (TensorProto.UINT8, 4), (TensorProto.UINT8, 8)],
)
def test_rows_of_a_table_of_few_bits(kind, bits, with_zeros):
    rows, width, block = 10, 32, 16
    rng = np.random.default_rng(SEED)

    def table(name, columns):
        """Numbers of 0 to 7 fit all types; two of four bits may share a byte."""
        packed = kind == TensorProto.UINT8 and bits == 4
        high = 256 if kind == TensorProto.UINT8 else 8
        shape = (rows, columns // 2 if packed else columns)
        return helper.make_tensor(name, kind, shape, rng.integers(0, high, np.prod(shape)))

    weights = [
        table("d", width),
        numpy_helper.from_array(np.abs(values(rows, width // block)), "s"),
        *([table("z", width // block)] if with_zeros else []),
    ]
    attributes = {"bits": bits} if kind == TensorProto.UINT8 else {}
    names = ["d", "x", "s", *(["z"] if with_zeros else [])]
    node = helper.make_node(
        "GatherBlockQuantized", names, ["y"], domain=DOMAIN, block_size=block, **attributes
    )
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.INT64, (2, 2))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 2, width))],
        weights,
    )
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    places = np.array([[0, 3], [rows - 1, 5]])
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (expected,) = session.run(None, {"x": places})
    (result,) = run_on_cpu(import_onnx(model)[0], places)
    np.testing.assert_array_equal(result, expected)


def test_what_was_saved_for_one_processor_is_refused_with_the_level_to_save_at():
    node = helper.make_node("Conv", ["x", "w"], ["y"], domain="com.microsoft.nchwc")
    ends = [("x", (1, 16, 8, 8))], [("y", None)]
    model = make_model([node], *ends, [("w", np.ones((16, 16, 1, 1), np.float32))], opset=17)
    model.opset_import.append(helper.make_opsetid("com.microsoft.nchwc", 1))
    with pytest.raises(NodesRefused, match="nchwc.Conv .*: .* level ORT_ENABLE_EXTENDED instead"):
        import_onnx(model)
