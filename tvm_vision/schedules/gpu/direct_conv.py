"""Convolutions with windows on cooperative matrices, out of a tile of the image in shared memory.

A workgroup computes a part of the output, some rows as wide as a matrix has rows. For ``k``
channels at a time its threads fetch what the windows reach of the image, the part and its halo,
once; the subgroups load their matrices at each place of the window straight from there: sixteen
pixels side by side are the rows of one. A row of the image serves all places of the window above
each other.

See direct_conv_form.py for the form that is scheduled, coopmat_gemm.py for products without
windows.
"""

from __future__ import annotations

from typing import Any

from tvm import s_tir, tirx
from tvm.s_tir import Schedule

from ..common import NotThisKind, TargetLimits, inline_consumers, inline_producers, is_reduction
from ..cost import direct_conv as direct_conv_cost
from ..cost.coopmat_gemm import SKEW_BYTES, VECTOR, VECTOR_BYTES
from ..cost.direct_conv import DirectConvTile, Windows
from ..factors import TYPES
from .coopmat_gemm import blocked
from .direct_conv_form import (
    CROP,
    FILTERS,
    HALO,
    NAMES,
    RESULTS,
    SHIFTED,
    SUMS,
    TOTAL,
    WEIGHTS,
    windows_of,
    with_halo,
)
from .split_k import schedule_total
from .tensor_intrinsics import intrinsic
from .vectors import in_vectors, widths

MOST_UNROLLED = 256  # turns of a thread


def schedule_direct_conv(
    schedule: Schedule, limits: TargetLimits, tile: DirectConvTile | None = None
) -> Schedule:
    """A schedule of a kernel that is one convolution with windows and what surrounds it.

    Args:
        tile: how to cut it; None leaves it to the model.

    Raises:
        NotThisKind: another kernel, or, without a tile, one that is estimated to be faster as a
            matrix product.
        tvm.s_tir.ScheduleError: a kernel that resists.
    """
    windows = windows_of(schedule)
    if tile is None:
        tile = next(iter(direct_conv_cost.candidates(windows, limits)), None)
        if tile is None or not direct_conv_cost.pays(windows, limits):
            raise NotThisKind("is estimated to be faster as a matrix product")
    schedule = _Scheduling(with_halo(schedule, tile), windows, tile, limits.subgroup).scheduled()
    if tile.split_k > 1:
        schedule_total(schedule, schedule.get_sblock(TOTAL), limits)
    return schedule


class _Scheduling:
    """The steps of a schedule."""

    def __init__(
        self, schedule: Schedule, windows: Windows, tile: DirectConvTile, lanes: int
    ) -> None:
        self._schedule = schedule
        self._windows = windows
        self._tile = tile
        self._lanes = lanes
        self._blocks = {name: schedule.get_sblock(name) for name in NAMES}

    def scheduled(self) -> Schedule:
        """The schedule after all steps."""
        schedule, tile, blocks = self._schedule, self._tile, self._blocks
        self._inline()
        loops = self._cut()
        schedule.set_scope(blocks[SUMS], 0, "wmma.accumulator")
        tensorized = [self._load(SHIFTED, loops), self._load(FILTERS, loops)]
        self._fetch(HALO, loops["k_tile"])
        if tile.columns:
            self._fetch(WEIGHTS, loops["k_tile" if self._all_columns else "kx"])
        tensorized.append(self._write(loops["worker"]))
        for name in ("ky", "y_own", "n_matrix"):
            schedule.unroll(loops[name])
        fetched = [HALO, WEIGHTS] if self._all_columns else [HALO]
        _fetch_first(schedule, [blocks[name] for name in fetched], loops["k_tile"], tile.ahead)
        start = schedule.decompose_reduction(blocks[SUMS], loops["k_tile"])
        tensorized += [
            (schedule.get_loops(start)[-2], self._intrinsic("fill")),
            (loops["x_own"], self._intrinsic("multiply_ab")),
        ]
        # At the end, as blocks that were tensorized cannot be moved any more.
        for loop, name in tensorized:
            schedule.tensorize(loop, name)
        return schedule

    @property
    def _all_columns(self) -> bool:
        return self._tile.columns == self._windows.kernel[1]

    def _inline(self) -> None:
        """What makes the image and the weights is computed as they are fetched, what follows the
        results as they are written."""
        schedule, crop = self._schedule, self._blocks[CROP]
        for name in (HALO, WEIGHTS):
            inline_producers(schedule, self._blocks[name])
        if not self._tile.columns:
            schedule.compute_inline(self._blocks[WEIGHTS])
        if not any(is_reduction(schedule, after) for after in schedule.get_consumers(crop)):
            inline_consumers(schedule, crop)

    def _cut(self) -> dict[str, Any]:
        """Cuts and binds the loops of the sums; returns them by name."""
        schedule, tile = self._schedule, self._tile
        m, n, k = tile.matrix
        part, batch, y, y_own, x, f, ky, kx, c = schedule.get_loops(self._blocks[SUMS])
        y_group, y_sub = schedule.split(y, [None, tile.subgroups_y])
        x_group, x_sub, x_own = schedule.split(x, [None, tile.subgroups_x, m])
        cut = [None, tile.subgroups_n, tile.filters // n, n]
        n_group, n_sub, n_matrix, n_own = schedule.split(f, cut)
        k_tile, k_matrix, k_own = schedule.split(c, [None, tile.k // k, k])
        schedule.reorder(
            part, batch, y_group, x_group, n_group, y_sub, x_sub, n_sub,
            k_tile, kx, k_matrix, ky, y_own, n_matrix, x_own, n_own, k_own,
        )  # fmt: skip
        schedule.bind(schedule.fuse(part, batch), "blockIdx.z")
        schedule.bind(schedule.fuse(y_group, x_group), "blockIdx.y")
        schedule.bind(n_group, "blockIdx.x")
        worker = schedule.fuse(y_sub, x_sub, n_sub)
        schedule.bind(worker, "threadIdx.y")
        return {
            "worker": worker, "k_tile": k_tile, "kx": kx, "k_matrix": k_matrix, "ky": ky,
            "y_own": y_own, "n_matrix": n_matrix, "x_own": x_own,
        }  # fmt: skip

    def _load(self, name: str, loops: dict[str, Any]) -> tuple[Any, str]:
        """Puts a factor into matrices, those for all places of the window above each other."""
        schedule, block = self._schedule, self._blocks[name]
        m, n, k = self._tile.matrix
        image = name == SHIFTED
        schedule.set_scope(block, 0, "wmma.matrix_a" if image else "wmma.matrix_b")
        schedule.compute_at(block, loops["k_matrix"], preserve_unit_loops=True)
        first = self._blocked(block, (m, k) if image else TYPES[self._windows.factors].b(n, k))
        if image:
            return first, self._intrinsic("load_a", self._windows.stride[1])
        return first, self._intrinsic("load_b" if self._tile.columns else "load_b_global")

    def _intrinsic(self, kind: str, step: int = 1) -> str:
        return intrinsic(kind, self._tile.matrix, step, self._windows.factors)

    def _blocked(self, block: Any, size: tuple[int, int]) -> Any:
        """Cuts a block that was moved into matrices; returns the first loop within one."""
        dimensions = len(self._schedule.get(block).iter_vars)
        for loop in self._schedule.get_loops(block)[-dimensions:-2]:
            self._schedule.unroll(loop)
        return blocked(self._schedule, block, size)

    def _fetch(self, name: str, loop: Any) -> None:
        """Spreads a fetch into shared memory over all threads."""
        schedule, tile, block = self._schedule, self._tile, self._blocks[name]
        each, skew = self._windows.bytes_each, SKEW_BYTES // self._windows.bytes_each
        schedule.set_scope(block, 0, "shared")
        even = [wide for wide in widths(VECTOR_BYTES // each) if tile.k % wide == 0]
        in_vectors(schedule, block, even, fallback=VECTOR)
        schedule.compute_at(block, loop, preserve_unit_loops=True)
        *rows, own = schedule.get_loops(block)[-6:]
        cut = [None, tile.subgroups, self._lanes]
        turn, subgroup, lane = schedule.split(schedule.fuse(*rows), cut)
        schedule.bind(subgroup, "threadIdx.y")
        schedule.bind(lane, "threadIdx.x")
        # Where it is fetched ahead TVM takes the loop apart before it unrolls the parts.
        schedule.annotate(turn, "pragma_auto_unroll_max_step", MOST_UNROLLED)
        schedule.annotate(turn, "pragma_unroll_explicit", 1)
        schedule.vectorize(own)
        schedule.storage_align(block, 0, -2, 2 * skew, skew)

    def _write(self, worker: Any) -> tuple[Any, str]:
        """Each subgroup puts a row of its results into shared memory, then its threads write it."""
        schedule, results, crop = self._schedule, self._blocks[RESULTS], self._blocks[CROP]
        schedule.reverse_compute_at(results, worker, preserve_unit_loops=True)
        row = schedule.get_loops(results)[-3]
        first = self._blocked(results, self._tile.matrix[:2])
        schedule.reverse_compute_at(crop, row, preserve_unit_loops=True)
        fused = schedule.fuse(*schedule.get_loops(crop)[-2:])
        turn, lane, own = schedule.split(fused, [None, self._lanes, VECTOR])
        schedule.bind(lane, "threadIdx.x")
        schedule.unroll(turn)
        schedule.vectorize(own)
        schedule.set_scope(results, 0, "shared")
        self._keep_within()
        return first, self._intrinsic("store")

    def _keep_within(self) -> None:
        """Puts back where the output's rows end: TVM forgets the condition of a block it moves."""
        schedule, tile = self._schedule, self._tile
        if self._windows.height % tile.outputs[0] == 0:
            return
        place = schedule.get_sref(schedule.get_loops(self._blocks[CROP])[-1])
        loop, realized = place.stmt, place.stmt.body
        _, _, y, y_own, *_ = realized.iter_values
        inside = tirx.all(realized.predicate, y * tile.rows + y_own < self._windows.height)
        body = s_tir.SBlockRealize(realized.iter_values, inside, realized.block)
        kept = tirx.For(
            loop.loop_var, loop.min, loop.extent, loop.kind, body, loop.thread_binding,
            loop.annotations,
        )  # fmt: skip
        schedule.state.replace(place, kept)


def _fetch_first(schedule: Schedule, blocks: list[Any], loop: Any, ahead: bool) -> None:
    """Fetches all into registers before any of it is shared; ``ahead``: while the one before is
    multiplied.

    Drivers move no load across the condition of another. The statements of a step are: each block
    to registers and to shared memory, then the products.
    """
    for block in blocks:
        schedule.annotate(block, "tirx.manifest_shared_memory_local_stage", 1)
    count = len(blocks)
    own, shared = range(count), range(count, 2 * count)
    if ahead:
        own, shared = shared, own
    order = [place for pair in zip(own, shared, strict=True) for place in pair]
    schedule.annotate(loop, "software_pipeline_stage", [*[0, int(ahead)] * count, int(ahead)])
    schedule.annotate(loop, "software_pipeline_order", [*order, 2 * count])
