"""The comparison: what it does with engines that are absent, fail, lie or die; and its tables."""

from __future__ import annotations

import io
import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import tvm_vision.vulkan as vulkan
from benchmarks.peers import __main__ as driver
from benchmarks.peers import measure, report, worker
from benchmarks.peers.engine import ENGINES, Engine, Files, NotInstalled, Session, Unusable
from benchmarks.peers.first_result import bare_process_seconds
from benchmarks.peers.measure import Measurement, Row, Settings
from benchmarks.peers.networks import NETWORKS
from benchmarks.peers.processes import Process

ROOT = Path(__file__).resolve().parents[2]
QUICK = Settings(runs=4, rounds=2, warm_seconds=0.0, answer_seconds=60)


class Twice(Session):
    def run(self, image: np.ndarray) -> list[np.ndarray]:
        return [image * 2]


class Constant(Session):
    def run(self, image: np.ndarray) -> list[np.ndarray]:
        return [np.ones_like(image)]


class Fake(Engine):
    title = "a fake"

    def __init__(self, session: Any) -> None:
        self._session = session

    def version(self) -> str:
        if self._session is None:
            raise NotInstalled("pip install fake")
        return "1"

    def load(self, files: Files, precision: str) -> Session:
        return self._session()


@pytest.fixture
def files(tmp_path: Path) -> Files:
    files = Files(tmp_path, "net")
    image = np.random.default_rng(0).random((1, 3, 4, 4), "float32")
    np.savez(files.example, image=image, o0=image * 2)
    return files


def answers(monkeypatch: pytest.MonkeyPatch, session: Any, files: Files, *commands: dict) -> list:
    monkeypatch.setattr(worker, "make_engine", lambda name: Fake(session))
    text, replies = "".join(json.dumps(c) + "\n" for c in commands), io.StringIO()
    worker.serve("fake", files.folder, io.StringIO(text), replies)
    return [json.loads(line) for line in replies.getvalue().splitlines()]


NET = {"network": "net", "precision": "fp32"}
LOAD = {"do": "load", **NET}


def test_worker_loads_warms_times_and_drops(monkeypatch: pytest.MonkeyPatch, files: Files) -> None:
    found = answers(
        monkeypatch,
        Twice,
        files,
        LOAD,
        {"do": "warm", "seconds": 0.0, **NET},
        {"do": "time", "runs": 7, "limit": 10.0, **NET},
        {"do": "time", "runs": 10**9, "limit": 0.01, **NET},
        {"do": "finish", **NET},
        {"do": "warm", "seconds": 0.0, **NET},
    )
    assert found[0]["error"] == 0
    assert len(found[2]["ms"]) == 7 and min(found[2]["ms"]) > 0
    assert 0 < len(found[3]["ms"]) < 10**9
    assert found[4] == {"device_ms": None, "details": {}}
    assert "error_text" in found[5]


def test_worker_reports_absent_engines_and_outputs_that_never_change(
    monkeypatch: pytest.MonkeyPatch, files: Files
) -> None:
    assert answers(monkeypatch, None, files, {"do": "version"}) == [
        {"not_installed": "pip install fake"}
    ]
    (found,) = answers(monkeypatch, Constant, files, LOAD)
    assert "do not depend on the input" in found["error_text"]


def test_dead_silent_and_broken_processes_are_results(tmp_path: Path) -> None:
    process = Process("ort_cpu", tmp_path, {}, 60)
    try:
        assert process.ask("version")["version"]
        with pytest.raises(Unusable, match=r"none\.npz"):
            process.ask("load", network="none", precision="fp32")
        os.kill(process._process.pid, signal.SIGKILL)
        process._process.wait()
        with pytest.raises(Unusable, match="SIGKILL"):
            process.ask("version")
        assert not process.alive
    finally:
        process.close()
    silent = Process("ort_cpu", tmp_path, {}, 0.0)
    try:
        with pytest.raises(Unusable, match="no answer within 0 s"):
            silent.ask("version")
    finally:
        silent.close()


def test_engines_take_turns_and_a_failure_stays_its_own(tmp_path: Path) -> None:
    measure.write_models(tmp_path, "squeezenet1_1")
    rows = [
        Row("ort_cpu", "squeezenet1_1", "fp32"),
        Row("tvm_vision", "squeezenet1_1", "fp32"),  # never prepared
        Row("ncnn", "squeezenet1_1", "fp32", problem="not installed: pip install ncnn"),
    ]
    with Measurement(tmp_path, QUICK, lambda line: None) as measurement:
        measurement.network(rows)
    found, failed, absent = [row.to_json() for row in rows]
    assert found["runs"] == 4 and found["error"] < 1e-5
    assert found["min_ms"] <= found["median_ms"] <= found["p95_ms"]
    assert "squeezenet1_1-fp32.tar" in failed["problem"]
    assert absent["problem"].startswith("not installed")


def test_every_engine_has_a_version_or_says_what_is_missing() -> None:
    found = measure.versions(ENGINES)
    assert list(found) == list(ENGINES)
    for engine in found.values():
        assert engine["title"] and (engine.get("version") or engine["not_installed"])
    rows = driver.plan_rows(["yoeo"], found, ())
    assert {row.engine for row in rows} == set(ENGINES)


def test_a_gpu_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vulkan, "devices", lambda: [])
    monkeypatch.setattr(vulkan, "status", lambda: "no driver was found; install one")
    result = CliRunner().invoke(driver.main, [])
    assert result.exit_code == 1
    assert result.output == (
        "Error: a benchmark needs a GPU, but no driver was found; install one\n"
    )


def test_a_cpu_is_only_for_rehearsals(device_info: vulkan.DeviceInfo) -> None:
    if not device_info.is_cpu:
        pytest.skip("the first device is a GPU")
    result = CliRunner().invoke(driver.main, ["--device-only"])
    assert result.exit_code == 1 and "--allow-cpu" in result.output
    result = CliRunner().invoke(driver.main, ["--device-only", "--allow-cpu"])
    assert result.exit_code == 0 and device_info.name in result.output
    place = driver.default_output(device_info.describe(), True)
    assert driver.RESULTS not in place.parents


@pytest.mark.slow
def test_a_run_that_was_cut_goes_on(
    device_info: vulkan.DeviceInfo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "ceilings", lambda *arguments: {"launch_us": 1.0})
    path = tmp_path / "results.json"
    command = ["--allow-cpu", "--engine", "ort_cpu", "--runs", "2", "--warm-seconds", "0"]
    command += ["--folder", str(tmp_path), "--output", str(path), "--commit", "abc"]

    def measured(*networks: str, resume: bool = True) -> list[str]:
        words = [word for name in networks for word in ("--network", name)]
        result = CliRunner().invoke(driver.main, [*command, *words, *["--resume"] * resume])
        assert result.exit_code == 0, result.output
        return [row["network"] for row in json.loads(path.read_text())["rows"]]

    assert measured("squeezenet1_1") == ["squeezenet1_1"]
    times = json.loads(path.read_text())["rows"][0]
    assert measured("squeezenet1_1", "shufflenet_v2") == ["squeezenet1_1", "shufflenet_v2"]
    assert json.loads(path.read_text())["rows"][0] == times
    assert measured("shufflenet_v2", resume=False) == ["shufflenet_v2"]
    command[command.index("abc")] = "def"
    result = CliRunner().invoke(driver.main, [*command, "--resume"])
    assert result.exit_code == 1 and "measure anew" in result.output


def results() -> dict[str, Any]:
    common = {"network": "yoeo", "precision": "fp32", "error": 1e-6, "p95_ms": 2.5}
    details = {
        "span_ms": 1.0, "sum_ms": 0.9, "kernels": 3, "chain": 2, "memory_bytes": 2e6,
        "package_bytes": 1e6,
    }  # fmt: skip
    return {
        "device": "vulkan(0): a GPU (discrete GPU; driver)", "host": "a CPU", "date": "2026-11-21",
        "commit": "abc", "settings": vars(Settings()),
        "engines": {
            "tvm_vision": {"title": "ours", "version": "1"},
            "ncnn": {"title": "ncnn", "version": "2"},
            "iree": {"title": "IREE", "version": "3"},
            "torch_graph": {"title": "torch", "not_installed": "pip install torch"},
        },
        "ceilings": {"copy_gb_s": 1000.0, "fp32_tflops": 10.0, "launch_us": 5.0},
        "work": {"yoeo fp32": {"operations": 10**9, "bytes": 10**8}},
        "first_result_s": {"yoeo fp32": 0.4}, "bare_process_s": 0.3,
        "rows": [
            {**common, "engine": "tvm_vision", "median_ms": 2.0, "details": details},
            {**common, "engine": "ncnn", "median_ms": 5.0, "error": 0.5},
            {**common, "engine": "iree", "problem": "it crashed"},
            {**common, "engine": "torch_graph", "problem": "not installed: pip install torch"},
        ],
    }  # fmt: skip


def test_a_bare_process_opens_the_device(device_info: vulkan.DeviceInfo) -> None:
    assert 0.0 < bare_process_seconds() < 60.0


def test_tables_drop_nothing() -> None:
    text = report.tables(results())
    row = "| YOEO 416 | 2.000 (2.500) | 5.000 (2.500) | fails | not installed | 2.50 |"
    assert row in text
    assert "- torch: not installed (pip install torch)" in text
    assert "- IREE: YOEO 416: it crashed" in text
    assert "- ncnn: YOEO 416: off by 5.0e-01 from the reference" in text
    # 0.1 ms of operations or bytes and two launches of 5 µs.
    assert "| 90 % | 100 | 3 | 2 | 0.110 | 9.1 | 1.0e-06 | 2.0 | 1.0 | 0.40 |" in text
    assert "takes 0.30 s there" in text


def test_a_span_that_is_longer_than_its_frame_is_marked() -> None:
    slow = results()
    assert report.SLOWED not in report.tables(slow)
    slow["rows"][0]["details"]["span_ms"] = 2.1
    text = report.tables(slow)
    assert "| 2.000 | 2.100 † |" in text and "| 0.110 | – |" in text and report.SLOWED in text


def test_tables_of_a_run_that_was_cut_short() -> None:
    cut = results()
    cut["ceilings"], cut["first_result_s"] = {}, {}
    del cut["bare_process_s"]
    del cut["rows"][0]["details"]["sum_ms"]
    text = report.tables(cut)
    assert "| – | – | 3 | 2 | – | – | 1.0e-06 | 2.0 | 1.0 | – |" in text


def test_the_documented_tables_are_those_of_the_results_file() -> None:
    document = (ROOT / "docs" / "performance" / "results.md").read_text()
    stored = json.loads((ROOT / "benchmarks" / "results" / "nvidia-h200.json").read_text())
    assert report.replace_block(document, report.tables(stored)) == document


def test_the_documented_first_results_are_those_of_their_file() -> None:
    document = (ROOT / "docs" / "performance" / "results.md").read_text()
    path = ROOT / "benchmarks" / "results" / "nvidia-h200-first-result.json"
    measured = json.loads(path.read_text())["first_result_s"]
    for name, network in NETWORKS.items():
        times = " | ".join(
            f"{measured[f'{name} {precision}']:.2f}" for precision in ("fp32", "fp16")
        )
        assert f"| {network.title} | {times} |" in document
    assert len(measured) == 2 * len(NETWORKS)


def test_tables_replace_only_what_is_between_the_comments() -> None:
    before = f"a\n{report.BEGIN}\nold\n{report.END}\nb\n"
    assert report.replace_block(before, "new\n") == f"a\n{report.BEGIN}\nnew\n{report.END}\nb\n"
    with pytest.raises(ValueError, match="expected the comments"):
        report.replace_block("a", "new")


def test_plot_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from benchmarks.peers.plot import draw

    draw(results(), tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes()[:4] == b"\x89PNG"


def test_networks_have_titles_of_their_own() -> None:
    assert len({network.title for network in NETWORKS.values()}) == len(NETWORKS)
