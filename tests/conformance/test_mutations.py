"""Whatever onnxruntime runs comes out right, or is refused in one line with a remedy: node tests
changed at random. More of them: ``python -m tests.support.conformance.run --mutations N``."""

from __future__ import annotations

import pytest

from support.conformance.run import run_cases
from support.conformance.variants import mutation_names

FAULTS = ("wrong", "failed", "crashed", "timeout")
TIMEOUT = 60.0  # seconds, a case


def faults(names: list[str], jobs: int) -> list[str]:
    results = list(run_cases(names, ["llvm"], jobs=jobs, timeout=TIMEOUT))
    assert len(results) == len(names)
    ran = [r for r in results if r["outcome"] != "skipped"]
    assert len(ran) > len(names) / 4
    return [f"{r['case']}: {r['outcome']}: {r['message']}" for r in ran if r["outcome"] in FAULTS]


def test_a_sample_of_changed_models_is_right_or_refused() -> None:
    assert faults(mutation_names(range(1))[::67], jobs=1) == []


@pytest.mark.slow
def test_changed_models_are_right_or_refused() -> None:
    assert faults(mutation_names(range(1, 3)), jobs=2) == []
