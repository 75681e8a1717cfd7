"""quantize, and what follows from the file that it writes."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from support.networks import Builder, mobilenet_v2
from tvm_vision.evaluate import Reference
from tvm_vision.exporters.classifier.metadata import METADATA_KEY, metadata_text
from tvm_vision.options import variable_of
from tvm_vision.package import Preprocessing, read_package

cv2 = pytest.importorskip("cv2")
STAGES = 3  # of blocks: with and without a residual sum
LAYERS = 20  # with weights


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Folder with net.onnx, a classifier that says how its images are prepared, and photos/."""
    folder = tmp_path_factory.mktemp("quantize")
    model = mobilenet_v2(64, STAGES)
    preparation = Preprocessing(size=(64, 64), mean=(127.5,) * 3, std=(127.5,) * 3)
    model.metadata_props.add(key=METADATA_KEY, value=metadata_text(preparation, ()))
    onnx.save(model, folder / "net.onnx")
    (folder / "photos").mkdir()
    for seed in range(3):
        coarse = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), np.uint8)
        photo = cv2.resize(coarse, (160, 120), interpolation=cv2.INTER_CUBIC)
        cv2.imwrite(str(folder / "photos" / f"{seed}.png"), photo)
    return folder


def test_the_file_takes_the_place_of_the_model(files, command, monkeypatch):
    made = files / "int8.onnx"
    result = command("quantize", files / "net.onnx", "-o", made, "--sample-images",
                     files / "photos")  # fmt: skip
    assert result.exit_code == 0, result.output
    (name,) = Reference(made).outputs
    assert f"{name}: error 0." in result.stderr
    assert result.stdout.startswith(f"wrote {made}: ")
    assert made.stat().st_size < 0.4 * (files / "net.onnx").stat().st_size

    package = files / "int8.tar"
    result = command("compile", made, "-o", package, "--target", "llvm")
    assert "note: int8.onnx is quantized, and is computed in float32 here" in result.stderr
    monkeypatch.setenv(variable_of("int8"), "on")
    result = command("compile", made, "-o", package, "--target", "llvm", "--check")
    assert result.exit_code == 0, result.output
    assert "note:" not in result.stderr
    with read_package(package) as written:
        assert written.info.model.kind == "classifier"
        assert written.info.memory.weights < 0.4 * (files / "net.onnx").stat().st_size
    shown = command("inspect", package).stdout
    kernels = len(json.loads(command("inspect", package, "--json").stdout)["graph"]["kernels"])
    assert f"precision    fp32 and int8 (weights of {LAYERS} of {kernels} kernels)" in shown
    timed = command("benchmark", package, package, "--repeat", "2", "--warmup", "1")
    assert f"{package}  int8 " in timed.stdout
    image = files / "photos" / "0.png"
    result = command("check", package, made, "--image", image)
    assert result.exit_code == 0, result.output
    assert "WRONG" not in result.stdout
    # It would be seen if it were not the same network.
    result = command("check", package, files / "net.onnx", "--image", image)
    assert result.exit_code == 1, result.output


def test_errors_are_one_line_and_leave_no_file(files, refuses, tmp_path):
    made = tmp_path / "int8.onnx"
    photos = files / "photos"
    arguments = ("quantize", files / "net.onnx", "-o", made, "--sample-images")
    assert "and '/nowhere' is not there" in refuses(*arguments, "/nowhere")
    assert "'Conv_777' is of none: try " in refuses(*arguments, photos, "--keep", "Conv_777")
    assert "is not there" in refuses("quantize", tmp_path / "no.onnx", "-o", made,
                                      "--sample-images", photos)  # fmt: skip
    plain = tmp_path / "plain.onnx"
    model = mobilenet_v2(64, STAGES)
    onnx.save(model, plain)
    assert "add --preprocess, or name .npz files with its inputs" in refuses(
        "quantize", plain, "-o", made, "--sample-images", photos
    )
    assert not list(tmp_path.glob("*int8*"))


def test_samples_may_be_arrays(files, command, tmp_path):
    np.savez(tmp_path / "sample.npz", input=np.ones((1, 3, 64, 64), np.float32))
    made = tmp_path / "int8.onnx"
    result = command("quantize", files / "net.onnx", "-o", made, "--calibration", "minmax",
                     "--sample-images", tmp_path / "sample.npz")  # fmt: skip
    assert result.exit_code == 0, result.output
    assert Reference(made).quantized
    assert not Reference(files / "net.onnx").quantized


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
def test_no_file_becomes_larger(files, command, tmp_path, width, apart):
    """Of few weights the scales take more than is saved; weights may be in a file of their own, or
    of fewer bytes than those of float32 already."""
    builder, model = Builder(3), tmp_path / "net.onnx"
    layer = builder.conv("input", 3, width, 3, act="relu")
    for _ in range(4):
        layer = builder.conv(layer, width, width, 3, act="relu")
    network = builder.model(16, [(layer, TensorProto.FLOAT)])
    onnx.save(network, model, save_as_external_data=apart, size_threshold=0, location="weights")
    before = sum(file.stat().st_size for file in tmp_path.iterdir())
    result = command("quantize", model, "-o", tmp_path / "made.onnx", "--preprocess", "unit",
                     "--sample-images", files / "photos")  # fmt: skip
    if result.exit_code:
        assert f"the {before} bytes of" in result.stderr.replace("\n", " ")
        assert ": compile it as it is" in result.stderr
    else:
        assert (tmp_path / "made.onnx").stat().st_size <= before
    assert (result.exit_code == 0) == (width > 4)


def test_sizes_that_a_file_says_itself_are_taken(files, command, tmp_path):
    """As Ultralytics' files do, whose sides may be open."""
    builder = Builder(4)
    head = builder.conv(builder.conv("input", 3, 64, 3, 8, act="relu"), 64, 64, 3)
    network = builder.model(32, [(head, TensorProto.FLOAT)])
    for side, name in zip(network.graph.input[0].type.tensor_type.shape.dim[2:], "hw", strict=True):
        side.dim_param = name
    del network.graph.value_info[:]
    network.graph.output[0].type.tensor_type.ClearField("shape")
    network.metadata_props.add(key="imgsz", value="[64, 64]")
    onnx.save(network, tmp_path / "open.onnx")
    result = command("quantize", tmp_path / "open.onnx", "-o", tmp_path / "made.onnx",
                     "--preprocess", "unit", "--sample-images", files / "photos")  # fmt: skip
    assert result.exit_code == 0, result.output
    (image,) = onnx.load(tmp_path / "made.onnx").graph.input
    assert [side.dim_value for side in image.type.tensor_type.shape.dim] == [1, 3, 64, 64]
