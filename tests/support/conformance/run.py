"""Run the node tests of the onnx package on llvm and on vulkan, one JSON line a result.

    python -m tests.support.conformance.run \\
        --results build/conformance.jsonl --report docs/reference/operators.md

Cases that already have their results in the file are not run again, so that a run which was broken
off goes on; remove the file to start anew. ``--every 25`` takes each 25th case, ``--only REGEX``
those whose name matches, ``--precision fp16`` adds what passes in float32 in fp16 on vulkan,
``--variants`` each operator in older opsets and other types, held to onnxruntime, ``--numbers``
with large and small ones and such far from zero, in which onnxruntime may be the one that is wrong,
``--mutations N`` N random changes of each case, of which "failed", "wrong" and "crashed" are
faults. Exit code 1 where a case that passes on llvm does not pass on vulkan.
"""

from __future__ import annotations

import argparse
import json
import queue
import re
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

from .conformance_worker import FP16
from .onnx_cases import node_cases
from .operator_report import differences, markdown, totals
from .variants import SIGN, mutation_names, number_names, variant_names

TARGETS = ("llvm", "vulkan")
WORKER = (sys.executable, "-m", f"{__package__}.conformance_worker")
# A process gathers the compiled code of its cases.
CASES_OF_A_WORKER = 300

Result = dict[str, Any]


class Worker:
    """A worker process that is started again whenever a case ended it."""

    def __init__(self, timeout: float, command: Sequence[str] = WORKER) -> None:
        self._timeout = timeout  # seconds, for one case on one target
        self._command = list(command)
        self._served = 0
        self._stage = ""
        self._process: subprocess.Popen[str] | None = None

    def run(
        self, case: str, operator: str, targets: Iterable[str], **more: Any
    ) -> Iterator[Result]:
        """The results of one case in the order of ``targets``. more: for the worker alone."""
        remaining = list(targets)
        while remaining:
            self._send({"case": case, "targets": remaining, **more})
            while remaining:
                result = self._receive()
                ended = self._process is None
                yield {"case": case, "operator": operator, "target": remaining.pop(0)} | result
                if ended:
                    break

    def stop(self) -> None:
        """End the process; run() starts another."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _send(self, request: dict[str, Any]) -> None:
        if self._served >= CASES_OF_A_WORKER:
            self.stop()
        if self._process is None:
            self._start()
        self._served += 1
        self._stage = ""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def _start(self) -> None:
        self._served = 0
        self._errors = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        assert self._process.stdout is not None
        arguments = (self._process.stdout, self._lines)
        threading.Thread(target=_forward, args=arguments, daemon=True).start()

    def _receive(self) -> Result:
        line: str | None = ""
        while line is not None:
            try:
                line = self._lines.get(timeout=self._timeout)
            except queue.Empty:
                self.stop()
                return {"outcome": "timeout", "message": f"longer than {self._timeout:g} s"}
            answer = json.loads(line) if line is not None else {}
            if "outcome" in answer:
                return answer
            # What it is about, should it end now.
            self._stage = answer.get("stage", self._stage)
        if self._stage == "reference":
            self.stop()
            return {"outcome": "skipped", "message": "onnxruntime ends its process"}
        assert self._process is not None
        code = self._process.wait()
        self.stop()
        return {"outcome": "crashed", "message": f"exit code {code}: {self._last_words()}"}

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors.read().splitlines() if line.strip()]
        return lines[-1][:200] if lines else "no message"


def _forward(stream: IO[str], lines: queue.SimpleQueue[str | None]) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def run_cases(
    names: Iterable[str], targets: Iterable[str], *, jobs: int, timeout: float
) -> Iterator[Result]:
    """Results of the cases as they come, from ``jobs`` worker processes."""
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    results: queue.SimpleQueue[Result | None] = queue.SimpleQueue()
    for name in names:
        waiting.put(name)
    cases, targets = node_cases(), tuple(targets)

    def work() -> None:
        worker = Worker(timeout)
        try:
            while True:
                name = waiting.get_nowait()
                operator = cases[name.partition(SIGN)[0]].operator
                for result in worker.run(name, operator, targets):
                    results.put(result)
        except queue.Empty:
            worker.stop()
        finally:
            results.put(None)

    for _ in range(jobs):
        threading.Thread(target=work, daemon=True).start()
    for _ in range(jobs):
        yield from iter(results.get, None)


def read_results(path: Path) -> list[Result]:
    """Results of earlier runs; a last line that was cut off is left out."""
    results = []
    for line in path.read_text().splitlines() if path.is_file() else []:
        try:
            results.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return results


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=Path("build/conformance.jsonl"))
    parser.add_argument("--report", type=Path, help="write the table of operators there")
    parser.add_argument("--every", type=int, default=1, help="only each N-th case")
    parser.add_argument("--only", type=re.compile, default=re.compile(""), help="regex of names")
    parser.add_argument("--precision", choices=("fp32", "fp16"), default="fp32")
    parser.add_argument("--variants", action="store_true", help="older opsets and other types too")
    parser.add_argument("--numbers", action="store_true", help="large, small and far from zero")
    parser.add_argument("--mutations", type=int, default=0, help="random changes of each case")
    parser.add_argument("--targets", help="only these, separated by commas")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=120, help="seconds a case and target")
    return parser.parse_args()


def _settings(results: Iterable[Result]) -> str:
    """What ran where, for the page; of results from several runs, how many are from each."""
    counts = Counter(result["setting"] for result in results)
    if len(counts) == 1:
        return f"Made with {next(iter(counts))}."
    lines = [f"- {count} with {setting}" for setting, count in counts.most_common()]
    return "\n".join(["Results:", "", *lines])


def _setting() -> str:
    """What runs where."""
    import tvm_vision.vulkan

    versions = ", ".join(f"{name} {version(name)}" for name in ("onnx", "onnxsim", "apache-tvm"))
    devices = tvm_vision.vulkan.devices()
    return f"{versions} on {devices[0].describe() if devices else 'no Vulkan device'}"


def main() -> int:
    options = _arguments()
    options.results.parent.mkdir(parents=True, exist_ok=True)
    results = read_results(options.results)
    done = {(result["case"], result["target"]) for result in results}
    targets = (*TARGETS, FP16) if options.precision == "fp16" else TARGETS
    targets = tuple(options.targets.split(",")) if options.targets else targets
    known = [*node_cases(), *(variant_names() if options.variants else [])]
    known = mutation_names(range(options.mutations)) if options.mutations else known
    known = number_names() if options.numbers else known
    names = [
        name
        for name in known[:: options.every]
        if options.only.search(name) and any((name, target) not in done for target in targets)
    ]
    print(f"{len(names)} cases to run, {len(results)} results kept", file=sys.stderr)
    setting = _setting()
    with options.results.open("a") as file:
        for result in run_cases(names, targets, jobs=options.jobs, timeout=options.timeout):
            result["setting"] = setting
            results.append(result)
            file.write(json.dumps(result) + "\n")
            file.flush()
    if options.report:
        options.report.write_text(markdown(results, _settings(results)))
    for target in targets:
        print(target, totals(results, target))
    differing = differences(results)
    for result in differing:
        print(f"{result['case']}: {result['outcome']} on {result['target']}: {result['message']}")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
