"""Try the networks of wheels, zips, folders and files; one JSON line a network and target.

    python -m tests.support.zoo build/wheels/*.whl --results build/zoo.jsonl
    python -m tests.support.zoo build/wheels/*.whl \\
        --results tests/support/zoo/networks.jsonl --report docs/reference/networks.md

Every .onnx and .tflite file in them is compiled for each target (``vulkan-fp16`` is one, too) in a
process of its own, run on
random inputs of the range it takes and on a photo where it takes one, and held to onnxruntime
without optimisations, or to LiteRT's plain kernels. Right is within the tolerance of ``tvm-vision
check``, or within what that engine differs from itself by, with optimisations and without or
with inputs a millionth away (twice that for quantized networks); a network that chooses otherwise
is judged with the reference choosing by our numbers (selections.py). What has its result in the
file is not tried again, so that a run which was broken off goes on, and the file and its page
grow; ``--again REGEX`` tries those anew. rows.py says what a line holds. ``--inputs`` names a JSON
file of {pattern of the network's path: {input: {"shape": [...], "low": 0, "high": 1}}} for inputs
that are left open, or that take no random numbers (inputs.json beside this file is read as well);
else batches are 1, images 224 by 224, and other sizes 16. Exit code 1 where a network is wrong,
fails or crashes.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from tvm_vision.whole_files import write_whole

from ..conformance.run import Worker
from . import rows
from .files import Network, find
from .rows import Row, key
from .table import FAULTS, markdown, summary_line
from .trial import exporter, operators

TARGETS = ("vulkan", "llvm")
WORKER = (sys.executable, "-m", f"{__package__}.zoo_worker")
INPUTS = Path(__file__).with_name("inputs.json")


def tried(network: Network, targets: list[str], said: Any, timeout: float) -> Iterator[Row]:
    """The result of a network on each target. said: of inputs, the first pattern of the path
    counts. timeout: seconds for each of them."""
    worker = Worker(timeout, WORKER)
    path = network.path.as_posix()
    given: Any = next((words for pattern, words in said.items() if fnmatch(path, pattern)), {})
    try:
        for result in worker.run(path, "", targets, said=given):
            del result["case"], result["operator"]
            yield {
                **_named(network),
                "exporter": exporter(network.path),
                "operators": operators(network.path).total(),
                **result,
                **rows.measured_with(network.name, result["target"]),
            }
    finally:
        worker.stop()


def _named(network: Network) -> Row:
    return {"package": network.package, "version": network.version, "file": network.name}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sources", type=Path, nargs="*", help="wheels, zips, folders, files")
    parser.add_argument("--results", type=Path, default=Path("build/zoo.jsonl"))
    parser.add_argument("--report", type=Path, help="write the page there")
    parser.add_argument("--targets", default=",".join(TARGETS), help="with commas between")
    parser.add_argument("--only", type=re.compile, default=re.compile(""), help="regex of names")
    parser.add_argument("--again", type=re.compile, help="regex of names to try anew")
    parser.add_argument("--inputs", type=Path, help="JSON: what files do not say of inputs")
    parser.add_argument("--timeout", type=float, default=600, help="seconds a network and target")
    return parser.parse_args()


def main() -> int:
    options = _arguments()
    kept = rows.read(options.results)
    rows.write(options.results, kept)  # without a line that was cut off
    anew = options.again.search if options.again else lambda key: None
    done = {(key(row), row["target"]) for row in kept if not anew(key(row))}
    said = json.loads(options.inputs.read_text()) if options.inputs else {}
    said |= json.loads(INPUTS.read_text())
    with options.results.open("a") as file, tempfile.TemporaryDirectory() as unpacked:
        for network in find(options.sources, Path(unpacked)):
            name = key(_named(network))
            if not options.only.search(name):
                continue
            open_ones = [t for t in options.targets.split(",") if (name, t) not in done]
            for row in tried(network, open_ones, said, options.timeout) if open_ones else ():
                file.write(rows.text(row))
                file.flush()
                print(summary_line(row), flush=True)
    kept = rows.read(options.results)
    rows.write(options.results, kept)
    if options.report:
        write_whole(options.report, markdown(kept).encode())
    for target in options.targets.split(","):
        outcomes = [row["outcome"] for row in kept if row["target"] == target]
        counts = {outcome: outcomes.count(outcome) for outcome in sorted(set(outcomes))}
        print(target, len(outcomes), counts)
    return 1 if any(row["outcome"] in FAULTS for row in kept) else 0


if __name__ == "__main__":
    sys.exit(main())
