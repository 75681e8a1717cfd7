"""yoeo-to-onnx and classifier-to-onnx: under their own names and as commands of tvm-vision."""

import importlib.util
import json
import sys

import onnx
import pytest
from click.testing import CliRunner

from tvm_vision.package import read_package
from tvm_vision.tools.classifier_to_onnx import classifier_to_onnx
from tvm_vision.tools.yoeo_to_onnx import yoeo_to_onnx

CFG = """
[net]
width=32
height=32

[convolutional]
filters=8
size=3
stride=2
activation=leaky

[yolo]
mask=0
anchors=8,8
classes=3
"""
# 8 biases and 8x3x3x3 weights, all zero: the right size is all that they need.
WEIGHTS = bytes(20 + 4 * (8 + 8 * 27))


@pytest.fixture
def yoeo(tmp_path):
    (tmp_path / "net.cfg").write_text(CFG)
    (tmp_path / "net.weights").write_bytes(WEIGHTS)
    return tmp_path


def metadata(path):
    return {entry.key: entry.value for entry in onnx.load(path).metadata_props}


def test_yoeo_to_onnx_writes_beside_the_cfg(yoeo):
    arguments = [str(yoeo / "net.cfg"), str(yoeo / "net.weights")]
    result = CliRunner().invoke(yoeo_to_onnx, arguments)
    assert result.exit_code == 0, result.output
    assert result.stdout == f"wrote {yoeo / 'net.onnx'}\n"
    assert "class0, class1, ...: give --names" in result.stderr
    installed = importlib.util.find_spec("torch") is not None
    compared = (
        "compared with PyTorch: " if installed else "not compared with PyTorch, which needs: "
    )
    assert compared in result.stderr
    model = onnx.load(yoeo / "net.onnx")
    assert [value.name for value in model.graph.input] == ["InputLayer"]
    assert [value.name for value in model.graph.output] == ["Detections"]
    assert model.opset_import[0].version == 11


@pytest.mark.parametrize("dash", ["-", "_"])
def test_options_take_dashes_and_underscores(command, yoeo, dash):
    pytest.importorskip("yaml", reason="PyYAML is not installed")
    (yoeo / "names.yaml").write_text("detection: [ball, red, blue]\n")
    (yoeo / "groups.yaml").write_text("group_classes: [red, blue]\nsurrogate_class: robot\n")
    options = [f"--input{dash}size", "64x32", f"--raw{dash}heads", "--opset", "17"]
    files = ["--names", yoeo / "names.yaml", "--groups", yoeo / "groups.yaml"]
    output = yoeo / "out.onnx"
    result = command(
        "yoeo-to-onnx", yoeo / "net.cfg", yoeo / "net.weights", *options, *files, "-o", output
    )
    assert result.exit_code == 0, result.output
    found = json.loads(metadata(output)["tvm_vision.yoeo"])
    assert found == {
        "input_size": [64, 32], "detection": ["ball", "red", "blue"], "segmentation": [],
        "groups": [{"surrogate": "robot", "classes": ["red", "blue"]}], "raw_heads": True,
        "heads": [{"stride": 2, "anchors": [[8.0, 8.0]]}],
    }  # fmt: skip


def test_one_line_for_what_is_wrong(refuses, yoeo):
    cfg, weights = yoeo / "net.cfg", yoeo / "net.weights"
    assert "'none.cfg' is not there" in refuses("yoeo-to-onnx", "none.cfg", weights)
    weights.write_bytes(WEIGHTS[:-4])
    assert "ends inside layer 0 ([convolutional], line 6)" in refuses("yoeo-to-onnx", cfg, weights)
    assert not (yoeo / "net.onnx").exists()


def test_errors_of_a_command_on_its_own_are_one_line_too(yoeo):
    result = CliRunner().invoke(yoeo_to_onnx, [str(yoeo / "none.cfg"), "none.weights"])
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: a .cfg file is needed, and ")
    assert result.stderr.count("\n") == 1


def test_without_pytorch_it_is_written_and_not_compared(yoeo, monkeypatch):
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "torch" else find(name)
    )
    arguments = [str(yoeo / "net.cfg"), str(yoeo / "net.weights")]
    result = CliRunner().invoke(yoeo_to_onnx, arguments)
    assert result.exit_code == 0, result.output
    assert "note: not compared with PyTorch" in result.stderr
    assert (yoeo / "net.onnx").is_file()


def test_sizes_that_are_none(command, yoeo):
    for size in ("0", "64x", "axb", "-3"):
        result = command("yoeo-to-onnx", yoeo / "net.cfg", "x", f"--input-size={size}")
        assert result.exit_code == 2
        assert "N or HEIGHTxWIDTH is needed, in pixels, found" in result.stderr


def test_a_classifier_is_compiled_with_what_its_file_says(command, tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="the extra 'export' (torch) is not installed")
    text = "import torch.nn as nn\n\ndef make():\n    return nn.Sequential(nn.Conv2d(3, 2, 3), "
    (tmp_path / "cli_net.py").write_text(text + "nn.AdaptiveAvgPool2d(1), nn.Flatten())\n")
    (tmp_path / "labels.txt").write_text("ball\nrobot\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    arguments = ["cli_net:make", "-o", "net.onnx", "--labels", "labels.txt"]
    missing = CliRunner().invoke(classifier_to_onnx, arguments)
    assert missing.exit_code == 1
    assert "--preprocess with one of imagenet, " in missing.stderr
    prepared = ["--preprocess", "imagenet", "--input_size", "16x24"]
    exported = CliRunner().invoke(classifier_to_onnx, arguments + prepared)
    assert exported.exit_code == 0, exported.output
    result = command("compile", "net.onnx", "-o", "net.tar", "--target", "llvm")
    assert result.exit_code == 0, result.output
    with read_package(tmp_path / "net.tar") as package:
        model = package.info.model
    assert (model.kind, model.labels) == ("classifier", ("ball", "robot"))
    assert (model.preprocessing.size, model.preprocessing.crop) == ((16, 24), 0.875)
    result = command(
        "compile", "net.onnx", "-o", "net.tar", "--target", "llvm", "--kind", "network"
    )
    assert result.exit_code == 0, result.output
    with read_package(tmp_path / "net.tar") as package:
        assert package.info.model.kind == "network"
        assert package.info.model.preprocessing is None
    sys.modules.pop("cli_net", None)
