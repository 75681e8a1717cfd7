"""evaluate: variants of a network that tells colours apart, on images that are one colour each."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, cast

import cv2
import numpy as np
import onnx
import pytest
import tvm

import tvm_vision
from support import onnx_models, reports
from tvm_vision.errors import InputError
from tvm_vision.models.results import Detections, SegmentationMask, Timing, VisionResult
from tvm_vision.package import ModelInfo, Preprocessing, SegmentationInfo

if TYPE_CHECKING:
    from tvm_vision.models.vision_model import VisionModel

NAMES = ("red", "green", "blue")
OPTIONS = ("--target", "llvm", "--precision", "fp32,fp16", "--opt-level", "0,3")


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """The mean of each channel is the score of its class; and a package that says what it is."""
    folder = tmp_path_factory.mktemp("network")
    model = onnx_models.mean_of_channels()
    onnx.save(model, folder / "colours.onnx")
    info = ModelInfo(
        "colours", "classifier", labels=NAMES, preprocessing=Preprocessing(std=(255.0,) * 3)
    )
    tvm_vision.compile(model, folder / "like.tar", target="llvm", model_info=info)
    return folder


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Ten of a colour each, of which one lies with another colour's."""
    folder = tmp_path_factory.mktemp("photos")
    for i in range(10):
        colour = i % 3
        name = NAMES[2] if i == 0 else NAMES[colour]
        photo = np.zeros((12, 16, 3), np.uint8)
        photo[..., 2 - colour] = 200
        (folder / name).mkdir(exist_ok=True)
        cv2.imwrite(str(folder / name / f"{i}.png"), photo)
    return folder


def arguments(network: Path, photos: Path, output: Path) -> list[object]:
    like = ["--like", network / "like.tar", "-o", output]
    return ["evaluate", network / "colours.onnx", photos, *OPTIONS, *like]


def test_variants_of_a_classifier(command, network, photos, tiny_package, tmp_path):
    page = tmp_path / "page.html"
    # Left of something else: the reference is not read as that says.
    (tmp_path / "kept").mkdir()
    shutil.copy(tiny_package, tmp_path / "kept" / "a.tar")
    result = command(*arguments(network, photos, tmp_path / "kept"), "--html", page, "--json")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert [row["name"] for row in rows] == [
        "llvm fp32 O0", "llvm fp32 O3", "llvm fp16 O0", "llvm fp16 O3", "reference",
    ]  # fmt: skip
    for row in rows:
        assert row["scores"]["top1"] == 0.9 and row["scores"]["top5"] == 1.0
        # Sets are by name: blue, green, red; the first photo is red, and lies with the blue ones.
        assert row["scores"]["confusion"] == [[3, 0, 1, 0], [0, 3, 0, 0], [0, 0, 3, 0]]
        assert 0 < row["latency_ms"]["median"] <= row["latency_ms"]["p95"]
        assert row["package_bytes"] > 0 and row["images"] == 10
    assert rows[-1]["device"] == "onnxruntime on the CPU" and rows[-1]["memory_bytes"] is None
    found = reports.Page(page.read_text())
    assert found.document("evaluation") == rows and found.open_at_end == []
    assert len(found.with_class("matrix")) == len(rows)


def test_what_is_finished_is_kept(command, network, photos, tmp_path, monkeypatch):
    from tvm_vision.evaluate import variants

    words = arguments(network, photos, tmp_path)
    first = json.loads(command(*words, "--json").stdout)
    (tmp_path / "llvm-fp32-O3.json").unlink()
    (tmp_path / "llvm-fp16-O0.json").write_text("{cut off")
    compiled = []

    def compile_counted(model, path, **options):
        compiled.append(path.name)
        return tvm_vision.compile(model, path, **options)

    monkeypatch.setattr(variants, "compile_package", compile_counted)
    second = json.loads(command(*words, "--json").stdout)
    assert compiled == ["llvm-fp32-O3.tar", "llvm-fp16-O0.tar"]
    assert [second[0], *second[3:]] == [first[0], *first[3:]]
    # Other images are another evaluation.
    command(*words, "--limit", "4", "--json")
    assert len(compiled) == 6


def boxes(folder: Path, image: Path) -> Path:
    document = {
        "images": [{"id": 1, "file_name": str(image)}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 1, 2, 2]}],
        "categories": [{"id": 1, "name": "red"}],
    }
    (folder / "boxes.json").write_text(json.dumps(document))
    return folder / "boxes.json"


def test_what_does_not_go_together_is_said_before_anything_is_compiled(
    refuses, network, photos, tmp_path, monkeypatch
):
    """What is the same for all variants: what the network is, what it finds, its classes."""
    from tvm_vision.evaluate import variants
    from tvm_vision.evaluate.datasets import read_data_set

    monkeypatch.setattr(variants, "compile_package", None)
    monkeypatch.setattr(variants, "quantize", None)
    model, like = network / "colours.onnx", ["--like", network / "like.tar"]
    options = ["--target", "vulkan,llvm", "--precision", "int8,fp32", "-o", tmp_path / "kept"]
    assert "name that package by --like" in refuses("evaluate", model, photos, *options)
    parts = SegmentationInfo("mask")
    other = ModelInfo("other", "segmenter", NAMES, Preprocessing((8, 8)), segmentation=parts)
    run = variants.Evaluation(model, read_data_set(photos), tmp_path / "kept", info=other)
    with pytest.raises(InputError, match="is of another network .model.segmentation.output must"):
        run.rows([variants.Variant("llvm")])
    found = refuses("evaluate", model, boxes(tmp_path, photos / "red" / "3.png"), *options, *like)
    assert "a network with detections is needed" in found
    shutil.copytree(photos, tmp_path / "photos")
    (tmp_path / "photos" / "red").rename(tmp_path / "photos" / "pink")
    found = refuses("evaluate", model, tmp_path / "photos", *options, *like)
    assert "'pink' is none of its 3" in found
    assert list((tmp_path / "kept").iterdir()) == []


def test_images_that_cannot_be_read_are_named_and_do_not_count(command, network, photos, tmp_path):
    shutil.copytree(photos, tmp_path / "photos")
    broken = tmp_path / "photos" / "red" / "3.png"
    broken.write_bytes(broken.read_bytes()[:40])
    words = ["evaluate", network / "colours.onnx", tmp_path / "photos", "--target", "llvm",
             "--like", network / "like.tar", "-o", tmp_path / "kept"]  # fmt: skip
    result = command(*words, "--precision", "fp32,fp16")
    assert result.exit_code == 0, result.output
    *table, first, second, third = result.stdout.splitlines()
    assert [line.split(":")[0] for line in (first, second, third)] == [
        "llvm fp32 O3", "llvm fp16 O3", "reference",
    ]  # fmt: skip
    assert all(f"'{broken}' is not an image" in line for line in (first, second, third))
    assert all("88.9 %" in line for line in table[1:]), table  # 8 of 9
    for path in (tmp_path / "photos").rglob("*.png"):
        path.write_bytes(b"")
    result = command(*words)
    assert result.exit_code == 1 and "0.png' is not an image" in result.stdout
    (error,) = result.stderr.splitlines()
    assert error.startswith("Error: no variant was evaluated (1 more failed): llvm fp32 O3: ")


def test_a_folder_that_cannot_be_made_is_said_first(refuses, network, photos, tmp_path):
    (tmp_path / "file").touch()
    words = arguments(network, photos, tmp_path / "file")
    assert "the folder '" in refuses(*words)
    words = arguments(network, photos, tmp_path / "report.html")
    assert "'report.html' is that of another file: name another" in refuses(*words)


def test_a_variant_that_fails_does_not_stop_the_others(command, network, photos, tmp_path):
    words = arguments(network, photos, tmp_path)
    words[words.index("llvm")] = "nonsense,llvm"
    result = command(*words, "--opt-level", "3", "--precision", "fp32", "--no-reference")
    assert result.exit_code == 1, result.output  # what runs it unattended is to know
    table, error = result.stdout.splitlines()[1:]
    assert table.split()[:3] == ["llvm", "fp32", "O3"] and "90.0 %" in table
    assert error.startswith("nonsense fp32 O3: ")
    last = result.stderr.splitlines()[-1]
    assert last.startswith("Error: not every variant was evaluated: nonsense fp32 O3: ")
    words[words.index("nonsense,llvm")] = "nonsense"
    result = command(*words, "--no-reference", "-o", tmp_path / "other")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith("Error: no variant was evaluated")


@pytest.mark.parametrize(
    "options",
    [["--precision", "fp8"], ["--opt-level", ""], ["--layout", "nchw,odd"], ["--limit", "0"]],
)
def test_usage(command, network, photos, options):
    assert command("evaluate", network / "colours.onnx", photos, *options).exit_code == 2


def test_what_goes_not_together(refuses, network, photos, tmp_path):
    missing = tmp_path / "none"
    assert f"'{missing}' is not there" in refuses("evaluate", network / "colours.onnx", missing)
    assert "an ONNX or TFLite file is needed" in refuses("evaluate", photos, photos)


@pytest.fixture(scope="module")
def scaled(tmp_path_factory):
    """Its images of any height and width, and a number that all means are multiplied by."""
    model = onnx_models.mean_of_channels()
    nodes = [*model.graph.node, onnx.helper.make_node("Mul", ["y", "scale"], ["scores"])]
    ends = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, sizes)
        for name, sizes in (("x", [1, 3, "h", "w"]), ("scale", []), ("scores", [1, 3]))
    ]
    graph = onnx.helper.make_graph(nodes, "g", ends[:2], ends[2:])
    folder = tmp_path_factory.mktemp("scaled")
    opsets = [onnx.helper.make_opsetid("", 17)]
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "colours.onnx"
    )
    return folder


def test_inputs_that_are_constants_and_sizes_left_open(command, network, scaled, photos, tmp_path):
    """Of variants and the reference; another number is another evaluation."""
    words = [
        "evaluate", scaled / "colours.onnx", photos, "--like", network / "like.tar", "--json",
        "--output", tmp_path, "--target", "llvm", "--input-shape", "x:1,3,8,8",
    ]  # fmt: skip
    result = command(*words, "--input-value", "scale=1")
    assert result.exit_code == 0, result.output
    assert [row["scores"]["top1"] for row in json.loads(result.stdout)] == [0.9, 0.9]
    result = command(*words, "--input-value", "scale=-1")
    assert [row["scores"]["top1"] for row in json.loads(result.stdout)] == [0.0, 0.0]


def test_a_host_is_for_boards(command, network, photos):
    words = ["evaluate", network / "colours.onnx", photos, "--host", "aarch64"]
    result = command(*words)
    assert result.exit_code == 2 and "add --tracker and --key" in result.output


def test_the_host_of_boards_is_the_compilers(network, photos, tmp_path, monkeypatch):
    """For a device that is described; of others the boards tell what they are."""
    from tvm_vision.evaluate import variants
    from tvm_vision.evaluate.datasets import read_data_set

    hosts = []

    def compiled(model, path, **options):
        hosts.append((options["target"], options["host"]))
        raise variants.InputError("enough")

    class Nowhere:
        def __init__(self, *arguments):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

    monkeypatch.setattr(variants, "compile_package", compiled)
    monkeypatch.setattr(variants, "Boards", Nowhere)
    monkeypatch.setattr(variants, "remote_target", lambda *where: {"kind": "vulkan"})
    run = variants.Evaluation(
        network / "colours.onnx", read_data_set(photos), tmp_path,
        tracker=("host", 1, "pi"), host="aarch64",
        info=ModelInfo("colours", "classifier", labels=NAMES, preprocessing=Preprocessing()),
    )  # fmt: skip
    rows = run.rows([variants.Variant("renoir"), variants.Variant("vulkan")])
    assert hosts == [("renoir", "aarch64"), ({"kind": "vulkan"}, None)]
    assert [row["variant"]["host"] for row in rows] == ["aarch64", "aarch64"]


def test_the_reference_takes_what_an_executor_takes():
    from tvm_vision.evaluate.run_set import ReferenceExecutor

    class Echo:
        def run(self, inputs):
            return {name: value + 1 for name, value in inputs.items()}

    inputs = [{"name": "x", "shape": [3], "dtype": "float32"}]
    executor = ReferenceExecutor(Echo(), {"inputs": inputs}, "echo")
    ones = np.ones(3, np.float32)
    for value in (ones, tvm.runtime.tensor(ones), lambda array: np.copyto(array, ones)):
        assert executor.frame({"x": value})["x"].tolist() == [2, 2, 2]


def test_a_detector_over_boxes(tmp_path):
    """By a stand-in for the network: its boxes are right, with another number for each class."""
    from tvm_vision.evaluate.datasets import read_data_set
    from tvm_vision.evaluate.run_set import run_set
    from tvm_vision.report.evaluation_page import evaluation_page

    cv2.imwrite(str(tmp_path / "a.png"), np.zeros((40, 60, 3), np.uint8))
    document = {
        "images": [{"id": 1, "file_name": "a.png"}],
        "categories": [{"id": 1, "name": "ball"}, {"id": 2, "name": "robot"}],
        "annotations": [
            {"image_id": 1, "category_id": 1, "bbox": [5, 5, 10, 10]},
            {"image_id": 1, "category_id": 2, "bbox": [30, 10, 20, 25]},
        ],
    }
    (tmp_path / "set.json").write_text(json.dumps(document))

    class Detector:
        produces = ("detections",)
        name, kind, class_names = "stand-in", "yolo", ("robot", "goal", "ball")

        def __call__(self, image):
            boxes = np.array([[5, 5, 15, 15], [30, 10, 50, 35], [1, 1, 2, 2]], np.float32)
            scores = np.array([0.9, 0.8, 0.7], np.float32)
            ids = np.array([2, 0, 1], np.int32)
            return VisionResult(Timing(1, 2, 3), Detections(boxes, scores, ids, self.class_names))

    data = read_data_set(tmp_path / "set.json")
    told: list[int] = []
    row = run_set(cast("VisionModel", Detector()), data, told.append)
    assert row["scores"]["ap50_95"] == pytest.approx(1.0) and told == [1]
    assert row["latency_ms"] == {"median": 6.0, "p95": 6.0}
    row |= {"name": "one", "package_bytes": 10, "memory_bytes": None, "warnings": ["careful"],
            "device": "none"}  # fmt: skip
    failed = {"name": "two", "error": "it does not compile"}
    found = reports.Page(evaluation_page([row, failed], data.kind, data.names, "t"))
    assert "careful" in found.texts["warnings"] and "does not compile" in found.texts["warnings"]
    assert found.open_at_end == []


def test_a_segmenter_over_masks(tmp_path):
    """By a stand-in that sees the left half of the frame as the first class."""
    from tvm_vision.evaluate.datasets import read_data_set
    from tvm_vision.evaluate.run_set import run_set
    from tvm_vision.report.evaluation_page import evaluation_page

    for name in ("images", "masks"):
        (tmp_path / name).mkdir()
    cv2.imwrite(str(tmp_path / "images" / "a.png"), np.zeros((4, 8, 3), np.uint8))
    truth = np.ones((4, 8), np.uint8)
    truth[:, :4], truth[0] = 0, 255
    truth[3, 0] = 1
    cv2.imwrite(str(tmp_path / "masks" / "a.png"), truth)

    class Segmenter:
        produces = ("segmentation",)
        name, kind, class_names = "stand-in", "segmenter", ()
        segmentation_names = ("field", "lines")

        def __call__(self, image):
            mask = np.ones(image.shape[:2], np.uint8)
            mask[:, :4] = 0
            return VisionResult(
                Timing(1, 2, 3), segmentation=SegmentationMask(mask, self.segmentation_names)
            )

    data = read_data_set(tmp_path)
    row = run_set(cast("VisionModel", Segmenter()), data)
    assert row["scores"]["classes"] == {"field": 11 / 12, "lines": 12 / 13}
    row |= {"name": "one", "package_bytes": 10, "memory_bytes": 5, "warnings": [], "device": "d"}
    text = evaluation_page([row], data.kind, data.names, "t")
    found = reports.Page(text)
    assert "92.3 %" in found.texts["by-class"] and found.open_at_end == []
    assert "1 variant over 1 image of 2 classes" in text
    for wrong in (np.zeros((2, 2), np.uint8), np.full((4, 8), 9, np.uint8)):
        cv2.imwrite(str(tmp_path / "masks" / "a.png"), wrong)
        with pytest.raises(InputError, match=r"masks/a\.png' does not fit its image or network: "):
            run_set(cast("VisionModel", Segmenter()), data)
