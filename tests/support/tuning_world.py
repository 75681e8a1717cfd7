"""A world without a device: candidates whose times are known, and a clock that measuring moves."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm_vision.tuning.measure import Measured
from tvm_vision.tuning.records import Record, TuningKey

HERE = TuningKey("Some GPU", "driver 1", "fp32")


@dataclass
class World:
    """Seconds of a decision by its value ``x``; negative ones fail, wrong ones give bad results."""

    times: dict[str, list[float]]
    cost: float = 1.0
    wrong: set[tuple[str, int]] = field(default_factory=set)
    now: float = 0.0
    measured: list[tuple[str, int]] = field(default_factory=list)

    def clock(self) -> float:
        return self.now

    def measure(
        self, job: Any, decisions: Sequence[Any], limit: float = math.inf
    ) -> Generator[Measured, None, None]:
        for decision in decisions:
            self.now += self.cost
            self.measured.append((job, decision["x"]))
            seconds = self.times[job][decision["x"]]
            if seconds < 0:
                yield Measured(decision, error="ChildProcessError: it died")
            else:
                yield Measured(decision, (seconds,) * 3)

    def check(self, job: Any, measured: Measured) -> str:
        return "wrong results" if (job, measured.decision["x"]) in self.wrong else ""

    def close(self) -> None:
        pass


def decisions(count: int) -> list[dict[str, int]]:
    return [{"x": number} for number in range(count)]


def record(kernel: str = "k", x: int = 1, seconds: float = 0.5, **fields: Any) -> Record:
    values: dict[str, Any] = {
        "kernel": kernel,
        "name": f"fused_{kernel}",
        "place": HERE,
        "decision": {"x": x},
        "seconds": (seconds,) if math.isfinite(seconds) else (),
        "checked": True,
    }
    return Record(**{**values, **fields})
