"""Fuzzing, half a minute of processor time: every target takes its corpus, and as many inputs made
of it as it can in a second, the same each time; in C++ under ASan and UBSan, led by what they
reach, and once more as long to be built.

``make fuzz`` goes on for as long as it is told, led by what inputs reach.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest

from support import ROOT
from support.fuzz.__main__ import NAMES, NATIVE_NAMES, main
from support.fuzz.native import NATIVE
from support.fuzz.targets import TARGETS, sound
from support.mutations import mutated

CORPUS = Path(__file__).with_name("fuzz_corpus")
SECONDS = 1
# Where one takes as long as all others: a hundred thousand brackets in YAML.
FEWEST = 100
# So many inputs of one file, then of the next.
AT_ONCE = 10
# Whose writers, of others, may order or compress anew.
WRITTEN_BY_OTHERS = ("onnx", "tflite", "mcap", "db3", "picture")


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_has_the_samples_that_its_script_writes(name: str) -> None:
    assert set(NAMES) == set(TARGETS) and set(NATIVE_NAMES) == set(NATIVE)
    kept = {path.read_bytes() for path in (CORPUS / name).iterdir()}
    if name not in WRITTEN_BY_OTHERS:
        assert kept >= set(TARGETS[name].samples())


@pytest.mark.parametrize("name", TARGETS)
def test_samples_are_taken(name: str) -> None:
    """What is refused at once leads nowhere. Weights are of a network that is not beside them."""
    assert all(sound(name)) or name == "weights"


@pytest.mark.parametrize("name", TARGETS)
def test_inputs_are_taken_or_refused_in_one_line(name: str) -> None:
    samples = [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]
    for sample in samples:
        TARGETS[name].consume(sample)
    seed, start = zlib.crc32(name.encode()), time.process_time()
    executions = len(samples)
    while executions < FEWEST or time.process_time() - start < SECONDS:
        for sample in samples:
            for data in mutated(sample, seed + executions, AT_ONCE):
                TARGETS[name].consume(data)
            executions += AT_ONCE
    print(f"{name}: {executions} executions")


def test_targets_are_named_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["package", "modules"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "found modules" in said and all(n in said for n in (*NAMES, *NATIVE_NAMES))


@pytest.mark.parametrize("name", NATIVE)
def test_the_corpus_in_cpp_has_the_samples_that_its_script_writes(name: str) -> None:
    kept = {path.read_bytes() for path in (CORPUS / name).iterdir()}
    assert kept >= set(NATIVE[name]())


def test_readers_in_cpp_stand_inputs_that_nobody_wrote(tmp_path: Path) -> None:
    clang = shutil.which("clang++") or shutil.which("clang++-14")
    if clang is None:
        pytest.skip("clang++ with libFuzzer is needed: apt install clang libclang-rt-dev")
    probe = tmp_path / "probe.cc"
    probe.write_text('extern "C" int LLVMFuzzerTestOneInput(const char*, long) { return 0; }\n')
    command = [clang, "-fsanitize=fuzzer,address", "-o", str(tmp_path / "probe"), str(probe)]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("libFuzzer is needed beside clang++: apt install libclang-rt-dev")
    done = subprocess.run(
        [str(ROOT / "scripts/fuzz_native.sh"), sys.executable, "2"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(NATIVE)
