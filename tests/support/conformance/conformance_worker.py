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

from tvm_vision.errors import TvmVisionError
from tvm_vision.evaluate.compare import of_real_rows
from tvm_vision.frontend.signature import TensorSpec

from .onnx_cases import Case, node_cases

Executor = Callable[..., list[np.ndarray]]


def executor(imported: Any, target: str) -> Executor:
    """Compile what a front end returned; the result maps input arrays to output arrays.

    The one place that knows what compiles and what executes: the static graph, as in a package.
    """
    import tvm

    from tvm_vision.compiler import compile_model
    from tvm_vision.runtime import graph_executor

    module, signature = imported
    compiled = compile_model(module, signature, target=target)
    info = {
        "graph": compiled.graph,
        "inputs": [_described(spec) for spec in compiled.inputs],
        "outputs": [_described(spec) for spec in compiled.outputs],
    }
    device = tvm.cpu(0) if target == "llvm" else tvm.vulkan(0)
    runner = graph_executor.create(info, compiled.library, device)
    runner.load_params(compiled.params)

    def execute(*arrays: np.ndarray) -> list[np.ndarray]:
        for index, array in enumerate(arrays):
            runner.set_input(index, array)
        runner.run()
        return [runner.get_output(index).numpy() for index in range(runner.num_outputs)]

    return execute


def _described(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "shape": list(spec.shape), "dtype": spec.dtype}


def check(case: Case, imported: Any, target: str) -> tuple[str, str]:
    """Outcome and message of one case on one target."""
    try:
        found = executor(imported, target)(*case.inputs.values())
    except TvmVisionError as error:
        # What is ours is a refusal; what we pass on from TVM says so.
        return ("failed" if "TVM cannot" in str(error) else "refused"), summary(error)
    except Exception as error:  # whatever TVM raises is this case's result
        return "failed", f"{type(error).__name__}: {summary(error)}"
    try:
        compare(real_rows(found, imported[1], case), case)
    except AssertionError as error:
        return "wrong", summary(error)
    return "passed", ""


def real_rows(found: list[np.ndarray], signature: Any, case: Case) -> list[np.ndarray]:
    """The outputs that a case has, without rows that are not real; raises AssertionError where
    their number is another."""
    if len(found) == len(case.outputs):
        return found
    named = {spec.name: value for spec, value in zip(signature.outputs, found, strict=True)}
    names = [value.name for value in case.model.graph.output]
    ours, expected = of_real_rows(named, dict(zip(names, case.outputs, strict=True)))
    for name in expected.keys() - set(names):
        assert ours[name] == expected[name], f"{ours[name]} rows, needed {expected[name]}"
    return [ours[name] for name in names]


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
    from tvm_vision.frontend.onnx.load import import_onnx

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
    # No result may be what a kernel found in memory.
    os.environ.setdefault("TVM_VISION_POISON", "on")
    # What TVM prints must not get among the answers.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        answer(json.loads(line), out)


if __name__ == "__main__":
    main()
