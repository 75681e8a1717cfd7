"""What a package says of a network's inputs: order of the axes, size of the images."""

import pytest

from tvm_vision.errors import PackageError
from tvm_vision.frontend.signature import TensorSpec
from tvm_vision.package import ModelInfo, Preprocessing
from tvm_vision.package.build import described_inputs, described_outputs

MODEL = ModelInfo("toy", preprocessing=Preprocessing())


@pytest.mark.parametrize(
    ("shape", "layout", "size"),
    [
        ((1, 3, 224, 192), "NCHW", (224, 192)),
        ((4, 224, 192, 3), "NHWC", (224, 192)),
        # As many rows as channels.
        ((1, 3, 64, 3), "NCHW", (64, 3)),
        ((1, 3, 3, 3), "NCHW", (3, 3)),
    ],
)
def test_images_in_both_orders(shape, layout, size):
    model, (tensor,) = described_inputs([TensorSpec("x", shape, "float32")], MODEL)
    assert tensor.layout == layout
    assert model.preprocessing is not None
    assert model.preprocessing.size == size


@pytest.mark.parametrize(
    ("shape", "layout"),
    [((1, 1, 28, 20), "NCHW"), ((2, 28, 20, 1), "NHWC"), ((1, 28, 20), "NHW")],
)
@pytest.mark.parametrize("size", [(0, 0), (28, 20)])
def test_one_channel_is_gray(shape, layout, size):
    """With the average of what is said of three channels."""
    said = Preprocessing(size, mean=(10.0, 20.0, 60.0), std=(1.0, 2.0, 3.0))
    for given in (said, said.in_gray()):
        model, (tensor,) = described_inputs(
            [TensorSpec("x", shape, "float32")], ModelInfo("toy", preprocessing=given)
        )
        assert tensor.layout == layout
        made = model.preprocessing
        assert made is not None and made.size == (28, 20)
        assert (made.color_order, made.mean, made.std) == ("gray", (30.0,), (2.0,))


def test_gray_is_for_one_channel():
    model = ModelInfo("toy", preprocessing=Preprocessing().in_gray())
    with pytest.raises(PackageError, match=r"one channel, found \[1, 3, 8, 8\]: say rgb or bgr"):
        described_inputs([TensorSpec("x", (1, 3, 8, 8), "float32")], model)


def test_planes_are_images_where_it_is_said():
    _, (tensor,) = described_inputs([TensorSpec("x", (1, 28, 20), "float32")], ModelInfo("toy"))
    assert tensor.layout == ""


@pytest.mark.parametrize("shape", [(1, 4, 64, 64), (1, 64, 64, 64), (64, 64), (1, 1, 1, 64, 64)])
def test_what_is_no_image(shape):
    with pytest.raises(PackageError, match=r"\[batch, height, width, 3\], with .*leave it out"):
        described_inputs([TensorSpec("x", shape, "float32")], MODEL)


def test_without_preprocessing_any_input_will_do():
    specs = [TensorSpec(name, (1, 8, 8, 1), "uint8") for name in "ab"]
    model, tensors = described_inputs(specs, ModelInfo("toy"))
    assert model.preprocessing is None
    assert [tensor.layout for tensor in tensors] == ["NHWC", "NHWC"]


@pytest.mark.parametrize(
    ("shape", "layout"), [((1, 64, 20, 20), ""), ((2, 7, 5, 6), ""), ((1, 4), "")]
)
def test_what_is_no_image_has_no_layout(shape, layout):
    _, (tensor,) = described_inputs([TensorSpec("x", shape, "float32")], ModelInfo("toy"))
    assert tensor.layout == layout


def test_maps_of_the_image_have_its_order():
    _, (image,) = described_inputs([TensorSpec("x", (1, 64, 96, 3), "float32")], ModelInfo("toy"))
    shapes = [(1, 16, 24, 19), (1, 12, 49, 49), (1, 1000), (1, 19, 16, 24)]
    specs = [TensorSpec(f"y{i}", shape, "float32") for i, shape in enumerate(shapes)]
    assert [t.layout for t in described_outputs(specs, image)] == ["NHWC", "", "", ""]
    assert [t.layout for t in described_outputs(specs)] == ["", "", "", ""]
