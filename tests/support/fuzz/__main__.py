"""Fuzz some targets, or all: ``PYTHONPATH=tests python -m support.fuzz --seconds 60 package keys``.

Those in C++ are built and run by scripts/fuzz_native.sh, under ASan and UBSan. Of those in Python,
with atheris (``make fuzz`` installs it), inputs are led by what of tvm_vision they reach, beginning
with the corpus in tests/fuzz_corpus; what finds something new is kept in build/fuzz, from where the
next run goes on. An input that is not read, and not refused in one line, ends the run: it lies in
build/fuzz/TARGET.crash-*, and belongs into the corpus once it is mended. Each target ends with a
line of executions, edges reached (of the flow of Python's bytecode) and features. ``--make-corpus``
writes the sound samples into the corpus.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterable

from support import ROOT

NAMES = (
    *("package", "info", "params", "signature", "records", "cache", "onnx", "tflite", "cfg"),
    *("weights", "yaml", "mcap", "db3", "picture"),
)
# What reads files in C++.
NATIVE_NAMES = (
    "module", "members", "cpp_info", "cpp_params", "cpp_signature", "keys", "text",
)  # fmt: skip
CORPUS = ROOT / "tests" / "fuzz_corpus"
BUILD = ROOT / "build" / "fuzz"
MOST_BYTES = 1 << 16


def make_corpus() -> None:
    """The sound samples of each target, by their content."""
    from .native import NATIVE
    from .targets import TARGETS

    makers = {name: target.samples for name, target in TARGETS.items()} | NATIVE
    for name, samples in makers.items():
        for sample in samples():
            place = CORPUS / name / hashlib.sha256(sample).hexdigest()[:16]
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(sample)


def fuzz_one(name: str, options: list[str]) -> None:
    """In a process of its own, which libFuzzer ends. options: of libFuzzer."""
    import atheris

    with atheris.instrument_imports(include=["tvm_vision", "tvm_vision_ros"]):
        from .targets import TARGETS

        target = TARGETS[name]
        # What is imported late is imported here, and by that instrumented.
        for sample in target.samples():
            assert target.consume(sample) or name == "weights", name

    def once(data: bytes) -> None:
        target.consume(data)

    atheris.Setup([name, *options], once)
    atheris.Fuzz()


def run(name: str, seconds: int) -> bool:
    """Fuzz a target and tell of it; whether nothing was found."""
    if name in NATIVE_NAMES:
        script = [str(ROOT / "scripts" / "fuzz_native.sh"), sys.executable, str(seconds), name]
        return subprocess.run(script, cwd=ROOT).returncode == 0
    kept = BUILD / name
    kept.mkdir(parents=True, exist_ok=True)
    options = [
        str(kept), str(CORPUS / name), f"-max_total_time={seconds}", f"-max_len={MOST_BYTES}",
        f"-artifact_prefix={BUILD}/{name}.", "-print_final_stats=1", "-timeout=60",
        "-rss_limit_mb=6000", "-use_value_profile=1",
    ]  # fmt: skip
    command = [sys.executable, "-m", __package__, "--one", name, *options]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=os.environ)
    said = done.stdout + done.stderr
    (BUILD / f"{name}.log").write_text(said)
    count = re.findall(r"number_of_executed_units: (\d+)", said) or ["0"]
    reached = re.findall(r"cov: (\d+) ft: (\d+)", said) or [("0", "0")]
    words = "nothing found" if done.returncode == 0 else f"FOUND, see build/fuzz/{name}.log"
    edges, features = reached[-1]
    print(
        f"{name}: {count[-1]} executions, {edges} edges, {features} features: {words}", flush=True
    )
    return done.returncode == 0


def main(arguments: Iterable[str] | None = None) -> None:
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["--one"]:
        fuzz_one(given[1], given[2:])
        return
    parser = argparse.ArgumentParser(prog="python -m support.fuzz")
    every = (*NAMES, *NATIVE_NAMES)
    parser.add_argument("targets", nargs="*", default=every, metavar="TARGET")
    parser.add_argument("--seconds", type=int, default=60, help="for each")
    parser.add_argument("--make-corpus", action="store_true")
    words = parser.parse_args(given)
    if unknown := [name for name in words.targets if name not in every]:
        parser.error(f"targets of {', '.join(every)} are needed, found {', '.join(unknown)}")
    if words.make_corpus:
        make_corpus()
        return
    found = [name for name in words.targets if not run(name, words.seconds)]
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
