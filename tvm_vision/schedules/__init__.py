"""Schedules for kernels, chosen by the structure of each kernel; good without any tuning.

``schedule_module`` gives every kernel of a module one on a GPU, ``cpu_schedules`` on a processor.
The templates, one kind of kernel each, and what a tuner needs of them are in ``templates``:

- ``choices(function, limits)``: every ``ScheduleConfig`` for an unscheduled function, likeliest
  first within each template, those of direct_conv and coopmat_gemm by turns; the first one that
  applies is the default.
  ``limits_of(target)`` are those of a device: TargetLimits of a GPU, or a Processor.
- ``schedule_with(function, limits, choice)``: the function with that schedule.
- ``ScheduleConfig.to_dict`` / ``.from_dict``: plain data for records.
- ``schedule_module(mod, target, choose)``: ``choose(function)`` gives a ScheduleConfig, or None.

Each template keeps its parameters in a frozen dataclass of plain numbers, with
``candidates(shape, limits)`` and ``default(shape, limits)`` in the same file:

| template | parameters | for |
|---|---|---|
| winograd_conv | cost.winograd_conv.WinogradTile | Winograd's convolution as one kernel |
| winograd | winograd.TransformShape | the two transforms of Winograd's convolution |
| elementwise | elementwise.ElementwiseShape | no sum |
| direct_conv | cost.direct_conv.DirectConvTile | windows of fp16 or int8, on such matrices |
| coopmat_gemm | cost.coopmat_gemm.CoopmatTile | products of the same, on cooperative matrices |
| window_rows | window_rows.WindowRowShape | large windows by channel, windows with few results |
| contraction | cost.gemm_tile.GemmTile | sums of products; of bytes by dot products of four |
| reduction | reduction.RowShape | long sums with few results |
| window | window.WindowShape | short sums, one thread each |
| trace | trace.TraceSteps | what TVM's MetaSchedule found; in records alone |

For processors ``cpu/windows.py`` and ``cpu/gather.py`` write the loops of what
``topi/nchwc.py`` computes: convolutions, pools and selections of channels in blocks;
``cpu/products.py`` and ``cpu/rows.py`` those of what TVM's operators are.

| template | parameters | for |
|---|---|---|
| cpu_window | cpu.tiles.WindowTile | convolutions and pools of channels in blocks |
| cpu_gather | cpu.gather.GatherLoop | selections of channels in blocks |
| cpu_pool | cpu.pools.PoolLoop | maxima and sums of windows in the network's order |
| cpu_product | cpu.products.ProductTile | products of two tensors of matrices |
| cpu_rows | cpu.rows.RowLoop | sums over rows with what follows: softmax, layer normalization |
| cpu_pieces | cpu.pieces.PieceLoop | choices by the column of a row: concatenations, paddings |
| cpu_transpose | cpu.transposes.TransposeLoop | axes in another order |
| cpu_nest | cpu.nests.NestShape | everything else |
"""

from __future__ import annotations

from .common import NotThisKind, TargetLimits
from .gpu.trace import TRACE
from .key import kernel_key
from .module import (
    TUNED,
    Chooser,
    check_writes,
    cpu_schedules,
    schedule_function,
    schedule_module,
)
from .templates import (
    TEMPLATES,
    Limits,
    ScheduleConfig,
    choices,
    first_taking,
    is_offered,
    likeliest,
    limits_of,
    schedule_with,
)

__all__ = [
    "TEMPLATES",
    "TRACE",
    "TUNED",
    "Chooser",
    "Limits",
    "NotThisKind",
    "ScheduleConfig",
    "TargetLimits",
    "check_writes",
    "choices",
    "cpu_schedules",
    "first_taking",
    "is_offered",
    "kernel_key",
    "likeliest",
    "limits_of",
    "schedule_function",
    "schedule_module",
    "schedule_with",
]
