"""TFLite files that are damaged, made to do harm, or of what is not there: one line each."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from support.mutations import mutated
from support.tflite_models import Graph
from tvm_vision.errors import InputError, TvmVisionError, UnsupportedModelError
from tvm_vision.frontend.model import import_model
from tvm_vision.frontend.tflite.load import tflite_to_onnx
from tvm_vision.frontend.tflite.read import read_tflite

RNG = np.random.default_rng(8)
WINDOW: dict[str, Any] = {"StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}


def sample(**window):
    """A network of a convolution, a pool, a reshape and a product, some of it int8."""
    graph = Graph()
    x = graph.tensor((1, 4, 4, 2), signature=(-1, 4, 4, 2), name="image")
    q = graph.tensor((1, 4, 4, 2), "int8", scale=0.02)
    w = graph.tensor(
        data=RNG.integers(-127, 128, (3, 3, 3, 2)).astype(np.int8), scale=[0.1, 0.2, 0.3]
    )
    c = graph.tensor((1, 4, 4, 3), "int8", scale=0.05)
    p = graph.tensor((1, 2, 2, 3), "int8", scale=0.05)
    f = graph.tensor((1, 2, 2, 3))
    r = graph.tensor((1, 12))
    y = graph.tensor((1, 5), name="scores")
    graph.operator("QUANTIZE", [x], [q])
    graph.operator("CONV_2D", [q, w], [c], **{**WINDOW, **window})
    pool: dict[str, Any] = {"StrideH": 2, "StrideW": 2, "FilterHeight": 2, "FilterWidth": 2}
    graph.operator("MAX_POOL_2D", [c], [p], **pool)
    graph.operator("DEQUANTIZE", [p], [f])
    graph.operator("RESHAPE", [f, graph.tensor(data=np.array([-1, 12], np.int32))], [r])
    graph.operator("FULLY_CONNECTED", [r, graph.tensor(data=np.ones((5, 12), np.float32))], [y])
    return graph, [x], [y]


def refusal(path):
    with pytest.raises(TvmVisionError) as caught:
        tflite_to_onnx(path)
    line = str(caught.value)
    assert "\n" not in line and "Traceback" not in line
    return line


def test_mutated_files_are_read_or_refused_in_a_line(tmp_path):
    graph, inputs, outputs = sample()
    content, path, refused = graph.bytes(inputs, outputs), tmp_path / "changed.tflite", 0
    for data in mutated(content, seed=5, count=600):
        path.write_bytes(data)
        try:
            tflite_to_onnx(path)
        except TvmVisionError as error:
            refused += 1
            assert "\n" not in str(error)
    assert refused > 100


def test_every_number_of_a_file_may_be_anything(tmp_path):
    """Each word of four bytes in turn: offsets, lengths, sizes, counts and kinds."""
    graph, inputs, outputs = sample()
    content, path = graph.bytes(inputs, outputs), tmp_path / "changed.tflite"
    for at in range(0, len(content) - 4, 4):
        for value in (0x7FFFFFFF, -1, 0):
            path.write_bytes(content[:at] + struct.pack("<i", value) + content[at + 4 :])
            try:
                tflite_to_onnx(path)
            except TvmVisionError as error:
                assert "\n" not in str(error)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.1, 0.5, 0.9, 0.999])
def test_a_part_of_a_file_is_refused(share, tmp_path):
    graph, inputs, outputs = sample()
    content = graph.bytes(inputs, outputs)
    path = tmp_path / "part.tflite"
    path.write_bytes(content[: int(share * len(content))])
    assert "needed" in refusal(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"StrideH": 0}, "strides of at least 1"),
        ({"Padding": 7}, "neither SAME nor VALID"),
        ({"FusedActivationFunction": 99}, "activation 99"),
    ],
)
def test_attributes_that_mean_nothing_are_refused(change, words, tmp_path):
    graph, inputs, outputs = sample(**change)
    line = refusal(graph.write(tmp_path / "one.tflite", inputs, outputs))
    assert words in line and "CONV_2D" in line


def one(kind, inputs, *, custom=None, tmp_path, **options):
    graph = Graph()
    places = [
        graph.tensor(data=v) if isinstance(v, np.ndarray) else graph.tensor(v) for v in inputs
    ]
    y = graph.tensor((1,), name="result")
    graph.operator(kind, places, [y], custom=custom, **options)
    return graph.write(tmp_path / "one.tflite", places[:1], [y])


@pytest.mark.parametrize(
    ("kind", "custom", "remedy"),
    [
        ("TFLite_Detection_PostProcess", b"", "export the network again"),
        ("FlexErf", b"", "built-in operators alone"),
        ("edgetpu-custom-op", b"", "edgetpu_compiler"),
        ("MaxUnpooling2D", b"", "end the model before it"),
        ("WHERE", None, "depends on the data"),
    ],
)
def test_an_operator_that_is_not_there_is_named_with_what_to_do(kind, custom, remedy, tmp_path):
    line = refusal(one(kind, [(1, 4)], custom=custom, tmp_path=tmp_path))
    assert f"1 node cannot be imported: {kind}" in line
    assert "'result'" in line and remedy in line


@pytest.mark.parametrize(
    ("kind", "inputs", "options", "words"),
    [
        ("RESHAPE", [(4, 4), np.array([3, 5], np.int32)], {}, "16 elements are no"),
        ("RESHAPE", [(4, 4), np.array([-1, -1], np.int32)], {}, "16 elements are no"),
        ("TILE", [(4, 4), np.array([1 << 20, 1 << 20], np.int32)], {}, "use a smaller size"),
        ("TRANSPOSE", [(4, 4), np.array([0, 0], np.int32)], {}, "its axes"),
        ("GATHER", [(4, 4), np.array([0], np.int32)], {"Axis": 9}, "axis 9"),
        ("SPLIT_V", [(4, 4), np.array([3, 3], np.int32), np.array(0, np.int32)], {}, "no parts"),
        ("FULLY_CONNECTED", [(4, 4), np.ones((2, 3), np.float32)], {}, "do not fill"),
        ("CONV_2D", [(1, 4, 4, 3), np.ones((2, 3, 3, 2), np.float32)], WINDOW, "3 channels"),
        ("PAD", [(4, 4), np.array([[1, 1]], np.int32)], {}, "its pads"),
        ("STRIDED_SLICE", [(4,), *[np.array([0], np.int32)] * 3], {}, "subscripts"),
    ],
)
def test_operators_that_cannot_be_are_refused(kind, inputs, options, words, tmp_path):
    line = refusal(one(kind, inputs, tmp_path=tmp_path, **options))
    assert words in line and kind in line


def test_sizes_that_are_left_open_can_be_given(tmp_path):
    graph, inputs, outputs = sample()
    path = graph.write(tmp_path / "one.tflite", inputs, outputs)
    model = tflite_to_onnx(path, input_shapes={"image": (3, 4, 4, 2)}).model
    assert [d.dim_value for d in model.graph.output[0].type.tensor_type.shape.dim] == [3, 5]
    with pytest.raises(InputError, match=r"input 'image' is \(\?, 4, 4, 2\), and \(1, 8, 8, 2\)"):
        tflite_to_onnx(path, input_shapes={"image": (1, 8, 8, 2)})
    with pytest.raises(InputError, match="input_shapes names 'picture'"):
        tflite_to_onnx(path, input_shapes={"picture": (1, 4, 4, 2)})


def test_other_files_are_named(tmp_path):
    path = tmp_path / "text.tflite"
    path.write_text("no network")
    with pytest.raises(InputError, match="a TFLite file is needed, and '.*' is text"):
        read_tflite(path)
    path.write_bytes(b"\x18\0\0\0TFL3")
    with pytest.raises(UnsupportedModelError, match="a whole TFLite file is needed"):
        read_tflite(path)


def test_what_a_signature_calls_them_is_said(tmp_path):
    """TensorFlow's converter calls every output by one name and a number."""
    graph = Graph()
    x = graph.tensor((1, 2), name="serving_default_image:0")
    outputs = [graph.tensor((1, 2), name=f"PartitionedCall:{n}") for n in (0, 1)]
    graph.operator("NEG", [x], [outputs[0]])
    graph.operator("ABS", [x], [outputs[1]])
    graph.signature = ({"image": x}, {"boxes": outputs[1], "scores": outputs[0]})
    path = graph.write(tmp_path / "signed.tflite", [x], outputs)
    _, signature = import_model(path)
    assert [spec.units for spec in signature.inputs] == [""]
    assert [spec.units for spec in signature.outputs] == [
        "'scores' in the file's signature",
        "'boxes' in the file's signature",
    ]
    graph.signature = ({"image": 99}, {})
    with pytest.raises(UnsupportedModelError, match="its signature names tensor 99"):
        import_model(graph.write(tmp_path / "damaged.tflite", [x], outputs))
