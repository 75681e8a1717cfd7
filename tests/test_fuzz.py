"""Fuzzing, a second of it: every target takes its corpus, and inputs made of it by chance.

``make fuzz`` goes on for as long as it is told, led by what inputs reach.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from support.fuzz.__main__ import NAMES
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
