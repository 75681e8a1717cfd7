"""The deep search: TVM's MetaSchedule, whose results land in the same records.

MetaSchedule makes its own candidates, builds and runs them in its own processes, in which our
backend is registered, and learns from their times. What would be the best of a kernel is measured
again as the templates' candidates are, and compared with the reference, before it counts. What
records hold of an earlier search goes into MetaSchedule's database and cost model first.
"""

from __future__ import annotations

import importlib
import json
import logging
import math
import os
import queue
import shutil
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm.s_tir import Schedule, Trace
from tvm.s_tir import meta_schedule as ms

from ..error_lines import last_line, lines_of
from ..interrupts import ctrl_c_as_itself
from ..schedules import TRACE
from ..tvm_compat.metaschedule import python_part, without_intrinsics
from . import worker
from .measure import kill
from .records import Record
from .search import DECAY, GAIN, KernelSearch

LOGGER = logging.getLogger(__name__)
SEED = 42
POLL_SECONDS = 0.2  # between looks at whether the time is over
NIGHT = 3600.0  # seconds from which TVM's own numbers pay
MOST_PAST = 128  # records of a kernel that a search starts from, the quickest


@dataclass(frozen=True)
class Effort:
    """How widely MetaSchedule looks before it measures.

    Attributes:
        trials_per_round: candidates that are measured in one go.
        population, generations: of its evolutionary search.
    """

    trials_per_round: int
    population: int
    generations: int

    @classmethod
    def within(cls, seconds: float) -> Effort:
        """For a time budget: TVM's own numbers for a night, fewer for minutes.

        TVM's take eight times the arithmetic before each round: minutes on few cores.
        """
        return cls(64, 512, 4) if seconds >= NIGHT else cls(16, 128, 2)


def trace_decision(trace: Any) -> dict[str, Any]:
    """A schedule's trace as the decision that the template TRACE takes."""
    return {"template": TRACE, "parameters": {"json": json.dumps(plain(trace.as_json()))}}


def plain(value: Any) -> Any:
    """TVM's containers and numbers as those of Python, for JSON."""
    if isinstance(value, (str, bytes)):
        return str(value)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if hasattr(value, "items"):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "__iter__"):
        return [plain(item) for item in value]
    return float(value.value) if "float" in str(value.ty) else int(value)


@dataclass
class DeepSearch:
    """MetaSchedule over kernels until it is out of trials or time; a ``tuner.Deep``.

    Attributes:
        functions: PrimFunc of each search's key.
        target: tvm.target.Target.
        runners: of TVM; they run at the same time.
        builder: of TVM; without one, TVM's own on all cores.
        effort: how widely to look.
        past: records of earlier searches on the same device.
        trials: most candidates; also those that fail count.
        timeout: seconds after which a build counts as hung.
        start_process: called in each process that builds.
    """

    functions: Mapping[str, Any]
    target: Any
    runners: Sequence[Any]
    effort: Effort
    past: Sequence[Record] = ()
    trials: int = 1_000_000
    timeout: float = 60.0
    builder: Any = None
    start_process: Callable[[], object] | None = None

    def run(
        self,
        searches: Sequence[KernelSearch],
        take: Callable[[KernelSearch, Any, float, str], object],
        over: Callable[[], bool],
    ) -> None:
        """Search; the kernels that take the most time come first.

        take: called with the search, the decision, its seconds as MetaSchedule measured them
            (infinite for a failure) and the error.
        """
        ordered = sorted(searches, key=lambda search: -search.seconds)
        database, model = ms.database.MemoryDatabase(), _cost_model()
        kernels = []
        for number, search in enumerate(ordered):
            task = self._task(search, number, database, model)
            if task is not None:
                kernels.append(_Kernel(search, task, database.commit_workload(task.mod)))
                self._remember(kernels[-1], database, model)
        builder = self.builder or ms.builder.LocalBuilder(
            # TVM would take all cores of the machine.
            max_workers=len(os.sched_getaffinity(0)),
            timeout_sec=self.timeout,
            initializer=self.start_process,
            f_build=worker.METASCHEDULE_BUILD,
        )
        left = self.trials
        while kernels and left > 0 and not over():
            kernel = max(kernels, key=_Kernel.turn)
            with ctrl_c_as_itself():
                candidates = kernel.task.generate_measure_candidates()
            if not candidates:
                kernels.remove(kernel)
                continue
            before = kernel.search.best_seconds
            results = []
            for candidate, result in self._measured(candidates[:left], builder, over):
                results.append(result)
                error = lines_of(result.error_msg or "")
                seconds = statistics.median(map(float, result.run_secs or (math.inf,)))
                decision = trace_decision(candidate.sch.trace)
                take(kernel.search, decision, seconds, error[-1] if error else "")
            left -= len(results)
            with ctrl_c_as_itself():
                kernel.learn(candidates[: len(results)], results, database, model, self.target)
            kernel.idle += not kernel.search.best_seconds < before * (1.0 - GAIN)

    def _measured(
        self, candidates: Sequence[Any], builder: Any, over: Callable[[], bool]
    ) -> Iterator[tuple[Any, Any]]:
        """Each candidate with its RunnerResult, as soon as it is there, until the time is over:
        then runners are stopped, whatever they run."""
        inputs = [ms.builder.BuilderInput(each.sch.mod, self.target) for each in candidates]
        built = list(zip(candidates, python_part(builder).build(inputs), strict=True))
        free: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for runner in self.runners:
            free.put(runner)
        pool = ThreadPoolExecutor(len(self.runners))
        try:
            results = [pool.submit(self._result, free, *pair) for pair in built]
            for candidate, result in zip(candidates, results, strict=True):
                while not (over() or wait([result], POLL_SECONDS).done):
                    pass
                if over():
                    return
                yield candidate, result.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            if not all(result.done() for result in results):
                self._stop_runners()
            pool.shutdown()
            for _, library in built:
                if library.artifact_path:
                    shutil.rmtree(Path(library.artifact_path).parent, ignore_errors=True)

    def _stop_runners(self) -> None:
        for runner in self.runners:
            processes = getattr(python_part(runner), "pool", None)
            for process in list(getattr(processes, "_worker_map", {}).values()):
                kill(process)

    def _result(self, free: queue.SimpleQueue[Any], candidate: Any, library: Any) -> Any:
        """The RunnerResult of what was built of a candidate, by a runner that is free."""
        if library.error_msg:
            return ms.runner.RunnerResult(None, library.error_msg)
        kind = self.target.kind.name
        one = ms.runner.RunnerInput(library.artifact_path, kind, candidate.args_info)
        # There are as many threads as runners.
        runner = free.get_nowait()
        try:
            (future,) = python_part(runner).run([one])
            return future.result()
        finally:
            free.put(runner)

    def _task(self, search: KernelSearch, number: int, database: Any, model: Any) -> Any:
        """A TuneContext, begun; None where MetaSchedule cannot cut a kernel."""
        # Without a model of what is good, more generations are only more chance.
        generations = self.effort.generations if has_cost_model() else 0
        strategy = ms.search_strategy.EvolutionarySearch(
            population_size=self.effort.population,
            init_min_unmeasured=min(50, self.effort.population),
            genetic_num_iters=generations,
        )
        try:
            with without_intrinsics():
                task = ms.TuneContext(
                    self.functions[search.key].with_attr("global_symbol", "main"),
                    target=self.target,
                    space_generator="post-order-apply",
                    search_strategy=strategy,
                    task_name=search.name,
                    rand_state=SEED + number,
                    num_threads="logical",
                )
            task.pre_tuning(self.trials, self.effort.trials_per_round, None, database, model)
        except Exception as error:  # whatever TVM raises for a kernel, the others go on
            LOGGER.warning("MetaSchedule passes over kernel %s: %s", search.name, last_line(error))
            return None
        return task

    def _remember(self, kernel: _Kernel, database: Any, model: Any) -> None:
        """What the records say of a kernel, for the database and the model."""
        search, task = kernel.search, kernel.task
        mine = [
            record
            for record in self.past
            if record.kernel == search.key
            and record.decision.get("template") == TRACE
            and record.seconds
            and not record.chosen
        ]
        candidates, results = [], []
        for record in sorted(mine, key=lambda record: record.best)[:MOST_PAST]:
            schedule = Schedule(task.mod)
            try:
                steps = json.loads(record.decision["parameters"]["json"])
                Trace.apply_json_to_schedule(steps, schedule)
            except Exception as error:  # a record of another version, or not of this kernel
                LOGGER.warning("a record of kernel %s is passed over: %s", search.name, error)
                continue
            arguments = ms.arg_info.ArgInfo.from_entry_func(task.mod)
            candidates.append(ms.MeasureCandidate(schedule, arguments))
            results.append(ms.runner.RunnerResult(list(record.seconds), None))
        if candidates:
            kernel.learn(candidates, results, database, model, self.target)


@dataclass
class _Kernel:
    """A kernel in MetaSchedule's terms; rounds without a gain let others go first."""

    search: KernelSearch
    task: Any
    workload: Any
    idle: int = 0

    def turn(self) -> float:
        return self.search.seconds * DECAY**self.idle

    def learn(
        self,
        candidates: Sequence[Any],
        results: Sequence[Any],
        database: Any,
        model: Any,
        target: Any,
    ) -> None:
        """Hands measurements to TVM's database, cost model and search."""
        if not candidates:
            return
        for candidate, result in zip(candidates, results, strict=True):
            if result.run_secs:
                database.commit_tuning_record(
                    ms.database.TuningRecord(
                        candidate.sch.trace,
                        self.workload,
                        list(result.run_secs),
                        target,
                        candidate.args_info,
                    )
                )
        model.update(self.task, candidates, results)
        self.task.notify_runner_results(candidates, results)


def has_cost_model() -> bool:
    """Whether there is what learns from the measurements: xgboost, and what it needs."""
    try:
        importlib.import_module("xgboost")
    except ImportError:
        return False
    return True


def _cost_model() -> Any:
    if has_cost_model():
        return ms.cost_model.CostModel.create("xgb", tree_method="auto")
    LOGGER.warning(
        "xgboost is not installed: MetaSchedule searches without a cost model; "
        "pip install tvm_vision[metaschedule] brings it"
    )
    return ms.cost_model.CostModel.create("random")
