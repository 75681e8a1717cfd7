"""The deep search: TVM's MetaSchedule, whose results land in the same records.

MetaSchedule makes its own candidates, builds and runs them in its own processes, in which our
backend is registered, and learns from their times. What would be the best of a kernel is measured
again as the templates' candidates are, and compared with the reference, before it counts.
"""

from __future__ import annotations

import json
import logging
import math
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ..schedules import TRACE
from . import worker
from .search import KernelSearch

LOGGER = logging.getLogger(__name__)
TRIALS_PER_ROUND = 32
SEED = 42


class _Over(Exception):
    """The time or the trials are used up."""


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


def search_with_metaschedule(
    searches: Sequence[KernelSearch],
    functions: dict[str, Any],
    target: Target,
    take: Callable[[KernelSearch, Any, float, str], object],
    *,
    trials: int,
    over: Callable[[], bool],
    runner: Any,
    timeout: float = 60.0,
) -> None:
    """Runs MetaSchedule over kernels until it is out of trials or ``over`` says so.

    functions: PrimFunc of each search's key. take: called with the search, the decision, its
    seconds as MetaSchedule measured them (infinite for a failure) and the error. runner: an
    ms.runner.Runner.
    """
    ended: list[bool] = []

    @derived_object
    class Taker(ms.measure_callback.PyMeasureCallback):
        """Hands every result on."""

        def apply(
            self,
            task_scheduler: Any,
            task_id: int,
            measure_candidates: Any,
            builder_results: Any,
            runner_results: Any,
        ) -> None:
            results = zip(measure_candidates, builder_results, runner_results, strict=True)
            for candidate, built, run in results:
                error = str(built.error_msg or run.error_msg or "").strip()
                seconds = [float(value) for value in run.run_secs or ()]
                decision = trace_decision(candidate.sch.trace)
                best = math.inf if error or not seconds else min(seconds)
                take(searches[task_id], decision, best, error.splitlines()[-1] if error else "")
            if over():
                ended.append(True)
                raise _Over

    tasks = [
        ms.TuneContext(
            functions[search.key].with_attr("global_symbol", "main"),
            target=target,
            space_generator="post-order-apply",
            search_strategy="evolutionary",
            task_name=search.name,
            rand_state=SEED + number,
        )
        for number, search in enumerate(searches)
    ]
    try:
        with tempfile.TemporaryDirectory(prefix="tvm_vision-metaschedule-") as folder:
            ms.tune.tune_tasks(
                tasks=tasks,
                task_weights=[float(search.calls) for search in searches],
                work_dir=folder,
                max_trials_global=trials,
                num_trials_per_iter=TRIALS_PER_ROUND,
                builder=ms.builder.LocalBuilder(
                    timeout_sec=timeout,
                    initializer=worker.start,
                    f_build=worker.METASCHEDULE_BUILD,
                ),
                runner=runner,
                cost_model=_cost_model(),
                measure_callbacks=[Taker(), *ms.measure_callback.MeasureCallback.create("default")],
            )
    except Exception:
        # TVM wraps what a callback raises; that it was ours, the flag knows.
        if not ended:
            raise


def _cost_model() -> str:
    """What learns from the measurements: xgboost where it is installed, else chance."""
    try:
        import xgboost  # noqa: F401
    except ImportError:
        LOGGER.warning("xgboost is not installed: MetaSchedule searches without a cost model")
        return "random"
    return "xgb"
