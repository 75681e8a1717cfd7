"""Statistics of times, with a clock that is under control."""

import itertools

import pytest

from tvm_vision.errors import InputError
from tvm_vision.runtime.benchmark import BenchmarkResult, measure


def test_measure_counts_runs_and_divides():
    runs = []
    clock = itertools.chain([0.0, 1.0, 1.0, 5.0])
    result = measure(
        lambda: runs.append(1), repeat=2, number=2, warmup=3, clock=lambda: next(clock)
    )
    assert len(runs) == 3 + 2 * 2
    assert result == BenchmarkResult((0.5, 2.0), 2)


def test_statistics():
    result = BenchmarkResult((0.001, 0.002, 0.006))
    assert result.to_dict() == pytest.approx(
        {
            "repeat": 3, "number": 1, "mean_ms": 3.0, "median_ms": 2.0, "p95_ms": 5.6,
            "min_ms": 1.0, "max_ms": 6.0, "std_ms": 2.160247,
        },
        rel=1e-6,
    )  # fmt: skip
    assert str(result).startswith("median 2.000 ms, mean 3.000, p95 5.600, min 1.000, max 6.000")


@pytest.mark.parametrize("wrong", [{"repeat": 0}, {"number": 0}, {"warmup": -1}])
def test_counts_below_the_least(wrong):
    with pytest.raises(InputError, match=f"a {next(iter(wrong))} of at least"):
        measure(lambda: None, **wrong)


def test_no_times():
    with pytest.raises(ValueError, match="expected times"):
        BenchmarkResult(())
