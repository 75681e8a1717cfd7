"""A process that runs conformance cases: requests as JSON lines on stdin, results on stdout.

A request is {"case": name, "targets": ["llvm", ...]}; there is one answer a target, in that order.
Whatever kills this process is the result of one case: run.py starts another.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import IO, Any

import numpy as np
import onnx

from tvm_vision.errors import TvmVisionError
from tvm_vision.evaluate.compare import of_real_rows
from tvm_vision.frontend.onnx.graph import opset_of
from tvm_vision.frontend.onnx.load import OWN_OPSET
from tvm_vision.frontend.signature import TensorSpec

from .onnx_cases import Case, node_cases
from .variants import SIGN, NoReference, case_named, types_of

# A remedy is an order: a verb behind the colon or semicolon that ends what was found.
ORDERS = (
    "call|cast|change|check|compile|convert|copy|correct|cut|declare|end|export|give|install|let"
    "|leave|make|pass|pip|put|quantize|replace|the model is damaged, export|train|try|use"
)
REMEDY = re.compile(rf"[:;] (?:{ORDERS})\b")
# What is rounded in another order differs by this many units in the last place of the largest value
# of an output: sums that cancel leave no other measure. Of fp16 it is the same in its own units.
UNITS = 4
FP16 = "vulkan-fp16"
FP16_LARGEST = float(np.finfo(np.float16).max)
# Vulkan's quotients may be off by 2.5 units in the last place (specification, "Precision of
# Individual Operations"): half way between two steps that decides about one step.
ONE_STEP = ("DynamicQuantizeLinear", "QuantizeLinear")

Executor = Callable[..., list[np.ndarray]]


def executor(imported: Any, target: str, **options: Any) -> Executor:
    """Compile what a front end returned; the result maps input arrays to output arrays.

    The one place that knows what compiles and what executes: the static graph, as in a package.
    """
    import tvm

    from tvm_vision.compiler import compile_model
    from tvm_vision.runtime import graph_executor

    module, signature = imported
    compiled = compile_model(module, signature, target=target, **options)
    info = {
        "graph": compiled.graph,
        "inputs": [_described(spec) for spec in compiled.inputs],
        "outputs": [_described(spec) for spec in compiled.outputs],
    }
    device = tvm.cpu(0) if target == "llvm" else tvm.vulkan(0)
    runner = graph_executor.create(info, compiled.library.module, device)
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
        if target == FP16:
            case, found = in_fp16(case, imported)
        else:
            found = executor(imported, target)(*case.inputs.values())
    except NoReference as error:
        return "skipped", str(error)
    except TvmVisionError as error:
        return refusal(error)
    except Exception as error:  # whatever TVM raises is this case's result
        return "failed", f"{type(error).__name__}: {summary(error)}"
    try:
        compare(real_rows(found, imported[1], case), case, target)
    except AssertionError as error:
        return "wrong", summary(error)
    return "passed", ""


def refusal(error: TvmVisionError) -> tuple[str, str]:
    """Outcome and message of an error of ours, which is one line with a remedy; what passes on what
    TVM says of its own is no refusal."""
    text = str(error)
    if "TVM cannot" in text or "\n" in text:
        return "failed", summary(error)
    if not REMEDY.search(text):
        return "failed", f"no remedy: {summary(error)}"
    return "refused", summary(error)


def in_fp16(case: Case, imported: Any) -> tuple[Case, list[np.ndarray]]:
    """The case with inputs that fp16 has, and the outputs where whatever can be is kept in fp16.

    A network's own inputs and outputs keep float32. So that the operator's are within the network,
    each goes through a negation, which rounds nothing. What is wanted is what float32 gives, on
    the processor.

    Raises NoReference where nothing is float32, or beyond what fp16 has.
    """
    from tvm_vision.frontend.onnx.load import import_onnx

    names = [name for name, array in case.inputs.items() if array.dtype == np.float32]
    if not names:
        raise NoReference("nothing in float32")
    rounded = {
        name: array.astype(np.float16).astype(np.float32) if name in names else array
        for name, array in case.inputs.items()
    }
    wanted = executor(imported, "llvm")(*rounded.values())
    reals = [array for array in [*rounded.values(), *wanted] if array.dtype.kind == "f"]
    if any(np.any(np.abs(a[np.isfinite(a)]) > FP16_LARGEST) for a in reals):
        raise NoReference("beyond the range of fp16")
    # The negative of an array of no axes is a number.
    negated = {
        name: np.asarray(-array) if name in names else array for name, array in rounded.items()
    }
    specs = imported[1].outputs
    turned = [
        spec.name in {v.name for v in case.model.graph.output} and spec.dtype == "float32"
        for spec in specs
    ]
    within = import_onnx(between_negations(case.model, names, [
        spec.name for spec, turn in zip(specs, turned, strict=True) if turn
    ]))  # fmt: skip
    found = executor(within, "vulkan", precision="fp16", opt_level=1)(*negated.values())
    found = [-a if turn else a for a, turn in zip(found, turned, strict=True)]
    return replace(case, outputs=tuple(wanted)), found


def between_negations(
    model: onnx.ModelProto, inputs: list[str], outputs: list[str]
) -> onnx.ModelProto:
    """The model of negated inputs whose outputs are negated.

    Outside tensors have other names: the graphs within nodes keep theirs.
    """
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    for values, names in ((changed.graph.input, inputs), (changed.graph.output, outputs)):
        for value in values:
            if value.name in names:
                value.name += ".outside"
    before = [onnx.helper.make_node("Neg", [f"{name}.outside"], [name]) for name in inputs]
    after = [onnx.helper.make_node("Neg", [name], [f"{name}.outside"]) for name in outputs]
    nodes = [*before, *model.graph.node, *after]
    del changed.graph.node[:]
    changed.graph.node.extend(nodes)
    if all(entry.domain for entry in model.opset_import):  # a model of another domain alone
        changed.opset_import.add(domain="", version=OWN_OPSET)
    return changed


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


def compare(found: list[np.ndarray], case: Case, target: str = "llvm") -> None:
    """Raise AssertionError unless shapes, types and values are those of the case."""
    assert len(found) == len(case.outputs), f"{len(found)} outputs, needed {len(case.outputs)}"
    for result, expected in zip(found, case.outputs, strict=True):
        assert result.shape == expected.shape, f"shape {result.shape}, needed {expected.shape}"
        assert result.dtype == expected.dtype, f"dtype {result.dtype}, needed {expected.dtype}"
        try:
            rtol, atol = bounds(expected, case, target)
            np.testing.assert_allclose(result, expected, rtol=rtol, atol=atol)
        except AssertionError as error:
            lines = [line.strip() for line in str(error).splitlines() if "isma" in line]
            raise AssertionError(f"values: {lines[0] if lines else error}") from None


def bounds(expected: np.ndarray, case: Case, target: str) -> tuple[float, float]:
    """What an output may differ by: a share of each value, and as a number."""
    if expected.dtype.kind != "f":
        return case.rtol, 1.0 if case.operator in ONE_STEP and target != "llvm" else case.atol
    finite = np.abs(expected[np.isfinite(expected)].astype(np.float64))
    kept_in = np.float16 if target == FP16 else expected.dtype
    unit = float(np.finfo(kept_in).eps) * float(finite.max(initial=0))
    return case.rtol, max(case.atol, UNITS * unit)


def summary(error: BaseException) -> str:
    """The most telling line of an error: TVM puts the message behind a traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    checks = [line for line in lines if "Check failed" in line]
    line = (checks or lines or [""])[0]
    return line[:300]


def answer(request: dict[str, Any], out: IO[str]) -> None:
    """Run one request and write an answer for each of its targets."""
    from tvm_vision.frontend.onnx.load import import_onnx

    outcome, message, imported = "", "", None
    started = time.perf_counter()
    say(out, stage="reference")
    try:
        case = case_named(request["case"])
    except NoReference as error:
        case = replace(node_cases()[request["case"].partition(SIGN)[0]], name=request["case"])
        case = replace(case, skipped=str(error))
    say(out, stage="ours")
    if case.skipped:
        outcome, message = "skipped", case.skipped
    else:
        try:
            imported = import_onnx(case.model)
        except TvmVisionError as error:
            outcome, message = refusal(error)
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
            "opset": opset_of(case.model),
            "types": types_of(case),
            "seconds": round(time.perf_counter() - started, 3),
        }
        say(out, **result)
        started = time.perf_counter()


def say(out: IO[str], **answer: Any) -> None:
    """Write one line."""
    out.write(json.dumps(answer) + "\n")
    out.flush()


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
