"""Made-up words are of the network's vocabulary: all of it, and none beyond."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tvm_vision.evaluate.vocabularies import vocabularies, vocabularies_of
from tvm_vision.package import TensorInfo
from tvm_vision.runtime.inputs import filled


def words() -> onnx.ModelProto:
    """Two tables of words, of 1,000 and of 2, and a number that chooses from none."""
    tables = [
        numpy_helper.from_array(np.zeros((rows, 4), "float32"), name)
        for name, rows in (("words", 1000), ("kinds", 2))
    ]
    axis = numpy_helper.from_array(np.array([0], "int64"), "axis")
    nodes = [
        helper.make_node("Unsqueeze", ["ids", "axis"], ["one"]),
        helper.make_node("Cast", ["one"], ["wide"], to=TensorProto.INT64),
        helper.make_node("Gather", ["words", "wide"], ["a"]),
        helper.make_node("Gather", ["kinds", "types"], ["b"]),
        helper.make_node("Gather", ["x", "place"], ["c"], axis=1),
    ]
    inputs = [
        helper.make_tensor_value_info(name, kind, shape)
        for name, kind, shape in (
            ("ids", TensorProto.INT32, [400]), ("types", TensorProto.INT64, [400]),
            ("x", TensorProto.FLOAT, [1, 9]), ("place", TensorProto.INT64, [400]),
        )
    ]  # fmt: skip
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in "abc"]
    return helper.make_model(helper.make_graph(nodes, "g", inputs, outputs, [*tables, axis]))


def test_tables_say_what_chooses_from_them(tmp_path: Path) -> None:
    assert vocabularies(words()) == {"ids": 1000, "types": 2}
    onnx.save(words(), tmp_path / "words.onnx")
    assert vocabularies_of(tmp_path / "words.onnx") == {"ids": 1000, "types": 2}


def test_made_up_words_are_of_the_whole_vocabulary() -> None:
    specs = [TensorInfo("ids", (400,), "int32"), TensorInfo("types", (400,), "int8")]
    arrays = filled(specs, "random", {"ids": 1000, "types": 2})
    assert 900 < arrays["ids"].max() < 1000
    assert set(arrays["types"]) == {0, 1}
    assert filled(specs, "random")["ids"].max() < 128
    assert filled(specs, "random", {"types": 1000})["types"].max() == 127


def test_what_is_no_model_has_none(tmp_path: Path) -> None:
    (tmp_path / "x.onnx").write_bytes(b"\x08\xff" * 40)
    assert vocabularies_of(tmp_path / "x.onnx") == {}
    assert vocabularies_of(tmp_path / "none.onnx") == {}
