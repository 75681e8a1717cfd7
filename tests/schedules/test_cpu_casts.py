"""float64 to float16 on processors: rounded once, and without a function of the compiler."""

import platform

import numpy as np
import pytest
from onnx import TensorProto, helper

from support.interpreter import run
from tvm_vision.compiler import compile_model
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.linking import library

HALF = np.float16
TARGETS = ("llvm", "llvm -mcpu=x86-64") if platform.machine() == "x86_64" else ("llvm",)


def numbers():
    """All halves, what lies half way between two, and a little beside each; what is too large, too
    small, and no number."""
    halves = np.arange(1 << 16, dtype=np.uint16).view(HALF).astype(np.float64)
    halves = np.sort(halves[np.isfinite(halves)])
    middles = (halves[:-1] + halves[1:]) / 2
    near = np.concatenate([halves, middles])
    beside = [near, *(np.nextafter(near, side) for side in (-np.inf, np.inf)), near * (1 + 2**-40)]
    special = [65504, 65519.999999, 65520, 1e5, 1e39, 1e300, np.inf, 1e-60, 5e-324, 2**-25, 0]
    return np.concatenate([*beside, special, np.negative(special), [np.nan]])


@pytest.mark.parametrize("opt_level", [0, 3])
def test_it_is_rounded_once_and_linked_by_us(opt_level, monkeypatch):
    monkeypatch.setattr(library, "_compile", lambda *_: pytest.fail("a compiler is needed"))
    values = numbers()
    ends = [
        helper.make_tensor_value_info(name, kind, values.shape)
        for name, kind in (("x", TensorProto.DOUBLE), ("y", TensorProto.FLOAT16))
    ]
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT16)
    graph = helper.make_graph([node], "g", ends[:1], ends[1:])
    opsets = [helper.make_opsetid("", 17)]
    imported = import_onnx(helper.make_model(graph, opset_imports=opsets, ir_version=8))
    # Of the oldest processors, which have no conversion to halves at all, and this one.
    for target in TARGETS:
        compiled = compile_model(*imported, target=target, opt_level=opt_level)
        (found,) = run(compiled, [values])
        with np.errstate(over="ignore"):
            expected = values.astype(HALF)
        np.testing.assert_array_equal(found, expected)
