"""The search without a device: what is measured, in which order, and when it ends."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.tuning_world import HERE, World, decisions
from tvm_vision.errors import InputError, TuningError
from tvm_vision.tuning.records import Record
from tvm_vision.tuning.search import PATIENCE, KernelSearch, difference, next_kernel
from tvm_vision.tuning.session import Tuner, TuningOptions, TuningState


def tuner(world: World, calls: dict[str, int] | None = None, **options: float) -> Tuner:
    searches = [
        KernelSearch(name, name, (calls or {}).get(name, 1), decisions(len(times)))
        for name, times in world.times.items()
    ]
    written: list[Record] = []
    made = Tuner(
        searches,
        {name: name for name in world.times},
        world,
        written.append,
        HERE,
        TuningOptions(**options),  # type: ignore[arg-type]
        clock=world.clock,
    )
    made.written = written  # type: ignore[attr-defined]
    return made


def test_it_finds_the_best_of_all_and_says_what_it_gained() -> None:
    world = World({"a": [0.5, 0.4, 0.2, 0.3], "b": [0.1, 0.2]})
    outcome = tuner(world, {"a": 2}).run()
    assert outcome.before == pytest.approx(1.1)
    assert outcome.after == pytest.approx(0.5)
    assert (outcome.improved, outcome.kernels, outcome.tried) == (1, 2, 6)
    assert outcome.reason == "nothing more to gain"
    assert outcome.curve[-1][1] == pytest.approx(0.5)


def test_the_kernel_with_the_largest_share_comes_first() -> None:
    world = World({"small": [0.1] * 9, "large": [5.0] * 9})
    run = tuner(world, batch=2)
    run.run()
    order = [name for name, _ in world.measured]
    # Both defaults first: until then nobody knows what is large.
    assert sorted(order[:2]) == ["large", "small"]
    assert order[2:4] == ["large", "large"]


def test_a_kernel_without_gains_rests_after_some_batches() -> None:
    world = World({"a": [1.0] * 1000})
    outcome = tuner(world, batch=4).run()
    assert outcome.tried == 1 + 4 * PATIENCE
    assert outcome.reason == "nothing more to gain"


def test_the_time_budget_ends_it_and_leaves_time_for_the_last_comparison() -> None:
    world = World({"a": [1.0 / (n + 1) for n in range(1000)]})
    outcome = tuner(world, time_budget=50.0, batch=4).run()
    assert outcome.reason == "the time is over"
    assert 45 <= world.now <= 52


def test_trials_end_it() -> None:
    world = World({"a": [1.0 / (n + 1) for n in range(100)]})
    assert tuner(world, trials=7, batch=4).run().tried == 7
    assert tuner(World({"a": [1.0, 2.0]}), trials=0).run().tried == 0


def test_the_next_batch_is_asked_for_before_one_is_measured() -> None:
    class Eager(World):
        def measure(self, job, chosen, limit=math.inf):
            asked.append((job, len(self.measured)))
            return super().measure(job, chosen, limit)

    asked: list[tuple[str, int]] = []
    tuner(Eager({"a": [2.0] * 9, "b": [1.0] * 9}), batch=3).run()
    # Both defaults at once; then a batch of each; the third when the first is measured.
    assert asked[:5] == [("a", 0), ("b", 0), ("a", 2), ("b", 2), ("a", 5)]


def test_what_was_asked_for_too_much_is_left_out() -> None:
    """Only one kernel is left, whose next batch is asked for before it is found to rest."""
    world = World({"a": [1.0] * 100})
    run = tuner(world, batch=4)
    assert run.run().tried == 1 + 4 * PATIENCE
    assert run.searches[0].left == 100 - 1 - 4 * PATIENCE


def test_candidates_of_other_searches_do_not_count_as_tried() -> None:
    search = KernelSearch("a", "a", 1, decisions(3))
    for x in range(10, 15):
        search.report({"x": x}, 0.5)
    assert search.left == 3 and not search.finished and search.next_batch(2) == [{"x": 0}]


def test_failures_and_wrong_results_are_written_down_and_passed_over() -> None:
    world = World({"a": [1.0, -1.0, 0.1, 0.5]}, wrong={("a", 2)})
    run = tuner(world)
    outcome = run.run()
    assert outcome.after == 0.5 and outcome.failed == 2
    errors = {r.decision["x"]: r.error for r in run.written if r.error}  # type: ignore[attr-defined]
    assert errors == {1: "ChildProcessError: it died", 2: "wrong results"}
    chosen = [r for r in run.written if r.chosen]  # type: ignore[attr-defined]
    assert [r.decision["x"] for r in chosen] == [3]


def test_a_default_that_fails_is_replaced() -> None:
    outcome = tuner(World({"a": [-1.0, 0.5]})).run()
    assert outcome.after == 0.5 and outcome.improved == 1


def test_nothing_works_at_all() -> None:
    with pytest.raises(TuningError, match="could be measured"):
        tuner(World({"a": [-1.0, -1.0]})).run()


def test_a_lucky_measurement_is_not_kept() -> None:
    class Lucky(World):
        def measure(self, job, chosen, limit=math.inf):
            for measured in super().measure(job, chosen, limit):
                first = self.measured.count((job, measured.decision["x"])) == 1
                lucky = measured.decision["x"] == 1 and first
                yield type(measured)(measured.decision, (0.5,)) if lucky else measured

    run = tuner(Lucky({"a": [1.0, 1.2]}))
    outcome = run.run()
    assert (outcome.improved, outcome.after) == (0, 1.0)
    assert [r.decision["x"] for r in run.written if r.chosen] == [0]  # type: ignore[attr-defined]


def test_the_display_sees_the_network_get_faster() -> None:
    seen: list[TuningState] = []
    run = tuner(World({"a": [1.0, 0.5], "b": [1.0, 0.25]}))
    run.tell = seen.append
    run.run()
    assert seen[-1].network_start == 2.0 and seen[-1].network_seconds == 0.75
    assert seen[-1].time_left < seen[0].time_left


def test_hints_are_tried_right_after_the_default() -> None:
    search = KernelSearch("a", "a", 1, decisions(9), hints=[{"x": 7}, {"x": 99}])
    assert search.next_batch(4) == [{"x": 0}]
    search.report({"x": 0}, 1.0)
    assert search.next_batch(2)[0] == {"x": 7}


def test_neighbours_differ_in_few_numbers() -> None:
    one = {"template": "gemm", "parameters": {"m": 8, "n": 16}}
    assert difference(one, {"template": "gemm", "parameters": {"m": 4, "n": 16}}) == 1
    assert difference(one, {"template": "window", "parameters": {"m": 8}}) == 3


@given(st.lists(st.floats(0.001, 10.0), min_size=1, max_size=40), st.integers(1, 7))
def test_no_candidate_is_tried_twice_and_the_best_tried_wins(
    times: list[float], batch: int
) -> None:
    search = KernelSearch("a", "a", 1, decisions(len(times)))
    tried: list[int] = []
    while next_kernel([search]) is search:
        chosen = search.next_batch(batch)
        before = search.best_seconds
        assert 1 <= len(chosen) <= batch
        for decision in chosen:
            tried.append(decision["x"])
            search.report(decision, times[decision["x"]])
        search.end_batch(before)
    assert len(set(tried)) == len(tried)
    assert search.best_seconds == min(times[x] for x in tried)


@pytest.mark.parametrize(
    "wrong", [{"time_budget": 0.0}, {"time_budget": math.nan}, {"trials": -1}, {"batch": 0}]
)
def test_options_are_checked(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match="is needed|are needed"):
        TuningOptions(**wrong)  # type: ignore[arg-type]
