"""Occupancy and times by hand: what the model says of numbers that are easy to follow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tvm_vision.compiler import parse_target
from tvm_vision.devices import known_devices
from tvm_vision.errors import InputError
from tvm_vision.offline import machines, report
from tvm_vision.offline.model import Frame, examine, occupancy, time_launch
from tvm_vision.offline.network import Kernel, Launch, Network
from tvm_vision.offline.pipelines import Compiled, Pipeline
from tvm_vision.schedules import TargetLimits
from tvm_vision.target_keys import SCHEDULERS, numbers_in

VEGA, RDNA3 = machines.find("renoir"), machines.find("phoenix")
LOADS = """
    s_mov_b32 s0, 0
BB1:
    buffer_load_dword v4, v0, s[4:7], 0 offen
    buffer_load_dword v8, v1, s[4:7], 0 offen
    s_waitcnt vmcnt(0)
    v_pk_fma_f16 v2, v4, v8, v2
    v_cvt_f32_f16_e32 v3, v2
    s_add_u32 s0, s0, 1
    s_cmp_lt_u32 s0, 10
    s_cbranch_scc1 BB1
    s_and_saveexec_b64 s[0:1], vcc
    s_cbranch_execz BB2
    buffer_store_dword v4, v0, s[4:7], 0 offen
BB2:
    s_endpgm
"""


@pytest.mark.parametrize(
    ("machine", "threads", "registers", "shared", "groups", "per_simd", "bound"),
    [
        (VEGA, 256, 24, 0, 10, 10, "slots"),
        (VEGA, 256, 64, 0, 4, 4, "registers"),
        (VEGA, 256, 65, 0, 3, 3, "registers"),
        (VEGA, 256, 24, 32768, 2, 2, "shared memory"),
        (VEGA, 128, 24, 1024, 16, 8, "groups"),
        (VEGA, 64, 24, 0, 40, 10, "slots"),
        (VEGA, 32, 24, 0, 40, 10, "slots"),
        (VEGA, 64, 24, 49152, 1, 0.25, "shared memory"),
        (RDNA3, 256, 24, 0, 8, 16, "slots"),
        (RDNA3, 256, 96, 0, 2, 4, "registers"),
        (RDNA3, 256, 24, 32768, 2, 4, "shared memory"),
        (RDNA3, 1024, 256, 0, 1, 8, "registers"),  # one group always runs
    ],
)
def test_occupancy(
    machine: machines.Machine,
    threads: int,
    registers: int,
    shared: int,
    groups: int,
    per_simd: float,
    bound: str,
) -> None:
    held = occupancy(machine, threads, 64, registers, shared)
    assert (held.groups, held.per_simd, held.bound) == (groups, per_simd, bound)
    assert held.waves == -(-threads // 64)


def kernel(threads: int = 256) -> Kernel:
    return Kernel("sum_kernel", "main", b"", (threads, 1, 1), 2, 0, False, 0)


def pipeline(text: str = LOADS, **changed: int) -> Pipeline:
    statistics: dict[str, Any] = {
        "VGPRs": 24, "SGPRs": 16, "Spilled VGPRs": 0, "Spilled SGPRs": 0, "LDS size": 0,
        "Code size": 400, **changed,
    }  # fmt: skip
    return Pipeline("sum_kernel", 64, statistics, {"Assembly": text})


def frame(
    groups: int, size: int, made: Pipeline | None = None, machine: machines.Machine = VEGA
) -> Frame:
    network = Network(
        "one", "fp16", {"sum_kernel": kernel()}, (Launch("sum_kernel", groups, size),) * 2
    )
    compiled = Compiled("Vega", "driver 1", {"sum_kernel": made or pipeline()})
    return examine(network, compiled, machine)


@pytest.mark.parametrize("device", machines.MODELLED)
def test_the_model_and_the_compiler_take_a_device_for_the_same(device: str) -> None:
    """Tiles fitted to seven units are wrong for eight."""
    described = known_devices()[device]
    target = described.target_config()
    machine = machines.find(device)
    assert machines.named_by(target) == device
    assert machines.of_target(device, target) == machine
    model = TargetLimits.of(parse_target(target)).device
    assert model is not None and model.units.count == machine.units
    told = numbers_in(described.keys)
    assert told.get(SCHEDULERS, machine.simds) == machine.simds


def test_a_machine_has_what_the_target_tells_of_it() -> None:
    keys = ["compute_units_6", "measured_mb_s_31000", "measured_launch_ns_7000"]
    target = {**known_devices()["renoir"].target_config(), "keys": keys}
    found = machines.of_target("renoir", target)
    assert (found.units, found.bandwidth, found.launch) == (6, 31e9, 7e-6)
    # Of another device, or of none that is known, nothing is taken.
    assert machines.of_target("phoenix", target) == RDNA3
    assert machines.of_target("renoir", {"device_name": "NVIDIA H200", "keys": keys}) == VEGA
    assert machines.of_target("renoir", {}) == VEGA


def test_what_a_kernel_is_made_of() -> None:
    found = frame(8, 4).kernels["sum_kernel"]
    assert found.mix["packed fp16"] == found.mix["conversions"] == 10
    assert found.mix["load"] == 20 and found.mix["store"] == 1
    assert found.branches == 1 and found.unknown == 0
    assert found.clause == 2
    assert found.vector_cycles == 80
    assert found.cache_cycles == 21 * 4
    assert found.waited == pytest.approx(6000, rel=0.01)


def test_a_network_waits_for_memory_then_for_latency_then_for_work() -> None:
    few = frame(8, 4)
    assert {launch.bound for launch in few.launches} == {"latency"}
    one = few.kernels["sum_kernel"].wave_cycles / VEGA.hertz
    assert few.launches[0].seconds == pytest.approx(one + VEGA.launch)
    assert few.seconds == pytest.approx(2 * (one + VEGA.launch))
    # Ten groups fit a unit, so that as many cost as one; the eleventh waits for a second batch.
    assert frame(80, 4).seconds == few.seconds
    assert frame(88, 4).launches[0].compute == pytest.approx(2 * one)
    large = frame(8, 400_000_000)
    assert large.launches[0].bound == "memory"
    assert large.memory_seconds == pytest.approx(2 * 400_000_000 / VEGA.bandwidth)


def test_what_holds_up_a_unit() -> None:
    arithmetic = pipeline("    v_exp_f32_e32 v0, v1\n" * 100 + "    s_endpgm\n")
    assert frame(8000, 4, arithmetic).launches[0].bound == "arithmetic"
    shared = pipeline("    ds_read_b128 v[0:3], v8\n" * 100 + "    s_endpgm\n")
    assert frame(8000, 4, shared).launches[0].bound == "shared memory"
    cache = pipeline("    buffer_load_dwordx4 v[0:3], v8, s[0:3], 0\n" * 100 + "    s_endpgm\n")
    assert frame(8000, 4, cache).launches[0].bound == "cache"


def test_more_units_take_less_time() -> None:
    launch, found = Launch("sum_kernel", 8000, 4), frame(8, 4).kernels["sum_kernel"]
    twice = replace(VEGA, units=16)
    slow, fast = (time_launch(launch, found, machine) for machine in (VEGA, twice))
    assert fast.compute == pytest.approx(slow.compute / 2, rel=0.02)


def test_the_text_of_another_driver_is_refused() -> None:
    with pytest.raises(InputError, match="of an AMD GPU is needed"):
        frame(8, 4, pipeline("SIMD8 shader\n"))


def test_rows_have_what_their_headers_name() -> None:
    made = report.to_json(frame(8, 4, pipeline(LOADS, **{"Spilled VGPRs": 3})))
    (row,) = report.frame_rows([made])
    named = dict(zip(report.FRAME_HEADER, row, strict=True))
    assert named["launches"] == "2" and named["kernels"] == "1" and named["spill"] == "1"
    assert named["packed"] == named["convert"] == "50%" and named["dot"] == "0%"
    assert named["<4 waves"] == "0" and named["<wave"] == "0"
    (line,) = report.kernel_rows(made, 5)
    named = dict(zip(report.KERNEL_HEADER, line, strict=True))
    assert named["kernel"] == "sum_kernel" and named["times"] == "2" and named["spill"] == "3"
    assert named["in flight"] == "2.0" and named["packed"] == "10" and named["vector"] == "20"


def test_what_changed() -> None:
    before, after = report.to_json(frame(8, 4)), report.to_json(frame(88, 4))
    lines = report.compare([before], [after], 3)
    assert lines[0].startswith("one fp16 renoir: ") and "->" in lines[0]
    assert lines[1].startswith("  sum_kernel: ")
    assert report.compare([], [after], 3) == []
    assert len(report.compare([before], [before], 3)) == 1
