"""benchmarks.operators: single operators at the sizes of networks, by a model and on a device."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest
from click.testing import CliRunner

from benchmarks.operators import __main__ as program
from benchmarks.operators.cases import CASES, Case, product, weights
from benchmarks.operators.measure import Row
from support.compiled import MATRIX_GPU
from support.few_threads import launches_of
from tvm_vision.compiler.target import parse_target
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.offline import drivers, pipelines

# Bytes of weights that take seconds to draw and as many to compile, as of VGG-16's first product,
# 411 MB. Its terms are what is long: fewer results stand for it by default.
MANY_WEIGHTS = 128 << 20
FEWER_RESULTS = product("product 1x25088 by 512", (1, 25088), weights(25088, 512))
# A step waits for the one before, and a kernel that all workgroups of a GPU share cannot wait.
IN_TURN = ("LSTM", "GRU")
# One row of these is a workgroup's.
ONE_ROW = (
    "product of a million", "arg max of a million", "softmax of a million", "300 largest of 8400",
    "5 largest of 1000",
)  # fmt: skip
STATISTICS = {
    "VGPRs": 24, "Spilled VGPRs": 0, "Spilled SGPRs": 0, "LDS size": 0, "Code size": 100,
}  # fmt: skip


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def compiled(kernels: Any, of: drivers.Driver) -> pipelines.Compiled:
        text = {"Assembly": "v_fma_f32 v0, v1, v2, v3\ns_endpgm\n"}
        made = {k.name: pipelines.Pipeline(k.name, 64, STATISTICS, dict(text)) for k in kernels}
        return pipelines.Compiled("made up", "driver 1", made)

    monkeypatch.setattr(pipelines, "compile_kernels", compiled)


def run(*arguments: object) -> Any:
    return CliRunner().invoke(program.main, [str(argument) for argument in arguments])


def has_many_weights(case: Case) -> bool:
    return sum(value.nbytes for value in case.constants.values()) > MANY_WEIGHTS


def test_each_operator_has_its_own_name() -> None:
    assert len({case.name for case in CASES}) == len(CASES) > 120


@pytest.mark.parametrize("many", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_each_operator_is_a_valid_network(many: bool) -> None:
    for case in (case for case in CASES if has_many_weights(case) is many):
        model = case.model()
        onnx.checker.check_model(model)
        assert {value.name for value in model.graph.input} == set(case.feed())
        assert all(case.sizes(model)[::2])


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=[pytest.mark.slow] if has_many_weights(case) else [])
        for case in (*CASES, FEWER_RESULTS)
    ],
)
def test_no_operator_leaves_threads_idle(case: Case) -> None:
    module, _ = import_onnx(case.model())
    found = launches_of(module, parse_target(MATRIX_GPU), precision="fp16")
    cliffs = [launch for launch in found if launch.is_cliff]
    assert not cliffs or case.name.startswith((*IN_TURN, *ONE_ROW))


def test_by_a_model(driver: None, tmp_path: Path) -> None:
    first = tmp_path / "first.json"
    chosen = ("--device", "renoir", "--only", "hardmax", "--only", "determinants")
    made = run(*chosen, "--json", first)
    assert made.exit_code == 0, made.output
    assert "hardmax of 64x1000" in made.output
    content = json.loads(first.read_text())
    assert [row["name"] for row in content["rows"]] == [
        "hardmax of 64x1000", "determinants of 1000 matrices 3x3",
    ]  # fmt: skip
    assert all(row["us"] >= row["floor_us"] > 0 for row in content["rows"])
    content["rows"][0]["us"] *= 4
    first.write_text(json.dumps(content))
    again = run(*chosen, "--compare", first)
    assert "0.25" in again.output.split("since")[1]
    assert "determinants" not in again.output.split("since")[1]


def test_on_a_device() -> None:
    made = run("--target", "llvm", "--only", "hardmax")
    assert made.exit_code == 0, made.output
    assert "0.0e+00" in made.output
    assert "hardmax of 64x1000: its floor is unknown" in made.output


def test_what_is_refused_is_said_below_the_table() -> None:
    rows = [Row("refused", problem="no such operator"), Row("fast", 2.0, 1.0, "bytes")]
    lines = program.lines(rows)
    assert lines[-1] == "refused: no such operator"
    assert not any("refused" in line for line in lines[:-1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "either --device or --target is needed"),
        (("--device", "renoir", "--target", "llvm"), "either --device or --target is needed"),
        (("--device", "renoir", "--only", "nothing"), "no operator has nothing in its name"),
        (("--device", "renoir", "--compare", __file__), "a file of --json is needed"),
    ],
)
def test_what_it_cannot_do_is_said(arguments: tuple[str, ...], message: str) -> None:
    made = run(*arguments)
    assert made.exit_code != 0
    assert message in (made.output if made.exit_code == 2 else str(made.exception))
