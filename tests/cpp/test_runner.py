"""The library and the program of cpp/: the same results as Python's; once more, sanitized."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import stat
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx
import pytest

from support import fleets, kind_networks, onnx_models, quantized_ends
from support.keys import make_keys
from support.runner import ROOT, SITE, refused, run
from tvm_vision.api import compile as compile_network
from tvm_vision.errors import DeviceError, PackageError
from tvm_vision.models import load_model
from tvm_vision.models.image_inputs import prepared_image
from tvm_vision.package import (
    ClassGroup,
    DepthInfo,
    DetectionInfo,
    ModelInfo,
    Package,
    PackageDevice,
    Preprocessing,
    SegmentationInfo,
    YoeoHead,
    YoeoInfo,
    read_package,
    unpack_package,
    write_fleet,
)
from tvm_vision.package.files import repack_package, sign_package
from tvm_vision.package.signature import PrivateKey
from tvm_vision.runtime.sources import read_image
from tvm_vision.runtime.variants import plan_variant
from tvm_vision.version import __version__
from tvm_vision.vulkan.device import LIBRARY_NAME
from tvm_vision.whole_files import clear_leftovers, hold

SIZE = (64, 96)
CELLS = 126  # of strides 8, 16 and 32 over an input of SIZE
NAMES = ("ball", "post", "robot")
SMALL_TARGET = {
    "kind": "vulkan", "device_name": "Small", "max_threads_per_block": 64,
    "supports_int64": False, "supports_int8": True, "thread_warp_size": 64,
}  # fmt: skip
PLAIN = Preprocessing(SIZE, letterbox=True, std=(255.0,) * 3, interpolation="linear")
# Height, width, channels: larger, smaller, turned, a strip, and the input's own size.
IMAGES = (
    (90, 130, 3), (40, 50, 3), (200, 61, 3), (7, 300, 3), (64, 96, 3), (90, 130, 1), (50, 70, 4)
)  # fmt: skip


def random_outputs() -> dict[str, np.ndarray]:
    """Outputs for every way to read them, by name."""
    rng = np.random.default_rng(11)

    def rows(*more: int) -> np.ndarray:
        """Boxes as centre and sides, scores, and values."""
        centre = rng.uniform((0, 0), SIZE[::-1], (CELLS, 2))
        parts = [centre, rng.uniform(4, 40, (CELLS, 2)), rng.random((CELLS, 4))]
        parts += [rng.uniform(-2, 2, (CELLS, count)) for count in more]
        return np.concatenate(parts, axis=1).astype(np.float32)[None]

    def values(*shape: int) -> np.ndarray:
        return rng.normal(0, 2, shape).astype(np.float32)

    corners = np.sort(rng.random((1, 40, 2, 2)), axis=2).reshape(1, 40, 4).astype(np.float32)
    plain = rows()
    raw = values(1, CELLS, 8)
    raw[..., :2] = rng.random((CELLS, 2))
    found = {
        "logits": values(1, 3),
        "plain": plain,
        "transposed": np.ascontiguousarray(np.delete(plain, 4, axis=2).transpose(0, 2, 1)),
        "raw": raw,
        "extra": rows(4),
        "oriented": rows(1),
        "points": rows(6),
        "corners": corners,
        "classes": rng.integers(1, 4, 40),
        "likely": rng.random(40).astype(np.float32),
        "number": np.array([30]),
        "queries": values(1, 40, 4),
        "best": np.concatenate(
            (
                corners * 60,
                rng.random((1, 40, 1), np.float32),
                rng.integers(0, 3, (1, 40, 1)).astype(np.float32),
            ),
            axis=2,
        ),
        "far": values(1, CELLS, 32),
        "sure": rng.random((1, CELLS, 3)).astype(np.float32),
        "prototypes": values(1, 4, 16, 24),
        "anchors8": values(1, 2, 8, 12, 8),
        "anchors16": values(1, 2, 4, 6, 8),
        "head8": values(1, 16, 8, 12),
        "head16": values(1, 16, 4, 6),
        "pixels": np.kron(rng.integers(0, 3, (1, 8, 12)), np.ones((8, 8), np.int64)),
        "scores": values(1, 3, 16, 24),
        "scores_last": values(1, 16, 24, 3),
        "logit": values(1, 1, 16, 24),
        # Smooth, since OpenCV places values to the 32nd part of a pixel.
        "depth": cv2.resize(rng.uniform(1, 9, (3, 4)).astype(np.float32), (24, 16))[None],
    }
    height, width = SIZE
    found["parts"] = found["points"].copy()
    found["parts"][..., :4] /= np.array([width, height] * 2, np.float32)
    found["prototypes_last"] = np.ascontiguousarray(found["prototypes"].transpose(0, 2, 3, 1))
    return found


def yolo(boxes: str, **more: Any) -> ModelInfo:
    return ModelInfo("yolo", "yolo", NAMES, PLAIN, detection=DetectionInfo((boxes,), **more))


ANCHORS: dict[str, Any] = {
    "box": "anchors", "strides": (8, 16), "row": "objectness", "activation": "sigmoid",
    "anchors": (8.0, 12.0, 20.0, 30.0, 16.0, 10.0, 40.0, 50.0), "confidence": 0.6,
}  # fmt: skip
GRID = {"strides": (8, 16, 32), "row": "objectness"}
HEADS = tuple(YoeoHead(f"head{stride}", stride, ((8.0, 12.0), (20.0, 30.0))) for stride in (8, 16))
GROUPS = (ClassGroup("thing", ("ball", "post")),)
# A class above the usual confidence, one below, and one of which nothing is said.
UNLIKE: dict[str, Any] = {"class_thresholds": {"ball": 0.7, "robot": 0.1}}
MODELS = {
    "classifier": ModelInfo("c", "classifier", NAMES, Preprocessing(SIZE)),
    "scores": yolo("transposed", transposed=True),
    "objectness": yolo("plain", row="objectness", multi_label=True, across_classes=True),
    "grid": yolo("raw", box="grid", activation="sigmoid", confidence=0.6, **GRID),
    "anchors": ModelInfo(
        "yolo", "yolo", NAMES, PLAIN, detection=DetectionInfo(("anchors8", "anchors16"), **ANCHORS)
    ),
    "anchors as convolved": ModelInfo(
        "yolo", "yolo", NAMES, PLAIN, detection=DetectionInfo(("head8", "head16"), **ANCHORS)
    ),
    "best": yolo("best", box="xyxy", row="best", suppress=False, confidence=0.5),
    "softmax": yolo(
        "corners", relative=True, scores=("queries",), activation="softmax", background="last",
        suppress=False, confidence=0.4,
    ),
    "apart": yolo(
        "corners", box="yxyx", relative=True, scores=("likely",), classes="classes",
        first_class=1, count="number",
    ),
    "distances": yolo("far", box="distances", scores=("sure",), strides=(8, 16, 32)),
    "masks": yolo("extra", row="objectness", prototypes="prototypes", confidence=0.6),
    "keypoints": yolo("points", row="objectness", keypoints=2, confidence=0.6),
    "masks of channels last": yolo(
        "extra", row="objectness", prototypes="prototypes_last", prototypes_last=True,
        confidence=0.6,
    ),
    "keypoints as parts": yolo(
        "parts", row="objectness", keypoints=2, confidence=0.6, relative=True
    ),
    "oriented": yolo("oriented", row="objectness", oriented=True, confidence=0.6),
    "yoeo": ModelInfo(
        "y", "yoeo", NAMES, PLAIN,
        yoeo=YoeoInfo("plain", segmentation="pixels", segmentation_labels=NAMES, groups=GROUPS),
    ),
    "heads": ModelInfo("h", "yoeo", NAMES, PLAIN, yoeo=YoeoInfo(heads=HEADS)),
    "yolo of unlike classes": replace(
        yolo("plain", row="objectness", multi_label=True, across_classes=True), **UNLIKE
    ),
    "yoeo of unlike classes": ModelInfo(
        "h", "yoeo", NAMES, PLAIN, yoeo=YoeoInfo(heads=HEADS), **UNLIKE
    ),
    "segments": ModelInfo(
        "s", "segmenter", NAMES, PLAIN, segmentation=SegmentationInfo("scores")
    ),
    "segments_last": ModelInfo(
        "s", "segmenter", NAMES, replace(PLAIN, letterbox=False, stretch=True),
        segmentation=SegmentationInfo("scores_last", channels_last=True),
    ),
    "indices": ModelInfo(
        "s", "segmenter", NAMES, PLAIN, segmentation=SegmentationInfo("pixels", "indices")
    ),
    "logit": ModelInfo(
        "s", "segmenter", NAMES[:2], PLAIN, segmentation=SegmentationInfo("logit", "logit")
    ),
    "depth": ModelInfo("d", "depth", (), PLAIN, depth=DepthInfo("depth", "metres")),
    "depth_stretched": ModelInfo(
        "d", "depth", (), replace(PLAIN, letterbox=False, stretch=True),
        depth=DepthInfo("depth", inverse=True),
    ),
}  # fmt: skip
PREPARATIONS = {
    "area": Preprocessing(SIZE, crop=0.875, mean=(124.0, 116.0, 104.0), std=(58.0, 57.0, 56.5)),
    "cubic": Preprocessing(SIZE, interpolation="cubic", color_order="bgr"),
    "linear": Preprocessing(SIZE, interpolation="linear", letterbox=True),
    "nearest": Preprocessing(SIZE, interpolation="nearest", stretch=True),
    "corner": Preprocessing(SIZE, letterbox=True, pad_corner=True, pad_value=114.0),
}


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package, in a folder, of a network that has outputs of every form."""
    return unpacked_of(3, tmp_path_factory.mktemp("network"))


@pytest.fixture(scope="session")
def unpacked_gray(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same for grey images."""
    return unpacked_of(1, tmp_path_factory.mktemp("gray"))


def unpacked_of(channels: int, folder: Path) -> Path:
    outputs = random_outputs()
    model = kind_networks.write(folder / "all.onnx", outputs, size=SIZE, channels=channels)
    path = compile_network(model, folder / "all.tar", target="llvm", opt_level=1)
    unpack_package(path, folder / "all")
    return folder / "all"


def test_the_command_of_the_guide_configures_a_build(tmp_path: Path) -> None:
    """With the backend built from its sources, as nobody's tests have the time to do."""
    cmake = Path(sys.executable).with_name("cmake")
    if not cmake.exists():
        pytest.skip("cmake is needed to build cpp/: pip install -e '.[test]'")
    folders = ["-S", str(ROOT / "cpp"), "-B", str(tmp_path)]
    command = [str(cmake), *folders, f"-DTVM_VISION_SITE_PACKAGES={SITE}"]
    done = subprocess.run(command, text=True, capture_output=True)
    if "apt install libstb-dev" in done.stderr:
        pytest.skip("stb is needed to build cpp/: apt install libstb-dev")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "triple", ["riscv64-linux-gnu", "arm-linux-gnueabihf", "powerpc64le-linux-gnu"]
)
def test_sources_compile_for_other_processors(triple: str) -> None:
    """What is written for one processor has words for those that it does not know."""
    compiler = shutil.which(f"{triple}-g++")
    if compiler is None:
        pytest.skip(f"the compiler for {triple} is needed: apt install g++-{triple}")
    includes = [SITE / "tvm_ffi" / "include", SITE / "tvm" / "include"]
    command = [compiler, "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    command += [f"-I{ROOT / 'cpp' / 'include'}", *(f"-isystem{path}" for path in includes)]
    sources = [ROOT / "cpp" / "src" / f"{name}.cc" for name in ("fleet", "package", "processor")]
    done = subprocess.run([*command, *map(str, sources)], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr


def package_of(unpacked: Path, model: ModelInfo, folder: Path, **more: Any) -> Path:
    """A package of the same network that says something else of it."""
    with read_package(unpacked) as package:
        info = replace(package.info, model=model, **more)
    edited = folder / "edited"
    shutil.copytree(unpacked, edited, dirs_exist_ok=True)
    (edited / "mod.json").write_bytes(info.to_bytes())
    repack_package(edited, folder / "package.tar")
    return folder / "package.tar"


def images() -> Iterator[tuple[str, np.ndarray]]:
    rng = np.random.default_rng(3)
    for height, width, count in IMAGES:
        noise = rng.integers(0, 256, (height, width, count), np.uint8)
        smooth = cv2.blur(noise, (5, 5)).reshape(noise.shape)
        yield f"{height}x{width}x{count}", smooth


def written(built: Path, package: Path, folder: Path) -> dict[str, Any]:
    """Lines of results by image, after all images were written to the folder."""
    for name, image in images():
        (folder / f"{name}.bgr").write_bytes(image.tobytes())
    done = run(built / "results", package, folder)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = {name: [] for name, _ in images()}
    for line in done.stdout.splitlines():
        name, *numbers = line.split()
        found[name].append([float(number) for number in numbers])
    return found


def expected_rows(result: Any) -> list[list[float]]:
    """What ``results`` prints of a result."""
    if result.classification is not None:
        pairs = zip(result.classification.class_ids, result.classification, strict=True)
        return [[float(index), probability] for index, (_, probability) in pairs]
    found, lines = result.detections, []
    for i in range(len(found) if found is not None else 0):
        line = [float(found.class_ids[i]), float(found.scores[i]), *found.boxes[i].tolist()]
        if found.keypoints is not None:
            line += found.keypoints[i].reshape(-1).tolist()
        if found.oriented_boxes is not None:
            line += found.oriented_boxes[i].tolist()
        if found.masks is not None and found.masks.crops[i].size:
            crop = found.masks.crops[i]
            line += [*map(float, found.masks.corners[i]), *crop.shape, float(crop.sum())]
        lines.append(line)
    return lines


def assert_close(mask: np.ndarray, expected: np.ndarray) -> None:
    """The same classes; which of two pixels a place between them belongs to differs from one
    version of OpenCV to the next."""
    around = np.pad(expected, 1, mode="edge")
    height, width = expected.shape
    shifts = [around[y : y + height, x : x + width] for y in range(3) for x in range(3)]
    assert mask.shape == expected.shape and np.any([mask == one for one in shifts], axis=0).all()
    assert np.mean(mask != expected) <= (0.02 if min(expected.shape) > 32 else 0.15)


@pytest.mark.parametrize("kind", MODELS)
def test_results_are_those_of_python(built, unpacked, tmp_path, kind):
    package = package_of(unpacked, MODELS[kind], tmp_path)
    assert_as_in_python(built, package, tmp_path, kind)


@pytest.mark.parametrize("dtype", quantized_ends.DTYPES)
def test_integers_outside_are_real_numbers_as_in_python(built, tmp_path, dtype):
    """Of a TFLite network, channels last, as it was made for its own runtime."""
    file = quantized_ends.write(tmp_path / "network.tflite", dtype)
    path = compile_network(file, tmp_path / "raw.tar", target="llvm", raw_io=True)
    unpack_package(path, tmp_path / "raw")
    for kind, model in quantized_ends.MODELS.items():
        folder = tmp_path / kind
        folder.mkdir()
        package = package_of(tmp_path / "raw", model, folder)
        assert_as_in_python(built, package, folder, kind)
    assert cv2.imwrite(str(tmp_path / "image.png"), np.full((9, 9, 3), 99, np.uint8))
    mask = ("--mask", tmp_path / "mask.png")
    done = run(built / "run_model", "t", package, tmp_path / "image.png", *mask)
    zero = -1 + 128 * (dtype == "uint8")
    assert f"input: image, {dtype}[1, 64, 96, 3] = (q - {zero}) * 0.00787402, " in done.stdout


def assert_as_in_python(built: Path, package: Path, tmp_path: Path, kind: str) -> None:
    found = written(built, package, tmp_path)
    model = load_model(package)
    for name, image in images():
        result = model(image)
        rows = expected_rows(result)
        assert len(found[name]) == len(rows)
        for row, needed in zip(found[name], rows, strict=True):
            # Of a mask the last number, its pixels: edges may fall to either side.
            if kind.startswith("masks"):
                assert row[-1] == pytest.approx(needed[-1], abs=2 + 0.01 * needed[-1])
                row, needed = row[:-1], needed[:-1]
            assert row == pytest.approx(needed, rel=1e-4, abs=2e-3)
        if result.segmentation is not None:
            mask = np.fromfile(tmp_path / f"{name}.mask", np.uint8).reshape(image.shape[:2])
            assert_close(mask, result.segmentation.mask)
        if result.depth is not None:
            depth = np.fromfile(tmp_path / f"{name}.depth", np.float32).reshape(image.shape[:2])
            np.testing.assert_allclose(depth, result.depth.values, atol=0.05)


@pytest.mark.parametrize("gray", [False, True])
@pytest.mark.parametrize("how", PREPARATIONS)
@pytest.mark.parametrize("kind", ["classifier", "yolo"])
def test_images_are_prepared_as_in_python(
    built, unpacked, unpacked_gray, tmp_path, how, kind, gray
):
    preprocessing = PREPARATIONS[how].in_gray() if gray else PREPARATIONS[how]
    frames = kind == "yolo"
    if frames and not (preprocessing.letterbox or preprocessing.stretch):
        preprocessing = replace(preprocessing, crop=1.0, stretch=True)
    model = replace(MODELS["scores" if frames else "classifier"], preprocessing=preprocessing)
    package: Package | Path = package_of(unpacked_gray if gray else unpacked, model, tmp_path)
    written(built, Path(str(package)), tmp_path)
    with read_package(Path(str(package))) as read:
        specs = read.info.inputs
    for name, image in images():
        needed = prepared_image(model, specs, image, remedies=("", ""))["images"]
        found = np.fromfile(tmp_path / f"{name}.input", np.float32).reshape(needed.shape)
        # By one level at the most: OpenCV has other code for other processors.
        level = 1 / min(preprocessing.std)
        assert np.abs(found - needed).max() <= level * (1 + 1e-4)
        close = np.isclose(found, needed, rtol=0, atol=1e-4 * level).mean()
        assert close > (0.9 if how == "cubic" else 0.97)


def test_the_program_prints_every_step(built, unpacked, tmp_path):
    package = package_of(unpacked, MODELS["classifier"], tmp_path)
    image = next(image for _, image in images())
    assert cv2.imwrite(str(tmp_path / "image.png"), image)
    (tmp_path / "labels.txt").write_bytes(b"\xef\xbb\xbfone\r\n two\r\nthree\r\n")  # of Windows
    done = run(
        built / "run_model", "test", package, tmp_path / "image.png", tmp_path / "labels.txt",
        "--normalize", "imagenet", "--topk", 2, "--repeat", 3, "--input-name", "images",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert all(line.startswith("test: ") for line in lines)
    for words in (
        "network: c (classifier)", "device: cpu(0)", "130x90", "resize: to 96x64, middle cut out",
        "colours: RGB", "mean 123.675, 116.28, 103.53", "input: images, float32[1, 3, 64, 96], ",
        "output: logits, float32[1, 3], ", "ms a frame (median of 3)",
    ):  # fmt: skip
        assert words in done.stdout
    classes = [line for line in lines if ": class: " in line]
    expected = load_model(package, top=2)(image).classification
    assert expected is not None
    for line, index, (_, probability) in zip(classes, expected.class_ids, expected, strict=True):
        *_, number, found, label = line.split()
        assert label == ("one", "two", "three")[index] and int(number) == index
        assert float(found) == pytest.approx(probability, abs=1e-4)


def exif(orientation: int, order: str) -> bytes:
    """A TIFF's head and a directory with the orientation alone; order: "<" or ">"."""
    head = {"<": b"II", ">": b"MM"}[order] + struct.pack(f"{order}HI", 42, 8)
    return head + struct.pack(f"{order}HHHIHHI", 1, 0x0112, 3, 1, orientation, 0, 0)


def turned_files(image: np.ndarray) -> Iterator[tuple[str, int, bytes]]:
    """PNG and JPEG files of an image that say each orientation: ending, orientation, content."""
    png, jpeg = (cv2.imencode(end, image)[1].tobytes() for end in (".png", ".jpg"))
    for orientation in range(1, 9):
        said = exif(orientation, "<>"[orientation % 2])
        chunk = b"eXIf" + said
        sized = struct.pack(">I", len(said)) + chunk + struct.pack(">I", zlib.crc32(chunk))
        yield ".png", orientation, png[:33] + sized + png[33:]
        segment = b"\xff\xe1" + struct.pack(">H", len(said) + 8) + b"Exif\0\0" + said
        yield ".jpg", orientation, jpeg[:2] + segment + jpeg[2:]


def test_images_are_turned_upright_as_in_python(built, tmp_path):
    """By a network whose classes are the pixels of its input of 2x2."""
    nodes = [
        onnx.helper.make_node("Relu", ["x"], ["relu"]),
        onnx.helper.make_node("Flatten", ["relu"], ["y"]),
    ]
    model = onnx_models.make_model(nodes, [("x", (1, 3, 2, 2))], [("y", (1, 12))])
    how = Preprocessing((2, 2), std=(255.0,) * 3, stretch=True)
    info = ModelInfo("pixels", "classifier", preprocessing=how)
    package = compile_network(model, tmp_path / "pixels.tar", target="llvm", model_info=info)
    network = load_model(package, top=12)
    corners = np.random.default_rng(6).permutation(12).reshape(2, 2, 3) * 20
    image = np.kron(corners, np.ones((16, 24, 1))).astype(np.uint8)
    seen = set()
    for ending, orientation, content in turned_files(image):
        path = tmp_path / f"{orientation}{ending}"
        path.write_bytes(content)
        done = run(built / "run_model", "t", package, path, "--topk", 12)
        assert done.returncode == 0, done.stderr
        rows = [line.split()[3:5] for line in done.stdout.splitlines() if " class: " in line]
        found = {int(number): float(probability) for number, probability in rows}
        expected = network(read_image(path)).classification
        assert expected is not None
        needed = dict(zip(expected.class_ids, expected.probabilities, strict=True))
        assert found == pytest.approx(needed, abs=1e-4 if ending == ".png" else 2e-3), path.name
        if ending == ".png":
            seen.add(tuple(sorted(found, key=lambda number: found[number])))
    assert len(seen) == 8
    for cut in range(4, 44, 5):
        path.write_bytes(content[:cut] + b"\xff" * 4 + content[cut + 4 :])
        assert run(built / "run_model", "t", package, path).returncode in (0, 1), cut


def with_mask(built, package, folder):
    """What the program said of an image, the mask that it wrote, and what Python makes of it."""
    image = next(image for _, image in images())
    assert cv2.imwrite(str(folder / "image.png"), image)
    mask = folder / "mask.png"
    done = run(built / "run_model", "test", package, folder / "image.png", "--mask", mask)
    assert done.returncode == 0 and f"wrote {mask}" in done.stdout
    return done.stdout, cv2.imread(str(mask), cv2.IMREAD_UNCHANGED), load_model(package)(image)


def test_the_program_writes_the_mask(built, unpacked, tmp_path):
    package = package_of(unpacked, MODELS["yoeo"], tmp_path)
    said, mask, result = with_mask(built, package, tmp_path)
    assert result.segmentation is not None and result.detections is not None
    assert_close(np.asarray(mask), result.segmentation.mask)
    assert said.count(": box: ") == len(result.detections)


def test_the_program_writes_the_number_of_each_pixels_box(built, unpacked, tmp_path):
    package = package_of(unpacked, MODELS["masks"], tmp_path)
    said, mask, result = with_mask(built, package, tmp_path)
    assert f"wrote {tmp_path / 'mask.png'}, for each pixel the number" in said
    found = result.detections
    assert found is not None and found.masks is not None and len(found) > 1
    assert_close(np.asarray(mask), found.masks.ids())


def test_c_alone(built, unpacked, tmp_path):
    package = package_of(unpacked, MODELS["scores"], tmp_path)
    _, image = next(images())
    (tmp_path / "pixels").write_bytes(image.tobytes())
    done = run(built / "predict", package, tmp_path / "pixels", *image.shape)
    found = load_model(package)(image).detections
    assert (
        found is not None
        and done.returncode == 0
        and len(done.stdout.splitlines()) == len(found) > 3
    )
    for line, (label, score, box) in zip(done.stdout.splitlines(), found, strict=True):
        _, score_found, *corners, label_found = line.split()
        assert label_found == label and float(score_found) == pytest.approx(score, abs=1e-5)
        assert [float(side) for side in corners] == pytest.approx(list(box), abs=1e-2)


FUNCTIONS = (
    "error", "load", "free", "about", "describe", "set_input", "run", "get_output", "prepare",
    "predict",
)  # fmt: skip


def test_another_language_by_the_c_interface(built, unpacked, tmp_path, request):
    """Ten functions, each called by an example in Python, by ctypes alone; NULL is refused."""
    if request.node.callspec.params["built"]:
        pytest.skip("Python itself would have to be sanitized")
    header = (ROOT / "cpp" / "include" / "tvm_vision" / "tvm_vision.h").read_text()
    example = ROOT / "cpp" / "examples" / "predict.py"
    library = built / "libtvm_vision.so"
    assert re.findall(
        r"tvm_vision_(\w+)\((?!\))", header.split("last call that failed")[1]
    ) == list(FUNCTIONS)
    assert all(f"tvm_vision.tvm_vision_{name}" in example.read_text() for name in FUNCTIONS)
    package = package_of(unpacked, MODELS["yoeo"], tmp_path)
    _, image = next(images())
    (tmp_path / "pixels").write_bytes(image.tobytes())
    pixels = (tmp_path / "pixels", *image.shape)
    done = run(sys.executable, "-I", example, library, package, *pixels)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    result = load_model(package)(image)
    assert result.detections is not None and result.segmentation is not None
    assert lines[0][:3] == ["network", "y", "(yoeo)"]
    assert [words[1] for words in lines if words[0] == "output"] == list(random_outputs())
    objects = [words for words in lines if words[0] == "object"]
    for words, score, box in zip(
        objects, result.detections.scores, result.detections.boxes, strict=True
    ):
        assert float(words[2]) == pytest.approx(score, abs=1e-5)
        assert [float(side) for side in words[3:7]] == pytest.approx(box.tolist(), abs=1e-2)
    assert f"mask {image.shape[0]}x{image.shape[1]} " in done.stdout
    sizes = [int(words[2]) for words in lines if words[0] == "bytes"]
    assert sizes == [array.nbytes for array in random_outputs().values()]
    refusal = run(sys.executable, "-I", example, library, tmp_path / "none.tar", *pixels)
    assert refusal.returncode == 1 and len(refusal.stderr.splitlines()) == 1
    assert "cannot be opened (No such file or directory)" in refusal.stderr
    nothing = (
        "import ctypes, sys; c = ctypes.CDLL(sys.argv[1])\n"
        "c.tvm_vision_error.restype = ctypes.c_char_p\n"
        "for name in sys.argv[2:]:\n"
        "    found = getattr(c, 'tvm_vision_' + name)(*[None] * 4)\n"
        "    print(found, c.tvm_vision_error().decode())\n"
    )
    names = [name for name in FUNCTIONS if name not in ("error", "free", "load")]
    refusal = run(sys.executable, "-I", "-c", nothing, library, *names)
    assert refusal.stdout.splitlines() == ["1 a network is needed, found NULL"] * len(names)


def test_what_is_installed_runs_elsewhere(built, unpacked, tmp_path, request):
    """Without TVM's wheels, and another project finds the library."""
    cmake = Path(sys.executable).with_name("cmake")
    subprocess.run([cmake, "--install", built], check=True, capture_output=True)
    moved = tmp_path / "moved"
    (built / "installed").rename(moved)
    libraries = {path.name for path in (moved / "lib").glob("*.so*")}
    assert {"libtvm_vision.so", LIBRARY_NAME, "libtvm_runtime.so", "libtvm_ffi.so"} <= libraries
    package = package_of(unpacked, MODELS["classifier"], tmp_path)
    assert cv2.imwrite(str(tmp_path / "image.png"), np.zeros((9, 9, 3), np.uint8))
    done = run(moved / "bin" / "run_model", "test", package, tmp_path / "image.png")
    assert done.returncode == 0, done.stderr
    loaded = run("ldd", moved / "bin" / "run_model").stdout
    assert str(SITE) not in loaded
    project = tmp_path / "project"
    project.mkdir()
    # The guide's own lines, where the package that they load is missing.
    guide = (ROOT / "docs" / "guides" / "cpp.md").read_text()
    linked, code = (
        re.findall(rf"```{name}\n(.*?)```", guide, re.DOTALL)[0] for name in ("cmake", "cpp")
    )
    include, code = code.split("\n", 1)
    (project / "main.cc").write_text(
        f"{include}\n#include <cstdio>\nint main() try {{\n"
        f"struct {{ const uint8_t* data; }} bgr{{nullptr}};\n{code}return 1;\n"
        "} catch (const tvm_vision::Error& error) {\n"
        "  std::puts(error.what());\n"
        '  return error.kind() == "InputError" ? 0 : 1;\n}\n'
    )
    (project / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(other CXX)\nadd_executable(robot main.cc)\n"
        f"{linked}"
    )
    flags = request.node.callspec.params["built"]
    prefix = [f"-DCMAKE_PREFIX_PATH={moved}", f"-DCMAKE_CXX_FLAGS={flags}"]
    for command in (
        [cmake, "-S", project, "-B", project / "build", *prefix],
        [cmake, "--build", project / "build"],
        [project / "build" / "robot"],
    ):
        done = run(*command)
        assert done.returncode == 0, done.stdout + done.stderr


def test_its_version_is_that_of_the_package(built):
    done = run(built / "run_model", "--version")
    assert (done.returncode, done.stdout) == (0, f"run_model {__version__}\n")


def test_wrong_input_is_one_line(built, unpacked, tmp_path):
    package = package_of(unpacked, MODELS["classifier"], tmp_path)
    image = tmp_path / "image.png"
    assert cv2.imwrite(str(image), np.zeros((9, 9, 3), np.uint8))
    (tmp_path / "few.txt").write_text("one\n")
    for words, needed in (
        ((package,), "NAME, PACKAGE and IMAGE are needed"),
        (("t", package, image, "--nope"), "is needed, found '--nope'; run_model --help lists"),
        (("t", package, image, "--topk"), "is needed, found '--topk'; run_model --help lists"),
        (("t", tmp_path / "none.tar", image), "cannot be opened (No such file or directory)"),
        (("t", image, image), "is an image: 'tvm-vision detect' and 'classify' take it"),
        (("t", package, tmp_path / "none.png"), "an image file is needed"),
        (("t", package, package), "an image file is needed"),
        (("t", package, tmp_path), f"'{tmp_path}' cannot be read (Is a directory)"),
        (("t", package, image, tmp_path / "few.txt"), "3 labels are needed"),
        (("t", package, image, "--device", "gpu"), "a device of auto, vulkan or cpu"),
        (("t", package, image, "--device", "vulkan"), "compile the network with --target vulkan"),
        (("t", package, image, "--topk", "none"), "a number from 1 to"),
        (("t", package, image, "--topk", "3.7"), "a number that is whole is needed, found '3.7'"),
        (("t", package, image, "--repeat", "nan"), "a number from 1 to"),
        (("t", package, image, "--rebuilds", "1.5"), "a number a minute that is whole is needed"),
        (("t", package, image, "--normalize", "nan,1,1/1,1,1"), "finite means are needed"),
        (("t", package, image, "--normalize", "0,0,0/1,inf,1"), "finite deviations above 0"),
        (("t", package, image, "--normalize", "1,2"), "--normalize takes package"),
        (("t", package, image, "--input-name", "x"), "it has images"),
    ):  # fmt: skip
        assert needed in refused(built, *words)
    pipe = tmp_path / "mask.png"
    os.mkfifo(pipe)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    seen = package_of(unpacked, MODELS["yoeo"], tmp_path)
    assert "a file that can be written is needed" in refused(
        built, "t", seen, image, "--mask", pipe
    )
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    content = image.read_bytes()
    for broken in (b"", content[:40], content[:-30], b"\xff\xd8\xff\xe0", b"GIF89a\1", bytes(99)):
        image.write_bytes(broken)
        assert "an image file is needed" in refused(built, "t", seen, image)
    with open("/dev/full", "w") as full:
        image.write_bytes(content)
        done = subprocess.run(
            [built / "run_model", "t", seen, image, "--mask", tmp_path / "m.png"], stdout=full,
            stderr=subprocess.PIPE, text=True, env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"},
        )  # fmt: skip
    assert done.returncode == 1 and "the results cannot be printed" in done.stderr
    plain = package_of(unpacked, ModelInfo("plain"), tmp_path)
    assert "--kind and --preprocess" in refused(built, "t", plain, image)


def test_a_package_for_several_devices(built, unpacked, tmp_path):
    """The variant for this machine is taken, or the one that is named, as in Python."""
    package = package_of(unpacked, MODELS["classifier"], tmp_path)
    image = tmp_path / "image.png"
    assert cv2.imwrite(str(image), np.full((9, 9, 3), 99, np.uint8))
    with read_package(package) as one, read_package(package) as other:
        # Of GPUs that this machine has not: it has less than the one, and all of the other, which
        # lavapipe comes after a processor for.
        target = {"kind": "vulkan", "device_name": "Big", "max_threads_per_block": 1 << 30}
        other.info = replace(one.info, target=target, device=PackageDevice("Big", ""))
        write_fleet(tmp_path / "big.tar", [("big", other)])
        small = {**SMALL_TARGET, "keys": ["vulkan", "gpu", "compute_units_8"]}
        device = PackageDevice("Small", "")
        with read_package(package) as third:
            third.info = replace(one.info, target=small, device=device)
            write_fleet(tmp_path / "team.tar", [("big", other), ("small", third), ("here", one)])
    single = run(built / "run_model", "t", package, image)
    keys = make_keys(tmp_path, "ours")
    lines = [line for line in single.stdout.splitlines() if "ms" not in line]
    sign_package(tmp_path / "team.tar", PrivateKey.read(keys[0]))
    for more in ((), ("--target", "here"), ("--verify", keys[1])):
        done = run(built / "run_model", "t", tmp_path / "team.tar", image, *more)
        assert done.returncode == 0, done.stderr
        found = [line for line in done.stdout.splitlines() if "ms" not in line]
        assert [line.replace("team.tar", "package.tar") for line in found] == lines
    for words, needed in (
        (("t", tmp_path / "team.tar", image, "--target", "none"), "is needed, found 'none'"),
        (("t", tmp_path / "big.tar", image), "a variant for this machine ("),
        (("t", tmp_path / "team.tar", image, "--device", "vulkan"), "on one device"),
        (("t", package, image, "--target", "big"), "leave the target out"),
        (("t", package, image, "--verify", keys[1]), "and the package has none: 'tvm-vision sign'"),
        (("t", package, image, "--verify", ""), "a public key is needed, and '' cannot be read"),
        (("t", package, image, "--verify", image), "a public Ed25519 key in PEM is needed"),
    ):  # fmt: skip
        assert needed in refused(built, *words)


def test_every_machine_takes_the_variant_that_it_takes_in_python(built, tmp_path, device_info):
    """Or refuses all of them in the same line."""
    teams, machines = fleets.fleets(device_info, 60), fleets.machines(device_info)
    (tmp_path / "table.json").write_text(fleets.table(teams, machines))
    done = run(built / "variants", tmp_path / "table.json")
    assert done.returncode == 0, done.stderr
    needed = []
    for fleet, here, wanted in itertools.product(teams, machines, fleets.WANTED):
        on = (here.processor, here.device, here.status, here.features)
        try:
            needed.append(plan_variant(fleet, wanted, *on).name)
        except DeviceError as error:
            needed.append(f"DeviceError: {error}")
    assert done.stdout.splitlines() == needed
    assert len(set(needed)) > 100


def test_what_a_killed_run_left_is_removed(built, unpacked, tmp_path, monkeypatch):
    """By the runner and by Python alike, and nothing that another process is using."""
    package = package_of(unpacked, MODELS["classifier"], tmp_path)
    image, scratch = tmp_path / "image.png", tmp_path / "scratch"
    assert cv2.imwrite(str(image), np.zeros((9, 9, 3), np.uint8))
    for name in ("left0000", "used0000", "others00"):
        (scratch / f".tvm_vision-{name}.part").mkdir(parents=True)
        (scratch / f".tvm_vision-{name}.part" / "mod.so").touch()
    (scratch / ".tvm_vision-others00.part" / "work").touch()
    monkeypatch.setenv("TMPDIR", str(scratch))
    lock = hold(scratch / ".tvm_vision-used0000.part")
    assert run(built / "run_model", "t", package, image).returncode == 0
    os.close(lock)
    left = {path.name for path in scratch.iterdir()}
    assert left == {".tvm_vision-used0000.part", ".tvm_vision-others00.part"}
    clear_leftovers(scratch)
    assert not list(scratch.iterdir())


def test_code_for_a_processor_that_can_do_more_is_refused_as_in_python(built, unpacked, tmp_path):
    needs = ("fpu9000", "sse9000")
    package = package_of(unpacked, MODELS["classifier"], tmp_path, processor=needs)
    assert cv2.imwrite(str(tmp_path / "image.png"), np.zeros((9, 9, 3), np.uint8))
    with pytest.raises(PackageError, match="needs a processor with fpu9000, sse9000, which") as met:
        load_model(package)
    assert refused(built, "t", package, tmp_path / "image.png") == str(met.value)


def test_damaged_packages_are_refused(built, unpacked, tmp_path):
    """Each byte that is changed is noticed, wherever it lies; a cut file too."""
    package = package_of(unpacked, MODELS["classifier"], tmp_path)
    whole = package.read_bytes()
    image, damaged = tmp_path / "image.png", tmp_path / "damaged.tar"
    assert cv2.imwrite(str(image), np.zeros((9, 9, 3), np.uint8))
    places = np.random.default_rng(5).integers(0, len(whole) - 1024, 12).tolist()
    for place in [*places, 0, 130, 600]:
        changed = bytearray(whole)
        changed[place] ^= 0x41
        damaged.write_bytes(changed)
        done = run(built / "run_model", "t", damaged, image)
        # Between members a tar has bytes that mean nothing.
        if done.returncode == 0:
            assert whole[place] == 0
            continue
        assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, done.stderr
    for size in (0, 100, 512, len(whole) // 2):
        damaged.write_bytes(whole[:size])
        assert "copy the package again" in refused(built, "t", damaged, image)
