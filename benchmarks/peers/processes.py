"""The driver's side of a worker: starts it, asks it, and survives what happens to it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .engine import NotInstalled, Unusable

ROOT = Path(__file__).resolve().parents[2]
LOG_LINES = 3


class Process:
    """A worker process. Its messages go to a log; an answer may take ``limit`` seconds."""

    def __init__(
        self, engine: str, folder: Path, environment: Mapping[str, str], limit: float
    ) -> None:
        self._limit = limit
        self._name = engine
        self.log = folder / f"{engine.replace(':', '.')}.log"
        self._stream = self.log.open("ab")
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-m", f"{__package__}.worker", engine, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stream,
            env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join(paths)},
            cwd=ROOT,
        )
        self._rest = b""

    def ask(self, do: str, within: float | None = None, **arguments: Any) -> dict[str, Any]:
        """The worker's answer, within seconds of its own where they are given. Raises NotInstalled
        or Unusable, the latter also where the process died or says nothing in time; it is of no use
        then."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Unusable(self._end()) from None
        answer = json.loads(self._line(self._limit if within is None else max(0.0, within)))
        if "not_installed" in answer:
            raise NotInstalled(answer["not_installed"])
        if "error_text" in answer:
            raise Unusable(answer["error_text"])
        return answer

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        """End the process, at once where it does not end by itself."""
        if self.alive:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()
        self._stream.close()

    def _line(self, limit: float) -> bytes:
        assert self._process.stdout is not None
        deadline = time.monotonic() + limit
        while b"\n" not in self._rest:
            left = max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([self._process.stdout], [], [], left)
            if not ready:
                self._process.kill()
                raise Unusable(f"no answer within {limit:.0f} s")
            data = os.read(self._process.stdout.fileno(), 1 << 20)
            if not data:
                raise Unusable(self._end())
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _end(self) -> str:
        code = self._process.wait()
        if code < 0:
            return f"its process died of {signal.Signals(-code).name}"
        last = self.log.read_text(errors="replace").strip().splitlines()[-LOG_LINES:]
        return f"its process ended with code {code}: {' '.join(last)[-200:]}"
