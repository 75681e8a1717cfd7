"""The least time that a kernel can take, and how that is known."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tvm_vision.devices.measured import Measured
from tvm_vision.report import floors
from tvm_vision.report.floors import CALIBRATED, DESCRIBED, UNKNOWN, Ceilings, floor_of
from tvm_vision.runtime.profiler import KernelInfo

KNOWN = Ceilings(CALIBRATED, "", 1e9, {"float32": 1e9, "float16": 4e9}, 5e-6)


@pytest.mark.parametrize(
    ("kernel", "floor_us", "bound"),
    [
        (KernelInfo("f", (), 20_000, 10_000), 20.0, "bytes"),
        (KernelInfo("f", (), 20_000, 40_000), 40.0, "operations"),
        (KernelInfo("f", (), 8_000, 40_000, "float16"), 10.0, "operations"),
        (KernelInfo("f", (), 8_000, 40_000, "int8"), 40.0, "operations"),  # no rate of its own
        (KernelInfo("f", (), 100, 100), 5.0, "launch"),
        (KernelInfo("f", (), 20_000, None), 20.0, "bytes"),
    ],
)
def test_the_longest_of_three(kernel: KernelInfo, floor_us: float, bound: str) -> None:
    found = floor_of(kernel, KNOWN)
    assert found is not None
    assert (found.floor_us, found.bound) == (pytest.approx(floor_us), bound)
    assert floor_of(kernel, Ceilings(UNKNOWN, "")) is None


def test_a_calibration_is_taken_as_it_was_measured() -> None:
    measured = Measured("2026-11-22", {"float32": 2e12, "dp4a": 8e12}, 1e11, 1e12, 3e-6, 8)
    found = floors.measured_ceilings(measured)
    assert found.source == CALIBRATED and "2026-11-22" in found.line()
    assert found.rates == {"float32": 2e12, "int8": 8e12}
    assert (found.bandwidth, found.launch) == (1e11, 3e-6)
    assert found.to_dict()["rates"]["int8"] == 8e12


@pytest.mark.parametrize(
    ("kind", "source"),
    [("discrete", DESCRIBED), ("integrated", DESCRIBED), ("cpu", UNKNOWN), ("other", UNKNOWN)],
)
def test_what_is_only_assumed_is_called_so(kind: str, source: str) -> None:
    found = floors.described_ceilings(kind)
    assert found.source == source
    assert "tvm-vision calibrate" in found.line()
    assert ("not measured" in found.line()) == (source == DESCRIBED)


def test_a_process_that_only_runs_networks_assumes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_USE_RUNTIME_LIB", "1")
    monkeypatch.delenv("TVM_LIBRARY_PATH", raising=False)
    assert floors.described_ceilings("discrete").source == UNKNOWN


def test_of_a_processor_nothing_is_known() -> None:
    assert floors.ceilings_of(SimpleNamespace(type="cpu", index=0)).source == UNKNOWN
