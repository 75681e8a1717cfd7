"""Candidates ranked without their device: what the records say of them, and that they rank last."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto
from tvm.target import Target

import tvm_vision
from support.networks import Builder
from support.tuning_world import World, decisions, record
from tvm_vision.devices import known_devices
from tvm_vision.errors import DeviceError, InputError
from tvm_vision.offline import drivers, machines
from tvm_vision.offline.model import examine
from tvm_vision.offline.network import read_network
from tvm_vision.offline.pipelines import compile_kernels
from tvm_vision.offline.survey import survey
from tvm_vision.tools.cli import main
from tvm_vision.tuning import Records, TuningOptions, read_records, tune_model
from tvm_vision.tuning.kernels import TunableKernel
from tvm_vision.tuning.records import STATIC, Record, TuningKey
from tvm_vision.tuning.search import KernelSearch
from tvm_vision.tuning.session import searches_of
from tvm_vision.tuning.static_measure import StaticMeasurer, device_of
from tvm_vision.tuning.tuner import Tuner

ROBOT = TuningKey("AMD Radeon Vega 8 Graphics (RADV RENOIR)", "radv 22.3.6", "fp32")
MODELLED = TuningKey("AMD Radeon Graphics (RADV RENOIR)", "radv 26.1.6", "fp32")


def modelled(**fields: Any) -> Record:
    return record(place=MODELLED, search=STATIC, checked=False, chosen=True, **fields)


@pytest.mark.parametrize(
    ("other", "alike"),
    [
        (MODELLED, True),
        (replace(MODELLED, precision="fp16"), False),
        (replace(MODELLED, driver="amdvlk 2.0.1"), False),
        (replace(MODELLED, device="AMD Radeon Graphics (RADV PHOENIX)"), False),
        (replace(MODELLED, device="llvmpipe"), False),
    ],
)
def test_what_a_model_holds_for(other: TuningKey, alike: bool) -> None:
    records = Records([replace(modelled(), place=other)])
    assert (records.winner("k", ROBOT) is not None) is alike
    assert records.at(other).items == []


def test_what_was_measured_counts_more_however_slow() -> None:
    quick = modelled(x=1, seconds=1e-6)
    slow = record(x=2, seconds=0.5, place=ROBOT)
    for order in ([quick, slow], [slow, quick]):
        assert Records(order).winner("k", ROBOT) == slow
        # Nor is it tried first where both are told to a search.
        assert Records(order).hints("k", ROBOT)[0] == slow.decision
    assert Records([quick]).winner("k", ROBOT) == quick
    assert Records([replace(quick, chosen=False)]).winner("k", ROBOT) is None
    # A failure is no measurement.
    failed = record(x=2, seconds=float("inf"), error="hung", checked=False, place=ROBOT)
    assert Records([quick, failed]).winner("k", ROBOT) == quick


def test_records_of_a_static_search_say_so() -> None:
    world = World({"k": [9.0, 4.0, 5.0]})
    written: list[Record] = []
    search = KernelSearch("k", "fused_k", 1, decisions(3))
    tuner = Tuner(
        [search], {"k": "k"}, world, written.append, MODELLED, TuningOptions(time_budget=100.0),
        clock=world.clock, by=STATIC,
    )  # fmt: skip
    outcome = tuner.run()
    assert outcome.after == 4.0 and outcome.improved == 1
    assert all(each.search == STATIC and not each.checked for each in written)
    assert [each.decision["x"] for each in written if each.chosen] == [1]
    assert Records(written).winner("k", ROBOT).decision == {"x": 1}


def test_a_search_that_goes_on_takes_records_of_its_own_kind_alone() -> None:
    class Kernel:
        job = type("Job", (), {"key": "k", "name": "fused_k"})
        decisions, calls, nodes = tuple(decisions(4)), 1, ()

    known = Records([modelled(x=1), record(x=2, place=MODELLED)])
    measuring, modelling = (
        searches_of([cast(TunableKernel, Kernel())], known, MODELLED, static=static)[0]
        for static in (False, True)
    )
    assert (measuring.tried, measuring.best) == (1, {"x": 2})
    assert (modelling.tried, modelling.best) == (1, {"x": 1})


def test_a_device_that_no_model_knows_is_said() -> None:
    for name in ("llvmpipe (LLVM 15)", "NVIDIA H200", "Intel(R) Arc(tm) A770 (DG2)", ""):
        target = Target({"kind": "vulkan", "device_name": name})
        with pytest.raises(InputError, match="renoir, .* is needed to rank candidates"):
            device_of(target)
    for name, device in (
        ("AMD Radeon Graphics (RADV STRIX1)", "strix"),
        ("Intel(R) Iris(R) Xe Graphics (TGL GT2)", "tgl"),
    ):
        assert device_of(Target({"kind": "vulkan", "device_name": name})) == device


def test_every_device_of_the_models_is_found_by_its_drivers_name() -> None:
    for device in machines.MODELLED:
        target = Target(known_devices()[device].target_config())
        assert device_of(target) == device


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    builder = Builder(5)
    x = builder.conv("input", 3, 16, 3, act="relu")
    x = builder.conv(x, 16, 32, 3, act="relu")
    return builder.model(32, [(x, TensorProto.FLOAT)])


def test_boards_and_another_search_do_not_go_with_it(
    model: onnx.ModelProto, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="measures nothing"):
        tune_model(model, records=tmp_path / "r", search=STATIC, tracker=("a", 1, "b"))
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    arguments = ["tune", str(path), "-r", str(tmp_path / "r"), "--static"]
    done = CliRunner().invoke(main, [*arguments, "--search", "metaschedule"])
    assert done.exit_code == 2 and "--static measures nothing" in done.output


@pytest.mark.parametrize("device", ["renoir", pytest.param("tgl", marks=pytest.mark.slow)])
def test_a_network_is_tuned_for_a_gpu_that_is_not_here(
    device: str, model: onnx.ModelProto, tmp_path: Path
) -> None:
    try:
        driver = drivers.find(device)
    except DeviceError as error:
        pytest.skip(str(error))
    path = tmp_path / "records.jsonl"
    options = TuningOptions(time_budget=600.0, trials=6, batch=3)
    outcome = tune_model(model, records=path, search=STATIC, target=device, tuning=options)
    assert outcome.tried == 6 and outcome.failed == 0
    assert outcome.after <= outcome.before
    found = read_records(path)
    assert {each.search for each in found} == {STATIC}
    assert not any(each.checked for each in found)

    def seconds(**records: Any) -> float:
        package = tvm_vision.compile(model, tmp_path / "m.tar", target=device, **records)
        network = read_network(package)
        compiled = compile_kernels(list(network.kernels.values()), driver)
        if device in machines.XE:
            return float(survey(network, compiled, device)["modelled_seconds"])
        return examine(network, compiled, machines.of_target(device, network.target)).seconds

    before, after = seconds(), seconds(tuning_records=[path])
    if outcome.improved:
        assert after < before
    else:
        assert np.isclose(after, before)


def test_what_the_model_cannot_follow_has_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its loop would count once, and the candidate win."""
    measurer = object.__new__(StaticMeasurer)
    found: list[Any] = [
        (SimpleNamespace(name="a", unknown=0), SimpleNamespace(seconds=1e-3)),
        (SimpleNamespace(name="b", unknown=0), SimpleNamespace(seconds=2e-3)),
    ]
    monkeypatch.setattr(StaticMeasurer, "modelled", lambda *_: found)
    assert measurer.modelled_seconds("library", ()) == 3e-3
    found[1][0].unknown = 1
    with pytest.raises(DeviceError, match="does not follow a loop of kernel b"):
        measurer.modelled_seconds("library", ())
