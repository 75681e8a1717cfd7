"""Every file of text, JSON, YAML or numbers that is read: changed at random, it is read or refused
by one line of an error of ours."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from support import packages, yoeo_networks
from support.mutations import mutated
from tvm_vision.devices import known_devices, read_description
from tvm_vision.errors import TvmVisionError
from tvm_vision.exporters.classifier.metadata import METADATA_KEY as CLASSIFIER
from tvm_vision.exporters.classifier.metadata import metadata_text, read_metadata
from tvm_vision.exporters.yoeo.config import parse_config
from tvm_vision.exporters.yoeo.describe import METADATA_KEY as YOEO
from tvm_vision.exporters.yoeo.describe import yoeo_model_info
from tvm_vision.exporters.yoeo.names import read_groups, read_names
from tvm_vision.models.classifier import preset, read_labels
from tvm_vision.package import PackageInfo, Preprocessing
from tvm_vision.runtime.inputs import load_arrays


@dataclass(frozen=True)
class Reader:
    """A file that is sound, the ending of its name, and what reads it."""

    sample: bytes
    suffix: str
    read: Callable[[Path], Any]


def archive() -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, x=np.arange(64, dtype=np.float32), y=np.eye(3))
    return stream.getvalue()


def with_metadata(key: str, text: bytes, path: Path) -> Path:
    """An ONNX file of a YOEO network's form that says this of itself."""
    value, kinds = helper.make_tensor_value_info, onnx.TensorProto
    graph = helper.make_graph(
        [
            helper.make_node("Identity", ["x"], ["Detections"]),
            helper.make_node("Identity", ["x"], ["Segmentations"]),
        ],
        "g",
        [value("x", kinds.FLOAT, (1, 3, 32, 32))],
        [
            value("Detections", kinds.FLOAT, (1, 9, 7)),
            value("Segmentations", kinds.UINT8, (1, 32, 32)),
        ],
    )
    model = helper.make_model(graph)
    model.metadata_props.add(key=key, value=text.decode("utf-8", "replace"))
    onnx.save(model, path)
    return path


def described(path: Path) -> object:
    return yoeo_model_info(with_metadata(YOEO, path.read_bytes(), path.with_suffix(".onnx")))


def labelled(path: Path) -> object:
    return read_metadata(with_metadata(CLASSIFIER, path.read_bytes(), path.with_suffix(".onnx")))


def robot(path: Path) -> object:
    from tvm_vision_ros.model_folder import read_config

    return read_config(path)


YOEO_TEXT = {
    "detection": ["ball", "robot"],
    "segmentation": ["background", "lines"],
    "groups": [{"surrogate": "ball", "classes": ["ball", "robot"]}],
    "raw_heads": False,
    "heads": [],
}
PREPARATION = {"crop": 0.875, "interpolation": "cubic", "mean": [1, 2, 3], "std": [1, 2, 3]}
READERS = {
    "mod.json": Reader(
        packages.sealed(packages.sample_info()),
        ".json",
        lambda path: PackageInfo.from_bytes(path.read_bytes(), edited=True).to_bytes(),
    ),
    "names": Reader(
        b"detection:\n  - ball\n  - robot\nsegmentation: [background, lines]\n", ".yaml", read_names
    ),
    "groups": Reader(
        b"- group_classes: [ball, robot]\n  surrogate_class: 'ball'\n- {group_classes: []}\n",
        ".yaml",
        read_groups,
    ),
    "robot": Reader(
        b"detection:\n  classes: [ball, robot]\nsegmentation:\n  classes:\n    - field\n",
        ".yaml",
        robot,
    ),
    "labels": Reader("cat\nkäse\n\ndog\n".encode(), ".txt", lambda path: read_labels(str(path))),
    "preprocessing": Reader(
        json.dumps(PREPARATION).encode(), ".json", lambda path: preset(str(path))
    ),
    "cfg": Reader(yoeo_networks.CFG.encode(), ".cfg", parse_config),
    "yoeo": Reader(json.dumps(YOEO_TEXT).encode(), ".txt", described),
    "classifier": Reader(
        metadata_text(Preprocessing((32, 32)), ["a", "b"]).encode(), ".txt", labelled
    ),
    "device": Reader(
        known_devices()["phoenix"].to_bytes(),
        ".json",
        lambda path: read_description(path).to_bytes(),
    ),
    "arrays": Reader(archive(), ".npz", load_arrays),
}


@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", READERS)
def test_changed_files_are_read_or_refused_in_one_line(
    tmp_path: Path, name: str, count: int
) -> None:
    reader = READERS[name]
    path = tmp_path / f"sample{reader.suffix}"
    path.write_bytes(reader.sample)
    reader.read(path)
    refused = 0
    for data in mutated(reader.sample, seed=zlib.crc32(name.encode()), count=count):
        path.write_bytes(data)
        try:
            reader.read(path)
        except TvmVisionError as error:
            refused += 1
            message = str(error)
            assert "\n" not in message and len(message) < 2100, data[:2000]
            message.encode()
    assert refused > count // 12
