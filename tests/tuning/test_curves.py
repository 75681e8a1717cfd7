"""The benchmark of tuning: its jobs, the points it leaves on the disk, the image of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import tuning
from benchmarks.tuning import CURVES, Job, Writer
from tvm_vision.errors import TuningError
from tvm_vision.tuning import TuningOutcome, TuningState
from tvm_vision.tuning.plot import draw_curves

JOB = Job.parse("yoeo:fp32:templates:100")


def state(second: float, network: float, known: int = 2) -> TuningState:
    return TuningState("k", 3, 1, 0.1, 0.2, network, 1.0, 100 - second, 2, known, 0)


def test_jobs_are_named_and_share_a_file_of_the_rest() -> None:
    assert (JOB.seconds, JOB.records) == (100.0, "yoeo-fp32-templates.jsonl")
    assert Job.parse("resnet18:fp16:templates:rest").records == "rest.jsonl"


def test_points_are_written_where_the_network_got_faster_or_two_seconds_passed() -> None:
    written: list[str] = []
    write = Writer(written.append, JOB)
    for point in [(1, 0.1, 1), (2, 0.9, 2), (2.5, 0.9, 2), (3, 0.7, 2), (5.5, 0.7, 2)]:
        write(state(*point))
    write.last(TuningOutcome(1.0, 0.6, 3, 1, 1, 2, (), "the time is over"))
    points = [json.loads(line) for line in written]
    assert [p["second"] for p in points] == [2, 3, 5.5, 100]
    assert points[-1]["network_seconds"] == 0.6 and points[-1]["before"] == 1.0


def test_the_time_is_shared_and_a_job_that_hangs_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[list[str]] = []

    def run(command: list[str], timeout: float, check: bool) -> None:
        asked.append(command[4:])
        if len(asked) == 1:
            raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(tuning.subprocess, "run", run)
    jobs = ["yoeo:fp32:templates:100", "yoeo:fp16:templates:rest", "resnet18:fp16:templates:rest"]
    tuning.run(tmp_path, [Job.parse(job) for job in jobs], 250.0)
    budgets = [float(command[4]) for command in asked]
    # The clock does not move here: the first takes none of the limit.
    assert budgets[0] == 100.0 and 109 < budgets[1] < 111 and 234 < budgets[2] <= 235
    assert "killed" in capsys.readouterr().out


def test_curves_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    lines: list[dict[str, Any]] = [
        {"network": network, "precision": "fp32", "search": search, "second": second,
         "network_seconds": 1.0 / (second + gain)}
        for network in ("yoeo", "resnet18") for search, gain in (("templates", 2), ("meta", 1))
        for second in (1, 20, 200)
    ]  # fmt: skip
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / CURVES).write_text(text + '{"network": "yo')
    tuning.draw(tmp_path, tmp_path / "tuning.png")
    assert (tmp_path / "tuning.png").stat().st_size > 10_000


def test_no_points_no_image(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(TuningError, match="there are none"):
        draw_curves({}, tmp_path / "none.png")


def test_the_command_tells_what_it_takes() -> None:
    command = [sys.executable, "-m", "benchmarks.tuning", "--help"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=Path(tuning.__file__).parents[1]
    )
    assert "run" in done.stdout and "draw" in done.stdout
