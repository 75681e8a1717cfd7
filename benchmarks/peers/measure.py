"""The order of measuring: engines take turns on a network, so that what drifts drifts for all."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .engine import Files, NotInstalled, Unusable, make_engine
from .half import to_fp16
from .networks import NETWORKS
from .processes import Process

Job = tuple[str, str, str]  # engine, network, precision
# Ours runs as on a robot: without TVM's compiler.
ENVIRONMENT = {"tvm_vision": {"TVM_USE_RUNTIME_LIB": "1"}}


@dataclass(frozen=True)
class Settings:
    """Frames in all, in how many rounds, seconds of warm-up, most seconds of a round."""

    runs: int = 300
    rounds: int = 3
    warm_seconds: float = 1.0
    round_seconds: float = 0.7
    answer_seconds: float = 180.0


@dataclass
class Row:
    """One engine on one network; ``problem`` instead of numbers where there are none."""

    engine: str
    network: str
    precision: str
    problem: str = ""
    of_photos: bool = False  # timed from a photo to boxes and a mask
    values: dict[str, Any] = field(default_factory=dict)
    times: list[float] = field(default_factory=list)
    stages: dict[str, list[float]] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        """Whether there is something to tell of it."""
        return bool(self.problem or self.times)

    def to_json(self) -> dict[str, Any]:
        names = {"network": self.network, "precision": self.precision, "engine": self.engine}
        if self.problem:
            return {**names, "problem": self.problem}
        times = np.array(self.times)
        return {
            **names,
            "median_ms": round(float(np.median(times)), 4),
            "p95_ms": round(float(np.percentile(times, 95)), 4),
            "min_ms": round(float(times.min()), 4),
            "runs": len(times),
            **({"stages_ms": self._medians()} if self.stages else {}),
            **self.values,
        }

    def _medians(self) -> dict[str, float]:
        return {name: round(float(np.median(times)), 4) for name, times in self.stages.items()}


def write_models(folder: Path, network: str) -> None:
    """The network in both precisions, the image, and what onnxruntime computes of it plainly."""
    import onnx

    files = Files(folder, network)
    model = NETWORKS[network].model()
    onnx.save(model, files.model("fp32"))
    onnx.save(to_fp16(model), files.model("fp16"))
    write_example(files, NETWORKS[network].image())


def write_example(files: Files, image: np.ndarray, threads: int = 0) -> None:
    """The image, and what onnxruntime computes plainly of it by the model that is there.
    threads: as many as there are cores, where none are said."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # Node by node as it is written: nothing that an engine's optimiser does.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        str(files.model()), options, providers=["CPUExecutionProvider"]
    )
    outputs = session.run(None, {session.get_inputs()[0].name: image})
    np.savez(files.example, image=image, **{f"o{i}": value for i, value in enumerate(outputs)})


def versions(engines: Iterable[str]) -> dict[str, dict[str, str]]:
    """Name -> title and version, or why the engine is not there."""
    found = {}
    for name in engines:
        engine = make_engine(name)
        try:
            found[name] = {"title": engine.title, "version": engine.version()}
        except NotInstalled as error:
            found[name] = {"title": engine.title, "not_installed": str(error)}
    return found


def prepare(
    folder: Path, jobs: Sequence[Job], settings: Settings, tell: Callable[[str], None]
) -> dict[Job, str]:
    """Convert and compile for all jobs, several at once. Returns what failed, and why."""
    waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
    for job in jobs:
        waiting.put(job)
    failed: dict[Job, str] = {}
    workers = [
        threading.Thread(target=_prepare_some, args=(folder, waiting, settings, failed, tell))
        for _ in range(max(1, len(os.sched_getaffinity(0)) // 2))
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return failed


def _prepare_some(
    folder: Path,
    waiting: queue.SimpleQueue[Job],
    settings: Settings,
    failed: dict[Job, str],
    tell: Callable[[str], None],
) -> None:
    processes: dict[str, Process] = {}
    while True:
        try:
            engine, network, precision = job = waiting.get_nowait()
        except queue.Empty:
            break
        if engine not in processes or not processes[engine].alive:
            processes[engine] = Process(engine, folder, {}, settings.answer_seconds)
        try:
            answer = processes[engine].ask("prepare", network=network, precision=precision)
            tell(f"prepared {engine} {network} {precision} in {answer['seconds']:.1f} s")
        except (NotInstalled, Unusable) as error:
            failed[job] = str(error)
    for process in processes.values():
        process.close()


class Measurement:
    """Measures jobs network by network, each engine in its own long-lived process."""

    def __init__(
        self, folder: Path, settings: Settings, tell: Callable[[str], None],
        environment: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:  # fmt: skip
        """environment: by engine what its process has of it, besides ENVIRONMENT's."""
        self._folder = folder
        self._settings = settings
        self._tell = tell
        self._environment = {**ENVIRONMENT, **(environment or {})}
        self._processes: dict[str, Process] = {}

    def __enter__(self) -> Measurement:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes; what was loaded is gone."""
        for process in self._processes.values():
            process.close()
        self._processes.clear()

    def network(self, rows: Sequence[Row]) -> None:
        """Fill in the rows of one network: load, time in turns, ask for the device's part."""
        self.load(rows)
        self.time(rows)

    def time(self, rows: Sequence[Row]) -> None:
        """The same of rows that are loaded."""
        # Apart: a GPU that rests while the CPU works is slower for whoever comes next.
        for on_cpu in (False, True):
            own = [row for row in rows if make_engine(row.engine).on_cpu == on_cpu]
            self._take_turns(own)
        for row in rows:
            self._tell(_line(row))

    def ask(self, engine: str, do: str, **arguments: Any) -> dict[str, Any]:
        """Something else of an engine's process."""
        return self._process(engine).ask(do, **arguments)

    def _step(self, row: Row, step: Callable[..., None], *arguments: Any) -> None:
        try:
            step(row, *arguments)
        except (NotInstalled, Unusable) as error:
            row.problem = str(error)

    def _take_turns(self, rows: Sequence[Row]) -> None:
        for turn in range(self._settings.rounds):
            # Another one begins each time.
            first = turn * len(rows) // self._settings.rounds
            for row in (*rows[first:], *rows[:first]):
                if not row.problem:
                    self._step(row, self._round)
        for row in rows:
            if not row.problem:
                self._step(row, self._finish)

    def load(self, rows: Sequence[Row], within: float | None = None) -> None:
        """Engines load at the same time: nothing is timed yet but how long that takes.

        within: seconds for each row instead of those of the settings.
        """

        def load(engine: str) -> None:
            for row in rows:
                if row.engine == engine and not row.problem:
                    self._step(row, self._load, within)

        engines = list(dict.fromkeys(row.engine for row in rows))
        with ThreadPoolExecutor(len(engines)) as pool:
            list(pool.map(load, engines))

    def _load(self, row: Row, within: float | None) -> None:
        row.values.update(self._of(row, "load", within=within))

    def _round(self, row: Row) -> None:
        settings = self._settings
        # In every turn: the one before may have left the GPU with little to do, and slower.
        self._of(row, "warm", seconds=settings.warm_seconds)
        runs = -(-settings.runs // settings.rounds)
        do = "stages" if row.of_photos else "time"
        found = self._of(row, do, runs=runs, limit=settings.round_seconds)
        row.times += found["ms"]
        for name, times in found.get("stages_ms", {}).items():
            row.stages[name] = row.stages.get(name, []) + times

    def _finish(self, row: Row) -> None:
        self._of(row, "warm", seconds=self._settings.warm_seconds)
        row.values.update(self._of(row, "finish"))

    def _of(self, row: Row, do: str, **arguments: Any) -> dict[str, Any]:
        process = self._process(row.engine)
        return process.ask(do, network=row.network, precision=row.precision, **arguments)

    def _process(self, engine: str) -> Process:
        process = self._processes.get(engine)
        if process is None or not process.alive:
            environment = self._environment.get(engine, {})
            process = Process(engine, self._folder, environment, self._settings.answer_seconds)
            self._processes[engine] = process
        return process


def _line(row: Row) -> str:
    words = f"{row.network} {row.precision} {row.engine}:"
    if row.problem:
        return f"{words} {row.problem}"
    found = row.to_json()
    device = found["device_ms"]
    return (
        f"{words} median {found['median_ms']:.3f} ms, p95 {found['p95_ms']:.3f}, "
        f"{found['runs']} runs, device {'-' if device is None else f'{device:.3f}'}, "
        f"error {found['error']:.1e}, load {found['load_s']:.2f} s {found['variant']}"
    )
