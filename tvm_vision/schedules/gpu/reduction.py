"""Long sums with few results: global pools, matrix times vector, softmax, normalisations, arg max.

A workgroup takes some rows (a row: what one sum runs over). Each row has a line of threads, each of
which adds up a part of it; TVM adds up the parts across the threads through shared memory. Then all
threads write the outputs of the rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm.ir import TensorLoad, Var
from tvm.s_tir import Schedule

from ..common import (
    NotThisKind,
    TargetLimits,
    extents_of,
    inline_all,
    is_reduction,
    kinds_of,
    largest_divisor,
    number_at,
    power_of_two_up_to,
    product,
    up,
)

LEAST_TERMS = 32  # shorter sums are left to one thread each
MOST_TERMS_IN_A_ROW = 64  # of many sums that are: one or two lines of a cache, of fp16
MOST_THREADS = 256
MOST_OF_FEW = 1024  # where there are few workgroups, to have more loads under way
# And, by models, of rows of so many terms: drivers write the loop over them out and keep what it
# has read, of 128 terms a thread in all registers, of more beyond them.
LONG_ROW = 1 << 14
LEAST_PART = 16  # terms of each of them then
LINES = (32, 16, 8)  # neighbours in memory that are fetched together, and where these are few
MOST_UNROLLED = 8  # terms that a thread has under way together
MOST_TERMS_OF_OTHERS = 32  # written out, where threads share one axis of a sum
WASTED = 0.25  # of the threads' turns along it
LEAST_UNROLLED = 4  # where they divide its own evenly; else the last turn has fewer
# By models: threads that sum alone, where nothing was timed, wait longer than a large GPU's.
MANY_ROWS = 2
FEW_ROWS = 2  # for each workgroup that occupies a device
THREADS_OF_ROWS = 128
FEWEST_THREADS = 32  # of a row of many
FEWEST_OF_OTHERS = 16  # of any row, by models, where nothing was timed
SHORT_PART = 3  # terms of each thread, at least, where a row of many has more
MOST_KEPT = 16  # of these, in the registers of wide subgroups
MOST_AGAIN = 16  # terms that each thread of few rows may go through again
THREADS_FOR_A_ROW = 8  # that a device runs at once, beside the rows that need no more than one each


@dataclass(frozen=True)
class RowShape:
    """How the rows are spread.

    Attributes:
        rows: rows of a workgroup.
        parts: parts that each row is cut into.
        rows_first: neighbouring threads work on neighbouring rows, not on neighbouring terms.
        one_axis: parts are of one axis of the sum, where that suits it, and not of all its terms in
            one row.
    """

    rows: int
    parts: int
    rows_first: bool
    one_axis: bool = False

    @property
    def row_axis(self) -> str:
        """The thread axis over the rows."""
        return "threadIdx.x" if self.rows_first else "threadIdx.y"

    @property
    def part_axis(self) -> str:
        """The thread axis over the parts of a row."""
        return "threadIdx.y" if self.rows_first else "threadIdx.x"


@dataclass(frozen=True)
class RowSums:
    """What is summed.

    Attributes:
        rows: extents of the rows, those of 1 left out.
        terms: of the longest sum.
        along_rows: neighbouring rows, not neighbouring terms, are neighbours in memory.
        again: each row is gone through again after the first sum, for another one or for results
            as long as it.
        axes: extents of the longest sum, those of 1 left out.
    """

    rows: tuple[int, ...]
    terms: int
    along_rows: bool
    again: bool = False
    axes: tuple[int, ...] = ()

    def suit_threads(self, limits: TargetLimits) -> bool:
        """Short sums, or many whose neighbours in memory neighbouring threads read: one thread for
        each does as well."""
        return self.terms < LEAST_TERMS or (self.along_rows and self._are_many(limits))

    def suit_windows(self, limits: TargetLimits) -> bool:
        """There is one sum, and a thread for each does: what window.py is made for.

        Of many it does for longer ones too, as a convolution of few outputs for each of many pixels
        has: what a thread reads in a row stays in the nearest cache until it has read all of it.
        """
        if self.again:
            return False
        short = self.terms <= MOST_TERMS_IN_A_ROW
        return self.suit_threads(limits) or (short and self._are_many(limits))

    def _are_many(self, limits: TargetLimits) -> bool:
        device = limits.device
        least = device.enough.rows if device.measured else MANY_ROWS * device.enough.rows
        return product(self.rows) >= least


def shape_of(schedule: Schedule) -> RowSums:
    """The sums of a kernel; spoils the schedule.

    Raises:
        NotThisKind: it has none, or they run over different rows.
    """
    return _sums_of(schedule, inline_all(schedule))


def keeps_few(sums: RowSums, shape: RowShape) -> bool:
    """Whether a thread keeps few values: the driver keeps what it goes through again."""
    return not sums.again or up(sums.terms, shape.parts) <= MOST_KEPT


def worth_joining(rows: int, terms: int, stretch: int, limits: TargetLimits) -> bool:
    """Whether all that is made of rows is one kernel sooner than several: there are as many
    workgroups as a device has room for, or each thread has few terms of a row.

    Args:
        stretch: terms of a row that lie one behind the other. Where that is one alone, a workgroup
            takes neighbours of several rows, and each row has few of its threads.
    """
    threads = min(MOST_OF_FEW, limits.threads)
    neighbours = 1 if stretch > 1 else LINES[-1]
    groups, most = rows // neighbours, MOST_AGAIN * threads // neighbours
    return groups >= limits.device.enough.groups or terms <= most


def schedule_reduction(
    schedule: Schedule, limits: TargetLimits, shape: RowShape | None = None
) -> None:
    """Schedules sums over the same rows, one after the other, and the outputs made of them.

    Args:
        shape: how to spread the rows; None chooses.

    Raises:
        NotThisKind: no such kernel, or one where a thread for each row does as well.
        tvm.s_tir.ScheduleError: a kernel that resists; the schedule is then spoilt.
    """
    blocks = inline_all(schedule)
    sums = _sum_blocks(schedule, blocks)
    found = _sums_of(schedule, blocks)
    if found.suit_windows(limits):
        raise NotThisKind("has short sums, or many")
    output = blocks[-1]
    if is_reduction(schedule, output):
        output = schedule.cache_write(output, 0, "shared")
    if len(blocks) - len(sums) > 1 or schedule.get_consumers(output):
        raise NotThisKind("has several outputs")
    if found.suit_threads(limits):
        _row_a_thread(schedule, sums, output, limits)
        return
    shape = shape or default(found, limits)
    for block in sums:
        if len(schedule.get(block).writes) > 1:
            _try_to_share(schedule.copy(), schedule.get(block).name_hint)
    group = _spread_rows(schedule, output, sums[-1], shape)
    for block in reversed(sums):
        _share(schedule, block, group, shape)


def default(sums: RowSums, limits: TargetLimits) -> RowShape:
    """Neighbouring threads read neighbours in memory; few rows are cut into more parts."""
    most = _most_threads(sums, limits)
    last = sums.rows[-1] if sums.rows else 1
    if sums.along_rows and last > 1:
        together = _neighbours(sums, last, limits)
        parts = power_of_two_up_to(min(sums.terms, most // together))
        parts = max(parts, _parts_of_few(sums, together, limits))
        # By models: what was timed keeps what it had.
        for fewer in () if limits.device.measured else (parts, parts // 2):
            if _has_axis_of_parts(sums, fewer):
                return RowShape(together, fewer, True, one_axis=True)
        return RowShape(together, parts, True)
    parts = power_of_two_up_to(min(sums.terms, _threads_of_a_row(sums, most, limits)))
    rows = largest_divisor(last, max(1, 128 // parts))
    parts = max(parts, _parts_of_few(sums, rows, limits))
    while rows * parts < limits.wave and 2 * parts <= sums.terms:
        parts *= 2
    return RowShape(rows, parts, False)


def _most_threads(sums: RowSums, limits: TargetLimits) -> int:
    long = sums.terms >= LONG_ROW and not limits.device.measured
    return min(MOST_OF_FEW if long else MOST_THREADS, limits.threads)


def _threads_of_a_row(sums: RowSums, most: int, limits: TargetLimits) -> int:
    """As many as there can be where rows are few or very long; of many rows a line, more where it
    has long parts and all threads together still fit the device at once. By models, where nothing
    was timed, no thread of a short row has less than a few terms."""
    if most > MOST_THREADS:  # of very long rows
        return most
    rows, measured = product(sums.rows), limits.device.measured
    fewest = FEWEST_THREADS if measured else FEWEST_OF_OTHERS
    if rows <= FEW_ROWS * limits.device.enough.groups:
        long = measured or sums.terms > 2 * MOST_TERMS_IN_A_ROW
        return most if long else max(fewest, min(sums.terms // SHORT_PART, most))
    together = THREADS_FOR_A_ROW * limits.device.enough.rows
    return max(fewest, min(sums.terms // SHORT_PART, together // rows, most))


def _neighbours(sums: RowSums, last: int, limits: TargetLimits) -> int:
    """How many rows that are neighbours in memory a workgroup takes: a number that divides them,
    but not one so small that what is fetched together is used in part; the last group has fewer
    then."""
    rows, enough = product(sums.rows), 2 * limits.device.enough.groups
    *long, least = LINES
    most = min(last, next((line for line in long if rows // line > enough), least))
    divisor = largest_divisor(last, most)
    return divisor if 2 * divisor > most else most


def _parts_of_few(sums: RowSums, together: int, limits: TargetLimits) -> int:
    """Into how many parts rows may go where there are few workgroups; 1 where there are enough."""
    if product(sums.rows) // together >= limits.device.enough.groups:
        return 1
    threads = min(MOST_OF_FEW, limits.threads)
    return power_of_two_up_to(max(1, min(sums.terms // LEAST_PART, threads // together)))


def _has_axis_of_parts(sums: RowSums, parts: int) -> bool:
    return parts > 1 and len(sums.axes) > 1 and _axis_of_parts(sums.axes, parts) is not None


def candidates(sums: RowSums, limits: TargetLimits) -> list[RowShape]:
    """Every way to spread the rows that the limits allow, the default first; none for windows."""
    if sums.suit_windows(limits):
        return []
    if sums.suit_threads(limits):
        return [default(sums, limits)]
    last = sums.rows[-1] if sums.rows else 1
    found = [default(sums, limits)]
    for rows, log, rows_first, one_axis in itertools.product(
        range(1, min(last, 64) + 1), range(2, 11), (sums.along_rows, not sums.along_rows),
        (False, True),
    ):  # fmt: skip
        if one_axis and not (rows_first and _has_axis_of_parts(sums, 1 << log)):
            continue
        shape = RowShape(rows, 1 << log, rows_first, one_axis)
        threads = rows << log
        few = product(sums.rows) // rows < limits.device.enough.groups
        most = min(MOST_OF_FEW, limits.threads) if few else _most_threads(sums, limits)
        fits = limits.wave <= threads <= most and shape.parts <= sums.terms
        if fits and last % rows == 0 and shape not in found:
            found.append(shape)
    return found


def _sum_blocks(schedule: Schedule, blocks: list[Any]) -> list[Any]:
    sums = [block for block in blocks if is_reduction(schedule, block)]
    if not sums:
        raise NotThisKind("has no sum")
    return sums


def _sums_of(schedule: Schedule, blocks: list[Any]) -> RowSums:
    sums = _sum_blocks(schedule, blocks)
    rows, last = _rows(schedule, sums), blocks[-1]
    longer = product(extents_of(schedule, last)) > product(rows)
    axes = max((_terms(schedule, block) for block in sums), key=product)
    return RowSums(
        rows=tuple(rows),
        terms=product(axes),
        along_rows=reads_along_rows(schedule, sums[-1]),
        again=len(sums) > 1 or (longer and not is_reduction(schedule, last)),
        axes=axes,
    )


def _rows(schedule: Schedule, sums: list[Any]) -> list[int]:
    """The extents of the rows, the same for all sums but for axes of extent 1."""
    found = []
    for block in sums:
        pairs = zip(extents_of(schedule, block), kinds_of(schedule, block), strict=True)
        found.append([extent for extent, kind in pairs if kind == "S" and extent > 1])
    if any(rows != found[0] for rows in found):
        raise NotThisKind("sums over different rows")
    return found[0]


def _terms(schedule: Schedule, block: Any) -> tuple[int, ...]:
    pairs = zip(extents_of(schedule, block), kinds_of(schedule, block), strict=True)
    return tuple(extent for extent, kind in pairs if kind == "R" and extent > 1)


def reads_along_rows(schedule: Schedule, block: Any) -> bool:
    """Whether neighbours in memory, in the largest tensor that a sum goes over, are of several
    rows: its last index is one of rows, and where it is one of terms, too, as behind a reshape, no
    next term lies beside one. Axes of one element are none."""
    body = schedule.get(block)
    spatial = [axis.var for axis in body.iter_vars if axis.iter_type == 0]
    largest: tuple[int, bool] = (0, False)

    def is_spatial(variable: Any) -> bool:
        return any(variable.same_as(axis) for axis in spatial)

    def see(load: Any) -> None:
        nonlocal largest
        extents = [int(extent) for extent in load.source.shape]
        pairs = zip(load.indices, extents, strict=True)
        indices = [place for place, extent in pairs if extent > 1]
        places = [_variables(place) for place in indices]
        if all(map(is_spatial, itertools.chain(*places))):  # the same all along
            return
        last = {is_spatial(v) for v in places[-1]}
        along = True in last
        if len(last) > 1:
            nearest = [is_spatial(v) for v in places[-1] if _step(indices[-1], v) == 1]
            along = any(nearest) or not nearest
        largest = max(largest, (product(extents), along))

    tvm_ffi.structural_walk(body.body, (TensorLoad, see))
    return largest[1]


def _step(index: Any, variable: Any) -> int | None:
    """How far an index goes from 0 to 1 of one of its variables, all others at 0; None where that
    is no number."""
    first, second = (number_at(index, {variable: place}) for place in (0, 1))
    return None if first is None or second is None else second - first


def _variables(expression: Any) -> list[Any]:
    found: list[Any] = []
    tvm_ffi.structural_walk(expression, (Var, found.append))
    return found


def _row_a_thread(schedule: Schedule, sums: list[Any], output: Any, limits: TargetLimits) -> None:
    """One thread for all of a row."""
    rows, _ = _rows_and_columns(schedule, output, sums[-1])
    threads = min(THREADS_OF_ROWS, limits.threads)
    group, thread = schedule.split(schedule.fuse(*rows), [None, threads])
    schedule.bind(group, "blockIdx.x")
    schedule.bind(thread, "threadIdx.x")
    for block in reversed(sums):
        _keep_in(schedule, block, "local")
        schedule.compute_at(block, thread, preserve_unit_loops=True)


def _rows_and_columns(schedule: Schedule, output: Any, last: Any) -> tuple[list[Any], list[Any]]:
    """The loops of the output over rows, brought to the front, and those within a row."""
    total = schedule.get(last).writes[0].source
    body = schedule.get(output)
    used: list[Any] = []

    def see(load: Any) -> None:
        if load.source.same_as(total):
            for index in load.indices:
                used.extend(_variables(index))

    tvm_ffi.structural_walk(body.body, (TensorLoad, see))
    loops = schedule.get_loops(output)
    if not loops:  # a single value
        return [schedule.add_unit_loop(output)], []
    if len(body.iter_vars) != len(loops):
        raise NotThisKind("loops and axes of the output differ")
    rows: list[Any] = []
    columns: list[Any] = []
    units: list[Any] = []
    for axis, loop in zip(body.iter_vars, loops, strict=True):
        if any(axis.var.same_as(variable) for variable in used):
            (rows if int(axis.dom.extent) > 1 else units).append(loop)
        else:
            columns.append(loop)
    rows = units + rows or [schedule.add_unit_loop(output)]
    schedule.reorder(*rows, *columns)
    return rows, columns


def _spread_rows(schedule: Schedule, output: Any, last: Any, shape: RowShape) -> Any:
    """Binds the rows of the outputs to workgroups and their values to threads."""
    rows, columns = _rows_and_columns(schedule, output, last)
    many, own = schedule.split(rows[-1], [None, shape.rows])
    columns = columns or [schedule.add_unit_loop(output)]
    schedule.reorder(*rows[:-1], many, own, *columns)
    group = schedule.fuse(*rows[:-1], many)
    schedule.bind(group, "blockIdx.x")
    schedule.bind(own, shape.row_axis)
    _, thread = schedule.split(schedule.fuse(*columns), [None, shape.parts])
    schedule.bind(thread, shape.part_axis)
    return group


def _try_to_share(trial: Schedule, name: str) -> None:
    """Raises ScheduleError where TVM knows no way to put parts of a reduction together."""
    block = trial.get_sblock(name)
    kinds = kinds_of(trial, block)
    loops = trial.get_loops(block)
    if len(loops) != len(kinds):
        raise NotThisKind("loops and axes of a sum differ")
    trial.rfactor(loops[kinds.rindex("R")], 0)


def _keep_in(schedule: Schedule, block: Any, scope: str) -> None:
    """All that a sum comes to: arg max has values beside its places."""
    for number in range(len(schedule.get(block).writes)):
        schedule.set_scope(block, number, scope)


def _share(schedule: Schedule, block: Any, group: Any, shape: RowShape) -> None:
    """Spreads the rows of a sum, and the terms of each, over the threads."""
    _keep_in(schedule, block, "shared")
    schedule.compute_at(block, group, preserve_unit_loops=True)
    kinds = kinds_of(schedule, block)
    loops = schedule.get_loops(block)[-len(kinds) :]
    reduced = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == "R"]
    spatial = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == "S"]
    spatial = spatial or [schedule.add_unit_loop(reduced[0])]
    schedule.reorder(*spatial, *reduced)
    schedule.bind(schedule.fuse(*spatial), shape.row_axis)
    if shape.one_axis:
        axis = _axis_of_parts([int(schedule.get(loop).extent) for loop in reduced], shape.parts)
        if axis is not None:
            _spread_one_axis(schedule, reduced, axis, shape)
            return
    turn, part = schedule.split(schedule.fuse(*reduced), [None, shape.parts])
    schedule.bind(part, shape.part_axis)
    turns = int(schedule.get(turn).extent)
    together = largest_divisor(turns, MOST_UNROLLED)
    if together < LEAST_UNROLLED <= turns // MOST_UNROLLED:
        together = MOST_UNROLLED
    if together > 1:  # drivers leave a long loop as it is, and a thread waits for each load
        schedule.unroll(schedule.split(turn, [None, together])[1])


def _axis_of_parts(extents: Sequence[int], parts: int) -> int | None:
    """Which axis of a sum its threads share, so that each goes through all of the others: the
    longest, where others have terms that are few enough to be written out and no more than
    WASTED of the threads' turns along it are idle.

    The place of a term is then a sum of loop counters instead of quotients and remainders of one,
    and what says whether a window's row or column lies within the image is the same all along.
    """
    longest = max(range(len(extents)), key=extents.__getitem__)
    others = product(extents) // extents[longest]
    wasted = -(-extents[longest] // parts) * parts / extents[longest] - 1
    return longest if 1 < others <= MOST_TERMS_OF_OTHERS and wasted <= WASTED else None


def _spread_one_axis(schedule: Schedule, reduced: list[Any], axis: int, shape: RowShape) -> None:
    """Spreads one axis of a sum over threads, and writes out the others."""
    turn, part = schedule.split(reduced[axis], [None, shape.parts])
    others = [loop for number, loop in enumerate(reduced) if number != axis]
    schedule.reorder(turn, part, *others)
    schedule.bind(part, shape.part_axis)
    for loop in others:
        schedule.unroll(loop)
