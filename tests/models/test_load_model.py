"""Packages as vision models, by their kind."""

import re
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tvm_vision
from support import handmade
from tvm_vision.api import compile as compile_network
from tvm_vision.errors import InputError, PackageError
from tvm_vision.models import ModelOptions, load_model
from tvm_vision.models.classifier.image_classifier import ImageClassifier
from tvm_vision.models.other_names import OF_MODELS, OF_OPTIONS
from tvm_vision.package import ModelInfo, Preprocessing, read_package, reading


def write_brightness(path):
    """Logits (0, mean of the image) of an image [1, 3, 4, 4]."""
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], axes=[1, 2, 3], keepdims=0),
        helper.make_node("Sub", ["mean", "mean"], ["nothing"]),
        helper.make_node("Concat", ["nothing", "mean"], ["flat"], axis=0),
        helper.make_node("Unsqueeze", ["flat", "axes"], ["y"]),
    ]
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 4, 4))
    logits = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 2))
    axes = helper.make_tensor("axes", TensorProto.INT64, [1], [0])
    graph = helper.make_graph(nodes, "brightness", [image], [logits], [axes])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), path)
    return path


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    folder = tmp_path_factory.mktemp("brightness")
    info = ModelInfo("brightness", "classifier", ("dark", "bright"), preprocessing=Preprocessing())
    model = write_brightness(folder / "model.onnx")
    return compile_network(model, folder / "model.tar", target="llvm", model_info=info)


def test_a_classifier_tells_what_it_is(classifier):
    model = load_model(classifier, top=1)
    assert isinstance(model, ImageClassifier)
    assert (model.name, model.kind) == ("brightness", "classifier")
    assert model.class_names == ("dark", "bright") and model.segmentation_names == ()
    assert model.device_type == "cpu" and "CPU" in model.device_description
    with read_package(classifier) as package:
        assert model.checksum == package.info.checksum
    model.warm_up()


def test_a_classifier_classifies_and_says_where_the_time_went(classifier):
    result = load_model(classifier, top=1)(np.full((20, 30, 3), 200, np.uint8))
    assert list(result.classification.labels) == ["bright"]
    assert result.detections is None and result.segmentation is None
    stages = (result.timing.preprocess_ms, result.timing.inference_ms, result.timing.postprocess_ms)
    assert all(stage > 0 for stage in stages)
    assert result.timing.total_ms == pytest.approx(sum(stages))


def test_the_node_reads_a_package_once(classifier, monkeypatch):
    """Also where it has to know the kind before it can give options of the kind."""
    from tvm_vision_ros.model_loader import ModelRequest, load_and_warm

    read, paths = reading.read_package, []

    def noted(path, *more, **named):
        paths.append(path)
        return read(path, *more, **named)

    monkeypatch.setattr(reading, "read_package", noted)
    model = load_and_warm(ModelRequest(str(classifier), "cpu", top=1))
    assert len(model(np.zeros((4, 4, 3), np.uint8)).classification.labels) == 1
    assert paths == [classifier]


def test_options_are_checked(classifier):
    """Those of other classes, too: who passes one on means a network that looks at it."""
    wrong = {
        "top": (0, 1.5, "5", True),
        "confidence": (2, -1, float("nan"), "high"),
        "iou": (1.01, -0.5),
        "max_detections": (0, 2.5, True),
        "class_options": ({"ball": 0.5}, {"ball": {"confidence": 2}}, {"ball": {"size": 1}}),
    }
    for name, values in wrong.items():
        for value in values:
            options: Any = {name: value}
            with pytest.raises(InputError, match="needed|must be|is one of"):
                load_model(classifier, **options)
    passed_over: Any = {"confidence": 1, "iou": 0, "max_detections": None, "class_options": {}}
    assert load_model(classifier, top=1, **passed_over).kind == "classifier"


@pytest.mark.parametrize(
    ("name", "hint"),
    [("conf", "use confidence"), ("max_det", "use max_detections"), ("confidense", "it has conf")],
)
def test_an_option_that_nobody_has_is_not_passed_over(classifier, name, hint):
    options: Any = {name: 0.5}
    with pytest.raises(TypeError, match=f"load_model has no option '{name}': {hint}"):
        load_model(classifier, **options)


def test_a_network_says_what_it_is_and_what_others_names_are(classifier):
    model = load_model(classifier)
    assert repr(model).startswith(f"<ImageClassifier '{model.name}' on ")
    for other, words in OF_MODELS.items():
        assert other not in dir(model), other
        with pytest.raises(AttributeError, match=f"has no '{other}': use "):
            getattr(model, other)
        first = re.split(r"[^a-z_.]", words)[0].removeprefix("tvm_vision.").split(".")[0]
        known = (*dir(model), *dir(tvm_vision), "network", "models", "the", "it")
        assert first in known, words
    for other, words in OF_OPTIONS.items():
        own = ModelOptions.__annotations__
        assert other not in own and words.split(",")[0] in own


def test_kinds_without_images_are_refused(tmp_path, classifier):
    plain = compile_network(classifier.with_name("model.onnx"), tmp_path / "p.tar", target="llvm")
    with pytest.raises(
        InputError, match="a network of kind yoeo, .* or depth is needed.* of kind network"
    ):
        load_model(plain)


def test_networks_of_several_inputs_are_refused_with_what_takes_them(tmp_path):
    images = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (1, 3, 4, 4)) for n in "ab"]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 3, 4, 4))
    graph = helper.make_graph([helper.make_node("Sub", ["a", "b"], ["y"])], "g", images, [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    two = compile_network(model, tmp_path / "two.tar", target="llvm")
    with pytest.raises(InputError, match="takes a, b: 'tvm-vision run --inputs' gives it an array"):
        load_model(two)


def test_a_classifier_without_images_is_refused(tmp_path):
    with pytest.raises(InputError, match="'tiny' is none: compile it with --kind classifier"):
        load_model(handmade.write_package_file(tmp_path / "tiny.tar"))


def test_a_missing_package(tmp_path):
    with pytest.raises(PackageError, match=r"none\.tar' cannot be opened"):
        load_model(tmp_path / "none.tar")
