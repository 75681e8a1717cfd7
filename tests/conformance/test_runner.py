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
        if request["case"] == "judge":
            print(json.dumps({"stage": "reference"}), flush=True)
            os._exit(6)
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
        # What ends onnxruntime is no case of ours.
        assert outcomes(worker, "judge") == [("llvm", "skipped"), ("vulkan", "skipped")]
        assert outcomes(worker, "hang") == [("llvm", "timeout"), ("vulkan", "timeout")]
        (message,) = {result["message"] for result in worker.run("crash", "Op", ["llvm"])}
        assert message == "exit code 7: last words"
        assert outcomes(worker, "fine") == passed
    finally:
        worker.stop()


def result(case, target, outcome, message="", operator="Op", opset=13, types=("float32",)):
    return {
        "case": case,
        "operator": operator,
        "target": target,
        "outcome": outcome,
        "message": message,
        "opset": opset,
        "types": list(types),
    }


REFUSED = "1 node cannot be imported: Op (no such) at 'Op_0': use another"
RESULTS = [
    result("test_a", "llvm", "passed"),
    result("test_a", "vulkan", "wrong", "values: Mismatched elements: 1 / 3 (33.3%)"),
    result("test_b", "llvm", "refused", REFUSED),
    result("test_b", "vulkan", "refused", REFUSED),
    result("test_c", "llvm", "skipped", "dtype string"),
    result("test_c", "vulkan", "skipped", "dtype string"),
    result("test_d", "llvm", "refused", "output 'y' has no elements: take it out"),
    result("test_d", "vulkan", "refused", "output 'y' has no elements: take it out"),
    result("test_a@opset=7", "llvm", "passed", opset=7),
    result("test_a@type=int8", "llvm", "passed", types=["int8"]),
    result("test_a@type=bool", "llvm", "refused", REFUSED, types=["bool"]),
]


def test_the_page_counts_by_operator_and_has_three_classes():
    page = markdown(RESULTS, "Made here.")
    assert totals(RESULTS[:6], "llvm") == {"passed": 1, "refused": 1, "skipped": 1}
    assert [r["case"] for r in differences(RESULTS)] == ["test_a"]
    assert "Made here." in page
    assert "| Op | 3 | 1 | 0 | 7 to 13 | float32 int8 |" in page
    assert "### Cannot be static: 1" in page
    assert "| Op | 1 | a result without elements: there is nothing to compute | output" in page
    assert "### Not yet: 1" in page
    assert "### Wrong: 1" in page
    assert "| refused | 1 | Op (no such) at … | a@type=bool |" in page
    assert "- `test_a` on vulkan: wrong: other values" in page
    assert "Whatever passes on llvm passes on vulkan." in markdown(RESULTS[2:])


def test_fp16_is_a_column_where_it_ran():
    fp16 = result("test_e", "vulkan-fp16", "passed", operator="Other")
    page = markdown([result("test_e", "llvm", "passed", operator="Other"), fp16])
    assert "| operator | tests | llvm | vulkan | vulkan-fp16 | opsets |" in page
    assert "| Other | 1 | 1 | 0 | 1 of 1 | 13 | float32 |" in page
    worse = {**fp16, "outcome": "wrong"}
    assert differences([result("test_e", "llvm", "passed"), worse]) == [worse]


def test_a_line_that_was_cut_off_is_run_again(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_text('{"case": "test_a"}\n{"case": "te')
    assert read_results(path) == [{"case": "test_a"}]
    assert read_results(tmp_path / "none.jsonl") == []
