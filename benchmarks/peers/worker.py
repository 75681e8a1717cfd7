"""One engine in a process of its own: commands as lines of JSON in, answers as lines of JSON out.

Usage: python -m benchmarks.peers.worker ENGINE FOLDER
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from .engine import Engine, Files, NotInstalled, Session, Unusable, make_engine, output_error
from .frames import STAGES, Frames, photo


class Worker:
    """Answers one command after another; sessions stay loaded until they are dropped."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self._engine = engine
        self._folder = folder
        self._sessions: dict[tuple[str, str], tuple[Session, np.ndarray]] = {}

    def version(self) -> dict[str, Any]:
        return {"version": self._engine.version()}

    def prepare(self, network: str, precision: str) -> dict[str, Any]:
        start, busy = time.perf_counter(), time.process_time()
        self._engine.prepare(Files(self._folder, network), precision)
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "processor_seconds": time.process_time() - busy}

    def load(self, network: str, precision: str) -> dict[str, Any]:
        """Load a network and run it once; the error is against the reference."""
        files = Files(self._folder, network)
        with np.load(files.example) as data:
            image = data["image"]
            wanted = [data[f"o{i}"] for i in range(len(data.files) - 1)]
        start = time.perf_counter()
        session = self._engine.load(files, precision)
        found = session.run(image)
        seconds = time.perf_counter() - start
        # Once more: what is left from the first frame must not help the second.
        other = session.run(1 - image)
        changed = any(not np.array_equal(a, b) for a, b in zip(found, other, strict=True))
        found = session.run(image)
        if not changed:
            raise Unusable("its outputs do not depend on the input")
        self._sessions[network, precision] = (session, image)
        return {
            "load_s": seconds,
            "error": output_error(found, wanted),
            "device": session.device,
            "variant": session.variant,
        }

    def warm(self, network: str, precision: str, seconds: float) -> dict[str, Any]:
        session, image = self._sessions[network, precision]
        until = time.perf_counter() + seconds
        while True:
            session.run(image)
            if time.perf_counter() >= until:
                return {}

    def time(self, network: str, precision: str, runs: int, limit: float) -> dict[str, Any]:
        """Milliseconds of each of ``runs`` frames, fewer where they take ``limit`` seconds."""
        session, image = self._sessions[network, precision]
        return {"ms": _timed(runs, limit, lambda: session.run(image))}

    def stages(self, network: str, precision: str, runs: int, limit: float) -> dict[str, Any]:
        """The same from a photo to boxes and a mask, and milliseconds of each stage."""
        session, _ = self._sessions[network, precision]
        frames = Frames(Files(self._folder, network).read())
        image = photo()
        stages: dict[str, list[float]] = {name: [] for name in STAGES}

        def frame() -> None:
            clock = [time.perf_counter()]
            prepared, letterbox = frames.prepare(image)
            clock.append(time.perf_counter())
            outputs = session.run(prepared)
            clock.append(time.perf_counter())
            frames.interpret(outputs, letterbox)
            clock.append(time.perf_counter())
            for times, start, end in zip(stages.values(), clock, clock[1:], strict=False):
                times.append((end - start) * 1e3)

        return {"ms": _timed(runs, limit, frame), "stages_ms": stages}

    def finish(self, network: str, precision: str) -> dict[str, Any]:
        """What the engine tells of the device's part; the network is dropped."""
        session, _ = self._sessions.pop((network, precision))
        return {"device_ms": session.device_ms(), "details": session.details()}

    def ceilings(self, scale: float) -> dict[str, Any]:
        """The device's ceilings, measured through our own backend."""
        from .ceilings import measure_ceilings

        return dict(measure_ceilings(scale))


def _timed(runs: int, limit: float, frame: Callable[[], object]) -> list[float]:
    """Milliseconds of each of ``runs`` frames, fewer where they take ``limit`` seconds."""
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < runs and time.perf_counter() - begin < limit:
        start = time.perf_counter()
        frame()
        times.append((time.perf_counter() - start) * 1e3)
    return times


def serve(engine: str, folder: Path, commands: TextIO, answers: TextIO) -> None:
    worker = Worker(make_engine(engine), folder)
    for line in commands:
        command = json.loads(line)
        name = command.pop("do")
        try:
            answer = getattr(worker, name)(**command)
        except NotInstalled as error:
            answer = {"not_installed": str(error)}
        # Whatever an engine raises is its result, and goes into the table.
        except Exception as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            answer = {"error_text": reason[:300]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    # Engines print what they like; only answers may go where the driver listens.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    serve(sys.argv[1], Path(sys.argv[2]), sys.stdin, replies)
