"""From records to schedules: what compile believes, and what it passes over."""

from __future__ import annotations

import pytest
from tvm import te, tirx

from support.tuning_world import HERE, record
from tvm_vision.schedules import TargetLimits, choices, kernel_key
from tvm_vision.tuning import Records
from tvm_vision.tuning.choose import chooser, shipped_records
from tvm_vision.tuning.records import STATIC

LIMITS = TargetLimits(threads=128, shared_bytes=16384, subgroup=32)


@pytest.fixture(scope="module")
def kernel() -> tirx.PrimFunc:
    a = te.placeholder((4096,), "float32", "a")
    return te.create_prim_func([a, te.compute(a.shape, lambda i: a[i] * 2.0)])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, ""),
        ({"threads": 64}, ""),
        ({"threads": 256}, "offered"),  # of a device that has more
        ({"threads": 10**9}, "offered"),
        ({"threads": "many"}, "offered"),
        ({"along": 0}, "offered"),
        ({"of tomorrow": 1}, "parameters of template elementwise"),
    ],
)
def test_a_decision_is_taken_where_this_device_is_offered_it(
    kernel: tirx.PrimFunc,
    change: dict[str, object],
    says: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A file can hold anything, and limits and switches change."""
    decision = choices(kernel, LIMITS)[0].to_dict()
    decision["parameters"] |= change
    key = kernel_key(kernel)
    choose = chooser(Records([record(key, decision=decision)]), HERE, LIMITS)
    assert (choose(kernel) is None) == bool(says)
    assert says in caplog.text and bool(caplog.text) == bool(says)
    assert choose(kernel) == choose(kernel)


def test_shipped_records_can_be_read_and_are_small() -> None:
    found = shipped_records()
    assert all(r.chosen and r.seconds and not r.error for r in found)
    # What no device has run is no more than that, by its own word.
    assert all(r.checked != (r.search == STATIC) for r in found)
    assert len("".join(r.to_json() for r in found)) < 200_000
