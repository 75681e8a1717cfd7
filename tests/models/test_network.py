"""Classifiers at work, presets, labels and images as inputs, with an executor that pretends."""

import numpy as np
import pytest

from tvm_vision.errors import InputError
from tvm_vision.models.classifier import (
    Classifier,
    ClassifierInput,
    classify,
    imagenet_labels,
    prepare,
    preset,
    read_labels,
)
from tvm_vision.models.image_inputs import image_inputs
from tvm_vision.package import ModelInfo, Preprocessing, TensorInfo
from tvm_vision.package.info import plain

GREY = np.full((8, 8, 3), 128, np.uint8)
DARK = np.full((8, 8, 3), 10, np.uint8)


def info(batch=1, dtype="float32", preprocessing=None, labels=("dark", "bright"), layout="NCHW"):
    from dataclasses import asdict

    model = ModelInfo("toy", "classifier", labels, preprocessing or Preprocessing((4, 4)))
    shape = (batch, 3, 4, 4) if layout == "NCHW" else (batch, 4, 4, 3)
    tensors = [TensorInfo("x", shape, dtype, layout), TensorInfo("y", (batch, 2), dtype)]
    x, y = (asdict(tensor) for tensor in tensors)
    return plain({"model": asdict(model), "inputs": [x], "outputs": [y]})


class Executor:
    """Scores dark by 100 - mean and bright by the mean, a row an image."""

    def __init__(self, document):
        self.info = document
        self.runs = 0

    def frame(self, inputs):
        ((name, value),) = inputs.items()
        assert name == "x"
        assert str(value.dtype) == self.info["inputs"][0]["dtype"]
        self.value = value
        self.runs += 1
        means = self.value.astype(np.float32).mean(axis=(1, 2, 3))
        return {"y": np.stack([100 - means, means], axis=1)}


@pytest.mark.parametrize(("batch", "runs"), [(1, 3), (2, 2), (4, 1)])
def test_images_are_classified_in_batches(batch, runs):
    executor = Executor(info(batch))
    results = Classifier(executor)([GREY, DARK, GREY], top=1)
    assert [result.labels for result in results] == [("bright",), ("dark",), ("bright",)]
    assert executor.runs == runs


def test_halves_and_other_labels():
    executor = Executor(info(dtype="float16", labels=()))
    assert Classifier(executor)([GREY], top=1)[0].labels == ("class 1",)
    assert Classifier(executor, labels=["a", "b"])([GREY], top=1)[0].labels == ("b",)
    with pytest.raises(InputError, match="2 labels are needed, one for each class of 'toy'"):
        Classifier(executor, labels=["a"])([GREY])


def test_no_images_and_too_many():
    classifier = Classifier(Executor(info()))
    assert classifier([]) == []
    with pytest.raises(InputError, match="1 to 1 images are needed, found 2"):
        classifier.logits([GREY, GREY])


def test_a_network_without_preprocessing_is_no_classifier():
    document = info()
    document["model"]["preprocessing"] = None
    with pytest.raises(InputError, match="'toy' is none: compile it with --kind classifier"):
        Classifier(Executor(document))
    with pytest.raises(InputError, match="compile it with --preprocess, or pass --inputs"):
        image_inputs(document, GREY)


@pytest.mark.parametrize("given", [None, Preprocessing((4, 4))])
@pytest.mark.parametrize("inputs", [2, 1])
def test_preparation_is_no_remedy_where_no_image_is_taken(inputs, given):
    """Of another number of channels, or with a second input: --preprocess would be refused, or
    was given."""
    document = info(layout="" if inputs == 1 else "NCHW", preprocessing=given)
    if given is None:
        document["model"]["preprocessing"] = None
    document["inputs"] += [{**document["inputs"][0], "name": "state"}] * (inputs - 1)
    with pytest.raises(InputError, match=r"and 'toy' takes x: .*\]: pass --inputs$"):
        image_inputs(document, GREY)


def test_an_image_as_input_is_repeated_for_a_batch():
    arrays = image_inputs(info(batch=3, dtype="float16"), GREY)
    assert arrays["x"].shape == (3, 3, 4, 4)
    assert arrays["x"].dtype == np.float16
    assert arrays["x"].flags.c_contiguous
    assert (arrays["x"] == 128).all()


def test_channels_last_get_the_same_numbers_in_their_order():
    image = np.random.default_rng(3).integers(0, 256, (7, 9, 3), np.uint8)
    first = image_inputs(info(2), image)["x"]
    last = image_inputs(info(2, layout="NHWC"), image)["x"]
    np.testing.assert_array_equal(first.transpose(0, 2, 3, 1), last)
    executor = Executor(info(layout="NHWC"))
    Classifier(executor)([image])
    np.testing.assert_array_equal(executor.value, last[:1])


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_whole_numbers_are_the_nearest(layout):
    preprocessing = Preprocessing((4, 4), mean=(0, 100, 200), std=(0.7, 1, 1))
    document = info(dtype="int8", preprocessing=preprocessing, layout=layout)
    value = image_inputs(document, GREY)["x"]
    assert value.dtype == np.int8
    assert np.unique(value).tolist() == [-72, 28, 127]


def test_letterbox_pads_with_black():
    config = ClassifierInput.from_package(Preprocessing((4, 4), letterbox=True))
    wide = prepare(np.full((2, 4, 3), 90, np.uint8), config)
    np.testing.assert_array_equal(wide[0, 0, :, 0], [0, 90, 90, 0])
    high = prepare(np.full((4, 1, 3), 90, np.uint8), config)
    np.testing.assert_array_equal(high[0, 0, 0], [0, 90, 0, 0])


def test_imagenet_preset_is_that_of_torchvision():
    config = ClassifierInput.from_package(preset("imagenet", (224, 224)))
    image = np.full((256, 256, 3), (124, 116, 104), np.uint8)
    values = prepare(image, config)[0, :, 0, 0]
    wanted = (np.array([124, 116, 104]) / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    np.testing.assert_allclose(values, wanted, atol=1e-5)


def test_presets_from_a_file(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text('{"mean": [1, 2, 3], "color_order": "bgr"}')
    assert preset(str(path), (5, 7)) == Preprocessing(
        (5, 7), mean=(1.0, 2.0, 3.0), color_order="bgr"
    )
    path.write_text('{"means": 1}')
    with pytest.raises(InputError, match=r"mine\.json.*preprocessing\.means is not known"):
        preset(str(path))
    path.write_text("[]")
    with pytest.raises(InputError, match="must be a JSON object"):
        preset(str(path))


def test_an_unknown_preset():
    with pytest.raises(InputError, match=r"of imagenet, .* or a \.json file is needed"):
        preset("caffe")
    with pytest.raises(InputError, match="'none.json' is not there"):
        preset("none.json")


def test_labels_from_a_file(tmp_path):
    path = tmp_path / "labels.txt"
    path.write_text("ball\n goalpost \nRoboter grün\n\n", "utf-8")
    assert read_labels(str(path)) == ("ball", "goalpost", "Roboter grün")
    path.write_bytes(b"\xef\xbb\xbfball\r\ngoalpost\r\n")  # of Windows
    assert read_labels(str(path)) == ("ball", "goalpost")
    assert read_labels("imagenet") == imagenet_labels()
    path.write_text("\n")
    with pytest.raises(InputError, match="a label a line is needed"):
        read_labels(str(path))
    path.write_bytes(b"\xff\xfe\xff")
    with pytest.raises(InputError, match=r"cannot be read \(it is not UTF-8\)"):
        read_labels(str(path))
    with pytest.raises(InputError, match=r"is not there: check the path"):
        read_labels(str(tmp_path / "none"))


def test_what_is_a_distribution_already_stays_one():
    assert classify([0.125, 0.5, 0.375], "abc", top=1).probabilities == (0.5,)
    assert classify([0.125, 0.5, 0.5], "abc", top=1).probabilities[0] < 0.4
