"""The zoo's table: every network once, the worst first, and what does not run before all others."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks.zoo import own
from benchmarks.zoo.__main__ import main
from benchmarks.zoo.networks import LICENCES, NETWORKS
from benchmarks.zoo.report import page, ratio
from benchmarks.zoo.trials import SLOW_TO_LOAD, plan

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "nvidia-h200-zoo.json"


def row(name: str, ours: float, theirs: float, **failed: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": name,
        "shape": [1, 3, 8, 8],
        "failed": failed,
        "compile_s": 2.0,
    }
    for precision in ("fp32", "fp16"):
        if precision not in failed:
            found[precision] = {"frame": ours, "device": ours / 2, "kernels": 3}
        found[f"cuda_{precision}"] = {"frame": theirs, "device": theirs / 2}
    return found


def test_networks_have_names_files_and_licences_of_their_own() -> None:
    assert len(NETWORKS) >= 36
    assert len({network.name for network in NETWORKS}) == len(NETWORKS)
    assert len({network.file for network in NETWORKS}) == len(NETWORKS)
    assert {network.source for network in NETWORKS} == set(LICENCES)


def test_networks_of_our_own_have_a_shape_and_a_class() -> None:
    """Each once: shapes can be read without PyTorch, classes cannot."""
    assert len(own.SHAPES) == sum(map(len, own.KINDS.values()))
    pytest.importorskip("torch")
    for kind, shapes in own.KINDS.items():
        assert import_module(f"benchmarks.zoo.own.{kind}").NETWORKS.keys() == shapes.keys()


def test_the_worst_comes_first() -> None:
    rows = [row("good", 1, 4), row("broken", 1, 4, fp16="no kernel"), row("bad", 4, 1)]
    text = page({"device": "a GPU", "rows": rows})
    half = text[text.index("ours fp16") :]
    places = [half.index(f"| {name} ") for name in ("broken", "bad", "good")]
    assert places == sorted(places)
    assert "- fp16: no kernel (broken)" in text
    assert (
        "fp32: a frame takes 0.25 of the CUDA graph's (median of 3 networks); slower in 1" in text
    )
    assert "fp16: a frame takes 2.12" in text
    assert ratio(rows[1], "fp16") is None


def test_pytorchs_compiler_counts_where_it_was_timed() -> None:
    """It has columns then, and a network that loses to it alone is the worst."""
    rows = [row("good", 1, 4), row("bad", 2, 4)]
    assert "Inductor" not in page({"device": "a GPU", "rows": rows})
    rows[1]["inductor_fp16"] = {"frame": 1.0, "device": 0.5}
    text = page({"device": "a GPU", "rows": rows})
    half = text[text.index("ours fp16") :]
    assert half.index("| bad ") < half.index("| good ")
    assert "fp16: a frame takes 2.00 of Inductor's (median of 1 networks); slower in 1" in text
    assert text.count("| Inductor | ratio") == 1


def test_a_vulkan_engine_counts_from_half_of_its_time_on() -> None:
    rows = [row("quick", 1, 1.25), row("slow", 1, 4)]
    rows[1]["ncnn_fp32"] = {"frame": 1.5, "error": 1e-4}
    text = page({"device": "a GPU", "rows": rows})
    assert text.index("| slow ") < text.index("| quick ")
    assert "| slow | 1×3×8×8 | 1.00 (0.50) | 4.00 (2.00) | 0.25 | 1.50 | 0.67 | 3 |" in text
    assert "fp32: a frame takes 0.67 of ncnn's (median of 1 networks); slower in 0" in text


def test_int8_stands_beside_fp16() -> None:
    rows = [row("gains", 1, 4), row("loses", 1, 4)]
    for found, frame in zip(rows, (0.5, 2.0), strict=True):
        found["int8"] = {"frame": frame, "device": frame / 2, "kernels": 3, "error": 0.02}
    text = page({"device": "a GPU", "rows": rows})
    assert "slower in int8 than in fp16 on the device: loses." in text
    bytes_ = text[text.index("ours int8") :]
    assert bytes_.index("| loses ") < bytes_.index("| gains ")
    assert "| gains | 1×3×8×8 | 0.50 (0.25) | 1.00 (0.50) | 0.50 | 2.0e-02 | 3 |" in bytes_


def test_fp16_slower_than_fp32_is_said() -> None:
    slow = row("slow", 1, 4)
    slow["fp16"]["device"] = 1.0
    assert "slower in fp16 than in fp32 on the device: slow." in page(
        {"device": "", "rows": [slow]}
    )


def test_what_was_not_timed_has_no_columns() -> None:
    found = row("half", 1, 4)
    del found["fp32"], found["cuda_fp32"]
    text = page({"device": "a GPU", "rows": [found]})
    assert "fp32" not in text
    assert "| network | input | ours fp16 | CUDA graph | ratio | kernels |" in text


@pytest.mark.parametrize(
    "path",
    [
        RESULTS,
        RESULTS.with_name("nvidia-h200-zoo-engines.json"),
        RESULTS.with_name("nvidia-h100-zoo-unseen.json"),
    ],
)
def test_the_page_has_the_recorded_results(path: Path) -> None:
    """Of networks of the zoo alone, and as the command shows them."""
    results = json.loads(path.read_text())
    assert {found["name"] for found in results["rows"]} <= {network.name for network in NETWORKS}
    document = (RESULTS.parents[2] / "docs" / "performance" / "zoo.md").read_text("utf-8")
    assert page(results) in document
    shown = CliRunner().invoke(main, [str(path)])
    assert shown.exit_code == 0, shown.output
    assert page(results) in shown.output


def test_precisions_can_be_chosen_for_all_engines(tmp_path: Path) -> None:
    made = plan(NETWORKS[0], tmp_path, ["ours", "ncnn"], {}, print, ["fp16"])
    assert [(row.engine, row.precision) for row in made.rows] == [
        ("tvm_vision", "fp16"),
        ("ncnn", "fp16"),
    ]
    made.close()


def test_a_compiler_that_is_late_is_not_waited_for(tmp_path: Path) -> None:
    """Whatever else there is of the network is timed, and the page says why this was not."""
    told: list[str] = []
    made = plan(NETWORKS[0], tmp_path, [SLOW_TO_LOAD], {}, told.append, slow_until=0.0)
    made.folder.mkdir(parents=True)
    made.load_slow()
    made.close()
    assert [row.problem for row in made.rows] == ["no answer within 0 s"]
    assert told == [f"{NETWORKS[0].name}: {SLOW_TO_LOAD} no answer within 0 s"]


@pytest.mark.parametrize("content", ["", "{}", "[1]"])
def test_what_is_no_result_is_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.json").write_text(content)
    shown = CliRunner().invoke(main, [str(tmp_path / "x.json")])
    assert shown.exit_code == 1
    assert "results that this program wrote are needed" in shown.output
