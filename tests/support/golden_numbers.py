"""What small networks compute, to the last bit.

``PYTHONPATH=tests python -m support.golden_numbers`` writes golden_numbers.json beside this file:
SHA-256 of the outputs, for each environment that it was called in. Where nothing about one
changed they stay from version to version, or CHANGELOG.md says why not. An environment is what the
last bit depends on, besides our sources:

    vulkan   device and driver; lavapipe's name has the version of LLVM and the width of vectors
    llvm     the processor (compiled for, which is any of its kind here), the C library with its exp
    both     TVM
"""

from __future__ import annotations

import hashlib
import json
import platform
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np

import tvm_vision
from support import onnx_models, small_network
from tvm_vision import vulkan

PLACE = Path(__file__).with_suffix(".json")
# Any processor of this kind: what is newer in this machine's is not used.
TARGETS = {"vulkan": "vulkan", "llvm": "llvm -mcpu=x86-64"}
PRECISIONS = ("fp32", "fp16")


def environment(kind: str) -> str:
    """What the numbers of a target depend on, in a line."""
    common = f"tvm {version('apache-tvm')}"
    if kind == "llvm":
        return f"{platform.machine()}, {' '.join(platform.libc_ver())}, {common}"
    device = vulkan.devices()[0]
    return f"{device.name}, {device.driver_name} {device.driver_info}, {common}"


def hashes(kind: str) -> dict[str, str]:
    """SHA-256 of each network's outputs on a target, compiled anew."""
    found = {}
    conv, pool = small_network.model(), onnx_models.mean_of_channels()
    inputs = {
        "conv": (conv, {"input": small_network.IMAGE}),
        "mean": (pool, {"x": np.random.default_rng(3).random((1, 3, 8, 8), "float32")}),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, (model, feed) in inputs.items():
            for precision in PRECISIONS:
                if precision == "fp16" and kind == "llvm":
                    continue
                package = tvm_vision.compile(
                    model, Path(folder) / "p.tar", target=TARGETS[kind], precision=precision,
                    shipped_records=False,
                )  # fmt: skip
                executor = tvm_vision.load(package)
                executor.run(**feed)
                outputs = executor.outputs()
                digest = hashlib.sha256()
                for output in outputs.values():
                    digest.update(np.ascontiguousarray(output).tobytes())
                found[f"{name} {precision}"] = digest.hexdigest()
    return found


def golden() -> dict[str, dict[str, str]]:
    """The file: environment -> network -> SHA-256."""
    return dict(json.loads(PLACE.read_text("utf-8"))) if PLACE.exists() else {}


def main() -> None:
    known = golden()
    for kind in TARGETS:
        known[environment(kind)] = hashes(kind)
    PLACE.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    main()
