"""The confidences of single classes, which an ONNX file of YOEO carries for its packages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import onnx

from tvm_vision.errors import InputError
from tvm_vision.exporters.yoeo.export import METADATA_KEY
from tvm_vision.whole_files import write_whole

# One for all classes, as a package has it that says nothing of single classes.
USUAL = 0.5


def read_thresholds(path: Path) -> dict[str, float]:
    """Name of a class -> its confidence, as an ONNX file of YOEO says; empty where it does not."""
    for entry in onnx.load(path).metadata_props:
        if entry.key == METADATA_KEY:
            return dict(json.loads(entry.value).get("class_thresholds", {}))
    return {}


def write_thresholds(path: Path, confidences: Mapping[str, float]) -> None:
    """Adds "class_thresholds" to what an ONNX file of YOEO says about itself. Raises InputError for
    one that says nothing."""
    model = onnx.load(path)
    for entry in model.metadata_props:
        if entry.key == METADATA_KEY:
            document = json.loads(entry.value)
            document["class_thresholds"] = dict(confidences)
            entry.value = json.dumps(document)
            break
    else:
        raise InputError(
            f"a file with the metadata '{METADATA_KEY}' is needed, found none in '{path}': export "
            "it with training/export.py"
        )
    write_whole(path, model.SerializeToString())
