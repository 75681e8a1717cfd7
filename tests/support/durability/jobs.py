"""What is stopped: commands that write, each with who reads what it wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import onnx

from support import onnx_models, small_network, yoeo_networks
from support.keys import make_keys
from support.tflite_models import convolution
from tvm_vision.api import compile as compile_network
from tvm_vision.exporters.yoeo.darknet import write_darknet
from tvm_vision.package import (
    ModelInfo,
    Preprocessing,
    SegmentationInfo,
    read_package,
    unpack_package,
)
from tvm_vision.tuning.records import read_records


@dataclass(frozen=True)
class Job:
    """A command that writes.

    words: the command, where {in} is the folder of what it reads, {out} that of what it writes.
    output: the file or folder in {out} that comes of it. read: raises for half of one.
    grows: whether what a killed one left is gone on with, not replaced.
    resumed: the ending of what is left on purpose, for the next run to go on from.
    """

    name: str
    words: str
    output: str
    read: Callable[[Path], object]
    grows: bool = False
    resumed: str = ""

    def command(self, made: Path, out: Path) -> list[str]:
        return [w.replace("{in}", str(made)).replace("{out}", str(out)) for w in self.words.split()]


def _package(path: Path) -> None:
    read_package(path).close()


def _arrays(path: Path) -> None:
    with np.load(path) as arrays:
        assert arrays["y"].shape


def _bag(path: Path) -> None:
    from rosbags.highlevel import AnyReader

    with AnyReader([path]) as reader:
        assert sum(1 for _ in reader.messages())


def _images(folder: Path) -> None:
    for path in folder.glob("[!.]*"):
        assert cv2.imread(str(path)) is not None, path


def _text(path: Path) -> None:
    assert path.read_text("utf-8").rstrip().endswith("</html>"), path


def _evaluation(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.suffix == ".tar":
            _package(path)
        elif path.suffix == ".json":
            _json(path)


def _json(path: Path) -> None:
    json.loads(path.read_text("utf-8"))


COLORS = ("blue", "green", "red")
VULKAN, CPU = "--target vulkan", "--target llvm"
SAMPLES = "--sample-images {in}/samples.npz"
JOBS = (
    Job("compile", f"compile {{in}}/net.onnx -o {{out}}/net.tar {VULKAN}", "net.tar", _package),
    Job("compile folder", f"compile {{in}}/net.onnx -o {{out}}/net {CPU}", "net", _package),
    Job(
        "tune", f"tune {{in}}/net.onnx -r {{out}}/r.jsonl {VULKAN} --trials 3 --min-repeat-ms 0",
        "r.jsonl", read_records, grows=True,
    ),
    Job("quantize", f"quantize {{in}}/wide.onnx -o {{out}}/q.onnx {SAMPLES}", "q.onnx", onnx.load),
    Job("run", "run {in}/mean.tar -o {out}/y.npz", "y.npz", _arrays),
    Job("records", "records merge {in}/r.jsonl -o {out}/m.jsonl", "m.jsonl", read_records),
    Job("bag", "bag {in}/in/in.mcap {out}/seen.mcap -m {in}/mean.tar", "seen.mcap", _bag,
        resumed=".progress"),
    Job("sign", "sign {out}/s.tar --key {in}/ours.pem", "s.tar", _package),
    Job("unpack", "package unpack {in}/mean.tar {out}/u", "u", _package),
    Job("repack", "package repack {in}/mean {out}/p.tar", "p.tar", _package),
    Job("show", "show {in}/net.onnx -o {out}/net.html", "net.html", _text),
    Job("devices", "devices --export {out}/d.json", "d.json", _json),
    Job("export", "yoeo-to-onnx {in}/y.cfg {in}/y.weights -o {out}/y.onnx", "y.onnx", onnx.load),
    Job("tflite", f"compile {{in}}/net.tflite -o {{out}}/net.tar {CPU}", "net.tar", _package),
    Job("trace", "profile {in}/mean.tar --repeat 2 --trace {out}/t.json", "t.json", _json),
    Job("calibrate", "calibrate -o {out}/c.json", "c.json", _json),
    Job("evaluate", "evaluate {in}/mean.onnx {in}/classes --like {in}/mean.tar --target llvm "
        "--no-reference --output {out}/e", "e", _evaluation, resumed="out/e"),
    Job("detect", "detect {in}/pixels.tar {in}/photos --save {out}/seen", "seen", _images),
)  # fmt: skip


def prepare(made: Path) -> None:
    """What the commands read."""
    from support.ros.bags import record

    onnx.save(small_network.model(), made / "net.onnx")
    onnx.save(small_network.model(64), made / "wide.onnx")
    (made / "net.tflite").write_bytes(convolution())
    (made / "y.cfg").write_text(yoeo_networks.CFG)
    config = yoeo_networks.tiny_config()
    write_darknet(config, yoeo_networks.random_state(config), made / "y.weights")
    np.savez(made / "samples.npz", input=small_network.IMAGE)
    info = ModelInfo("mean", "classifier", COLORS, Preprocessing((8, 8)))
    onnx.save(onnx_models.mean_of_channels(), made / "mean.onnx")
    mean = compile_network(made / "mean.onnx", made / "mean.tar", target="llvm", model_info=info)
    unpack_package(mean, made / "mean")
    pixels = onnx_models.relu_model((1, 3, 8, 8))
    info = ModelInfo(
        "p",
        "segmenter",
        ("a", "b", "c"),
        Preprocessing((8, 8), stretch=True),
        segmentation=SegmentationInfo("y"),
    )
    compile_network(pixels, made / "pixels.tar", target="llvm", model_info=info)
    record(made / "in")
    make_keys(made, "ours")
    (made / "photos").mkdir()
    for name in ("a", "b"):
        cv2.imwrite(str(made / "photos" / f"{name}.png"), np.full((9, 9, 3), 99, np.uint8))
    for number, name in enumerate(COLORS):
        (made / "classes" / name).mkdir(parents=True)
        image = np.zeros((9, 9, 3), np.uint8)
        image[..., number] = 99
        cv2.imwrite(str(made / "classes" / name / "a.png"), image)
