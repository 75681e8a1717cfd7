"""The conformance runner: a case that kills or hangs its process costs only itself."""

import sys

from support.conformance.operator_report import differences, markdown, totals
from support.conformance.run import Worker, read_results

# Answers "passed" but for cases called crash and hang; of "late" it dies after the first target.
FAKE = """
import json, os, sys, time
for line in sys.stdin:
    request = json.loads(line)
    for target in request["targets"]:
        if request["case"] == "crash" or (request["case"] == "late" and target == "vulkan"):
            print("last words", file=sys.stderr, flush=True)
            os._exit(7)
        if request["case"] == "hang":
            time.sleep(60)
        print(json.dumps({"target": target, "outcome": "passed", "message": ""}), flush=True)
"""


def outcomes(worker, case):
    return [(r["target"], r["outcome"]) for r in worker.run(case, "Op", ["llvm", "vulkan"])]


def test_crashes_and_hangs_are_results_and_the_next_case_runs():
    worker = Worker(2.0, [sys.executable, "-c", FAKE])
    passed = [("llvm", "passed"), ("vulkan", "passed")]
    try:
        assert outcomes(worker, "fine") == passed
        assert outcomes(worker, "crash") == [("llvm", "crashed"), ("vulkan", "crashed")]
        assert outcomes(worker, "late") == [("llvm", "passed"), ("vulkan", "crashed")]
        assert outcomes(worker, "hang") == [("llvm", "timeout"), ("vulkan", "timeout")]
        (message,) = {result["message"] for result in worker.run("crash", "Op", ["llvm"])}
        assert message == "exit code 7: last words"
        assert outcomes(worker, "fine") == passed
    finally:
        worker.stop()


def result(case, target, outcome, message=""):
    return {
        "case": case,
        "operator": "Op",
        "target": target,
        "outcome": outcome,
        "message": message,
    }


RESULTS = [
    result("test_a", "llvm", "passed"),
    result("test_a", "vulkan", "wrong", "values: Mismatched elements: 1 / 3 (33.3%)"),
    result("test_b", "llvm", "refused", "1 node cannot be imported: Op (no such) at 'Op_0'"),
    result("test_b", "vulkan", "refused", "1 node cannot be imported: Op (no such) at 'Op_0'"),
    result("test_c", "llvm", "skipped", "dtype string"),
    result("test_c", "vulkan", "skipped", "dtype string"),
]


def test_the_page_counts_by_operator_and_groups_by_message():
    page = markdown(RESULTS, "Made here.")
    assert totals(RESULTS, "llvm") == {"passed": 1, "refused": 1, "skipped": 1}
    assert [r["case"] for r in differences(RESULTS)] == ["test_a"]
    assert "Made here." in page
    assert "| Op | 2 | 1 | 0 | 1 |" in page
    assert "| refused | 1 | 1 | Op (no such) at … | b |" in page
    assert "- `test_a`: wrong: other values" in page
    assert "Whatever passes on llvm passes on vulkan." in markdown(RESULTS[2:])


def test_a_line_that_was_cut_off_is_run_again(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_text('{"case": "test_a"}\n{"case": "te')
    assert read_results(path) == [{"case": "test_a"}]
    assert read_results(tmp_path / "none.jsonl") == []
