"""The loop of a search: pick a kernel, measure a batch, write it down, until the time is over."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..errors import InputError, TuningError
from ..schedules import TRACE
from .measure import Measured, Measurer, Results
from .records import METASCHEDULE, STATIC, TEMPLATES, Record, TuningKey
from .search import KernelSearch, network_seconds, next_kernel, same

CHECK_SHARE = 0.1  # of the time, for the last comparison of winners with the defaults
ROUNDS = 3  # of that comparison
AHEAD = 2  # batches that are asked for at a time
HOPELESS = 3.0  # times slower than the best: one look is enough
NEAR = 0.05  # a deep search's own times are that close to ours
LEAST_GAIN = 0.01  # a winner must be this much faster than the default


@dataclass(frozen=True)
class TuningOptions:
    """How long and how widely to search.

    Attributes:
        time_budget: seconds for all of it; inf for as long as something may be gained.
        trials: most candidates to measure; None for no limit.
        batch: candidates of a kernel that are measured in one go.
        only: parts of names of kernels or nodes; none for all kernels.
    """

    time_budget: float = 600.0
    trials: int | None = None
    batch: int = 16
    only: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.time_budget > 0:
            raise InputError(f"a time budget above 0 s is needed, found {self.time_budget}")
        if self.trials is not None and self.trials < 0:
            raise InputError(f"0 or more trials are needed, found {self.trials}")
        if self.batch < 1:
            raise InputError(f"a batch of at least 1 is needed, found {self.batch}")


@dataclass(frozen=True)
class TuningState:
    """Where a search stands; for displays.

    Attributes:
        kernel: the name of the one that is measured now.
        tried, failed: candidates so far, all kernels together.
        kernel_seconds, kernel_start: of a run of this kernel, the best and the default.
        network_seconds, network_start: the sum over all kernels, now and with the defaults; over
            those whose default was measured.
        time_left: seconds of the budget.
        kernels, known, finished: how many there are, of how many a time is known, and for how many
            nothing is left to gain.
    """

    kernel: str
    tried: int
    failed: int
    kernel_seconds: float
    kernel_start: float
    network_seconds: float
    network_start: float
    time_left: float
    kernels: int
    known: int
    finished: int


@dataclass(frozen=True)
class TuningOutcome:
    """What a search came to.

    Attributes:
        before, after: seconds of all kernels together, with the defaults and as chosen.
        tried, failed: candidates.
        improved: kernels whose default was beaten, of ``kernels``.
        curve: (seconds since the start, seconds of the network) after every batch.
        reason: why it ended.
    """

    before: float
    after: float
    tried: int
    failed: int
    improved: int
    kernels: int
    curve: tuple[tuple[float, float], ...]
    reason: str


class Deep(Protocol):
    """A search that makes, builds and times its own candidates."""

    def run(
        self,
        searches: Sequence[KernelSearch],
        take: Callable[[KernelSearch, Any, float, str], object],
        over: Callable[[], bool],
    ) -> None:
        """Calls ``take`` for each candidate, and ends when ``over`` says so."""


@dataclass(frozen=True)
class _Batch:
    """Candidates of a kernel that are being built or measured."""

    search: KernelSearch
    decisions: Sequence[Any]
    results: Results


@dataclass
class Tuner:
    """The loop: picks a kernel, measures a batch, writes the records, until the time is over.

    clock: seconds that only grow; told apart from the world's for tests.
    deep: a search that runs instead of the templates', after the defaults were measured.
    by: what the records say of how they came; of STATIC none is checked, as nothing was run.
    """

    searches: Sequence[KernelSearch]
    jobs: Mapping[str, Any]
    measurer: Measurer
    write: Callable[[Record], object]
    place: TuningKey
    options: TuningOptions
    tell: Callable[[TuningState], object] = lambda state: None
    clock: Callable[[], float] = time.monotonic
    deep: Deep | None = None
    by: str = TEMPLATES
    curve: list[tuple[float, float]] = field(default_factory=list)

    def run(self) -> TuningOutcome:
        """Raises TuningError where no kernel could be measured at all."""
        self._known = sum(search.tried for search in self.searches)
        self._failed = sum(search.failed for search in self.searches)
        self._start = self.clock()
        self._end = self._start + self.options.time_budget * (1.0 - CHECK_SHARE)
        self._limit = self._start + self.options.time_budget
        self._search()
        reason = self._reason()
        improved = self._choose()
        measured = [s for s in self.searches if math.isfinite(s.best_seconds)]
        if self.searches and not measured and self._tried() > 0:
            raise TuningError(
                f"no candidate of any of the {len(self.searches)} kernels could be measured: see "
                "the errors in the records"
            )
        return TuningOutcome(
            before=network_seconds(self.searches, default=True),
            after=network_seconds(self.searches),
            tried=self._tried(),
            failed=sum(search.failed for search in self.searches) - self._failed,
            improved=improved,
            kernels=len(self.searches),
            curve=tuple(self.curve),
            reason=reason,
        )

    def over(self) -> bool:
        """Whether the time or the trials are used up."""
        return self.clock() >= self._end or self._trials_left() <= 0

    def take_deep(self, search: KernelSearch, decision: Any, seconds: float, error: str) -> None:
        """Takes in a candidate of a deep search; one that seems the best is measured here, too."""
        measured = Measured(decision, error=error or "not measured")
        if not error and seconds < search.best_seconds * (1.0 + NEAR):
            measured = next(iter(self.measurer.measure(self.jobs[search.key], [decision])))
        elif not error:
            measured = Measured(decision, (seconds,))
            search.report(decision, max(seconds, search.best_seconds))
            self._record(search, measured, by=METASCHEDULE)
            return
        self._take(search, measured, METASCHEDULE)
        self._note()
        self._tell(search)

    def _reason(self) -> str:
        if self.clock() >= self._end:
            return "the time is over"
        return "all trials are used" if self._trials_left() <= 0 else "nothing more to gain"

    def _note(self) -> None:
        self.curve.append((self.clock() - self._start, network_seconds(self.searches)))

    def _tried(self) -> int:
        """Candidates that this search measured; those of records do not count."""
        return sum(search.tried for search in self.searches) - self._known

    def _trials_left(self) -> float:
        return math.inf if self.options.trials is None else self.options.trials - self._tried()

    def _search(self) -> None:
        """Batches until the time is over; the next ones are built while one is measured."""
        planned: deque[_Batch] = deque()
        for search in self.searches:
            if not search.default_known and self._trials_left() > self._asked(planned):
                planned.append(self._plan(search, 1))
        while not self.over():
            if self.deep is None:
                self._look_ahead(planned)
            if not planned:
                break
            self._measure(planned.popleft())
        for batch in planned:
            batch.results.close()
            batch.search.leave_out(batch.decisions)
        if self.deep is not None and not self.over() and self.searches:
            self.deep.run(self.searches, self.take_deep, self.over)

    def _look_ahead(self, planned: deque[_Batch]) -> None:
        if not all(batch.search.default_known for batch in planned):
            return  # nobody knows yet what takes the most time
        while len(planned) < AHEAD:
            size = int(min(self.options.batch, self._trials_left() - self._asked(planned)))
            busy = [batch.search for batch in planned]
            others = [s for s in self.searches if all(s is not other for other in busy)]
            search = next_kernel(others) or next_kernel(self.searches)
            if size < 1 or search is None:
                return
            planned.append(self._plan(search, size))

    def _asked(self, planned: Iterable[_Batch]) -> int:
        return sum(len(batch.decisions) for batch in planned)

    def _plan(self, search: KernelSearch, size: int) -> _Batch:
        decisions = search.next_batch(size)
        limit = HOPELESS * search.best_seconds
        results = self.measurer.measure(self.jobs[search.key], decisions, limit)
        return _Batch(search, decisions, results)

    def _measure(self, batch: _Batch) -> None:
        """A kernel that found its rest since the batch was planned is left alone."""
        search, before = batch.search, batch.search.best_seconds
        if search.finished:
            batch.results.close()
            search.leave_out(batch.decisions)
            return
        self._tell(search)
        for measured in batch.results:
            self._take(search, measured)
            self._tell(search)
            if self.clock() >= self._end:
                batch.results.close()
                break
        else:
            search.end_batch(before)
        search.leave_out(batch.decisions)
        self._note()

    def _take(self, search: KernelSearch, measured: Measured, by: str = "") -> None:
        """Writes a result down; one that would be the best is compared with the reference first."""
        error, checked = measured.error, False
        if measured.best < search.best_seconds:
            error = self.measurer.check(self.jobs[search.key], measured)
            checked = not error and self.by != STATIC
        search.report(measured.decision, math.inf if error else measured.best)
        self._record(search, measured, error=error, checked=checked, by=by or self.by)

    def _record(
        self,
        search: KernelSearch,
        measured: Measured,
        *,
        error: str = "",
        by: str,
        **marks: bool,
    ) -> None:
        self.write(
            Record(
                kernel=search.key,
                name=search.name,
                place=self.place,
                decision=measured.decision,
                seconds=() if error else tuple(sorted(measured.seconds)),
                error=error,
                search=by,
                **marks,
            )
        )

    def _choose(self) -> int:
        """Compares each winner with the default once more, by turns; the number of those kept.

        Measured among many, the quickest is the luckiest as well.
        """
        improved = 0
        finals: list[_Batch] = []
        for search in sorted(self.searches, key=lambda search: -search.seconds):
            if search.best is None or same(search.best) == same(search.default):
                continue
            if not math.isfinite(search.default_seconds):
                improved += 1
                continue
            pairs = [search.best, search.default] * ROUNDS
            results = self.measurer.measure(self.jobs[search.key], pairs)
            finals.append(_Batch(search, pairs, results))
        for final in finals:
            if self.clock() < self._limit:
                improved += self._compare(final)
                self._tell(final.search)
            else:
                final.results.close()
                improved += 1
        return improved

    def _compare(self, final: _Batch) -> bool:
        """Whether a kernel's best is better than its default in the last comparison."""
        search, times = final.search, dict[str, list[float]]()
        last: dict[str, Measured] = {}
        for measured in final.results:
            times.setdefault(same(measured.decision), []).append(measured.best)
            last[same(measured.decision)] = measured
        best, default = (min(times[same(decision)]) for decision in final.decisions[:2])
        wins = best < default * (1.0 - LEAST_GAIN)
        kept = final.decisions[0] if wins else search.default
        search.best, search.best_seconds = kept, best if wins else default
        search.default_seconds = default
        if math.isfinite(search.best_seconds):
            self._record(
                search,
                last[same(kept)],
                checked=self.by != STATIC,
                chosen=True,
                by=METASCHEDULE if kept.get("template") == TRACE else self.by,
            )
        return wins

    def _tell(self, search: KernelSearch) -> None:
        self.tell(
            TuningState(
                kernel=search.name,
                tried=self._tried(),
                failed=sum(s.failed for s in self.searches) - self._failed,
                kernel_seconds=search.best_seconds,
                kernel_start=search.default_seconds,
                network_seconds=network_seconds(self.searches),
                network_start=network_seconds(self.searches, default=True),
                time_left=max(0.0, self._limit - self.clock()),
                kernels=len(self.searches),
                known=sum(math.isfinite(s.best_seconds) for s in self.searches),
                finished=sum(s.finished for s in self.searches),
            )
        )
