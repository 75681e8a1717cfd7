"""compile, and what follows, from a small ONNX file: on the CPU and on the first Vulkan device."""

import json
import os
import re
import subprocess
import sys
from typing import Any

import cv2
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvm_vision.package import read_package

LABELS = ("ball", "goalpost", "robot", "nothing")


def classifier(batch=1):
    """Conv 3 -> 8 of stride 4, Clip to 0..6, average, Gemm 8 -> 4; the batch may be a name."""
    rng = np.random.default_rng(3)
    weights = {
        "kernel": rng.standard_normal((8, 3, 3, 3)).astype(np.float32),
        "matrix": rng.standard_normal((8, 4)).astype(np.float32),
        "bias": rng.standard_normal(4).astype(np.float32),
        "low": np.float32(0),
        "high": np.float32(6),
    }
    nodes = [
        helper.make_node("Conv", ["image", "kernel"], ["conv"], "stem", strides=[4, 4]),
        helper.make_node("Clip", ["conv", "low", "high"], ["clipped"], "act"),
        helper.make_node("GlobalAveragePool", ["clipped"], ["pooled"], "pool"),
        helper.make_node("Flatten", ["pooled"], ["flat"], "flat"),
        helper.make_node("Gemm", ["flat", "matrix", "bias"], ["scores"], "head"),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, (batch, 3, 32, 32))],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, (batch, 4))],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Folder with small.onnx, dynamic.onnx, labels.txt, and photos/a.png, b.jpg, c.png."""
    folder = tmp_path_factory.mktemp("files")
    onnx.save(classifier(), folder / "small.onnx")
    onnx.save(classifier("batch"), folder / "dynamic.onnx")
    (folder / "labels.txt").write_text("\n".join(LABELS))
    (folder / "photos").mkdir()
    rng = np.random.default_rng(4)
    for name in ("a.png", "b.jpg", "c.png"):
        cv2.imwrite(str(folder / "photos" / name), rng.integers(0, 256, (40, 60, 3), np.uint8))
    return folder


@pytest.fixture(scope="module", params=["llvm", "vulkan"])
def package(request, files):
    """small.onnx compiled as a classifier."""
    from click.testing import CliRunner

    from tvm_vision.tools.cli import main

    if request.param == "vulkan":
        request.getfixturevalue("device_info")
    path = files / f"small-{request.param}.tar"
    arguments = [
        files / "small.onnx",
        "-o",
        path,
        "--target",
        request.param,
        "--kind",
        "classifier",
    ]
    options = ["--labels", files / "labels.txt", "--preprocess", "imagenet"]
    result = CliRunner().invoke(main, ["compile", *map(str, arguments + options)])
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"wrote {path}: ")
    return path


def test_check(command, package, files):
    photo = files / "photos" / "a.png"
    result = command("check", package, files / "small.onnx", "--image", photo)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[1].split()[-1] == "ok"


def test_another_processor(command, files, tmp_path, monkeypatch):
    """Compiled for it, named, and nothing of it is run here."""
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    path, model = tmp_path / "small.tar", files / "small.onnx"
    target = ("--target", "renoir", "--host", "aarch64")
    result = command("compile", model, "-o", path, *target)
    assert result.exit_code == 0, result.output
    assert " kernels for AMD Radeon Graphics (RADV RENOIR) beside aarch64, " in result.stdout
    result = command("run", path, "--device", "vulkan")
    assert result.exit_code == 1
    assert "mod.so is made for aarch64, and this machine is x86_64: compile" in result.output
    result = command("compile", model, "-o", path, "--check", *target)
    assert (result.exit_code, "aarch64 is not this machine" in result.output) == (2, True)
    boards = ("--tracker", "localhost:1", "--key", "x")
    result = command("tune", model, "-r", tmp_path / "records.jsonl", *boards, *target)
    assert (result.exit_code, "--tracker without --host" in result.output) == (2, True)


def test_inspect(command, package):
    document = json.loads(command("inspect", package, "--json").stdout)
    assert document["model"]["labels"] == list(LABELS)
    assert document["model"]["preprocessing"]["size"] == [32, 32]
    assert document["inputs"][0]["layout"] == "NCHW"
    nodes = [node for kernel in document["graph"]["kernels"] for node in kernel["nodes"]]
    assert {"stem", "act", "pool", "head"} <= set(nodes)


def test_classify_as_table_and_as_json(command, package, files):
    table = command("classify", package, files / "photos", "--top", "2").stdout.splitlines()
    assert [line for line in table if not line.startswith(" ")] == ["a.png", "b.jpg", "c.png"]
    assert len(table) == 9
    photo = files / "photos" / "c.png"
    (line,) = command("classify", package, photo, "--json").stdout.splitlines()
    record = json.loads(line)
    assert record["name"] == "c.png"
    assert {entry["label"] for entry in record["classes"]} == set(LABELS)
    assert sum(entry["probability"] for entry in record["classes"]) == pytest.approx(1, abs=1e-4)
    assert table[7].split()[0] == record["classes"][0]["label"]


def test_classify_with_a_limit_and_other_labels(command, refuses, package, files):
    result = command("classify", package, files / "photos", "--limit", "2", "--json")
    assert len(result.stdout.splitlines()) == 2
    (files / "short.txt").write_text("one\ntwo")
    message = refuses("classify", package, files / "photos", "--labels", files / "short.txt")
    assert "4 labels are needed, one for each class of 'small', found 2" in message
    assert "is none: check the path" in refuses("classify", package, "nowhere")


def test_run_and_profile(command, package, files, tmp_path):
    photo, output = files / "photos" / "b.jpg", tmp_path / "y.npz"
    assert command("run", package, "--image", photo, "--output", output).exit_code == 0
    with np.load(output) as arrays:
        assert arrays["scores"].shape == (1, 4)
    result = command(
        "profile", package, "--repeat", "2", "--per-layer-error", files / "small.onnx", "--json"
    )
    assert result.exit_code == 0, result.output
    errors = {entry["value"]: entry for entry in json.loads(result.stdout)["layer_errors"]}
    assert {"clipped", "scores"} <= set(errors)
    assert max(error["max_rel"] for error in errors.values()) < 1e-5


def test_the_same_command_gives_the_same_bytes(command, package, files, tmp_path):
    target = "vulkan" if "vulkan" in package.name else "llvm"
    again = tmp_path / "again.tar"
    arguments = ["--target", target, "--kind", "classifier", "--preprocess", "imagenet"]
    labels = ["--labels", files / "labels.txt"]
    command("compile", files / "small.onnx", "-o", again, *arguments, *labels)
    assert again.read_bytes() == package.read_bytes()


def test_a_dynamic_batch_is_one_image_or_as_an_option_says(command, files, tmp_path):
    path = tmp_path / "four.tar"
    model = files / "dynamic.onnx"
    assert command("compile", model, "-o", path, "--target", "llvm").exit_code == 0
    with read_package(path) as opened:
        assert opened.info.inputs[0].shape == (1, 3, 32, 32)
    arguments = ["--input_shape", "image:4,3,32,32", "--preprocess", "unit", "--kind", "classifier"]
    result = command("compile", model, "-o", path, "--target", "llvm", *arguments)
    assert result.exit_code == 0, result.output
    lines = command("classify", path, files / "photos", "--json").stdout.splitlines()
    assert [json.loads(line)["name"] for line in lines] == ["a.png", "b.jpg", "c.png"]
    assert command("check", path, model).exit_code == 0


def test_halves_checked_at_once(command, files, tmp_path):
    path = tmp_path / "half.tar"
    options = ["--target", "llvm", "--precision", "fp16", "--check"]
    result = command("compile", files / "small.onnx", "-o", path, *options)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1].endswith("ok")
    assert "precision    fp16" in command("inspect", path).stdout


@pytest.fixture(scope="module")
def loud(files):
    """A classifier whose first layer overflows fp16: pixels of 0..255, and large weights."""
    model = classifier()
    for tensor in model.graph.initializer:
        factor = {"kernel": 1000.0, "high": 1e9, "matrix": 1e-3}.get(tensor.name, 1.0)
        array = numpy_helper.to_array(tensor)
        tensor.CopyFrom(numpy_helper.from_array((array * factor).astype("float32"), tensor.name))
    onnx.save(model, files / "loud.onnx")
    return files / "loud.onnx"


@pytest.mark.parametrize("target", ["llvm", "vulkan"])
def test_halves_where_the_sample_images_allow_them(command, files, loud, tmp_path, target, request):
    if target == "vulkan":
        request.getfixturevalue("device_info")
    path = tmp_path / "half.tar"
    options = ["--target", target, "--precision", "fp16", "--preprocess", "pixels"]
    samples = ["--sample_images", files / "photos", "--sample-images", files / "photos" / "a.png"]
    result = command("compile", loud, "-o", path, *options, *samples, "--max-error", "0.02")
    assert result.exit_code == 0, result.output
    wrote, kind, measured, *layers = result.stdout.splitlines()
    assert kind == "kind: network, images cropped, rgb"
    assert wrote.startswith(f"wrote {path}: ")
    kept = re.fullmatch(r"  measured   ([23]) of [34] layers keep float32; .*", measured)
    assert kept and len(layers) == int(kept[1])
    assert "on 4 samples" in measured and measured.endswith("everywhere no numbers, allowed 0.02")
    assert layers[0].split()[:4] == ["float32", "stem", "act:", "result"]
    assert "(values up to 2" in layers[0]
    shown = command("inspect", path).stdout.splitlines()
    assert [line for line in shown if line in (measured, *layers)] == [measured, *layers]
    document = json.loads(command("inspect", path, "--json").stdout)
    assert document["measured_precision"]["kept"][0]["nodes"] == ["stem", "act"]
    checked = command("check", path, loud, "--image", files / "photos" / "b.jpg")
    assert checked.exit_code == 0, checked.output
    table = checked.stdout.splitlines()
    assert table[1].split()[-1] == "ok" and float(table[1].split()[4]) < 0.02
    assert table[2].startswith(f"when it was compiled: {kept[1]} of ")
    plain = tmp_path / "plain.tar"
    command("compile", loud, "-o", plain, *options)
    assert command("check", plain, loud, "--image", files / "photos" / "b.jpg").exit_code == 1


def test_samples_as_arrays(command, files, tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "a.npz", image=rng.standard_normal((1, 3, 32, 32)).astype("float32"))
    options = ["--target", "llvm", "--precision", "fp16", "--sample-images", tmp_path]
    result = command("compile", files / "small.onnx", "-o", tmp_path / "p.tar", *options)
    assert result.exit_code == 0, result.output
    assert " layers keep float32; error on 1 sample " in result.stdout


@pytest.fixture
def samples(files, tmp_path):
    """A folder with what can be wrong with sample images."""
    folder = tmp_path / "samples"
    (folder / "none").mkdir(parents=True)
    (folder / "none" / "readme.txt").write_text("no image")
    (folder / "torn.png").write_bytes((files / "photos" / "a.png").read_bytes()[:40])
    np.savez(folder / "other.npz", photo=np.zeros((1, 3, 32, 32), "float32"))
    nan = np.full((1, 3, 32, 32), np.nan, "float32")
    np.savez(folder / "nan.npz", image=nan)
    return folder


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none", "a folder with sample images (.avif, .bmp, .dib, .gif,"),
        ("nowhere", "a sample image or a folder of them is needed, and "),
        ("torn.png", "is not an image that OpenCV can read"),
        ("other.npz", "'photo' is not among them, 'image' is missing"),
        ("nan.npz", "input 'image' has 3072 values that are NaN or infinite"),
        ("", "is not an image that OpenCV can read"),
    ],
)
def test_sample_images_that_are_none(refuses, files, samples, tmp_path, name, message):
    options = ["--target", "llvm", "--precision", "fp16", "--sample-images", samples / name]
    output = tmp_path / "p.tar"
    assert message in refuses("compile", files / "small.onnx", "-o", output, *options)
    assert not output.exists()


def test_images_for_a_network_that_takes_none(refuses, files, tmp_path):
    options = ["--target", "llvm", "--precision", "fp16", "--sample-images", files / "photos"]
    message = refuses("compile", files / "small.onnx", "-o", tmp_path / "p.tar", *options)
    assert "add --preprocess, or name .npz files with its inputs" in message


def test_an_error_that_halves_cannot_have(refuses, files, tmp_path):
    options = ["--target", "llvm", "--precision", "fp16", "--preprocess", "unit"]
    samples = ["--sample-images", files / "photos", "--max-error", "1e-9"]
    message = refuses("compile", files / "small.onnx", "-o", tmp_path / "p", *options, *samples)
    assert "an error of at most 1e-09 leaves no layer" in message
    assert "the best that was reached is " in message and "compile with precision fp32" in message
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sample-images", "."], "decides what stays float32 with --precision fp16: add it"),
        (["--precision", "fp16", "--max-error", "0.1"], "is measured on --sample-images: name"),
        (["--max-error", "0"], "0.0 is not in the range x>0.0"),
    ],
)
def test_options_of_halves_that_do_not_go_together(command, files, tmp_path, arguments, message):
    result = command("compile", files / "small.onnx", "-o", tmp_path / "p.tar", *arguments)
    assert result.exit_code == 2
    assert message in result.output


def test_samples_in_python(files):
    from tvm_vision import compile as compile_network
    from tvm_vision.errors import InputError

    options: dict[str, Any] = {"target": "llvm", "precision": "fp16"}
    for wrong, message in (
        ({"sample_images": "photos"}, "a list of sample images is needed, found 'photos' alone"),
        ({"max_error": 0.1}, "measured on sample images, and none are given"),
        ({"sample_images": ["p"], "max_error": float("nan")}, "above 0 is needed, found nan"),
        ({"sample_images": ["p"], "precision": "fp32"}, "fp16 is needed, found fp32"),
        ({"sample_images": [files / "nowhere"]}, "is not there: check the path"),
    ):
        with pytest.raises(InputError, match=message):
            compile_network(files / "small.onnx", **{**options, **wrong})


def test_many_samples_are_thinned_out(tmp_path):
    from tvm_vision.models.samples import MAX_SAMPLES, sample_paths

    for number in range(100):
        (tmp_path / f"{number:03}.png").touch()
    found = [int(path.stem) for path in sample_paths([tmp_path])]
    assert len(found) == MAX_SAMPLES and found == sorted(found)
    assert found[0] == 0 and max(np.diff(found)) <= 4 and found[-1] >= 96


@pytest.mark.usefixtures("device_info")
def test_shaders_to_read(command, files, tmp_path, monkeypatch):
    other = tmp_path / "other"
    monkeypatch.setenv("TVM_VISION_DUMP_SHADERS", str(other))
    folder = tmp_path / "shaders"
    arguments = ["-o", tmp_path / "p.tar", "--target", "vulkan", "--dump-shaders", folder]
    result = command("compile", files / "small.onnx", *arguments)
    assert result.exit_code == 0, result.output
    assert "#version" in next(folder.glob("*.comp")).read_text()
    # The option counts more, and holds for its command alone.
    assert not other.exists() and os.environ["TVM_VISION_DUMP_SHADERS"] == str(other)
    assert command("compile", files / "small.onnx", *arguments[:-2]).exit_code == 0
    assert {p.name for p in other.iterdir()} == {p.name for p in folder.iterdir()}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "toaster"], "a target such as "),
        (["--target", "{broken"], "a target in JSON is needed"),
        (["--target", "vulkan --from_device 97"], "Vulkan device 97 is needed"),
        (["--input-shape", "photo:1,3,32,32"], "names 'photo', and the model's inputs are"),
        (["--input-shape", "image:1,4,32,32"], "input 'image' is (1, 3, 32, 32), and"),
        (["--labels", "none.txt"], "a text file with a label a line"),
        (["--preprocess", "caffe"], "a preprocessing of imagenet"),
    ],
)
def test_options_that_cannot_be(refuses, files, tmp_path, arguments, message):
    output = tmp_path / "out.tar"
    target = [] if "--target" in arguments else ["--target", "llvm"]
    assert message in refuses("compile", files / "small.onnx", "-o", output, *target, *arguments)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", ["image", "image:", ":1,3", "image:1,x", "image:[]"])
def test_shapes_that_are_none(command, files, tmp_path, value):
    result = command("compile", files / "small.onnx", "-o", "x.tar", "--input-shape", value)
    assert result.exit_code == 2
    assert "NAME:SIZE,SIZE,... is needed" in result.output


def unknown_operator(model):
    model.graph.node[1].op_type = "Teleport"


def foreign_operator(model):
    model.graph.node[1].domain = "com.example"
    model.opset_import.append(helper.make_opsetid("com.example", 1))


@pytest.mark.parametrize(
    ("change", "word"), [(unknown_operator, "Teleport"), (foreign_operator, "com.example.Clip")]
)
def test_operators_that_nobody_knows(refuses, tmp_path, change, word):
    model = classifier()
    change(model)
    onnx.save(model, tmp_path / "strange.onnx")
    message = refuses("compile", tmp_path / "strange.onnx", "-o", tmp_path / "x.tar")
    assert word in message
    assert not (tmp_path / "x.tar").exists()


@pytest.mark.parametrize("content", [b"", b"text", b"\x08\x08\x12"])
def test_files_that_are_no_model(refuses, tmp_path, content):
    path = tmp_path / "broken.onnx"
    path.write_bytes(content)
    refuses("compile", path, "-o", tmp_path / "x.tar", "--target", "llvm")
    assert "is not there" in refuses("compile", tmp_path / "none.onnx", "-o", tmp_path / "x.tar")
    assert not (tmp_path / "x.tar").exists()


def test_compiling_without_the_compiler_is_one_line(files, tmp_path):
    code = "import sys; from tvm_vision.tools.cli import main; main(sys.argv[1:])"
    arguments = ["compile", str(files / "small.onnx"), "-o", str(tmp_path / "x.tar")]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "TVM_USE_RUNTIME_LIB": "1"},
    )
    assert done.returncode == 1
    assert done.stderr.startswith("Error: compiling needs TVM's compiler, and TVM_USE_RUNTIME_LIB")
    assert done.stderr.count("\n") == 1


def test_running_needs_the_runtime_alone(package, files):
    code = (
        "import sys; from tvm_vision.tools.cli import main\n"
        "main(sys.argv[1:], standalone_mode=False)\n"
        "print(sorted(name for name in sys.modules if name.startswith(('tvm_vision.compiler',"
        " 'tvm_vision.frontend', 'onnx', 'tvm.relax.frontend'))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "classify", str(package), str(files / "photos")],
        capture_output=True,
        text=True,
        env={**os.environ, "TVM_USE_RUNTIME_LIB": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"
