"""One kernel after the other, from its function to its code, and what was said meanwhile."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

from tvm import tirx
from tvm.target import Target
from tvm_ffi.serialization import from_json_graph_str

from ...errors import SharedMemoryError
from ...schedules import ScheduleConfig, TargetLimits
from ...tvm_compat.no_ops import lowering_context
from .code import KernelCode
from .make import build_kernels, schedule_kernels
from .workspaces import with_workspaces

LOGGER = logging.getLogger(__name__)
LEAST_SHARED_BYTES = 256  # no tile fits in less: what is scheduled then has none


@dataclass(frozen=True)
class Job:
    """A kernel to be made.

    Attributes:
        name: by which people know it.
        placeholder: its name in the code.
        function: without a schedule, as TVM writes it to JSON.
        choice: what tuning chose.
    """

    name: str
    placeholder: str
    function: str
    choice: ScheduleConfig | None


@dataclass(frozen=True)
class KernelMaker:
    """Makes kernels for one target, which may have the limits of a GPU."""

    target: Target
    limits: TargetLimits | None

    def made(self, job: Job) -> KernelCode:
        """The code of a kernel; where its tiles need more shared memory than their estimate says
        and the target has, it gets smaller ones. Raises UnsupportedKernelError, and what TVM
        raises.
        """
        limits, choice = self.limits, job.choice
        while True:
            try:
                return self._made(job, limits, choice)
            except SharedMemoryError as error:
                if limits is None or limits.shared_bytes < LEAST_SHARED_BYTES:
                    raise
                if limits is self.limits:
                    LOGGER.warning("%s; smaller ones are taken, which may be slower", error)
            limits, choice = replace(limits, shared_bytes=limits.shared_bytes // 2), None

    def _made(
        self, job: Job, limits: TargetLimits | None, choice: ScheduleConfig | None
    ) -> KernelCode:
        # TVM's own reading goes through the text twice more, for what older versions wrote.
        function: tirx.PrimFunc = from_json_graph_str(job.function)
        with self.target, lowering_context():
            module = schedule_kernels({job.name: function}, self.target, limits, {job.name: choice})
            shared: dict[str, Any] = {}
            if "gpu" in self.target.keys:
                module, shared = with_workspaces(module)
            return build_kernels(module, self.target, {job.name: job.placeholder}, shared)[job.name]


class Said(logging.Handler):
    """Keeps what is logged, for another process to log."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[tuple[str, int, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        """As logging has it."""
        self._kept.append((record.name, record.levelno, record.getMessage()))

    def taken(self) -> list[tuple[str, int, str]]:
        """Loggers, levels and messages since the last call."""
        kept, self._kept = self._kept, []
        return kept
