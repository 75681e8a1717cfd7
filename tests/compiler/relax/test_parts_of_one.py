"""Parts of one tensor side by side are read at one place, and are the same numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import tvm
from onnx import helper
from tvm import relax
from tvm.target import Target

import tvm_vision
from support.onnx_models import make_model, run_on_cpu
from support.relax_models import module_of, operators_in
from tvm_vision.compiler import prepare
from tvm_vision.compiler.relax.parts_of_one import MOST_PARTS, parts_of_one

OP = relax.op
GPU = {"kind": "vulkan", "keys": ["vulkan", "gpu"], "thread_warp_size": 32}
NEW_GPU = {"kind": "vulkan", "from_device": 0, "device_type": "integrated"}


def joined(*shape: int, axis: int, parts: list[tuple[int, int]]) -> tvm.IRModule:
    """Slices of a tensor of that shape, and it itself for (0, its extent)."""

    def build(builder: Any, x: Any) -> Any:
        def part(begin: int, end: int) -> Any:
            whole = (begin, end) == (0, shape[axis])
            return x if whole else builder.emit(OP.strided_slice(x, [axis], [begin], [end]))

        return builder.emit(OP.concat([part(*each) for each in parts], axis))

    return module_of(build, shape)[0]


def is_one(module: tvm.IRModule) -> bool:
    return "concat" not in operators_in(parts_of_one(module))


CASES: dict[str, tuple[tuple[int, ...], int, list[tuple[int, int]]]] = {
    "a border from the other end": ((2, 3, 5, 6), 3, [(5, 6), (0, 6), (0, 1)]),
    "of rows": ((2, 3, 5, 6), 2, [(2, 5), (0, 5), (0, 2)]),
    "counted from the end": ((1, 4, 7), 2, [(-3, 7), (0, 7), (0, 2)]),
    "a roll": ((3, 8), 0, [(1, 3), (0, 1)]),
    "twice": ((4, 5), 0, [(0, 4), (0, 4)]),
    "up to an end that is far": ((4, 5), 0, [(1, 1 << 40), (0, 2)]),
}


@pytest.mark.parametrize("name", CASES)
def test_a_place_is_chosen(name: str) -> None:
    shape, axis, parts = CASES[name]
    module = joined(*shape, axis=axis, parts=parts)
    x = np.random.default_rng(1).standard_normal(shape).astype("float32")
    wanted = np.concatenate([x.take(np.arange(shape[axis])[slice(*p)], axis) for p in parts], axis)
    assert is_one(module)
    np.testing.assert_array_equal(run_on_cpu(parts_of_one(module), x)[0], wanted)


def test_of_any_parts() -> None:
    draws = np.random.default_rng(2)
    for _ in range(8):
        shape = tuple(int(n) for n in draws.integers(2, 7, draws.integers(1, 5)))
        axis = int(draws.integers(len(shape)))
        begins = draws.integers(0, shape[axis], draws.integers(2, MOST_PARTS + 1))
        parts = [(int(b), int(draws.integers(b + 1, shape[axis] + 1))) for b in begins]
        x = draws.standard_normal(shape).astype("float32")
        places = np.concatenate([np.arange(*part) for part in parts])
        found = run_on_cpu(parts_of_one(joined(*shape, axis=axis, parts=parts)), x)[0]
        np.testing.assert_array_equal(found, x.take(places, axis))


def two_tensors(builder: Any, x: Any) -> Any:
    return builder.emit(OP.concat([x, builder.emit(OP.exp(x))], 1))


def along_another_axis(builder: Any, x: Any) -> Any:
    rows = [builder.emit(OP.strided_slice(x, [2], [i], [i + 2])) for i in range(2)]
    return builder.emit(OP.concat(rows, 1))


def each_second(builder: Any, x: Any) -> Any:
    found = [builder.emit(OP.strided_slice(x, [1], [i], [8], [2])) for i in range(2)]
    return builder.emit(OP.concat(found, 1))


@pytest.mark.parametrize("build", [two_tensors, along_another_axis, each_second])
def test_others_stay(build: Any) -> None:
    assert not is_one(module_of(build, (2, 8, 6))[0])


def test_what_is_read_in_vectors_and_choices_of_very_many_stay() -> None:
    assert not is_one(joined(3, 16, axis=1, parts=[(8, 16), (0, 8)]))
    assert is_one(joined(3, 16, axis=1, parts=[(7, 16), (0, 7)]))
    assert not is_one(joined(5, 6, axis=0, parts=[(1, 3)] * (MOST_PARTS + 1)))


@pytest.mark.parametrize(
    ("device_type", "option", "chosen"),
    [("integrated", True, True), ("integrated", False, False), ("discrete", True, False)],
)
def test_for_whom(device_type: str, option: bool, chosen: bool) -> None:
    """A card as it was measured keeps what it was measured with."""
    target = Target({**GPU, "device_type": device_type}, host="llvm")
    module = joined(2, 3, 5, 6, axis=3, parts=[(5, 6), (0, 6), (0, 1)])
    graph = prepare(module, target=target, join_moves=option)
    assert any("parts_of_one" in name for name in graph.functions) is chosen


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_turn_whose_ends_meet(precision: str, tmp_path: Path) -> None:
    """As PyTorch's exporter writes circular padding at opset 17, before two convolutions; by what
    is made for GPUs that nobody timed."""
    random = np.random.default_rng(5)
    nodes, constants = [], []
    for i in range(2):
        weights = 0.1 * random.standard_normal((16, 16, 3, 3)).astype("float32")
        constants.append((f"w{i}", weights))
        for axis, size in ((3, 20), (2, 12)):
            read = f"x{i}" if axis == 3 else f"x{i}_3"
            for name, begin, end in (("last", -1, size), ("first", 0, 1)):
                constants += [
                    (f"{each}{i}_{axis}_{name}", np.array([number], "int64"))
                    for each, number in (("b", begin), ("e", end), ("a", axis))
                ]
                given = [f"{each}{i}_{axis}_{name}" for each in "bea"]
                nodes.append(helper.make_node("Slice", [read, *given], [f"{name}{i}_{axis}"]))
            around = [f"last{i}_{axis}", read, f"first{i}_{axis}"]
            nodes.append(helper.make_node("Concat", around, [f"x{i}_{axis}"], axis=axis))
        nodes.append(helper.make_node("Conv", [f"x{i}_2", f"w{i}"], [f"c{i}"]))
        nodes.append(helper.make_node("LeakyRelu", [f"c{i}"], [f"x{i + 1}"], alpha=0.1))
    model = make_model(nodes, [("x0", (1, 16, 12, 20))], [("x2", None)], constants)
    tvm_vision.compile(model, tmp_path / "net.tar", target=NEW_GPU, precision=precision)
    image = random.standard_normal((1, 16, 12, 20)).astype("float32")
    found = tvm_vision.load(tmp_path / "net.tar", device="vulkan").frame({"x0": image})["x2"]
    (wanted,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x0": image})
    bound = (1e-5 if precision == "fp32" else 3e-3) * np.abs(wanted).max()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=bound)
