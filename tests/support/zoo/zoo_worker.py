"""A process that tries one network: a request as a JSON line on stdin, an answer a target.

A request is {"case": path, "said": {input: {"shape": [...]}}, "targets": [...]}. Whatever ends
this process is the result of one network.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from tvm_vision.errors import TvmVisionError

from ..conformance.conformance_worker import summary
from .trial import Result, Said, Trial


def tried(path: Path, said: Said, targets: Sequence[str], out: IO[str]) -> None:
    """Write the result of a network on each target."""
    trial: Trial | None = None
    refusal: Result = {}
    try:
        trial = Trial(path, said)
    except Exception as error:
        refusal = _raised(error)
    for target in targets:
        result = refusal if trial is None else _ran(trial, target)
        out.write(json.dumps(result) + "\n")
        out.flush()


def _ran(trial: Trial, target: str) -> Result:
    try:
        return trial.run(target)
    except Exception as error:
        return _raised(error)


def _raised(error: Exception) -> Result:
    """A refusal is ours, and says what to do; anything else is a fault."""
    if isinstance(error, TvmVisionError):
        return {"outcome": "refused", "message": summary(error)}
    return {"outcome": "failed", "message": f"{type(error).__name__}: {summary(error)}"}


def main() -> None:
    # No result may be what a kernel found in memory.
    os.environ.setdefault("TVM_VISION_POISON", "on")
    # What engines print must not get among the answers.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        tried(Path(request["case"]), request["said"], request["targets"], out)


if __name__ == "__main__":
    main()
