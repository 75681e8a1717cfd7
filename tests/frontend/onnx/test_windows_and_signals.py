"""Windows, Fourier transforms, orders and powers that TVM's importer lacks, against onnxruntime, or
against ONNX's own reference where onnxruntime has none."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from support.conformance.conformance_worker import executor
from support.onnx_models import make_model
from tvm_vision.errors import UnsupportedModelError
from tvm_vision.frontend.onnx.load import import_onnx

F, I64 = TensorProto.FLOAT, TensorProto.INT64
RANDOM = np.random.default_rng(3)


def model_of(operator, inputs, constants=None, outputs=1, opset=18, **attributes):
    """A model of one node; constants: place among the inputs -> value."""
    constants = constants or {}
    names = iter("abcdef")
    given: list[str] = []
    feeds: dict[str, np.ndarray] = {}
    weights: list[onnx.TensorProto] = []
    for place in range(len(inputs) + len(constants)):
        name = next(names)
        if place in constants:
            value = constants[place]
            given.append("" if value is None else name)
            weights += [] if value is None else [numpy_helper.from_array(value, name)]
            continue
        given.append(name)
        feeds[name] = inputs[len(feeds)]
    results = [f"y{number}" for number in range(outputs)]
    graph = helper.make_graph(
        [helper.make_node(operator, given, results, "it", **attributes)],
        "one",
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
            )
            for name, value in feeds.items()
        ],
        [helper.make_empty_tensor_value_info(name) for name in results],
        weights,
    )
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9), feeds


def check(model, feeds, reference=None, rtol=1e-5, atol=1e-5):
    if reference is None:
        session = onnxruntime.InferenceSession(model.SerializeToString())
        reference = session.run(None, feeds)
    found = executor(import_onnx(model), "llvm")(*feeds.values())
    for ours, wanted in zip(found, reference, strict=True):
        assert ours.dtype == wanted.dtype
        np.testing.assert_allclose(ours, wanted, rtol=rtol, atol=atol)


def real(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


slow = pytest.mark.slow
COL2IM = [
    # image, block, windows, attributes
    ((6, 8), (2, 2), 12, {"strides": [2, 2]}),
    pytest.param((5, 5), (2, 2), 16, {}, marks=slow),
    ((6, 7), (3, 2), 9, {"strides": [2, 3], "pads": [1, 0, 1, 1]}),
    pytest.param((7, 7), (3, 3), 9, {"dilations": [2, 2]}, marks=slow),
    pytest.param((9,), (3,), 4, {"strides": [2]}, marks=slow),
]


@pytest.mark.parametrize(("image", "block", "windows", "attributes"), COL2IM)
def test_col2im(image, block, windows, attributes):
    constants = {1: np.array(image), 2: np.array(block)}
    rows = 3 * int(np.prod(block))
    model, feeds = model_of("Col2Im", [real(2, rows, windows)], constants, **attributes)
    # onnxruntime's own of one axis mixes up the rows of its input.
    check(model, feeds, ReferenceEvaluator(model).run(None, feeds) if len(block) == 1 else None)


@pytest.mark.parametrize(
    "attributes",
    [
        pytest.param({"kernel_shape": [2, 2], "strides": [2, 2]}, marks=slow),
        {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]},
        {"kernel_shape": [2, 2], "dilations": [2, 1], "storage_order": 1},
        pytest.param({"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}, marks=slow),
        pytest.param(
            {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"}, marks=slow
        ),
    ],
)
def test_max_pool_with_places(attributes):
    check(*model_of("MaxPool", [real(2, 3, 7, 8)], outputs=2, **attributes))


def test_max_unpool_of_pads_that_differ():
    attributes = {"kernel_shape": [2, 3], "strides": [2, 3], "pads": [0, 1, 1, 0]}
    places = RANDOM.permutation(5 * 8)[:9].reshape(1, 1, 3, 3)
    check(*model_of("MaxUnpool", [real(1, 1, 3, 3), places], **attributes))


def test_an_output_shape_that_onnx_and_onnxruntime_read_in_two_ways():
    inputs, wanted = [real(1, 1, 2, 2), np.zeros((1, 1, 2, 2), np.int64)], np.array([1, 1, 5, 5])
    model, _ = model_of("MaxUnpool", inputs, {2: wanted}, kernel_shape=[2, 2], strides=[2, 2])
    with pytest.raises(UnsupportedModelError, match=r"MaxUnpool \(an output_shape .*Pad behind"):
        import_onnx(model)


@pytest.mark.parametrize(
    ("group", "parts", "masked"), [pytest.param(1, 1, False, marks=slow), (2, 2, True)]
)
def test_deform_conv(group, parts, masked):
    inputs = [real(2, 4, 6, 5), real(4, 4 // group, 3, 2), real(2, parts * 12, 3, 5), real(4)]
    inputs += [RANDOM.random((2, parts * 6, 3, 5), np.float32)] if masked else []
    model, feeds = model_of(
        "DeformConv",
        inputs,
        opset=19,
        group=group,
        offset_group=parts,
        strides=[2, 1],
        pads=[1, 1, 1, 0],
        kernel_shape=[3, 2],
    )
    check(model, feeds, ReferenceEvaluator(model).run(None, feeds), atol=1e-4)


@pytest.mark.parametrize(
    ("parts", "inverse", "onesided", "axis", "opset", "length"),
    [
        pytest.param(1, 0, 0, 1, 17, None, marks=slow),
        (1, 0, 1, 1, 20, 9),
        (2, 1, 0, -2, 20, None),
        pytest.param(2, 0, 0, -2, 20, 4, marks=slow),
    ],
)
def test_dft(parts, inverse, onesided, axis, opset, length):
    attributes = {"inverse": inverse, "onesided": onesided}
    constants = {1: None if length is None else np.array(length)}
    if opset == 20:
        constants[2] = np.array(axis)
    else:
        attributes["axis"] = axis
    size = (2, 7, 3, parts) if length != 4 else (2, 3, 7, parts)
    model, feeds = model_of("DFT", [real(*size)], constants, opset=opset, **attributes)
    signal = feeds["a"][..., 0] + (1j * feeds["a"][..., 1] if parts == 2 else 0)
    transform = np.fft.ifft if inverse else np.fft.rfft if onesided else np.fft.fft
    wanted = transform(signal, length, axis=axis if axis > 0 else axis + 1)
    pairs = np.stack([wanted.real, wanted.imag], -1).astype(np.float32)
    check(model, feeds, [pairs], atol=1e-4)


@pytest.mark.parametrize(("onesided", "windowed"), [(0, True), pytest.param(1, False, marks=slow)])
def test_stft(onesided, windowed):
    constants = {
        1: np.array(4),
        2: np.hanning(9).astype(np.float32) if windowed else None,
        3: np.array(9),
    }
    model, feeds = model_of("STFT", [real(2, 30, 1)], constants, opset=17, onesided=onesided)
    check(model, feeds, atol=1e-4)


@pytest.mark.parametrize("size", [16, 64])
def test_a_window_that_is_cast_like_the_signal(size):
    """As PyTorch's exporter writes a window of its own: of the signal only the type matters."""
    nodes = [
        helper.make_node("HannWindow", ["size"], ["hann"]),
        helper.make_node("CastLike", ["hann", "signal"], ["window"]),
        helper.make_node("STFT", ["signal", "step", "window", "size"], ["y"]),
    ]
    model = make_model(nodes, [("signal", (1, 200, 1))], [("y", (1, None, None, 2))], opset=17)
    for name, value in (("size", size), ("step", 8)):
        model.graph.initializer.append(numpy_helper.from_array(np.array(value, np.int64), name))
    check(model, {"signal": real(1, 200, 1)}, atol=1e-4)


@pytest.mark.parametrize(("times", "batches"), [(0, 1), (1, 0)])
def test_reverse_sequence(times, batches):
    counts = np.array([1, 4, 2, 3])
    inputs = [real(4, 4, 3), counts]
    check(*model_of("ReverseSequence", inputs, time_axis=times, batch_axis=batches))


def test_determinants():
    for size in (1, 3, 5, 8):
        model, feeds = model_of("Det", [real(3, size, size)])
        check(model, feeds, atol=1e-4)
    model, _ = model_of("Det", [real(33, 33)])
    with pytest.raises(UnsupportedModelError, match="matrices of 33 by 33.*: use at most 32 by 32"):
        import_onnx(model)


@pytest.mark.parametrize("shape", [(6, 6), (2, 2, 6, 6)], ids=str)
def test_determinants_of_rows_in_any_order(shape):
    """Numbers to divide by that are 0 or nearly so, and matrices without an inverse."""
    x = real(*shape)
    x[..., 0, :2] = 0.0
    x[..., 1, 1] = 1e-7
    model, feeds = model_of("Det", [x])
    check(model, feeds, atol=1e-4)
    x[...] = np.eye(6)[::-1]
    check(*model_of("Det", [x]))
    x[..., 2] = x[..., 4] = 0.0
    check(*model_of("Det", [x]))


@pytest.mark.parametrize("dtype", [np.int32, pytest.param(np.int64, marks=slow)])
def test_powers_of_whole_numbers(dtype):
    base = np.array([-3, -1, 0, 1, 2, 7], dtype)
    exponents = np.array([3, 5, 0, 11, 30, 10], dtype)
    check(*model_of("Pow", [base, exponents]))
    check(*model_of("Pow", [base], {1: np.array([0, 1, 2, 9, 4, 3], np.float32)}))
    model, _ = model_of("Pow", [base, exponents.astype(np.float32)])
    with pytest.raises(UnsupportedModelError, match="by float32 at run time.*cast to float first"):
        import_onnx(model)


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)], ids=str)
def test_powers_by_one_number_are_products(dtype, shape, capfd):
    """TVM would call a function for each real number, and warn of it on stderr."""
    base = np.array([-3, -1, 0, 1, 2, 5], dtype)
    for exponent in (1, 2, 3, 4, 7, 8):
        for kind in (np.float32, np.int64):
            check(*model_of("Pow", [base], {1: np.full(shape, exponent, kind)}))
    assert "pow" not in capfd.readouterr().err or shape == (1, 1)


def test_blocks_of_scales():
    scales = RANDOM.random((2, 3, 2), np.float32) + 0.5
    zeros = RANDOM.integers(-5, 5, (2, 3, 2)).astype(np.int8)
    attributes = {"axis": 2, "block_size": 2, "opset": 21}
    model, feeds = model_of(
        "QuantizeLinear", [real(2, 3, 4) * 9], {1: scales, 2: zeros}, **attributes
    )
    check(model, feeds)
    whole = RANDOM.integers(-128, 127, (2, 3, 4)).astype(np.int8)
    check(*model_of("DequantizeLinear", [whole], {1: scales, 2: zeros}, **attributes))


def test_mish_keeps_the_digits_of_small_results():
    values = np.array([-30, -20, -10, -1, 0, 1, 20, 100, 1e30], np.float32)
    model, feeds = model_of("Mish", [values])
    wide = values.astype(np.float64)
    wanted = wide * np.tanh(np.log1p(np.exp(np.minimum(wide, 50))))
    check(model, feeds, [wanted.astype(np.float32)], rtol=1e-5, atol=0)


ACTIVATIONS = (
    "Celu", "Elu", "HardSigmoid", "HardSwish", "LeakyRelu", "Relu", "Selu", "Shrink", "Sigmoid",
    "Softplus", "Softsign", "Tanh", "ThresholdedRelu",
)  # fmt: skip


@pytest.mark.parametrize("operator", ACTIVATIONS)
def test_activations_of_infinities(operator):
    """And of the numbers next to them: a factor of 0 would make NaN of an infinity."""
    largest = np.finfo(np.float32).max
    positive = np.array([0.0, 0.3, 1.0, 2.0, 1e30, largest, np.inf], np.float32)
    check(*model_of(operator, [np.concatenate([positive, -positive])]))


def test_an_unsorted_top_k_and_one_of_the_largest_numbers():
    check(*model_of("TopK", [real(3, 7)], {1: np.array([2])}, outputs=2, sorted=1))
    numbers = RANDOM.integers(0, 1 << 63, (3, 7)).astype(np.uint64) * 2
    model, feeds = model_of("TopK", [numbers], {1: np.array([3])}, outputs=2)
    order = np.argsort(numbers, axis=1)[:, :-4:-1]
    check(model, feeds, [np.take_along_axis(numbers, order, 1), order])


@pytest.mark.parametrize("target", ["llvm", "vulkan"])
def test_a_tensor_goes_on_from_its_other_end(target):
    """More often than it is long, and behind what is taken away: onnxruntime leaves memory unset
    where more is added than there is, so NumPy says what ONNX does."""
    x = np.random.default_rng(4).random((3, 4, 6), np.float32)
    pads = {"w": (0, 2, 3, 0, 1, 5), "n": (0, 0, -2, 1, 0, 3), "r": (0, 5, 8, 0, 9, 7)}
    cases = {
        "w": np.pad(x, [(0, 0), (2, 1), (3, 5)], "wrap"),
        "n": np.pad(x[..., 2:], [(0, 1), (0, 0), (0, 3)], "wrap"),
        "r": np.pad(x, [(0, 0), (5, 9), (8, 7)], "reflect"),
    }
    nodes = [
        helper.make_node(
            "Pad", ["x", name], [f"y{name}"], mode="reflect" if name == "r" else "wrap"
        )
        for name in cases
    ]
    outputs = [(f"y{name}", wanted.shape) for name, wanted in cases.items()]
    weights = [(name, np.array(numbers)) for name, numbers in pads.items()]
    model = make_model(nodes, [("x", x.shape)], outputs, weights, opset=19)
    results = executor(import_onnx(model), target)(x)
    for wanted, result in zip(cases.values(), results, strict=True):
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("target", ["llvm", "vulkan"])
def test_a_number_to_pad_with_may_be_computed(target):
    """As where a quantizer made bytes of it, or by a network; infinity stays in its place."""
    x = np.random.default_rng(5).random((2, 3, 4, 5), np.float32)
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
        helper.make_node("DequantizeLinear", ["byte", "scale"], ["real"]),
        helper.make_node("Log", ["zero"], ["infinity"]),
        helper.make_node("Pad", ["x", "pads", "most"], ["a"]),
        helper.make_node("Pad", ["x", "edges", "real"], ["b"]),
        helper.make_node("Mul", ["infinity", "most"], ["behind"]),
        helper.make_node("Pad", ["x", "pads", "behind"], ["c"]),
        helper.make_node("Pad", ["x", "some", "most", "axes"], ["d"]),
    ]
    weights = [
        ("pads", np.array([0, 0, -1, 2, 0, 1, 3, -1])),
        ("edges", np.array([1, 0, 0, 0, 0, 0, 0, 2])),
        ("some", np.array([1, 2])),
        ("axes", np.array([-1])),
        ("byte", np.array(-7, np.int8)),
        ("scale", np.array(0.25, np.float32)),
        ("zero", np.array(0, np.float32)),
    ]
    shapes = {"a": (2, 4, 6, 6), "b": (3, 3, 4, 7), "c": (2, 4, 6, 6), "d": (2, 3, 4, 8)}
    model = make_model(nodes, [("x", x.shape)], list(shapes.items()), weights, opset=18)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    results = executor(import_onnx(model), target)(x)
    for wanted, result in zip(session.run(None, {"x": x}), results, strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-6)
