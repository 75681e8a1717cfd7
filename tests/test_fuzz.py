"""Fuzzing, a minute of it: every target takes its corpus, and inputs made of it by chance; in C++
under ASan and UBSan, led by what they reach.

``make fuzz`` goes on for as long as it is told, led by what inputs reach.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from support import ROOT
from support.fuzz.__main__ import NAMES
from support.fuzz.native import NATIVE
from support.fuzz.targets import TARGETS
from support.mutations import mutated

CORPUS = Path(__file__).with_name("fuzz_corpus")
# Each import of a model takes long; tests/frontend has damaged models of both kinds.
SLOW = ("onnx", "tflite")
# Whose writers, of others, may order or compress anew.
WRITTEN_BY_OTHERS = (*SLOW, "mcap", "db3", "picture")


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_has_the_samples_that_its_script_writes(name: str) -> None:
    assert set(NAMES) == set(TARGETS)
    kept = {path.read_bytes() for path in (CORPUS / name).iterdir()}
    if name not in WRITTEN_BY_OTHERS:
        assert kept >= set(TARGETS[name].samples())


@pytest.mark.parametrize("name", TARGETS)
def test_inputs_are_taken_or_refused_in_one_line(name: str) -> None:
    count = 2 if name in SLOW else 40
    for path in sorted((CORPUS / name).iterdir()):
        sample = path.read_bytes()
        TARGETS[name].consume(sample)
        if name in SLOW and path != min((CORPUS / name).iterdir()):
            continue
        for data in mutated(sample, zlib.crc32(name.encode()), count):
            TARGETS[name].consume(data)


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
