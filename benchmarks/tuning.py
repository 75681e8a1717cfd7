"""How networks get faster while they are tuned: templates beside MetaSchedule, minute by minute.

    python -m benchmarks.tuning run FOLDER --limit 540 \\
        yoeo:fp32:templates:180 yoeo:fp32:metaschedule:180 yoeo:fp16:templates:rest
    python -m benchmarks.tuning draw FOLDER docs/images/tuning.png

Each job is a process of its own, with its records in FOLDER and its points in FOLDER/curves.jsonl,
every line on the disk as it comes: a run that is cut keeps what it had. Jobs whose time is "rest"
share what the others left of the limit, and one file of records.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm_vision.tuning import TuningOptions, TuningState, tune_model

from .peers.networks import NETWORKS

CURVES = "curves.jsonl"
REST = "rest"
OVERHEAD = 1.1  # of a job's time, and so many seconds, until it is killed
START = 45.0
LEAST = 15.0  # seconds that a job of the rest is worth starting for


@dataclass(frozen=True)
class Job:
    """NETWORK:PRECISION:SEARCH:SECONDS; seconds of 0 share the rest."""

    network: str
    precision: str
    search: str
    seconds: float

    @classmethod
    def parse(cls, text: str) -> Job:
        network, precision, search, seconds = text.split(":")
        return cls(network, precision, search, 0.0 if seconds == REST else float(seconds))

    @property
    def name(self) -> str:
        return f"{self.network}-{self.precision}-{self.search}"

    @property
    def records(self) -> str:
        return f"{self.name if self.seconds else REST}.jsonl"


def run(folder: Path, jobs: Sequence[Job], limit: float) -> None:
    """All jobs one after another, within ``limit`` seconds."""
    end = time.monotonic() + limit
    folder.mkdir(parents=True, exist_ok=True)
    for number, job in enumerate(jobs):
        left = end - time.monotonic()
        sharing = sum(not other.seconds for other in jobs[number:])
        budget = job.seconds or left / max(sharing, 1) - LEAST
        budget = min(budget, left - LEAST)
        if budget < LEAST:
            print(f"{job.name}: no time is left", flush=True)
            continue
        command = [sys.executable, "-m", "benchmarks.tuning", "one", str(folder)]
        more = [job.network, job.precision, job.search, str(budget), job.records]
        try:
            subprocess.run(
                [*command, *more], timeout=min(budget * OVERHEAD + START, left), check=False
            )
        except subprocess.TimeoutExpired:
            print(f"{job.name}: killed, since it did not end", flush=True)


def one(folder: Path, job: Job, records: str) -> None:
    """One job, here; its points go to the file of curves."""
    begin = time.monotonic()
    model = NETWORKS[job.network].model()
    with open(folder / CURVES, "a", buffering=1) as curves:
        write = Writer(curves.write, job)
        outcome = tune_model(
            model,
            records=folder / records,
            precision=job.precision,
            search=job.search,
            tuning=TuningOptions(time_budget=job.seconds),
            tell=write,
        )
        write.last(outcome)
    print(
        f"{job.name}: {1e3 * outcome.before:.3f} ms, now {1e3 * outcome.after:.3f} ms; "
        f"{outcome.tried} tried, {outcome.failed} failed, {outcome.improved} of {outcome.kernels} "
        f"improved; {outcome.reason}; {time.monotonic() - begin:.0f} s in all",
        flush=True,
    )


class Writer:
    """Writes a line whenever the network got faster, and every two seconds."""

    def __init__(self, write: Callable[[str], object], job: Job) -> None:
        self.write, self.job = write, job
        self.best, self.at = float("inf"), -10.0

    def __call__(self, state: TuningState) -> None:
        second = self.job.seconds - state.time_left
        if state.known < state.kernels:
            return
        if state.network_seconds >= self.best and second - self.at < 2.0:
            return
        self.best, self.at = state.network_seconds, second
        self._line(second, state.network_seconds, state.tried, state.failed)

    def last(self, outcome: Any) -> None:
        second = max(self.at, self.job.seconds if "time" in outcome.reason else self.at)
        self._line(second, outcome.after, outcome.tried, outcome.failed, before=outcome.before)

    def _line(self, second: float, seconds: float, tried: int, failed: int, **more: float) -> None:
        job = self.job
        line = {
            "network": job.network,
            "precision": job.precision,
            "search": job.search,
            "second": round(second, 2),
            "network_seconds": seconds,
            "tried": tried,
            "failed": failed,
            **more,
        }
        self.write(json.dumps(line) + "\n")


def lines(folder: Path) -> Iterator[dict[str, Any]]:
    """The points of a folder, without half a line at the end."""
    for line in (folder / CURVES).read_text().split("\n")[:-1]:
        yield json.loads(line)


def draw(folder: Path, output: Path, networks: Sequence[str] = ("yoeo", "resnet18")) -> None:
    """A panel a network, in fp32: both searches."""
    from tvm_vision.tuning.plot import draw_curves

    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for point in lines(folder):
        if point["network"] in networks and point["precision"] == "fp32":
            panel = found.setdefault(NETWORKS[point["network"]].title, {})
            curve = panel.setdefault(point["search"], [])
            curve.append((point["second"], point["network_seconds"]))
    draw_curves(found, output)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = parser.add_subparsers(dest="part", required=True)
    part = parts.add_parser("run")
    part.add_argument("folder", type=Path)
    part.add_argument("jobs", nargs="+", type=Job.parse)
    part.add_argument("--limit", type=float, required=True, help="seconds for all jobs")
    part = parts.add_parser("one")
    part.add_argument("folder", type=Path)
    for name in ("network", "precision", "search", "seconds", "records"):
        part.add_argument(name)
    part = parts.add_parser("draw")
    part.add_argument("folder", type=Path)
    part.add_argument("output", type=Path)
    given = parser.parse_args()
    if given.part == "run":
        run(given.folder, given.jobs, given.limit)
    elif given.part == "one":
        job = Job(given.network, given.precision, given.search, float(given.seconds))
        one(given.folder, job, given.records)
    else:
        draw(given.folder, given.output)


if __name__ == "__main__":
    main()
