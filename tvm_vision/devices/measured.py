"""What ``tvm-vision calibrate`` measured of a device, as a part of its description."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..package.fields import Fields, wrong
from ..target_keys import BANDWIDTH, COMPUTE_UNITS, DP4A, FLOPS, FLOPS_FP16, LAUNCH, SHARED

# No device is beyond: a number that is comes of a clock that went wrong.
MOST = {"flops": 1e16, "bandwidth": 1e14, "shared": 1e16, "launch": 1.0, "units": 65536}
RATES = ("float32", "float16", "dp4a", "float16_matrices", "int8_matrices")
# Estimates of products on matrices are fitted to whole kernels.
_KEYS = {"float32": FLOPS, "float16": FLOPS_FP16, "dp4a": DP4A}


def matrix_rate(factors: str) -> str:
    """The kind of rate of cooperative matrices of "float16" or "int8"."""
    return f"{factors}_matrices"


@dataclass(frozen=True)
class Measured:
    """Rates of a whole device.

    Attributes:
        date: of the measurement, as 2026-11-22.
        flops: multiplications and additions a second, by kind: "float32", and of RATES what the
            device has (a dp4a counts as eight).
        bandwidth: bytes that a copy reads and writes, a second.
        shared: bytes that are read from shared memory, a second.
        launch: seconds from one kernel that waits for another to the next.
        units: that run workgroups at the same time, by stepping their number; an estimate.
    """

    date: str
    flops: Mapping[str, float]
    bandwidth: float
    shared: float
    launch: float
    units: int

    def numbers(self) -> dict[str, int]:
        """What estimates read, by the names of ``tvm_vision.target_keys``."""
        return {
            COMPUTE_UNITS: self.units,
            **{_KEYS[k]: max(1, round(v / 1e6)) for k, v in self.flops.items() if k in _KEYS},
            BANDWIDTH: max(1, round(self.bandwidth / 1e6)),
            SHARED: max(1, round(self.shared / 1e6)),
            LAUNCH: max(1, round(self.launch * 1e9)),
        }

    def lines(self) -> list[str]:
        """For people."""
        kinds = ", ".join(
            f"{kind.replace('_', ' ')} {rate / 1e9:.4g}" for kind, rate in self.flops.items()
        )
        return [
            f"copy          {self.bandwidth / 1e9:.4g} GB/s read and written",
            f"multiply-add  {kinds} GFLOP/s",
            f"shared memory {self.shared / 1e9:.4g} GB/s",
            f"launch        {1e6 * self.launch:.4g} µs",
            f"units         {self.units}, by stepping workgroups",
        ]

    @classmethod
    def from_json(cls, value: Any, where: str = "measured") -> Measured:
        """Raises PackageError for anything else than what ``to_json`` gives."""
        fields = Fields(value, where)

        def rate(found: float, at: str, most: str) -> float:
            return (
                found
                if 0 < found <= MOST[most]
                else wrong(at, f"above 0, to {MOST[most]:g}", found)
            )

        kinds = Fields(fields.take("flops"), fields.path("flops"))
        flops = {"float32": rate(kinds.number("float32"), kinds.path("float32"), "flops")}
        for kind in RATES[1:]:
            found = kinds.optional(kind, lambda each, at: rate(_number(each, at), at, "flops"))
            if found is not None:
                flops[kind] = found
        kinds.done()
        date = fields.text("date")
        if len(date) > 32 or not date.isprintable():
            wrong(fields.path("date"), "a date", date)
        result = cls(
            date=date,
            flops=flops,
            units=fields.integer("units", 1, int(MOST["units"])),
            **{
                name: rate(fields.number(name), fields.path(name), name)
                for name in ("bandwidth", "shared", "launch")
            },
        )
        fields.done()
        return result

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**asdict(self), "flops": dict(self.flops)}


def _number(value: Any, where: str) -> float:
    return Fields({"value": value}, where).number("value")
