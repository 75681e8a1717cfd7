"""A process that runs conformance cases: requests as JSON lines on stdin, results on stdout.

A request is {"case": name, "targets": ["llvm", ...]}; there is one answer a target, in that order.
Whatever kills this process is the result of one case: run.py starts another.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import IO, Any

import numpy as np
from onnx_cases import Case, node_cases

from tvm_vision.errors import TvmVisionError

Executor = Callable[..., list[np.ndarray]]


def executor(module: Any, target: str) -> Executor:
    """Compile for "llvm" or "vulkan"; the result maps input arrays to output arrays.

    The one place that knows what compiles and what executes.
    """
    import tvm
    from tvm import relax

    from tvm_vision.compiler.relax_vm import compile_relax
    from tvm_vision.compiler.target import target_for

    kind = "cpu" if target == "llvm" else target
    device = tvm.cpu() if kind == "cpu" else tvm.vulkan(0)
    machine = relax.VirtualMachine(compile_relax(module, target_for(kind)), device)

    def execute(*arrays: np.ndarray) -> list[np.ndarray]:
        result = machine["main"](*[tvm.runtime.tensor(array, device) for array in arrays])
        parts = [result] if isinstance(result, tvm.runtime.Tensor) else result
        return [part.numpy() for part in parts]

    return execute


def check(case: Case, imported: Any, target: str) -> tuple[str, str]:
    """Outcome and message of one case on one target."""
    module, _ = imported
    try:
        found = executor(module, target)(*case.inputs.values())
    except Exception as error:  # whatever TVM raises is this case's result
        return "failed", f"{type(error).__name__}: {summary(error)}"
    try:
        compare(found, case)
    except AssertionError as error:
        return "wrong", summary(error)
    return "passed", ""


def compare(found: list[np.ndarray], case: Case) -> None:
    """Raise AssertionError unless shapes, types and values are those of the case."""
    assert len(found) == len(case.outputs), f"{len(found)} outputs, needed {len(case.outputs)}"
    for result, expected in zip(found, case.outputs, strict=True):
        assert result.shape == expected.shape, f"shape {result.shape}, needed {expected.shape}"
        assert result.dtype == expected.dtype, f"dtype {result.dtype}, needed {expected.dtype}"
        try:
            np.testing.assert_allclose(result, expected, rtol=case.rtol, atol=case.atol)
        except AssertionError as error:
            lines = [line.strip() for line in str(error).splitlines() if "isma" in line]
            raise AssertionError(f"values: {lines[0] if lines else error}") from None


def summary(error: BaseException) -> str:
    """The most telling line of an error: TVM puts the message behind a traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    checks = [line for line in lines if "Check failed" in line]
    line = (checks or lines or [""])[0]
    return line[:300]


def answer(request: dict[str, Any], out: IO[str]) -> None:
    """Run one request and write an answer for each of its targets."""
    from tvm_vision.frontend.onnx import import_onnx

    case = node_cases()[request["case"]]
    outcome, message, imported = "", "", None
    started = time.perf_counter()
    if case.skipped:
        outcome, message = "skipped", case.skipped
    else:
        try:
            imported = import_onnx(case.model)
        except TvmVisionError as error:
            outcome, message = "refused", summary(error)
        except Exception as error:  # an error without one of our names is a fault of the importer
            outcome, message = "failed", f"import: {type(error).__name__}: {summary(error)}"
    for target in request["targets"]:
        if imported is not None:
            outcome, message = check(case, imported, target)
        result = {
            "case": case.name,
            "operator": case.operator,
            "target": target,
            "outcome": outcome,
            "message": message,
            "seconds": round(time.perf_counter() - started, 3),
        }
        out.write(json.dumps(result) + "\n")
        out.flush()
        started = time.perf_counter()


def main() -> None:
    # What TVM prints must not get among the answers.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        answer(json.loads(line), out)


if __name__ == "__main__":
    main()
