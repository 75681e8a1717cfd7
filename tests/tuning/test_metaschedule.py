"""TVM's own search: what it makes is handed on, written down, checked, and remembered."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

import tvm_vision
from support.networks import Builder, reference
from support.tuning_world import HERE, World, record
from tvm_vision.tools.cli import main
from tvm_vision.tuning import TuningOptions, read_records
from tvm_vision.tuning.metaschedule import DeepSearch, Effort, _Kernel, trace_decision
from tvm_vision.tuning.search import KernelSearch
from tvm_vision.tuning.session import TuningNetwork
from tvm_vision.tuning.tuner import Tuner

SMALL = Effort(trials_per_round=4, population=6, generations=1)


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    """A convolution and a dense layer."""
    builder = Builder(5)
    x = builder.conv("input", 3, 8, 3, act="relu")
    return builder.model(8, [(builder.head(x, 8, classes=12), TensorProto.FLOAT)])


@pytest.fixture(scope="module")
def network(model: onnx.ModelProto) -> TuningNetwork:
    return TuningNetwork.of(model)


class Workshop:
    """Builds and runs nothing: candidates take as long as they come late, the first the longest.

    breaks: what a candidate of a number fails with, while it is built or run.
    """

    def __init__(self, folder: Path, breaks: dict[int, str]) -> None:
        self.folder, self.breaks = folder, breaks
        self.built, self.ran = 0, 0

    def build(self, inputs: list[Any]) -> list[Any]:
        return [self._built() for _ in inputs]

    def _built(self) -> Any:
        self.built += 1
        if "build" in self.breaks.get(self.built, ""):
            return ms.builder.BuilderResult(None, f"LocalBuilder:\n{self.breaks[self.built]}")
        place = self.folder / str(self.built)
        place.mkdir()
        return ms.builder.BuilderResult(str(place / "kernel.tar"), None)

    def run(self, inputs: list[Any]) -> list[Any]:
        (one,) = inputs
        number = int(Path(one.artifact_path).parent.name)
        self.ran += 1
        error = self.breaks.get(number)
        seconds = None if error else [1.0 / number]
        result = ms.runner.RunnerResult(seconds, f"LocalRunner:\n{error}" if error else None)
        return [SimpleNamespace(result=lambda: result)]


def searches(network: TuningNetwork, default: float = 1.0) -> list[KernelSearch]:
    found = []
    for kernel in network.kernels:
        search = KernelSearch(kernel.job.key, kernel.job.name, kernel.calls, kernel.decisions)
        search.report(search.default, default)
        found.append(search)
    return found


def deep(network: TuningNetwork, workshop: Workshop, **options: Any) -> DeepSearch:
    functions = {kernel.job.key: kernel.function for kernel in network.kernels}
    return DeepSearch(
        functions, network.target, [workshop], SMALL, builder=workshop, **{"trials": 12, **options}
    )


def collected() -> tuple[list[tuple[str, float, str]], Callable[..., None]]:
    taken: list[tuple[str, float, str]] = []

    def take(search: KernelSearch, decision: Any, seconds: float, error: str) -> None:
        assert decision["template"] == "trace" and decision["parameters"]["json"]
        search.report(decision, math.inf if error else seconds)
        taken.append((search.name, seconds, error))

    return taken, take


def test_every_candidate_is_handed_on_as_soon_as_it_ran(
    network: TuningNetwork, tmp_path: Path
) -> None:
    breaks = {2: "does not build", 3: "Timeout, killed after 60.0 seconds", 4: "it died"}
    workshop = Workshop(tmp_path, breaks)
    taken, take = collected()
    deep(network, workshop).run(searches(network), take, lambda: False)
    assert len(taken) == workshop.built == 12 and workshop.ran == 11
    assert [error for _, _, error in taken[1:4]] == list(breaks.values())
    assert [seconds for _, seconds, _ in taken[:5]] == [1.0, math.inf, math.inf, math.inf, 0.2]
    assert not list(tmp_path.iterdir()), "libraries are left behind"


def test_runners_work_at_the_same_time(network: TuningNetwork, tmp_path: Path) -> None:
    workshop: Any = Workshop(tmp_path, {})
    together, run = threading.Barrier(2), workshop.run

    def wait_for_the_other(inputs: list[Any]) -> list[Any]:
        together.wait(timeout=30)
        return run(inputs)

    workshop.run = wait_for_the_other
    search = deep(network, workshop)
    search.runners = [workshop, SimpleNamespace(run=wait_for_the_other)]
    taken, take = collected()
    search.run(searches(network), take, lambda: False)
    assert [seconds for _, seconds, _ in taken] == [1.0 / (1 + number) for number in range(12)]


def test_what_runs_when_the_time_is_over_is_stopped(network: TuningNetwork, tmp_path: Path) -> None:
    workshop: Any = Workshop(tmp_path, {})
    running, stopped, over = threading.Event(), threading.Event(), threading.Event()

    def hang(inputs: list[Any]) -> list[Any]:
        running.set()
        assert stopped.wait(timeout=30)
        raise ChildProcessError("killed")

    workshop.run = hang
    process = SimpleNamespace(_proc=SimpleNamespace(kill=stopped.set))
    workshop.pool = SimpleNamespace(_worker_map={1: process})

    def end_the_time() -> None:
        running.wait()
        over.set()

    threading.Thread(target=end_the_time).start()
    taken, take = collected()
    deep(network, workshop).run(searches(network), take, over.is_set)
    assert stopped.is_set() and not taken
    assert not list(tmp_path.iterdir())


def test_it_ends_in_the_middle_of_a_round(network: TuningNetwork, tmp_path: Path) -> None:
    taken, take = collected()
    workshop = Workshop(tmp_path, {})
    deep(network, workshop).run(searches(network), take, lambda: len(taken) >= 2)
    assert len(taken) == 2 and workshop.built == 4
    assert not list(tmp_path.iterdir())


def test_the_kernel_with_the_largest_share_comes_first(
    network: TuningNetwork, tmp_path: Path
) -> None:
    found = searches(network, 0.001)
    large = found[-1]
    large.best_seconds = 50.0
    taken, take = collected()
    deep(network, Workshop(tmp_path, {}), trials=4).run(found, take, lambda: False)
    assert {name for name, _, _ in taken} == {large.name}


def test_what_records_hold_is_where_it_goes_on(
    network: TuningNetwork, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its past is in the database and the model; a record that no longer fits is passed over."""
    kernel = network.kernels[0]
    taken: list[Any] = []
    first = deep(network, Workshop(tmp_path, {}), trials=4)
    first.run(searches(network)[:1], lambda *found: taken.append(found), lambda: False)
    past = [
        record(kernel.job.key, seconds=seconds, decision=decision)
        for _, decision, seconds, _ in taken
    ]
    strange = {"template": "trace", "parameters": {"json": "[[], 3]"}}
    again = deep(network, Workshop(tmp_path, {}), past=[*past, replace(past[0], decision=strange)])
    seen: list[tuple[int, int]] = []

    class Model:
        """Counts what it is taught."""

        def update(self, task: Any, candidates: list[Any], results: list[Any]) -> None:
            seen.append((len(candidates), len(results)))

    database = ms.database.MemoryDatabase()
    search = searches(network)[0]
    random = ms.cost_model.CostModel.create("random")
    task = again._task(search, 0, database, random)
    again._remember(_Kernel(search, task, database.commit_workload(task.mod)), database, Model())
    assert seen == [(4, 4)] and len(database) == 4
    assert "passed over" in caplog.text
    top = database.get_top_k(database.commit_workload(task.mod), 1)[0]
    assert trace_decision(top.trace) == min(past, key=lambda r: r.best).decision


def test_a_kernel_that_it_cannot_cut_is_passed_over(
    network: TuningNetwork, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    search = deep(network, Workshop(tmp_path, {}))
    broken = network.kernels[0]
    good = search.functions[network.kernels[1].job.key]

    class Odd:
        def with_attr(self, *_: Any) -> Any:
            raise ValueError("no loops here")

    search.functions = {broken.job.key: Odd(), network.kernels[1].job.key: good}
    taken, take = collected()
    search.run(searches(network)[:2], take, lambda: False)
    assert {name for name, _, _ in taken} == {network.kernels[1].job.name}
    assert "no loops here" in caplog.text


@pytest.mark.parametrize("where", ["build", "predict"])
def test_ctrl_c_is_ctrl_c(
    network: TuningNetwork, tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through TVM's C++ it would come back as an error without a word."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    @derived_object
    class Builder(ms.builder.PyBuilder):
        build = interrupt

    @derived_object
    class Model(ms.cost_model.PyCostModel):
        predict = interrupt

    workshop = Workshop(tmp_path, {})
    search = deep(network, workshop)
    if where == "build":
        search.builder = Builder()
    else:
        monkeypatch.setattr("tvm_vision.tuning.metaschedule._cost_model", Model)
        monkeypatch.setattr("tvm_vision.tuning.metaschedule.has_cost_model", lambda: True)
    taken, take = collected()
    with pytest.raises(KeyboardInterrupt):
        search.run(searches(network), take, lambda: False)
    assert not taken


def test_the_effort_follows_the_time() -> None:
    assert Effort.within(600.0).population < Effort.within(8 * 3600.0).population == 512


def test_wrong_and_failed_candidates_are_records_and_the_best_is_measured_here() -> None:
    """The tuner's side: what MetaSchedule says is believed only after a measurement of ours."""
    times = {"a": [1.0, 0.5, 0.25, 0.1, 2.0]}
    world = World(times, wrong={("a", 3)})

    class Deep:
        def run(self, found: Any, take: Any, over: Any) -> None:
            take(found[0], {"x": 1}, 0.45, "")  # ours says 0.5
            take(found[0], {"x": 2}, math.inf, "Timeout, killed")
            take(found[0], {"x": 3}, 0.09, "")  # wrong
            take(found[0], {"x": 4}, 2.5, "")  # too slow to look at again

    written: list[Any] = []
    search = KernelSearch("a", "a", 1, [{"x": 0}])
    run = Tuner([search], {"a": "a"}, world, written.append, HERE, TuningOptions())
    run.clock, run.deep = world.clock, Deep()
    outcome = run.run()
    assert outcome.after == 0.5 and outcome.failed == 2 and outcome.tried == 5
    errors = {r.decision["x"]: r.error for r in written if r.error}
    assert errors == {2: "Timeout, killed", 3: "wrong results"}
    assert [m for m in world.measured if m[1] in (2, 4)] == []
    assert [(r.search, r.checked) for r in written if r.decision["x"] == 4] == [
        ("metaschedule", False)
    ]
    assert [r.decision["x"] for r in written if r.chosen] == [1]


@pytest.mark.slow
def test_from_a_model_to_a_package_and_on_after_a_break(
    model: onnx.ModelProto, tmp_path: Path
) -> None:
    """The command with TVM's builder and runner: half a minute of two cores."""
    path, records = tmp_path / "model.onnx", tmp_path / "r.jsonl"
    onnx.save(model, path)
    run = ["tune", str(path), "-r", str(records), "--search", "metaschedule", "--repeat", "1"]
    quick = [*run, "--min-repeat-ms", "0"]
    done = CliRunner().invoke(main, [*quick, "--trials", "8"])
    assert done.exit_code == 0, done.output
    first = read_records(records)
    found = [r for r in first if r.search == "metaschedule"]
    assert len(found) >= 5 and any(r.seconds for r in found)
    done = CliRunner().invoke(main, [*quick, "--trials", "4"])
    assert done.exit_code == 0, done.output
    assert len(read_records(records)) > len(first)
    package = tvm_vision.compile(
        path, tmp_path / "m.tar", tuning_records=[records], shipped_records=False
    )
    network = tvm_vision.load(package)
    assert int(network.info["records"].split()[0]) >= 1
    x = np.random.default_rng(1).random((1, 3, 8, 8), np.float32)
    network.run(input=x)
    (want,) = reference(model, x)
    np.testing.assert_allclose(network.get_output(0).numpy(), want, rtol=1e-4, atol=1e-5)
