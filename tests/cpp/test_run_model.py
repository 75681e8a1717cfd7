"""The program run_model: what it prints and writes, and what it refuses."""

from __future__ import annotations

import os
import stat
import struct
import subprocess
import zlib
from collections.abc import Iterator

import cv2
import numpy as np
import onnx
import pytest

from support import onnx_models
from support.runner import refused, run
from support.runner_networks import MODELS, assert_close, images, package_of
from tvm_vision.api import compile as compile_network
from tvm_vision.models import load_model
from tvm_vision.package import ModelInfo, Preprocessing
from tvm_vision.runtime.sources import read_image
from tvm_vision.version import __version__
from tvm_vision.whole_files import clear_leftovers, hold


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
