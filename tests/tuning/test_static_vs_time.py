"""The benchmark of rankings: correlations, what is measured in a given time, what is kept of it."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks.rank_agreement import Ranked, RankedKernel, agreement, agreements, kendall, spearman
from benchmarks.ranked_kernels import LAYERS, Layer, layer_of, model_of
from benchmarks.static_vs_time import COSTS, WALK, Study, main, measure, report, spread
from tvm_vision.compiler import parse_target

TINY = (Layer("test", "conv", (1, 32, 8, 8), 32), Layer("test", "depthwise", (1, 8, 8, 8), 8, 3))


@pytest.mark.parametrize(
    ("one", "other", "by_ranks", "by_pairs"),
    [
        ([1, 2, 3, 4], [10, 20, 30, 40], 1.0, 1.0),
        ([1, 2, 3, 4], [4, 3, 2, 1], -1.0, -1.0),
        ([1, 2, 3, 4], [5, 5, 5, 5], 0.0, 0.0),
        # By the textbooks' formulas: 1 - 6 * 2 / (4 * 15), and (5 - 1) / 6.
        ([1, 2, 3, 4], [2, 1, 3, 4], 0.8, 2 / 3),
        # Ties share a rank: tau-b is 5 / sqrt(5 * 6), and (1.5, 1.5, 3, 4) goes with 1 to 4.
        ([1, 1, 2, 3], [1, 2, 3, 4], 0.9486832980505138, 5 / 30**0.5),
    ],
)
def test_rank_correlations(
    one: list[float], other: list[float], by_ranks: float, by_pairs: float
) -> None:
    assert spearman(one, other) == pytest.approx(by_ranks)
    assert kendall(one, other) == pytest.approx(by_pairs)


def ranked(place: int, seconds: float, **predicted: float) -> Ranked:
    decision = {"template": "contraction", "parameters": {"m": place}}
    return Ranked("contraction", decision, place, 9, {COSTS: float(place), **predicted}, [seconds])


def study(device: str = "NVIDIA H200") -> Study:
    found = [ranked(0, 2e-6), ranked(1, 1e-6), ranked(2, 3e-6), ranked(3, 4e-6), ranked(4, 5e-6)]
    kernel = RankedKernel(LAYERS[0].name, "f", "k", "fp32", found[0].decision, found)
    return Study(device, "driver 1", "{}", [LAYERS[0].name], 12, [kernel])


def test_what_it_costs_to_trust_an_order() -> None:
    kernel = study().kernels[0]
    found = agreement(kernel.candidates, COSTS)
    assert found is not None and (found.regret, found.spread) == (2.0, pytest.approx(5.0))
    assert found.spearman == pytest.approx(0.9)
    assert agreement(kernel.candidates, WALK) is None
    # What failed, and what was not reached, is not compared.
    kernel.candidates[0].seconds = []
    agreed = agreements([kernel], [COSTS, WALK])
    assert [(k, a.regret) for k, (a,) in agreed.items()] == [((COSTS, "contraction", "fp32"), 1.0)]


@pytest.mark.parametrize(
    ("count", "most", "places"),
    [(3, 12, [0, 1, 2]), (8, 4, [0, 1, 3, 6]), (100, 4, [0, 1, 26, 75]), (1, 1, [0])],
)
def test_candidates_are_the_first_and_some_of_all_others(
    count: int, most: int, places: list[int]
) -> None:
    assert spread(count, most) == places


def test_every_layer_has_a_name_of_its_own_and_is_found_by_its_nodes() -> None:
    names = [layer.name for layer in LAYERS]
    assert len(set(names)) == len(names)
    nodes = [node.name for node in model_of(LAYERS).graph.node]
    assert {layer_of([node]) for node in nodes} == set(names)
    assert layer_of(["transpose3", nodes[0]]) == names[0] and layer_of(["transpose3"]) == ""


def test_kernels_are_measured_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "times.json"
    found = measure(path, parse_target("vulkan"), TINY, 4, time.monotonic() + 120)
    assert Study.read(path) == found
    assert {kernel.precision for kernel in found.kernels} == {"fp32", "fp16"}
    assert {kernel.layer for kernel in found.kernels} == {layer.name for layer in TINY}
    for kernel in found.kernels:
        assert all(c.seconds for c in kernel.candidates), [c.error for c in kernel.candidates]
        assert kernel.candidates[0].decision == kernel.chosen
    lines = "\n".join(report(found, 4))
    assert "0 kernels not reached" in lines and f"({found.kernels[0].name})" in lines


def test_a_time_that_is_over_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "times.json"
    found = measure(path, parse_target("vulkan"), TINY[:1], 4, time.monotonic())
    assert Study.read(path) == found
    assert not any(c.seconds for kernel in found.kernels for c in kernel.candidates)
    assert f"{len(found.kernels)} kernels not reached" in next(report(found, 0))


def test_a_table_goes_into_a_document(tmp_path: Path) -> None:
    page, path = tmp_path / "page.md", tmp_path / "times.json"
    page.write_text("above\n<!-- ranking -->\nold\n<!-- end -->\nbelow\n")
    study().write(path)
    done = CliRunner().invoke(main, [str(path), "--document", str(page)])
    assert done.exit_code == 0, done.output
    assert "| costs | contraction | fp32 | 1 | 0.90 |" in page.read_text()


@pytest.mark.parametrize(
    ("written", "arguments", "status", "said"),
    [
        (None, [], 2, "either STUDY, or --output"),
        (None, ["FILE", "--output", "x"], 2, "either STUDY, or --output"),
        (None, ["--output", "x", "--only", "lstm"], 2, "no layer's name has lstm in it"),
        (None, ["FILE"], 1, "a file that this program wrote is needed"),
        ("[]", ["FILE"], 1, "a file that this program wrote is needed"),
        (study("llvmpipe"), ["FILE", "--walk", "phoenix"], 1, "found 'llvmpipe'"),
    ],
)
def test_what_is_wrong_is_one_line(
    written: Any, arguments: list[str], status: int, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "times.json"
    if isinstance(written, Study):
        written.write(path)
    elif written is not None:
        path.write_text(written)
    given = [str(path) if each == "FILE" else each for each in arguments]
    done = CliRunner().invoke(main, given)
    assert done.exit_code == status
    assert said in done.output + str(done.exception)


def test_candidates_of_another_checkout_are_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from benchmarks import static_vs_time

    monkeypatch.setattr(static_vs_time, "prepared", lambda *_: (None, [], {}))
    path = tmp_path / "times.json"
    replace(study(), target="{}").write(path)
    done = CliRunner().invoke(main, [str(path), "--walk", "phoenix"])
    assert done.exit_code == 1 and "the checkout that was measured with" in str(done.exception)
