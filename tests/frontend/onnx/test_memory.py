"""How much memory a large file takes, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

# Layers of products, of 4 MB each.
LAYERS, SIZE = 32, 1024
# The file's weights while it is read, the same as the compiler's constants, and what is at work.
COPIES = 2.7
PROGRAM = """
import re, sys
import tvm_vision
small, large, target, precision = sys.argv[1:]
def peak():  # of what getrusage says, a part may be of the process that began this one
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) << 10
tvm_vision.compile(small, target=target, precision=precision)
before = peak()
tvm_vision.compile(large, target=target, precision=precision)
print(peak() - before)
"""


def products(layers: int) -> onnx.ModelProto:
    random = np.random.default_rng(layers)
    weights, nodes = [], []
    for number in range(layers):
        values = random.standard_normal((SIZE, SIZE), np.float32)
        weights.append(numpy_helper.from_array(values, f"w{number}"))
        nodes.append(helper.make_node("MatMul", [f"x{number}", f"w{number}"], [f"x{number + 1}"]))
    ends = [
        helper.make_tensor_value_info(f"x{end}", TensorProto.FLOAT, [1, SIZE])
        for end in (0, layers)
    ]
    graph = helper.make_graph(nodes, "products", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(
    ("target", "precision"),
    [
        ("llvm", "fp32"),
        ("phoenix", "fp16"),
        pytest.param("llvm", "fp16", marks=pytest.mark.slow),
        pytest.param("phoenix", "fp32", marks=pytest.mark.slow),
        *[pytest.param("lavapipe", each, marks=pytest.mark.slow) for each in ("fp32", "fp16")],
    ],
)
def test_no_more_copies_of_the_weights_than_are_needed(
    target: str, precision: str, tmp_path: Path
) -> None:
    paths = [tmp_path / name for name in ("small.onnx", "large.onnx")]
    for path, layers in zip(paths, (1, LAYERS), strict=True):
        onnx.save(products(layers), path)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, paths), target, precision],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < COPIES * LAYERS * SIZE * SIZE * 4
