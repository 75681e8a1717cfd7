"""How long a fresh process takes to its first result: TVM's runtime alone, caches warm."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from .engine import Unusable
from .processes import ROOT

TRIES = 3
LIMIT_SECONDS = 60
# As a user's program would do it.
PROGRAM = """
import sys, numpy
import tvm_vision
with numpy.load(sys.argv[2]) as data:
    image = data["image"]
executor = tvm_vision.load(sys.argv[1])
executor.set_input(0, image)
executor.run()
results = list(executor.outputs().values())
print("done", float(results[0].ravel()[0]), flush=True)
"""


def first_result_seconds(package: Path, example: Path) -> float:
    """From the start of the process to its first result, the median of several starts.

    Raises Unusable where the program fails.
    """
    environment = {
        **os.environ,
        "TVM_USE_RUNTIME_LIB": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    times = []
    for _ in range(TRIES):
        start = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(package), str(example)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=ROOT,
        )  # fmt: skip
        assert process.stdout is not None
        line = process.stdout.readline()
        times.append(time.perf_counter() - start)
        _, errors = process.communicate(timeout=LIMIT_SECONDS)
        if not line.startswith("done"):
            raise Unusable(" ".join(errors.split())[-300:])
    return float(np.median(times))
