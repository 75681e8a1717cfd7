"""What an ONNX file says about itself, what options add, and what does not fit."""

import json

import onnx
import pytest
from onnx import TensorProto, helper

from support import yoeo_networks
from support.yoeo_networks import GROUPS, NAMES
from tvm_vision.errors import InputError
from tvm_vision.exporters.yoeo.describe import input_shapes, is_yoeo, yoeo_model_info
from tvm_vision.exporters.yoeo.export import METADATA_KEY
from tvm_vision.exporters.yoeo.names import ClassNames
from tvm_vision.package import ClassGroup

TWO = ClassNames(("ball", "robot"), NAMES.segmentation)


def written(path, change=None, **options):
    """The tiny network's file, its metadata changed by a function."""
    model = yoeo_networks.tiny_model(**options)
    if change:
        document = json.loads(model.metadata_props[0].value)
        change(document)
        helper.set_model_props(model, {METADATA_KEY: json.dumps(document)})
    onnx.save(model, path)
    return path


def original(path, outputs, size=(96, 96)):
    """A file without metadata; outputs: (name, type, shape) of each."""
    values = [helper.make_tensor_value_info(*output) for output in outputs]
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, *size))
    nodes = [helper.make_node("Identity", ["x"], [value.name]) for value in values]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", [image], values)), path)
    return path


BOXES = ("Detections", TensorProto.FLOAT, (1, 100, 8))
MASK = ("Segmentations", TensorProto.UINT8, (1, 96, 96))


def test_all_of_it_is_in_our_own_files(tmp_path):
    path = written(tmp_path / "yoeo.onnx")
    assert is_yoeo(path)
    info = yoeo_model_info(path, name="mine", interpolation="nearest")
    assert (info.name, info.kind, info.labels) == ("mine", "yoeo", NAMES.detection)
    assert info.preprocessing.size == (96, 96) and info.preprocessing.letterbox
    assert info.preprocessing.interpolation == "nearest" and info.preprocessing.std == (255.0,) * 3
    assert (info.yoeo.detections, info.yoeo.segmentation) == ("Detections", "Segmentations")
    assert info.yoeo.segmentation_labels == NAMES.segmentation
    assert info.yoeo.groups == GROUPS and info.yoeo.heads == ()
    assert input_shapes(path, info) == {"InputLayer": (1, 3, 96, 96)}


def test_raw_heads(tmp_path):
    info = yoeo_model_info(written(tmp_path / "raw.onnx", raw_heads=True))
    assert [(head.output, head.stride) for head in info.yoeo.heads] == [("Head0", 8), ("Head1", 4)]
    assert info.yoeo.heads[0].anchors == ((20.0, 25.0), (40.0, 30.0))
    assert info.yoeo.detections == "" and info.yoeo.segmentation == "Segmentations"


def test_options_come_before_the_file(tmp_path):
    names = ClassNames(("a", "b", "c"), ("d", "e", "f"))
    info = yoeo_model_info(written(tmp_path / "yoeo.onnx"), names=names, groups=())
    assert info.labels == ("a", "b", "c") and info.yoeo.segmentation_labels == ("d", "e", "f")
    assert info.yoeo.groups == ()


def test_confidences_of_classes_follow_their_names(tmp_path):
    """As the file says, by the names that count here; a file that says nothing has none."""
    path = written(
        tmp_path / "yoeo.onnx",
        lambda document: document.update(class_thresholds={NAMES.detection[1]: 0.3}),
    )
    assert yoeo_model_info(path).class_thresholds == {NAMES.detection[1]: 0.3}
    other = ClassNames(("a", "b", "c"), NAMES.segmentation)
    assert yoeo_model_info(path, names=other, groups=()).class_thresholds == {"b": 0.3}
    assert yoeo_model_info(written(tmp_path / "plain.onnx")).class_thresholds == {}


@pytest.mark.parametrize(
    ("value", "reason"),
    [(0.5, "an object of confidences"), ({"ball": 1.5}, "from 0 to 1"), ({"x": 0.5}, "of classes")],
)
def test_confidences_that_make_no_sense(tmp_path, value, reason):
    path = written(tmp_path / "yoeo.onnx", lambda document: document.update(class_thresholds=value))
    with pytest.raises(InputError, match=f"class_thresholds.*{reason}.*export it again"):
        yoeo_model_info(path)


@pytest.mark.parametrize("raw", [False, True])
def test_a_wrong_number_of_names(tmp_path, raw):
    path = written(tmp_path / "yoeo.onnx", raw_heads=raw)
    with pytest.raises(
        InputError, match=r"3 names are needed under 'detection'.* 2 \(ball, robot\)"
    ):
        yoeo_model_info(path, names=TWO)
    with pytest.raises(InputError, match=r"3 names are needed under 'segmentation'.* 0 \(none\)"):
        yoeo_model_info(path, names=ClassNames(NAMES.detection, ()))
    groups = (ClassGroup("thing", ("robot", "human")),)
    with pytest.raises(InputError, match="the group 'thing' needs classes of the network, which"):
        yoeo_model_info(path, groups=groups)


def test_files_of_the_original(tmp_path):
    path = original(tmp_path / "yoeo.onnx", [BOXES, MASK])
    assert not is_yoeo(path)
    info = yoeo_model_info(path, names=NAMES)
    assert info.labels == NAMES.detection and info.yoeo.groups == ()
    assert (info.yoeo.detections, info.yoeo.segmentation) == ("Detections", "Segmentations")
    with pytest.raises(InputError, match="names of the detection and segmentation classes are nee"):
        yoeo_model_info(path)
    with pytest.raises(InputError, match="3 names are needed under 'detection', one for each"):
        yoeo_model_info(path, names=TWO)


def test_outputs_of_other_names_are_known_by_their_form(tmp_path):
    outputs = [("b", TensorProto.FLOAT, (1, 9, 6)), ("m", TensorProto.INT64, (1, 96, 96))]
    names = ClassNames(("ball",), ("field",))
    info = yoeo_model_info(original(tmp_path / "a.onnx", outputs), names=names)
    assert (info.yoeo.detections, info.yoeo.segmentation) == ("b", "m")
    info = yoeo_model_info(original(tmp_path / "b.onnx", outputs[:1]))
    assert info.labels == ("class0",) and info.yoeo.segmentation == ""


def test_sizes(tmp_path):
    path = original(tmp_path / "open.onnx", [BOXES, MASK], size=("h", "w"))
    with pytest.raises(InputError, match="leaves the size of its input open: say it by"):
        yoeo_model_info(path, names=NAMES)
    assert yoeo_model_info(path, names=NAMES, size=(64, 96)).preprocessing.size == (64, 96)
    fixed = written(tmp_path / "fixed.onnx")
    with pytest.raises(InputError, match="is made for images of 96x96, and not for 64x96"):
        yoeo_model_info(fixed, size=(64, 96))


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ([("y", TensorProto.FLOAT, (1, 10))], r"'.*' has y \[1, 10\]: export it with yoeo-to-onnx"),
    ],
)
def test_other_networks(tmp_path, outputs, message):
    with pytest.raises(InputError, match=message):
        yoeo_model_info(original(tmp_path / "other.onnx", outputs))


def test_what_is_no_onnx(tmp_path):
    text = tmp_path / "text.onnx"
    text.write_text("no network")
    assert not is_yoeo(text) and not is_yoeo(tmp_path / "none.onnx")
    with pytest.raises(InputError, match=r"text\.onnx' is text"):
        yoeo_model_info(text)
    with pytest.raises(InputError, match=r"none\.onnx' is not there"):
        yoeo_model_info(tmp_path / "none.onnx")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("heads", [{"stride": 8}], r"tvm_vision\.yoeo\.heads\[0\]\.anchors is missing"),
        ("heads", 3, r"tvm_vision\.yoeo\.heads must be a list"),
        ("detection", [1], r"detection\[0\] must be a text"),
        ("raw_heads", "yes", "raw_heads must be true or false"),
        ("raw_heads", True, "says that it has the outputs Head0, Head1, found Detections, Segm"),
    ],
)
def test_metadata_that_is_wrong(tmp_path, key, value, message):
    path = written(tmp_path / "wrong.onnx", lambda document: document.update({key: value}))
    with pytest.raises(InputError, match=f"{message}.*: export it again"):
        yoeo_model_info(path)
