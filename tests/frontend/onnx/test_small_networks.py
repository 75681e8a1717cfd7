"""What exporters write, a network of a few nodes each, against onnxruntime: a sample of forms that
no other table has. Each is text in ONNX's own language."""

import zlib

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from support.conformance.conformance_worker import executor
from tvm_vision.frontend.onnx.load import import_onnx

# Before "|" the operator set; behind it a graph. Values that are named between "<" and ">" without
# a number are weights at random; so are the inputs.
NETWORKS = {
    "flattened": """17| (float[2,3,4] x) => (float[2,12] y) <int64 zero = {0}, int64[1] ax = {0},
        int64[1] rest = {-1}> { s = Shape(x) n = Gather(s, zero) m = Unsqueeze(n, ax)
        t = Concat<axis = 0>(m, rest) y = Reshape(x, t) }""",
    "of several": """17| (float[2,3] u, float[2,3] v, float[3] w) => (float[2,3] a, float[2,3] b,
        float[2,3] c, float[2,3] d) { p = Mean(u, v, w) a = HardSigmoid(p) q = Sum(u, v, w)
        b = HardSwish(q) r = Max(u, v, w) c = HardSigmoid(r) t = Min(u, v, w) d = HardSwish(t) }""",
    "backwards": """17| (float[2,8] x) => (float[2,4] y) <int64[1] a = {-1}, int64[1] b = {-9},
        int64[1] c = {1}, int64[1] d = {-2}> { y = Slice(x, a, b, c, d) }""",
    "beyond the end": """17| (float[2,8] x) => (float[2,5] y) <int64[1] a = {3},
        int64[1] b = {4611686018427387904}, int64[1] c = {-1}> { y = Slice(x, a, b, c) }""",
    "scattered": """18| (float[5,3] x, float[2,3] u) => (float[5,3] y) <int64[2,1] i = {-1, 1}>
        { y = ScatterND(x, i, u) }""",
    "least of": """18| (float[3,5] x, float[2,5] u) => (float[3,5] y)
        <int64[2,5] i = {0, 1, 2, 0, -1, 0, 1, 1, 0, -1}>
        { y = ScatterElements<axis = 0, reduction = "min">(x, i, u) }""",
    "channels last": """17| (float[1,9,9,4] x) => (float[1,5,5,8] y) <float[8,1,3,3] w,
        int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}> { t = Transpose<perm = [0, 3, 1, 2]>(x)
        q = Pad(t, p) c = Conv<strides = [2, 2], group = 4>(q, w)
        y = Transpose<perm = [0, 2, 3, 1]>(c) }""",
    "windows as TensorFlow has them": """17| (float[1,3,10,11] x) => (float[1,3,5,6] y)
        { y = AveragePool<auto_pad = "SAME_UPPER", kernel_shape = [3, 2], strides = [2, 2]>(x) }""",
    "windows of a half": """19| (float[1,3,8,10] x) => (float[1,3,5,6] y) { y = AveragePool<
        kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1], ceil_mode = 1,
        count_include_pad = 1>(x) }""",
    "softmax of old": "11| (float[2,3,4] x) => (float[2,3,4] y) { y = Softmax<axis = 1>(x) }",
    "enlarged of old": """7| (float[1,2,4,4] x) => (float[1,2,8,8] y)
        { y = Upsample<mode = "linear", scales = [1.0, 1.0, 2.0, 2.0]>(x) }""",
    "enlarged as TensorFlow has it": """11| (float[1,2,4,5] x) => (float[1,2,6,10] y,
        float[1,2,3,2] z) <float[0] r, float[4] s = {1, 1, 1.5, 2}, float[4] t = {1, 1, 0.75, 0.4}>
        { y = Resize<coordinate_transformation_mode = "tf_half_pixel_for_nn",
        nearest_mode = "floor">(x, r, s) z = Resize<nearest_mode = "floor",
        coordinate_transformation_mode = "tf_half_pixel_for_nn">(x, r, t) }""",
    "groups of old": """18| (float[2,4,5] x) => (float[2,4,5] y) <float[2] s, float[2] b>
        { y = GroupNormalization<num_groups = 2, epsilon = 0.01>(x, s, b) }""",
    "what is behind groups": """21| (float[2,4,5,6] x) => (float[2,4,5,6] y)
        <float[4] s, float[4] b, int64[2] a = {2, 3}>
        { g = GroupNormalization<num_groups = 2>(x, s, b) m = ReduceMean(g, a) y = Sub(g, m) }""",
    "four steps": """17| (float[3] x) => (float[3] y, float[4,3] z) <int64 n = {4}, bool c = {1},
        float two = {2}> { y, z = Loop<body = b (int64 i, bool ci, float[3] v)
        => (bool co, float[3] w, float[3] scanned) { w = Mul(v, two) co = Identity(ci)
        scanned = Identity(w) }>(n, c, x) }""",
    "from the end": """17| (float[4,3] x) => (float[3] z, float[4,3] y) <float[3] s>
        { z, y = Scan<num_scan_inputs = 1, scan_input_directions = [1],
        scan_output_directions = [1], body = b (float[3] a, float[3] v) => (float[3] o, float[3] p)
        { o = Add(a, v) p = Identity(o) }>(s, x) }""",
    "a sequence": """17| (float[4,3] x) => (float[4,3,3] y) <float[4,3] w, int64 i = {0}>
        { q = SequenceConstruct(x, w) r = SequenceInsert(q, x, i)
        y = ConcatFromSequence<axis = 1, new_axis = 1>(r) }""",
    "unevenly split": """18| (float[2,8] x) => (float[2,8] y)
        { a, b, c = Split<axis = -1, num_outputs = 3>(x) y = Concat<axis = -1>(c, a, b) }""",
    "spectra": """17| (float[1,64,1] x) => (float[1,7,9,2] y) <int64 step = {8}, float[16] w>
        { y = STFT<onesided = 1>(x, step, w) }""",
    "bytes in": """17| (uint8[1,4,4,3] x) => (float[1,3,4,4] y) <float k = {255}, float[3] m>
        { a = Cast<to = 1>(x) b = Div(a, k) c = Sub(b, m)
        y = Transpose<perm = [0, 3, 1, 2]>(c) }""",
    "bytes out": """17| (float[1,3,4,4] x) => (uint8[1,3,4,4] y) <float k = {255}, float lo = {0},
        float hi = {255}> { a = Mul(x, k) b = Clip(a, lo, hi) y = Cast<to = 2>(b) }""",
    "whole numbers divided": """17| (int64[4] x) => (int64[4] y, int64[4] z)
        <int64[4] k = {2, -3, 4, -5}> { y = Div(x, k) z = Mod(x, k) }""",
    "the last largest": """17| (int64[2,60] x) => (int64[2] y)
        { y = ArgMax<axis = 1, select_last_index = 1, keepdims = 0>(x) }""",
    "three factors": """17| (float[2,3] x, float[2,4] v) => (float[2] y) <float[3,4] w>
        { y = Einsum<equation = "bi,ij,bj->b">(x, w, v) }""",
    "a diagonal": """17| (float[2,4,4] x, float[2,3] v) => (float[2,3] y)
        { y = Einsum<equation = "bii,bj->bj">(x, v) }""",
    "both ways": """17| (float[5,2,4] x) => (float[5,2,2,3] y, float[2,2,3] h) <float[2,12,4] w,
        float[2,12,3] r, float[2,24] b, int32[2] length = {5, 3}>
        { y, h = LSTM<hidden_size = 3, direction = "bidirectional">(x, w, r, b, length) }""",
    "no lower end": """17| (float[2,3] x) => (float[2,3] y) <float most = {0.2}>
        { y = Clip(x, , most) }""",
    "ends in the wrong order": """17| (float[2,3] x) => (float[2,3] y) <float lo = {0.5},
        float hi = {-0.5}> { y = Clip(x, lo, hi) }""",
    "taken away and added": """13| (float[2,6] x) => (float[2,7] y) <int64[4] p = {0, -1, 0, 2}>
        { y = Pad<mode = "reflect">(x, p) }""",
    "truth": """17| (bool[9] x, float[9] v) => (bool[9] y) <float z = {-0.5}>
        { a = Greater(v, z) b = Xor(a, x) y = Not(b) }""",
    "not finite": """17| (float[9] x) => (float[9] y) <float z = {0}>
        { a = Div(x, z) b = IsInf<detect_negative = 0>(a) y = Cast<to = 1>(b) }""",
    "nothing by nothing": """17| (float[3] x) => (float[3] y) <float z = {0}>
        { a = Mul(x, z) y = Div(a, a) }""",
    "a scalar": "17| (float x) => (float y) { y = Mul(x, x) }",
    "nothing before": """17| (float[2,3] x) => (float[2,3] y) <int64[1] a = {0}>
        { e = Slice(x, a, a) y = Concat<axis = 0>(e, x) }""",
    "an input that goes out": "17| (float[2,3] x) => (float[2,3] y, float[2,3] x) { y = Relu(x) }",
    "a weight that goes out": """17| (float[2,3] x) => (float[2,3] y, float[2] w) <float[2] w>
        { y = Relu(x) }""",
    "in 64 bits": """17| (double[2,5] x) => (double[2,4] y) <double[4,5] w, double[4] b>
        { y = Gemm<transB = 1, alpha = 0.3, beta = 2.0>(x, w, b) }""",
    "grouped heads": """23| (float[1,5,32] q, float[1,5,16] k, float[1,5,16] v) => (float[1,5,32] y)
        { y = Attention<is_causal = 1, q_num_heads = 4, kv_num_heads = 2>(q, k, v) }""",
    "turned by their places": """23| (float[1,2,4,8] x) => (float[1,2,4,8] y) <float[16,4] c,
        float[16,4] s, int64[1,4] p = {3, 1, 0, 2}> { y = RotaryEmbedding(x, c, s, p) }""",
    "weights of four bits": """21| (float[2,8] x) => (float[2,4] y) <int4[8,4] w, float[4] s>
        { d = DequantizeLinear<axis = 1>(w, s) y = MatMul(x, d) }""",
    "four bits": """21| (float[3,8] x) => (float[3,8] y, float[3,5] z) <float s = {0.1},
        float[8] t = {0.1, 0.2, 0.3, 0.4, 0.1, 0.2, 0.3, 0.2}, uint4[8] p, int4[5,8] w, float[5] f,
        int4[5] o, int4 c = {1}>
        { a = QuantizeLinear(x, s, c) y = DequantizeLinear(a, s, c)
          b = QuantizeLinear<axis = 1>(x, t, p) e = Transpose<perm = [1, 0]>(b)
          g = DequantizeLinear<axis = 0>(e, t, p) d = DequantizeLinear<axis = 0>(w, f, o)
          z = Gemm<transA = 1, transB = 1>(g, d) }""",
    "four bits in blocks": """21| (float[2,8] x) => (float[2,8] y)
        <float[2,2] s = {0.1, 0.2, 0.3, 0.05}, uint4[2,2] p>
        { a = QuantizeLinear<axis = 1, block_size = 4>(x, s, p)
          y = DequantizeLinear<axis = 1, block_size = 4>(a, s, p) }""",
    "a volume sampled": """20| (float[1,2,4,4,4] x, float[1,3,3,3,3] g) => (float[1,2,3,3,3] y)
        { y = GridSample(x, g) }""",
    "what may be missing, passed on": """18| (float[2,3] x) => (float[2,3] y, float[2,3] z, bool h)
        { o = Optional(x) y = OptionalGetElement(o) h = OptionalHasElement(o) z = Neg(y) }""",
    "no inputs": "17| () => (float[2,3] y) <float[2,3] w> { y = Relu(w) }",
    "nothing dropped, of old": """10| (float[2,3] x) => (float[2,3] y, bool[2,3] m)
        { y, m = Dropout(x) }""",
    "nothing dropped, of older": """7| (float[2,3] x) => (float[2,3] y, float[2,3] m)
        { y, m = Dropout(x) }""",
    "the lowest four bits": """21| (float[40] x, int32[40] k, float16[40] h) =>
        (float[40] a, float[40] b, float[40] c, float[40] d, float[40] e, float[8] f)
        <float m = {7.5}, float[8] w = {0.5, 1.5, -2.5, 7.6, 300, -9, -0.5, 8}>
        { y = Mul(x, m) s = Cast<to = 22>(y) a = Cast<to = 1>(s) t = Cast<to = 21>(y)
          b = Cast<to = 1>(t) u = Cast<to = 22>(k) c = Cast<to = 1>(u) v = Cast<to = 21>(h)
          d = Cast<to = 1>(v) p = Cast<to = 21>(u) e = Cast<to = 1>(p) r = Cast<to = 22>(w)
          f = Cast<to = 1>(r) }""",
    "turned in time": """17| (float[5,3,2] x) => (float[5,3,2] y) <int64[3] n = {5, 2, 3}>
        { y = ReverseSequence<batch_axis = 1, time_axis = 0>(x, n) }""",
}


def random_of(value, random):
    """Numbers of a value's type and shape: small ones, some negative where it has them."""
    tensor = value.type.tensor_type
    shape = [size.dim_value for size in tensor.shape.dim]
    dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    if dtype.kind == "f":
        return random.standard_normal(shape).astype(dtype)
    least, most = {"b": (0, 2), "u": (0, 256)}.get(dtype.kind, (-8, 8))
    return random.integers(least, most, shape).astype(dtype)


def network_called(name):
    """The model and its inputs, of a seed of its own."""
    opset, text = NETWORKS[name].split("|", 1)
    graph = onnx.parser.parse_graph("g" + text)
    random = np.random.default_rng(zlib.crc32(name.encode()))
    graph.initializer.extend(
        numpy_helper.from_array(random_of(value, random), value.name) for value in graph.value_info
    )
    graph.ClearField("value_info")
    inputs = {value.name: random_of(value, random) for value in graph.input}
    imports = [helper.make_opsetid("", int(opset))]
    return helper.make_model(graph, opset_imports=imports, ir_version=10), inputs


@pytest.mark.parametrize("target", ["llvm", pytest.param("vulkan", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", NETWORKS)
def test_as_onnxruntime_has_it(name, target):
    model, inputs = network_called(name)
    options = onnxruntime.SessionOptions()
    # Products with few bits are of float32: since 1.26 of bytes, where nobody says so.
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    expected = session.run(None, inputs)
    results = executor(import_onnx(model), target)(*inputs.values())
    for result, wanted in zip(results, expected, strict=True):
        assert result.dtype == wanted.dtype and result.shape == wanted.shape
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)
