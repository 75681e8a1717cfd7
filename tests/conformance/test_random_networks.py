"""Networks put together by chance are right, or refused in one line. More of them: the commands in
``tests/support/random_networks``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.random_networks import STEPS, Network, Step, random_network, write
from support.zoo import __main__ as zoo
from support.zoo.table import summary_line
from support.zoo.trial import Trial
from tvm_vision.frontend.onnx.graph import is_quantized

SOME = range(0, 4)
SOME_WIDE = range(5000, 5003)
MANY = range(100, 300)
MANY_WIDE = range(5100, 5150)  # of 5154 next to nothing is left: its numbers cancel


def faults(folder: Path, targets: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    results = folder / "results.jsonl"
    command = ["zoo", str(folder), "--results", str(results), "--targets", targets]
    monkeypatch.setattr("sys.argv", command)
    zoo.main()
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    assert len(lines) == len(targets.split(",")) * len(list(folder.glob("*.onnx")))
    # One whose results no input changes says nothing: few may.
    assert sum(row["outcome"] == "ran" for row in lines) <= len(lines) // 5
    return [summary_line(row) for row in lines if row["outcome"] not in ("right", "ran")]


@pytest.mark.parametrize(("seeds", "wide"), [(SOME, False), (SOME_WIDE, True)])
def test_a_sample_is_right(seeds: range, wide: bool, tmp_path: Path) -> None:
    """In this process: one of its own for each, as ``faults`` has it, imports all anew."""
    write(tmp_path, seeds, wide=wide)
    found = {path.name: Trial(path, {}).run("vulkan") for path in sorted(tmp_path.glob("*.onnx"))}
    assert len(found) == len(seeds)
    assert {name: row for name, row in found.items() if row["outcome"] != "right"} == {}


@pytest.mark.slow
def test_many_wide_ones_are_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, MANY_WIDE, wide=True)
    assert faults(tmp_path, "llvm,vulkan", monkeypatch) == []


@pytest.mark.slow
def test_many_are_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, rounded = tmp_path / "plain", tmp_path / "rounded"
    write(plain, MANY)
    rounded.mkdir()
    for path in plain.glob("*.onnx"):
        if is_quantized(path):  # rounding to fp16 decides about steps of int8
            path.rename(rounded / path.name)
    assert faults(plain, "llvm,vulkan,vulkan-fp16", monkeypatch) == []
    assert faults(rounded, "llvm,vulkan", monkeypatch) == []


def test_a_seed_is_always_the_same_network() -> None:
    assert random_network(7) == random_network(7)
    assert random_network(7) != random_network(8)


@pytest.mark.parametrize("rank", STEPS)
def test_each_step_fits_somewhere(rank: int) -> None:
    """One that never does would test nothing."""
    shape = {2: (4, 12), 3: (1, 12, 8), 4: (1, 8, 8, 8), 5: (1, 2, 4, 6, 6)}[rank]

    def fits(step: Step) -> bool:
        networks = [Network(seed) for seed in range(20)]
        return any(step(network, network.input("x", shape)) for network in networks)

    assert [step.__name__ for step in STEPS[rank] if not fits(step)] == []
