"""What a profile of a network says: where the time of a frame goes, and what is unexplained."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..package.tensors import ITEM_BYTES

# How the arithmetic of kernels on cooperative matrices ends.
MATRICES = "matrices"
# After the kernels, a sample holds span, upload, read-back and wall time, and what is unexplained.
STAGES = ("span", "upload", "readback", "wall", "unexplained")


@dataclass(frozen=True)
class KernelInfo:
    """A kernel's function, the network's nodes it computes, and how much work it is.

    bytes: of the tensors that it reads and writes, each counted once; a kernel that selects may
    read less. operations: of arithmetic, where they were counted. arithmetic: the narrowest type
    that it reads, "int8", "float16" or "float32"; where it multiplies cooperative matrices,
    "float16 matrices" or "int8 matrices".
    """

    function: str
    nodes: tuple[str, ...]
    bytes: int = 0
    operations: int | None = None
    arithmetic: str = "float32"


@dataclass(frozen=True)
class KernelProfile:
    """Times of one kernel in microseconds; ``share`` of the sum of all medians, 0 to 1.

    bytes, operations, arithmetic: see KernelInfo.
    """

    index: int
    function: str
    nodes: tuple[str, ...]
    device: str
    median_us: float
    p95_us: float
    share: float
    bytes: int = 0
    operations: int | None = None
    arithmetic: str = "float32"


@dataclass(frozen=True)
class ProfileReport:
    """Medians over ``repeat`` frames, in microseconds.

    ``sum_us`` adds up the kernels, each timed alone between two timestamps; ``span_us`` is the time
    from the first to the last kernel of a frame as it runs in production, where neighbours may
    overlap; ``wall_us`` is the whole of that frame by the host's clock; ``unexplained_us`` is what
    of it is beyond its upload, span and read-back: driver, queue and host. It is never below 0.
    All are medians of the same frames, each by itself, so that they need not add up.
    """

    device: str
    device_description: str
    repeat: int
    kernels: tuple[KernelProfile, ...]
    sum_us: float
    span_us: float
    upload_us: float
    readback_us: float
    wall_us: float
    unexplained_us: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        slowest = max(self.kernels, key=lambda kernel: kernel.median_us, default=None)
        most = ""
        if slowest is not None:
            what = " ".join(slowest.nodes) or slowest.function
            most = f"; the longest, {100 * slowest.share:.1f} %, is {what}"
        return (
            f"{len(self.kernels)} kernels on {self.device_description}: span {self.span_us:.1f} us "
            f"of a frame of {self.wall_us:.1f} us{most}"
        )


def kernel_infos(graph: Mapping[str, Any]) -> tuple[KernelInfo, ...]:
    """The kernels of a network's graph, as mod.json has it."""
    return tuple(_kernel_info(kernel, graph["tensors"]) for kernel in graph["kernels"])


def _kernel_info(kernel: Mapping[str, Any], tensors: Sequence[Mapping[str, Any]]) -> KernelInfo:
    used = [tensors[i] for i in dict.fromkeys(kernel["args"])]
    read = {tensors[i]["dtype"] for i in kernel["args"][: -kernel["num_outputs"]]}
    narrowest = next((kind for kind in ("int8", "float16") if kind in read), "float32")
    matrices = kernel.get("matrices")
    return KernelInfo(
        kernel["function"],
        tuple(kernel.get("nodes", ())),
        sum(math.prod(t["shape"]) * ITEM_BYTES[t["dtype"]] for t in used),
        kernel.get("operations"),
        narrowest if matrices is None else f"{matrices} {MATRICES}",
    )


def summarise(
    kernels: Sequence[KernelInfo], samples: np.ndarray, device: str, description: str
) -> ProfileReport:
    """The report of ``samples``: float64 (runs, kernels + 5) nanoseconds, stages last.

    Raises ValueError when the columns do not fit the kernels.
    """
    if samples.ndim != 2 or samples.shape[1] != len(kernels) + len(STAGES):
        raise ValueError(
            f"expected samples of (runs, {len(kernels) + len(STAGES)}), got {samples.shape}"
        )
    micro = samples / 1e3
    medians = np.median(micro, axis=0)
    high = np.percentile(micro, 95, axis=0)
    total = float(medians[: len(kernels)].sum())
    stages = dict(zip(STAGES, medians[len(kernels) :].tolist(), strict=True))
    profiles = tuple(
        KernelProfile(
            index=i,
            function=kernel.function,
            nodes=kernel.nodes,
            device=device,
            median_us=float(medians[i]),
            p95_us=float(high[i]),
            share=float(medians[i]) / total if total > 0 else 0.0,
            bytes=kernel.bytes,
            operations=kernel.operations,
            arithmetic=kernel.arithmetic,
        )
        for i, kernel in enumerate(kernels)
    )
    return ProfileReport(
        device=device,
        device_description=description,
        repeat=len(samples),
        kernels=profiles,
        sum_us=total,
        span_us=stages["span"],
        upload_us=stages["upload"],
        readback_us=stages["readback"],
        wall_us=stages["wall"],
        unexplained_us=stages["unexplained"],
    )
