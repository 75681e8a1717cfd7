"""A network of the zoo on all engines: what is made beforehand, on all cores, and what is timed,
one engine after another.

Each engine of each network is a process of its own (``benchmarks.peers``): one that dies takes no
other along. Whose networks take minutes to load, as PyTorch's compiler's, are loaded while others
are compiled, and wait.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any

from benchmarks.peers.engine import NotInstalled, Unusable, make_engine
from benchmarks.peers.measure import Measurement, Row, Settings
from benchmarks.peers.processes import Process

from .networks import Network
from .prepare import cores, files_of

OURS = "ours"
ENGINES = {
    OURS: "tvm_vision",
    "cuda": "benchmarks.zoo.engines:ModuleGraph",
    "inductor": "benchmarks.zoo.engines:Inductor",
    "ncnn": "ncnn",
    "webgpu": "ort_webgpu",
}
# Others have those of their engine. A compilation by Inductor takes minutes: where fp16 is chosen.
PRECISIONS = {OURS: ("fp32", "fp16", "int8"), "inductor": ("fp16",)}
CONVERTED = (OURS, "ncnn")  # that need files of their own
SLOW_TO_LOAD = "inductor"
SETTINGS = Settings(runs=200, rounds=2, warm_seconds=0.1, round_seconds=0.12, answer_seconds=600.0)
# Networks whose engines load at the same time, which takes PyTorch half a minute for few or many.
TOGETHER = 10
# Of PyTorch's compiler: thirteen of two threads each had none ready after 300 s on 16 cores, four
# of them beside other compilations after 237 to 283 s, or 261 to 461. A run that waited for it to
# the end had no time left to time anything, so that it has a share of the run's.
SLOW_SHARE = 0.6
SLOW_THREADS = 4
ONE_THREAD = {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": str(SLOW_THREADS)}
_SLOW_AT_ONCE = BoundedSemaphore(max(1, cores() // SLOW_THREADS))
Tell = Callable[[str], object]


@dataclass
class Trial:
    """A network and a row for each engine and precision.

    Attributes:
        slow_until: when, by ``time.monotonic``, what is slow to load has to be loaded.
    """

    network: Network
    folder: Path
    tell: Tell
    rows: list[Row]
    slow_until: float = math.inf
    compile_s: float = 0.0
    measurement: Measurement = field(init=False)

    def __post_init__(self) -> None:
        environment = {ENGINES[SLOW_TO_LOAD]: ONE_THREAD}
        self.measurement = Measurement(self.folder, SETTINGS, lambda line: None, environment)

    def of(self, name: str) -> list[Row]:
        """Its rows of an engine, a key of ENGINES."""
        return [row for row in self.rows if row.engine == ENGINES[name]]

    def convert(self, name: str) -> None:
        """What an engine makes of the network before it is loaded. What fails is in the rows."""
        process = Process(ENGINES[name], self.folder, ONE_THREAD, SETTINGS.answer_seconds)
        took = []
        for row in self.of(name):
            if row.problem:
                continue
            try:
                found = process.ask("prepare", network=row.network, precision=row.precision)
                took.append(found["processor_seconds"])
            except (NotInstalled, Unusable) as problem:
                row.problem = str(problem)
        process.close()
        if name == OURS and took:
            self.compile_s = sum(took) / len(took)
        self.tell(f"{self.network.name}: {name} is ready")

    def load_slow(self) -> None:
        """Loads the rows that are slow to load, of few trials at once; they stay loaded."""
        rows = self.of(SLOW_TO_LOAD)
        with _SLOW_AT_ONCE:
            within = self.slow_until - time.monotonic()
            self.measurement.load(rows, min(within, SETTINGS.answer_seconds))
        problem = next((row.problem for row in rows if row.problem), "is loaded")
        self.tell(f"{self.network.name}: {SLOW_TO_LOAD} {problem}")

    def load_rest(self) -> None:
        """Loads all that are not."""
        self.measurement.load([r for r in self.rows if r.engine != ENGINES[SLOW_TO_LOAD]])

    def time(self) -> dict[str, Any]:
        """Times what is loaded, and ends its processes. Returns a row of the results."""
        self.measurement.time(self.rows)
        self.close()
        found: dict[str, Any] = {"name": self.network.name, "shape": self.network.shape}
        found |= {"compile_s": self.compile_s, "failed": {}}
        for name in ENGINES:
            for row in self.of(name):
                key = row.precision if name == OURS else f"{name}_{row.precision}"
                if row.problem:
                    found["failed"][key] = row.problem
                else:
                    found[key] = _times(row)
        return found

    def close(self) -> None:
        """Ends its processes."""
        self.measurement.close()


def _times(row: Row) -> dict[str, Any]:
    """Milliseconds of a frame from an array to arrays, and of what the device computes of it; the
    error beside ONNX Runtime's outputs; of ours how many kernels."""
    values = row.to_json()
    found = {"frame": values["median_ms"], "error": values["error"]}
    if values["device_ms"] is not None:
        found["device"] = values["device_ms"]
    if "kernels" in values["details"]:
        found["kernels"] = values["details"]["kernels"]
    return found


def plan(
    network: Network, folder: Path, engines: Iterable[str], missing: dict[str, str], tell: Tell,
    only: Collection[str] = PRECISIONS[OURS], slow_until: float = math.inf,
) -> Trial:  # fmt: skip
    """A trial of a network on these engines. missing: why one is not installed. only: the
    precisions that are timed. slow_until: of the trial."""
    rows = [
        Row(ENGINES[name], network.file, precision, missing.get(name, ""))
        for name in engines
        for precision in PRECISIONS.get(name, make_engine(ENGINES[name]).precisions)
        if precision in only
    ]
    return Trial(network, files_of(network, folder).folder, tell, rows, slow_until)


def make_ready(trials: Sequence[Trial]) -> None:
    """Converts for all, on all cores, what takes longest first."""
    jobs: list[Callable[[], None]] = []
    for name in (SLOW_TO_LOAD, *CONVERTED):
        for trial in trials:
            if any(not row.problem for row in trial.of(name)):
                convert = partial(trial.convert, name)
                jobs.append(trial.load_slow if name == SLOW_TO_LOAD else convert)
    with ThreadPoolExecutor(cores()) as pool:
        for done in as_completed(map(pool.submit, jobs)):
            done.result()


def load(trials: Sequence[Trial]) -> None:
    """Loads some networks at the same time; nothing is timed meanwhile."""
    with ThreadPoolExecutor(len(trials)) as pool:
        list(pool.map(Trial.load_rest, trials))
