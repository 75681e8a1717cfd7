"""The results of the conformance run as a page: passes by operator, and why the others fail."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import Any

Result = dict[str, Any]

TARGETS = ("llvm", "vulkan")
OUTCOMES = {
    "passed": "right within the test's own tolerance",
    "wrong": "ran, with another result",
    "failed": "imported, but did not compile or run",
    "refused": "not imported: one line names each operator",
    "crashed": "the process died",
    "timeout": "took too long",
    "skipped": "outside of what is compared: other types than numbers and bools, open shapes",
}
COMMAND = (
    "python -m tests.support.conformance.run "
    "--results build/conformance.jsonl --report docs/reference/operators.md"
)
# More names of tests that did not run say no more.
EXAMPLES = 3


def totals(results: list[Result], target: str) -> dict[str, int]:
    """Outcome -> number of cases on ``target``."""
    counts = Counter(r["outcome"] for r in results if r["target"] == target)
    return dict(sorted(counts.items()))


def differences(results: list[Result]) -> list[Result]:
    """Results on vulkan that are worse than those on llvm."""
    passed = {r["case"] for r in results if r["target"] == "llvm" and r["outcome"] == "passed"}
    return [
        r
        for r in results
        if r["target"] == "vulkan" and r["outcome"] != "passed" and r["case"] in passed
    ]


def markdown(results: list[Result], heading: str = "") -> str:
    """The page. ``heading``: one line that says what ran where."""
    parts = [
        "# Operators",
        "",
        "Generated from the node tests of the `onnx` package; do not edit. To make it again:",
        "",
        f"    {COMMAND}",
        "",
        "Each test is imported with `import_onnx`, compiled and run for `llvm` and `vulkan`, and",
        "compared with the stored outputs. Inputs that decide about shapes and axes (the shape",
        "of a Reshape, the axes of a Slice) are constants here, as they are in a network.",
        "",
        *([heading, ""] if heading else []),
        *_summary(results),
        *_worse(results),
        *_operators(results),
        *_reasons(results),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _summary(results: list[Result]) -> list[str]:
    counts = {target: totals(results, target) for target in TARGETS}
    rows = [
        f"| {outcome} | {counts['llvm'].get(outcome, 0)} | {counts['vulkan'].get(outcome, 0)} "
        f"| {meaning} |"
        for outcome, meaning in OUTCOMES.items()
    ]
    return ["| outcome | llvm | vulkan | meaning |", "|---|---|---|---|", *rows, ""]


def _worse(results: list[Result]) -> list[str]:
    worse = differences(results)
    if not worse:
        return ["Whatever passes on llvm passes on vulkan.", ""]
    lines = [f"- `{r['case']}`: {r['outcome']}: {_generic(r['message'])}" for r in worse]
    return ["## Right on llvm, not on vulkan", "", *lines, ""]


def _operators(results: list[Result]) -> list[str]:
    tests: dict[str, Counter[str]] = defaultdict(Counter)
    for result in results:
        if result["outcome"] == "skipped":
            continue
        row = tests[result["operator"]]
        row[f"{result['target']} all"] += 1
        row[f"{result['target']} passed"] += result["outcome"] == "passed"
        row["refused"] += result["outcome"] == "refused" and result["target"] == "llvm"
    rows = [
        f"| {operator} | {row['llvm all']} | {row['llvm passed']} | {row['vulkan passed']} "
        f"| {row['refused'] or ''} |"
        for operator, row in sorted(tests.items())
    ]
    return [
        "## Passes by operator",
        "",
        "| operator | tests | llvm | vulkan | refused |",
        "|---|---|---|---|---|",
        *rows,
        "",
    ]


def _reasons(results: list[Result]) -> list[str]:
    groups: dict[tuple[str, str], dict[str, list[str]]] = {}
    for result in results:
        if result["outcome"] != "passed":
            key = (result["outcome"], _generic(result["message"]))
            targets = groups.setdefault(key, {target: [] for target in TARGETS})
            targets[result["target"]].append(result["case"])
    order = list(OUTCOMES)
    rows = []
    for (outcome, message), cases in sorted(
        groups.items(), key=lambda item: (order.index(item[0][0]), -_size(item[1]), item[0][1])
    ):
        names = sorted({*cases["llvm"], *cases["vulkan"]})
        count = EXAMPLES if outcome in ("refused", "skipped") else len(names)
        shown = ", ".join(name.removeprefix("test_") for name in names[:count])
        more = f" and {len(names) - count} more" if len(names) > count else ""
        rows.append(
            f"| {outcome} | {len(cases['llvm'])} | {len(cases['vulkan'])} | {message} "
            f"| {shown}{more} |"
        )
    head = ["| outcome | llvm | vulkan | message | tests |", "|---|---|---|---|---|"]
    return ["## Why the others do not pass", "", *head, *rows]


def _size(cases: dict[str, list[str]]) -> int:
    return max(len(names) for names in cases.values())


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
