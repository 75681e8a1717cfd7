"""Packages made by hand: no compiler, and a mod.so that nobody may load."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from tvm_vision.package import PackageInfo
from tvm_vision.package.container import write_tar
from tvm_vision.package.params import write_params

LIBRARY = b"\x7fELF\x02\x01" + bytes(12) + b"\x3e\0" + b"no machine code"
WEIGHTS = {
    "p0": np.arange(12, dtype=np.float32).reshape(3, 4),
    "p1": np.array([1, 2, 3], np.float32),
}


def tensor(shape: list[int], storage: int, offset: int = 0, dtype: str = "float32") -> dict:
    return {"shape": shape, "dtype": dtype, "storage": storage, "offset": offset}


def sample_graph() -> dict[str, Any]:
    """y = relu(p0 @ x + p1), then a view of y as the output."""
    return {
        "storages": [16, 48, 12, 12, 12],
        "tensors": [
            tensor([4], 0),
            tensor([3, 4], 1),
            tensor([3], 2),
            tensor([3], 3),
            tensor([3], 4),
            tensor([1, 3], 4),
        ],
        "params": {"p0": 1, "p1": 2},
        "inputs": [0],
        "outputs": [5],
        "kernels": [
            {
                "function": "matmul_add",
                "args": [1, 0, 2, 3],
                "num_outputs": 1,
                "nodes": ["MatMul_0", "Add_1"],
            },
            {"function": "relu", "args": [3, 4], "num_outputs": 1, "nodes": ["Relu_2"]},
        ],
    }


def params_bytes(weights: dict[str, np.ndarray] = WEIGHTS) -> bytes:
    stream = io.BytesIO()
    write_params(stream, weights)
    return stream.getvalue()


def sample_info() -> dict[str, Any]:
    """A mod.json, as the parsed document, that everything is right with."""
    return {
        "format": "tvm_vision",
        "format_version": 4,
        "model": {
            "name": "tiny",
            "kind": "classifier",
            "labels": ["cat", "dog", "fish"],
            "preprocessing": None,
            "yoeo": None,
        },
        "inputs": [
            {
                "name": "x",
                "shape": [4],
                "dtype": "float32",
                "layout": "",
                "units": "",
            }
        ],
        "outputs": [
            {
                "name": "y",
                "shape": [1, 3],
                "dtype": "float32",
                "layout": "",
                "units": "",
            }
        ],
        "graph": sample_graph(),
        "target": {"kind": "llvm"},
        "device": None,
        "versions": {"tvm": "0.27.0", "tvm_vision": "0.1.0"},
        "precision": "fp32",
        "options": {"opt_level": 3, "precision": "fp32", "winograd": "auto", "split_k": True},
        "records": None,
        "measured_precision": None,
        "memory": {"weights": 60, "activations": 40, "peak": 100},
        "members": {
            "mod.so": hashlib.sha256(LIBRARY).hexdigest(),
            "mod.params": hashlib.sha256(params_bytes()).hexdigest(),
        },
    }


def sealed(document: dict[str, Any]) -> bytes:
    """A mod.json with the checksum that fits it, be it sound or not."""
    try:
        return PackageInfo.from_json(document).to_bytes()
    except Exception:
        rest = {name: value for name, value in document.items() if name != "checksum"}
        return with_checksum(json.dumps(rest, sort_keys=True).encode())


def with_checksum(text: bytes) -> bytes:
    """A mod.json of a text that begins as an object does."""
    return b'{"checksum": "%s", ' % hashlib.sha256(text).hexdigest().encode() + text[1:]


def sample_members() -> dict[str, bytes]:
    return {"mod.json": sealed(sample_info()), "mod.params": params_bytes(), "mod.so": LIBRARY}


def write_sample(path: Path, members: dict[str, bytes] | None = None) -> Path:
    """Write members as the tar ``path``, or, where it has no suffix, as a folder."""
    members = members or sample_members()
    if path.suffix == ".tar":
        with path.open("wb") as stream:
            write_tar(stream, members)
        return path
    path.mkdir()
    for name, data in members.items():
        (path / name).write_bytes(data)
    return path
