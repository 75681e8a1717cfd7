"""The least time that a kernel can take, and how that is known."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from support.reports import chain_info, made_up_profile
from tvm_vision.devices.measured import Measured
from tvm_vision.report import floors
from tvm_vision.report.floors import CALIBRATED, DESCRIBED, UNKNOWN, Ceilings, floor_of
from tvm_vision.runtime.profiler import KernelInfo
from tvm_vision.tools.profile import report_lines

KNOWN = Ceilings(CALIBRATED, "", 1e9, {"float32": 1e9, "float16": 4e9}, 5e-6)
MATRICES = replace(KNOWN, rates={**(KNOWN.rates or {}), "float16 matrices": 32e9})


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


@pytest.mark.parametrize(
    ("arithmetic", "ceilings", "floor_us", "bound"),
    [
        ("float16 matrices", MATRICES, 40.0, "operations"),
        ("float16", MATRICES, 320.0, "operations"),
        ("float16 matrices", KNOWN, 8.0, "bytes"),
        ("int8 matrices", MATRICES, 8.0, "bytes"),
    ],
)
def test_matrices_count_by_their_own_rate_or_not_at_all(
    arithmetic: str, ceilings: Ceilings, floor_us: float, bound: str
) -> None:
    """As numbers, products on matrices had floors of fifteen times what they take on an H200."""
    found = floor_of(KernelInfo("f", (), 8_000, 1_280_000, arithmetic), ceilings)
    assert found is not None
    assert (found.floor_us, found.bound) == (pytest.approx(floor_us), bound)


def test_a_calibration_is_taken_as_it_was_measured() -> None:
    rates = {"float32": 2e12, "dp4a": 8e12, "float16_matrices": 3e13}
    measured = Measured("2026-11-22", rates, 1e11, 1e12, 3e-6, 8)
    found = floors.measured_ceilings(measured)
    assert found.source == CALIBRATED and "2026-11-22" in found.line()
    assert found.rates == {"float32": 2e12, "int8": 8e12, "float16 matrices": 3e13}
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


@pytest.mark.parametrize(("launch", "said"), [(1e-9, False), (6e-6, True)])
def test_kernels_below_their_floors_are_told(launch: float, said: bool) -> None:
    """Of times from 3 to 13 us some are below floors of 6."""
    report = made_up_profile(chain_info(12))
    lines = report_lines(report, ceilings=Ceilings(DESCRIBED, "", 1e15, {"float32": 1e15}, launch))
    below = sum(kernel.median_us < 0.9 * 6 for kernel in report.kernels)
    assert 0 < below < 12
    told = f"{below} of 12 kernels take less than their floors"
    assert any(told in line for line in lines) == said
