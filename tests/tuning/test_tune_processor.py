"""Tuning for processors: from a model to records, and back into a network that stays right."""

from __future__ import annotations

import itertools
import logging
import math
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from click.testing import CliRunner
from onnx import TensorProto
from tvm import te, tirx
from tvm.target import codegen

import tvm_vision
from support.networks import Builder, reference
from support.tuning_world import HERE, record
from tvm_vision.compiler import parse_target
from tvm_vision.processors import name_here
from tvm_vision.schedules import choices, kernel_key, limits_of
from tvm_vision.tools.cli import main
from tvm_vision.tuning import (
    Records,
    TuningOptions,
    read_records,
    tune_model,
    worker,
    write_records,
)
from tvm_vision.tuning.choose import chooser
from tvm_vision.tuning.measure import DeviceMeasurer, MeasureJob
from tvm_vision.tuning.places import ProcessorHere, place_of
from tvm_vision.tuning.records import TuningKey
from tvm_vision.tuning.session import TuningNetwork, searches_of
from tvm_vision.tuning.turns import Turns
from tvm_vision.tuning.worker import Argument, Board, MeasureRuns

QUICK = MeasureRuns(repeat=1, number=1, min_repeat_ms=0)
TARGET = parse_target("llvm")
PLACE = TuningKey("A (zen4)", "LLVM 22, 4 threads", "fp32")


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    """Two convolutions side by side, whose channels do not fill blocks: they are gathered."""
    builder = Builder(3)
    parts = [builder.conv("input", 3, channels, 1, act="relu") for channels in (5, 7)]
    x = builder.conv(builder.node("Concat", parts, axis=1), 12, 4, 3)
    return builder.model(9, [(x, TensorProto.FLOAT)])


@pytest.fixture(scope="module")
def tuned(model: onnx.ModelProto, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tuned") / "records.jsonl"
    outcome = tune_model(
        model, records=path, target="llvm", timing=QUICK,
        tuning=TuningOptions(trials=6, batch=2),
    )  # fmt: skip
    assert (outcome.tried, outcome.failed) == (6, 0)
    return path


def test_records_say_where_they_hold(tuned: Path) -> None:
    records = read_records(tuned)
    places = {record.place for record in records}
    threads = ProcessorHere.ask().threads
    attributes = parse_target("llvm").attrs
    made_for = " ".join([attributes["mcpu"], *sorted(attributes.get("mattr", ()))])
    assert places == {
        TuningKey(
            f"{name_here()} ({made_for})",
            f"LLVM {codegen.llvm_version_major()}, {threads} threads",
            "fp32",
        )
    }
    assert {str(record.decision["template"]) for record in records} >= {"cpu_window"}
    assert any(record.checked for record in records)


def test_the_network_has_what_was_tuned_and_stays_right(
    model: onnx.ModelProto, tuned: Path, tmp_path: Path
) -> None:
    """Each kernel as the last candidate that was right has it, which is hardly ever the default."""
    last = {r.kernel: replace(r, chosen=True) for r in read_records(tuned) if r.checked}
    write_records(tmp_path / "r.jsonl", Records(list(last.values())))
    given: dict[str, Any] = {"target": "llvm", "tuning_records": [tmp_path / "r.jsonl"]}
    compiled = tvm_vision.compile(model, **given)
    assert compiled.tuned == len(last) > 1
    network = tvm_vision.load(tvm_vision.compile(model, tmp_path / "m.tar", **given))
    assert network.info["records"] == f"{len(last)} kernels"
    x = np.random.default_rng(1).random((1, 3, 9, 9), np.float32)
    network.run(input=x)
    (want,) = reference(model, x)
    np.testing.assert_allclose(network.get_output(0).numpy(), want, rtol=1e-4, atol=1e-5)


def test_a_search_goes_on_where_it_was(model: onnx.ModelProto, tuned: Path) -> None:
    network, known = TuningNetwork.of(model, target="llvm"), read_records(tuned)
    searches = searches_of(network.kernels, known, network.place)
    assert sum(search.tried for search in searches) >= 6
    tried = {(r.kernel, str(r.decision)) for r in known}
    for search in searches:
        assert not any((search.key, str(d)) in tried for d in search.next_batch(16))


def test_the_command(model: onnx.ModelProto, tmp_path: Path) -> None:
    onnx.save(model, tmp_path / "m.onnx")
    arguments = ["tune", str(tmp_path / "m.onnx"), "-r", str(tmp_path / "r.jsonl")]
    listed = CliRunner().invoke(main, [*arguments, "--target", "llvm", "--list-tasks"])
    assert listed.exit_code == 0 and "gather_c" in listed.output, listed.output
    for more, says in (
        (["--search", "metaschedule"], "a GPU is needed for MetaSchedule's search, found llvm"),
        (["--static"], "to rank candidates without the device"),
        (["--target", "llvm -mtriple=riscv64-linux-gnu"], "is not here"),
    ):
        refused = CliRunner().invoke(main, [*arguments, "--target", "llvm", *more])
        assert refused.exit_code == 1 and says in refused.output, refused.output
        assert len(refused.output.splitlines()) == 1


def test_the_place_of_a_processor_that_is_elsewhere() -> None:
    there = parse_target("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -mattr=+dotprod,+bf16")
    place = place_of(there, "fp32")
    assert place.device == "processor (cortex-a76 +bf16 +dotprod)"
    board = place_of(there, "fp32", ProcessorHere.from_json('{"name": "Pi 5", "threads": 4}'))
    assert board.device == "Pi 5 (cortex-a76 +bf16 +dotprod)" and board.threads == 4
    assert board.is_alike(place)


@pytest.mark.parametrize(
    ("place", "alike"),
    [
        (PLACE, True),
        (TuningKey("B (zen4)", "LLVM 22, 4 threads", "fp32"), True),
        (TuningKey("A (zen4)", "LLVM 22, 2 threads", "fp32"), True),
        (TuningKey("A (zen4)", "LLVM 21, 4 threads", "fp32"), True),
        (TuningKey("A (zen4 -avx512f)", "LLVM 22, 4 threads", "fp32"), False),
        (TuningKey("A (zen5)", "LLVM 22, 4 threads", "fp32"), False),
        (TuningKey("A (zen4)", "LLVM 22, 4 threads", "fp16"), False),
        (TuningKey("A (zen4)", "radv 22.4.0", "fp32"), False),
    ],
)
def test_which_records_serve_a_processor(place: TuningKey, alike: bool) -> None:
    """Of the same code; the very place comes first, then the nearest."""
    far = record(decision={"x": 1}, place=TuningKey("C (zen4)", "LLVM 9, 64 threads", "fp32"))
    other = record(decision={"x": 2}, place=place)
    found = Records([replace(r, chosen=True) for r in (other, far)]).chosen_nearby("k", PLACE)
    assert found is not None and (found.decision == {"x": 2}) == alike


def test_a_gpu_takes_nothing_from_nearby() -> None:
    other = replace(HERE, driver="driver 2")
    assert Records([record(place=other, chosen=True)]).chosen_nearby("k", HERE) is None
    assert Records([record(place=PLACE, chosen=True)]).chosen_nearby("k", HERE) is None


@pytest.fixture(scope="module")
def kernel() -> tirx.PrimFunc:
    x = te.placeholder((64, 64), "float32", "x")
    return te.create_prim_func([x, te.compute(x.shape, lambda i, j: x[i, j] * 2.0)])


def test_what_another_processor_chose_is_taken_where_it_is_offered(
    kernel: tirx.PrimFunc, caplog: pytest.LogCaptureFixture
) -> None:
    limits, place = limits_of(TARGET), place_of(TARGET, "fp32")
    near = replace(place, device="Another" + place.device[place.device.rindex(" (") :])
    decision = choices(kernel, limits)[-1].to_dict()
    key = kernel_key(kernel)
    for change, taken in (({}, True), ({"vectors": 64}, False)):
        asked = {**decision, "parameters": {**decision["parameters"], **change}}
        records = Records([record(key, decision=asked, place=near, chosen=True)])
        with caplog.at_level(logging.WARNING):
            found = chooser(records, place, limits)(kernel)
        assert (found is not None) == taken == ("passed over" not in caplog.text)


@pytest.fixture(scope="module")
def measurer() -> Iterator[DeviceMeasurer]:
    made = DeviceMeasurer.of(TARGET, QUICK, (Board(),), timeout=20.0)
    yield made
    made.close()


@pytest.mark.slow
def test_a_candidate_that_crashes_ends_nothing(
    kernel: tirx.PrimFunc, measurer: DeviceMeasurer
) -> None:
    x = te.placeholder((64, 64), "float32", "x")
    dies = te.create_prim_func(
        [x, te.compute(x.shape, lambda i, j: tirx.call_extern("float32", "abort") + x[i, j])]
    )
    arguments = tuple(Argument((64, 64), "float32", written) for written in (False, True))
    for function, error in ((dies, "ChildProcessError"), (kernel, "")):
        job = MeasureJob(kernel_key(function), "k", tvm.ir.save_json(function), arguments)
        decisions = [choice.to_dict() for choice in choices(function, limits_of(TARGET))[:2]]
        for result in measurer.measure(job, decisions):
            assert result.error.startswith(error) and bool(result.error) == bool(error)
            assert math.isfinite(result.best) == (not error)


def test_who_measures_is_alone() -> None:
    turns, log = Turns(), list[str]()
    inside, go_on = threading.Event(), threading.Event()

    def build(name: str) -> None:
        with turns.build():
            log.append(name)
            inside.set()
            go_on.wait(10)

    def measure() -> None:
        with turns.measure():
            log.append("measured")

    first = threading.Thread(target=build, args=("built",))
    first.start()
    assert inside.wait(10)
    second = threading.Thread(target=measure)
    second.start()
    while not turns._waiting:
        time.sleep(1e-3)
    third = threading.Thread(target=build, args=("built later",))
    third.start()
    assert log == ["built"]
    go_on.set()
    for thread in (first, second, third):
        thread.join(10)
    assert log == ["built", "measured", "built later"]


class Runs:
    """A library of one kernel, whose runs take so many seconds, over and over."""

    def __init__(self, *seconds: float) -> None:
        self._left = itertools.cycle(seconds)
        self.asked: list[tuple[int, int]] = []

    def time_evaluator(self, _name: str, _device: Any, *, number: int, repeat: int) -> Any:
        self.asked.append((number, repeat))
        results = list(itertools.islice(self._left, repeat))
        return lambda *_: SimpleNamespace(results=results)


def test_the_quickest_runs_count_on_a_processor() -> None:
    """Whatever else it does: here three of four runs are disturbed."""
    library = Runs(8e-3, 9e-3, 1e-3, 7e-3)
    found = worker._quickest(library, None, [], MeasureRuns(2, 1, 20), math.inf)
    assert found == [1e-3, 1e-3] and library.asked[1] == (1, 40)
    for runs, wanted in ((MeasureRuns(2, 1, 0), 8), (MeasureRuns(2, 10, 20), 8)):
        worker._quickest(library, None, [], runs, math.inf)
        assert library.asked[-1] == (runs.number, wanted)
    worker._quickest(Runs(1e-9), None, [], MeasureRuns(), math.inf)


def test_one_look_at_what_is_hopeless() -> None:
    library = Runs(8e-3, 9e-3)
    assert worker._quickest(library, None, [], MeasureRuns(), 1e-3) == [8e-3]
    assert len(library.asked) == 1
