"""The least time that a kernel can take on a device, and how that is known.

The roofline model: Williams, Waterman and Patterson, "Roofline: an insightful visual performance
model for multicore architectures" (2009); here with the time of a launch beside it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from .. import environment
from ..devices.measured import matrix_rate
from ..runtime.profiler import MATRICES

# Where ceilings are from.
CALIBRATED, DESCRIBED, UNKNOWN = "calibrated", "described", "unknown"
# A kernel that takes so many times its floor is worth a look, and one that takes less than so much
# of it shows that the ceilings are not the device's.
FLAGGED, BELOW = 4.0, 0.9


class Work(Protocol):
    """What a kernel has to do: KernelInfo and KernelProfile are it."""

    @property
    def bytes(self) -> int: ...
    @property
    def operations(self) -> int | None: ...
    @property
    def arithmetic(self) -> str: ...


@dataclass(frozen=True)
class Ceilings:
    """What a device can do, whole.

    Attributes:
        source: CALIBRATED: measured on it; DESCRIBED: of its kind of device; UNKNOWN: the numbers
            below are 0 and mean nothing.
        words: the same in words.
        bandwidth: bytes a second, read and written.
        rates: operations a second by arithmetic, "float32" and perhaps others that
            ``KernelInfo`` has.
        launch: seconds from one kernel that waits for another to the next.
    """

    source: str
    words: str
    bandwidth: float = 0.0
    rates: Mapping[str, float] | None = None
    launch: float = 0.0

    @property
    def known(self) -> bool:
        return self.source != UNKNOWN

    def rate(self, arithmetic: str) -> float:
        """Operations a second: of float32 where the device has no rate of its own for a type;
        without end where nobody measured its matrices, of which nothing else tells."""
        rates = self.rates or {}
        otherwise = math.inf if arithmetic.endswith(MATRICES) else rates.get("float32", math.inf)
        return rates.get(arithmetic, otherwise)

    def line(self) -> str:
        """All of it in a line."""
        if not self.known:
            return self.words
        kinds = ", ".join(f"{kind} {rate / 1e9:.4g}" for kind, rate in (self.rates or {}).items())
        return (
            f"{self.words}: {self.bandwidth / 1e9:.4g} GB/s, {kinds} Gop/s, launch "
            f"{1e6 * self.launch:.3g} us"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {**asdict(self), "rates": dict(self.rates or {})}


@dataclass(frozen=True)
class Floor:
    """The least time of a kernel in microseconds; bound: "bytes", "operations" or "launch"."""

    floor_us: float
    bound: str

    def flags(self, time_us: float) -> bool:
        """Whether a time is so far above it that it is worth a look."""
        return time_us > FLAGGED * self.floor_us

    def is_beaten_by(self, time_us: float) -> bool:
        """Whether a time shows that it is none."""
        return time_us < BELOW * self.floor_us


def floor_of(kernel: Work, ceilings: Ceilings) -> Floor | None:
    """The longest of moving its tensors once, doing its arithmetic, and a launch.

    None where the device's ceilings are unknown. Operations that nobody counted, or whose rate
    nobody knows, do not count.
    """
    if not ceilings.known:
        return None
    parts = {
        "bytes": kernel.bytes / ceilings.bandwidth,
        "operations": (kernel.operations or 0) / ceilings.rate(kernel.arithmetic),
        "launch": ceilings.launch,
    }
    bound = max(parts, key=parts.__getitem__)
    return Floor(1e6 * parts[bound], bound)


def ceilings_of(device: Any) -> Ceilings:
    """What is known of the device that an executor runs on: ``executor.device``."""
    if device.type != "vulkan":
        return Ceilings(UNKNOWN, "unknown: nothing measures this processor without Vulkan")
    from .. import vulkan
    from ..devices.kept import described_here

    here = described_here(vulkan.devices()[device.index])
    if here.measured is not None:
        return measured_ceilings(here.measured)
    return described_ceilings(str(here.attributes["device_type"]))


def measured_ceilings(measured: Any) -> Ceilings:
    """Those of ``devices.measured.Measured``."""
    names = {"dp4a": "int8", **{matrix_rate(f): f"{f} {MATRICES}" for f in ("float16", "int8")}}
    rates = {names.get(kind, kind): rate for kind, rate in measured.flops.items()}
    return Ceilings(
        CALIBRATED,
        f"calibrated on this device, {measured.date}",
        measured.bandwidth,
        rates,
        measured.launch,
    )


def described_ceilings(device_type: str) -> Ceilings:
    """Those that the compiler assumes of a kind of device, where it does."""
    advice = "'tvm-vision calibrate' measures this device"
    if environment.only_runs():
        return Ceilings(UNKNOWN, f"unknown: {advice}")
    from ..schedules.cost.device_model import DESCRIPTIONS, REACHED

    model = DESCRIPTIONS.get(device_type)
    if model is None or model.rates is None:
        return Ceilings(UNKNOWN, f"unknown: {advice}")
    rates = model.rates
    flops = rates.flops / REACHED  # the model's are of what kernels reach
    return Ceilings(
        DESCRIBED,
        f"described, not measured: what a {device_type} GPU is taken for ({advice})",
        rates.bandwidth,
        {
            "float32": flops,
            "float16": flops * rates.fp16,
            "int8": flops * 4 * rates.dp4a,
        },
        rates.launch,
    )
