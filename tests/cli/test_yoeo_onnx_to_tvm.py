"""``yoeo-onnx-to-tvm``: the original's arguments, names, the comparison, nothing half-written."""

from typing import Any

import cv2
import numpy as np
import onnx
import pytest
from click.testing import CliRunner

from support import yoeo_networks
from tvm_vision.models.yoeo import YoeoDetector
from tvm_vision.package import read_package
from tvm_vision.tools import yoeo_onnx_to_tvm as module
from tvm_vision.tools.yoeo_onnx_to_tvm import yoeo_onnx_to_tvm

COMMAND = "yoeo-onnx-to-tvm"


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    return yoeo_networks.write_tiny(tmp_path_factory.mktemp("onnx") / "yoeo.onnx")


@pytest.fixture
def target(tmp_path, monkeypatch):
    """A folder of its own to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_arguments_of_the_original(network, target):
    words = [
        network, "--input_size", 96, "--trials", 20000, "--half", "--no_tuning",
        "-c", "checkpoint.json", "-r", "tuning_records.json",
        "--target", "llvm -mcpu=native", "-o", "compiled.tar",
    ]  # fmt: skip
    (target / "checkpoint.json").write_text("")
    result = CliRunner().invoke(yoeo_onnx_to_tvm, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    assert "the same as onnxruntime on" in result.stderr
    assert "wrote compiled.tar: " in result.stdout
    with read_package("compiled.tar") as package:
        assert package.info.precision == "fp16"
        assert package.info.model.labels == yoeo_networks.NAMES.detection
    assert sorted(path.name for path in target.iterdir()) == ["checkpoint.json", "compiled.tar"]


def test_halves_where_the_sample_images_allow_them(command, network, target):
    image = np.random.default_rng(1).integers(0, 256, (60, 80, 3), np.uint8)
    (target / "photos").mkdir()
    for name in ("a.png", "b.png"):
        cv2.imwrite(str(target / "photos" / name), image)
    options = ("--half", "--sample-images", "photos", "--target", "llvm", "--no-check")
    # Frames of a camera are prepared by the network, from bytes.
    for camera in ((), ("--camera-size", "60x80")):
        result = command(COMMAND, network, "-o", "half.tar", *options, *camera)
        assert result.exit_code == 0, result.output
        wrote, measured, *_ = result.stdout.splitlines()
        assert (
            wrote.startswith("wrote half.tar: ") and " layers keep float32; error on 2" in measured
        )
        with read_package("half.tar") as package:
            assert package.info.measured_precision.error <= 0.01
    result = command(COMMAND, network, "--sample-images", "photos")
    assert result.exit_code == 2 and "what stays float32 with --half: add it" in result.stderr


def test_the_long_names_of_the_original(command, network, target):
    (target / "c.json").write_text("")
    options = ("--output_model", "a.tar", "--tuning_record_checkpoint", "c.json", "--no_check")
    records = ("--output_tuning_records", "r.json", "--target", "llvm")
    result = command(COMMAND, network, *options, *records)
    assert result.exit_code == 0, result.output
    assert "note: not tuned, since it is compiled for the CPU" in result.stderr
    assert "not compared, as asked" in result.stderr


@pytest.mark.parametrize("kind", ["vulkan", "llvm"])
def test_tuning_when_it_is_asked_for(command, network, target, monkeypatch, kind):
    seen: dict[str, Any] = {}

    def search(model, records, **arguments):
        seen.update(arguments, records=records)
        records.write_text("")

    monkeypatch.setattr(module, "search_schedules", search)
    options = ("--target", kind, "--half", "--trials", 4, "--no-check")
    result = command(COMMAND, network, *options)
    assert result.exit_code == 0, result.output
    assert seen["tuning"].trials == 4 and seen["tuning"].time_budget == 600
    assert (seen["target"].kind.name, seen["options"].precision) == (kind, "fp16")
    assert seen["input_shapes"] == {"InputLayer": (1, 3, 96, 96)}
    assert str(seen["records"]) == "tuning_records.json"


def test_lavapipe_is_not_tuned_by_itself(command, network, target, device_info, monkeypatch):
    if not device_info.is_cpu:
        pytest.skip("the first Vulkan device is a GPU")
    monkeypatch.setattr(module, "search_schedules", lambda *_, **__: pytest.fail("tuned"))
    result = command(COMMAND, network, "--target", "vulkan", "--no-check")
    assert "is a CPU, whose times say nothing about GPUs: --time-budget" in result.stderr


def test_the_default_name_and_a_folder(command, network, target):
    assert command(COMMAND, network, "--target", "llvm", "--trials", 0).exit_code == 0
    assert YoeoDetector.load(target / "compiled_model.tar").name == "yoeo"
    assert command(COMMAND, network, "--target", "llvm", "-o", "folder").exit_code == 0
    detector = YoeoDetector.load(target / "folder", confidence=0.3)
    found = detector(yoeo_networks.random_image()).detections
    assert found is not None and len(found)
    assert sorted(path.name for path in target.iterdir()) == ["compiled_model.tar", "folder"]


def test_names_and_groups_from_files(command, refuses, network, target):
    (target / "names.yaml").write_text("detection: [a, b, c]\nsegmentation: [d, e, f]\n")
    (target / "groups.yaml").write_text("group_classes: [a, b]\nsurrogate_class: letter\n")
    options = ("--target", "llvm", "--names", "names.yaml", "--groups", "groups.yaml")
    assert command(COMMAND, network, *options, "-o", "x.tar").exit_code == 0
    detector = YoeoDetector.load("x.tar")
    assert detector.class_names == ("a", "b", "c")
    assert detector.segmentation_names == ("d", "e", "f")
    (target / "names.yaml").write_text("detection: [a, b]\nsegmentation: [d, e, f]\n")
    message = refuses(COMMAND, network, "--names", "names.yaml", "-o", "y.tar")
    assert "3 names are needed under 'detection'" in message and "found 2 (a, b)" in message
    assert not (target / "y.tar").exists()


def test_a_package_that_is_wrong_is_not_written(refuses, network, target, monkeypatch):
    from tvm_vision.evaluate import Reference

    honest = Reference.run

    def dishonest(self, inputs):
        outputs = honest(self, inputs)
        return {**outputs, "Segmentations": (outputs["Segmentations"] + 1) % 3}

    monkeypatch.setattr(Reference, "run", dishonest)
    message = refuses(COMMAND, network, "--target", "llvm", "--no-tuning")
    assert "boxes and mask must be those of onnxruntime" in message
    assert "mask 0.00 % the same" in message
    assert list(target.iterdir()) == []


def test_ctrl_c_leaves_nothing(command, network, target, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("tvm_vision.evaluate.compare_package", interrupt)
    result = command(COMMAND, network, "--target", "llvm", "--no-tuning")
    assert result.exit_code == 130
    assert result.stderr.startswith("interrupted: compiled_model.tar was not written; the same")
    assert list(target.iterdir()) == []


def test_without_onnxruntime_it_says_so(command, network, target, monkeypatch):
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "onnxruntime" else found(name)
    )
    result = command(COMMAND, network, "--target", "llvm", "--no-tuning")
    assert result.exit_code == 0 and "note: not compared with onnxruntime" in result.stderr


def test_frames_prepared_on_the_device(command, network, target):
    options = ("--camera-size", "120x160", "--target", "llvm", "-o", "camera.tar")
    result = command(COMMAND, network, *options)
    assert result.exit_code == 0, result.output
    assert YoeoDetector.load("camera.tar").frame_size == (120, 160)
    assert sorted(path.name for path in target.iterdir()) == ["camera.tar"]
    cv2.imwrite("photo.png", yoeo_networks.random_image(200, 300))
    result = command("check", "camera.tar", network, "--image", "photo.png")
    assert result.exit_code == 0, result.output
    assert "photo.png: " in result.stdout and "all the same within 1.67 px" in result.stdout


def test_bad_files(refuses, target):
    assert "none.onnx' is not there" in refuses(COMMAND, "none.onnx")
    (target / "text.onnx").write_text("text")
    assert "text.onnx' is text" in refuses(COMMAND, "text.onnx")


def test_compile_knows_yoeo_files_by_themselves(command, network, target):
    result = command("compile", network, "-o", "x.tar", "--target", "llvm", "--check")
    assert result.exit_code == 0, result.output
    assert YoeoDetector.load("x.tar").class_names == yoeo_networks.NAMES.detection
    result = command("compile", network, "-o", "y.tar", "--target", "llvm", "--kind", "network")
    with read_package("y.tar") as package:
        assert package.info.model.kind == "network"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--labels", "imagenet"), "a YOEO network takes --names"),
        (("--preprocess", "unit"), "prepared in one way: leave --preprocess out"),
        (("--kind", "classifier", "--names", "n.yaml"), "--names and --groups are for networks of"),
    ],
)
def test_options_of_other_kinds(command, network, target, options, message):
    result = command("compile", network, "-o", "x.tar", *options)
    assert result.exit_code == 2 and message in result.stderr


def test_original_files_need_names(command, refuses, network, target):
    model = onnx.load(network)
    del model.metadata_props[:]
    onnx.save(model, "original.onnx")
    assert "give a YAML file of them by --names" in refuses(COMMAND, "original.onnx")
    assert "give a YAML file of them by --names" in refuses(
        "compile", "original.onnx", "--kind", "yoeo", "-o", "x.tar"
    )
    (target / "n.yaml").write_text("detection: [a, b, c]\nsegmentation: [d, e, f]\n")
    result = command("compile", "original.onnx", "--kind", "yoeo", "--names", "n.yaml",
                     "-o", "x.tar", "--target", "llvm")  # fmt: skip
    assert result.exit_code == 0, result.output
    found = YoeoDetector.load("x.tar")(np.zeros((4, 4, 3), np.uint8))
    assert found.segmentation.class_names == ("d", "e", "f")
