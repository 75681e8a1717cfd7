"""The results of the conformance run as a page: passes by operator, and why the others fail."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from .conformance_worker import FP16, UNITS
from .reasons import CLASSES, classified
from .variants import SIGN

Result = dict[str, Any]

TARGETS = ("llvm", "vulkan")
OUTCOMES = {
    "passed": "right within the bound",
    "wrong": "ran, with another result",
    "failed": "imported, but did not compile or run",
    "refused": "not imported: one line names each operator",
    "crashed": "the process died",
    "timeout": "took too long",
    "skipped": "outside of what is compared: other types than numbers and bools, open shapes",
}
COMMAND = (
    "python -m tests.support.conformance.run --precision fp16 --variants "
    "--results build/conformance.jsonl --report docs/reference/operators.md"
)
INTRODUCTION = f"""\
Each test is imported with `import_onnx`, compiled and run for `llvm` and `vulkan`, and compared
with the stored outputs. Inputs that decide about shapes and axes (the shape of a Reshape, the axes
of a Slice) are constants here, as they are in a network; a sequence is an input or an output for
each of its tensors.

The bound is the test's own tolerance or, where that is more, {UNITS} units in the last place of the
largest value of an output, in its type: sums in another order differ by that, also where they come
to nothing. `{FP16}` keeps all that can be in fp16 between the operator's inputs and outputs and is
held to what float32 gives on the processor for inputs that fp16 has, within {UNITS} units of fp16
({UNITS} / 1024 of the largest value). Quantized results may be one step off on vulkan, whose
quotients may be half way between two steps on either side."""
# More names of tests that did not run say no more.
EXAMPLES = 3


def totals(results: list[Result], target: str) -> dict[str, int]:
    """Outcome -> number of cases on ``target``."""
    counts = Counter(r["outcome"] for r in results if r["target"] == target)
    return dict(sorted(counts.items()))


def differences(results: list[Result]) -> list[Result]:
    """Results on vulkan, in fp16 as well, that are worse than those on llvm."""
    passed = {r["case"] for r in results if r["target"] == "llvm" and r["outcome"] == "passed"}
    return [
        r
        for r in results
        if r["target"] != "llvm"
        and r["outcome"] not in ("passed", "skipped")
        and r["case"] in passed
    ]


def markdown(results: list[Result], heading: str = "") -> str:
    """The page. ``heading``: one line that says what ran where.

    Results whose case has a change behind an @ are of variants, which onnxruntime judges.
    """
    tests = [r for r in results if SIGN not in r["case"]]
    parts = [
        "# Operators",
        "",
        "Generated from the node tests of the `onnx` package; do not edit. To make it again:",
        "",
        f"    {COMMAND}",
        "",
        *INTRODUCTION.splitlines(),
        "",
        *([heading, ""] if heading else []),
        *_summary(tests),
        *_worse(results),
        *_classes(tests),
        *_operators(results),
        *_variants(results),
        *_skipped(tests),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _targets(results: list[Result]) -> list[str]:
    return [*TARGETS, *([FP16] if any(r["target"] == FP16 for r in results) else [])]


def _summary(results: list[Result]) -> list[str]:
    targets = _targets(results)
    counts = {target: totals(results, target) for target in targets}
    rows = [
        f"| {outcome} | {_cells(counts[t].get(outcome, 0) for t in targets)} | {meaning} |"
        for outcome, meaning in OUTCOMES.items()
    ]
    return [*_head("outcome", *targets, "meaning"), *rows, ""]


def _worse(results: list[Result]) -> list[str]:
    worse = differences(results)
    if not worse:
        others = "vulkan, and what is fp16 there too" if FP16 in _targets(results) else "vulkan"
        return [f"Whatever passes on llvm passes on {others}.", ""]
    lines = [
        f"- `{r['case']}` on {r['target']}: {r['outcome']}: {_generic(r['message'])}" for r in worse
    ]
    return ["## Right on llvm, not on vulkan", "", *lines, ""]


def _classes(results: list[Result]) -> list[str]:
    """All that does not pass, in three classes, with the reason of each."""
    groups: dict[tuple[str, str, str], dict[str, Result]] = {}
    for result in results:
        if result["outcome"] in ("passed", "skipped") or result["target"] == FP16:
            continue
        kind, reason = classified(result)
        groups.setdefault((kind, result["operator"], reason), {})[result["case"]] = result
    lines = ["## What does not pass", ""]
    for kind, meaning in CLASSES.items():
        found = {key: cases for key, cases in groups.items() if key[0] == kind}
        count = sum(map(len, found.values()))
        lines += [
            f"### {kind[0].upper()}{kind[1:]}: {count}",
            "",
            f"{meaning[0].upper()}{meaning[1:]}.",
            "",
        ]
        if not found:
            continue
        lines += _head("operator", "tests", "reason", "what is said", "which")
        for (_, operator, reason), cases in sorted(found.items()):
            message = _generic(next(iter(cases.values()))["message"])
            lines.append(
                f"| {operator} | {len(cases)} | {reason} | {message} | {_names(cases, EXAMPLES)} |"
            )
        lines.append("")
    return lines


def _operators(results: list[Result]) -> list[str]:
    targets = _targets(results)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    opsets, kinds = defaultdict(set), defaultdict(set)
    for result in results:
        operator = result["operator"]
        passed = result["outcome"] == "passed"
        if passed and result["target"] in TARGETS:
            opsets[operator].add(result["opset"])
            kinds[operator].update(result["types"])
        if result["outcome"] == "skipped" or SIGN in result["case"]:
            continue
        row = counts[operator]
        row[f"{result['target']} all"] += 1
        row[f"{result['target']} passed"] += passed
    rows = [
        f"| {operator} | {row['llvm all']} "
        f"| {_cells(_share(row, target) for target in targets)} "
        f"| {_span(opsets[operator])} | {' '.join(sorted(kinds[operator], key=_order))} |"
        for operator, row in sorted(counts.items())
    ]
    return [
        "## Passes by operator",
        "",
        *_head("operator", "tests", *targets, "opsets", "types of its inputs"),
        *rows,
        "",
    ]


def _share(row: Counter[str], target: str) -> str:
    """How many pass; of fp16, where fewer apply, of how many."""
    passed, count = row[f"{target} passed"], row[f"{target} all"]
    return str(passed) if target != FP16 else f"{passed} of {count}" if count else ""


def _span(opsets: set[int]) -> str:
    found = sorted(opsets)
    return f"{found[0]} to {found[-1]}" if len(found) > 1 else "".join(map(str, found))


def _order(kind: str) -> tuple[str, int]:
    letters = kind.rstrip("0123456789")
    return letters, int(kind[len(letters) :] or 0)


def _variants(results: list[Result]) -> list[str]:
    """What onnxruntime computes in another opset or type, and we do not."""
    groups: dict[tuple[str, str], dict[str, Result]] = {}
    for r in results:
        if SIGN in r["case"] and r["outcome"] not in ("passed", "skipped"):
            groups.setdefault((r["outcome"], _generic(r["message"])), {})[r["case"]] = r
    if not any(SIGN in r["case"] for r in results):
        return []
    ran = {r["case"] for r in results if SIGN in r["case"] and r["outcome"] != "skipped"}
    lines = [
        "## In other opsets and types",
        "",
        f"Each operator's first test in every older form of it and with every other type that ONNX "
        f"allows; onnxruntime computes {len(ran)} of these, and is what they are held to. Of those "
        f"all pass but:"
        if groups
        else f"All {len(ran)} that onnxruntime computes pass.",
        "",
    ]
    rows = [
        f"| {outcome} | {len(cases)} | {message} | {_names(cases, EXAMPLES)} |"
        for (outcome, message), cases in sorted(groups.items(), key=lambda item: item[0])
    ]
    return [*lines, *(_head("outcome", "tests", "message", "which") if rows else []), *rows, ""]


def _skipped(results: list[Result]) -> list[str]:
    groups: dict[str, dict[str, Result]] = defaultdict(dict)
    for result in results:
        if result["outcome"] == "skipped" and result["target"] != FP16:
            groups[_generic(result["message"])][result["case"]] = result
    rows = [
        f"| {len(cases)} | {message} | {_names(cases, EXAMPLES)} |"
        for message, cases in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    ]
    return ["## What is not compared", "", *_head("tests", "because of", "which"), *rows]


def _head(*names: str) -> list[str]:
    return [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]


def _cells(values: Iterable[object]) -> str:
    return " | ".join(map(str, values))


def _names(cases: Iterable[str], most: int) -> str:
    names = sorted(name.removeprefix("test_") for name in cases)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _generic(message: str) -> str:
    """A message without what differs from test to test, fit for a cell of a table."""
    message = re.sub(r"(?<= at )'.*", "…", message)
    message = re.sub(r"^\d+ nodes? cannot be imported: ", "", message)
    message = re.sub(r"^values: Mismatched elements: .*", "other values", message)
    message = re.sub(r"'[^']*'", "'…'", message)
    message = re.sub(r"\bshape \(.*?\), needed \(.*?\)", "another shape", message)
    message = re.sub(r"found R\.Tensor\(.*", "found a tensor of open shape", message)
    message = re.sub(r"(has no elements): .*", r"\1", message)
    return message.replace("|", "\\|").replace("<", "&lt;").strip() or "no message"
