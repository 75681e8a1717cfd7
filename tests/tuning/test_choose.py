"""From records to schedules: what compile believes, and what it passes over."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tvm import te, tirx

from support.tuning_world import HERE, record
from tvm_vision.schedules import (
    ScheduleConfig,
    TargetLimits,
    choices,
    is_offered,
    kernel_key,
)
from tvm_vision.tuning import Records
from tvm_vision.tuning import choose as choose_module
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


def test_what_was_offered_once_is_not_asked_again(
    kernel: tirx.PrimFunc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But of the same kernel, device and parameters; what was not offered is asked each time."""
    monkeypatch.setenv("TVM_VISION_CACHE_DIR", str(tmp_path))
    asked: list[ScheduleConfig] = []

    def watched(function: Any, limits: Any, choice: ScheduleConfig) -> bool:
        asked.append(choice)
        return is_offered(function, limits, choice)

    monkeypatch.setattr(choose_module, "is_offered", watched)
    first, other = choices(kernel, LIMITS)[0].to_dict(), choices(kernel, LIMITS)[-1].to_dict()
    odd = {**first, "parameters": {**first["parameters"], "threads": 10**9}}
    smaller = replace(LIMITS, threads=64)
    for decision, limits, times, taken in (
        (first, LIMITS, 1, True), (first, LIMITS, 0, True), (other, LIMITS, 1, True),
        (odd, LIMITS, 1, False), (odd, LIMITS, 1, False), (first, smaller, 1, False),
    ):  # fmt: skip
        asked.clear()
        records = Records([record(kernel_key(kernel), decision=decision)])
        assert (chooser(records, HERE, limits)(kernel) is not None) == taken
        assert len(asked) == times
    for path in (tmp_path / "offered").iterdir():
        path.write_bytes(b"damaged")
    chooser(Records([record(kernel_key(kernel), decision=first)]), HERE, LIMITS)(kernel)
    assert len(asked) == 2


def test_shipped_records_can_be_read_and_are_small() -> None:
    found = shipped_records()
    assert all(r.chosen and r.seconds and not r.error for r in found)
    # What no device has run is no more than that, by its own word.
    assert all(r.checked != (r.search == STATIC) for r in found)
    assert len("".join(r.to_json() for r in found)) < 200_000
