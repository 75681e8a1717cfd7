"""Recurrent layers as kernels that go through all steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from tvm import relax
from tvm.target import Target

from ...schedules import TargetLimits
from ...schedules.cpu.processor import Processor
from ...topi.recurrence.form import MOST_KEPT, RecurrentForm, RecurrentTile
from ...topi.recurrence.kernel import packed, recurrence
from ..tir.cast_buffers import LOADS_AND_STORES

# Most sequences of a workgroup: each takes registers for all gates of a number of its state.
MOST_SEQUENCES = 4
# Workgroups that a unit has to have before they get more sequences than one.
GROUPS_OF_UNIT = 1
MOST_THREADS = 1024
# Weights that a thread fetches at once, and groups of threads that share a sum, where these divide
# a state and what is left; fewer vectors of a slice are not worth the barrier.
VECTORS, SLICES, LEAST_VECTORS = (4, 2, 1), (1, 2, 4, 8), 16
# Lanes of AMD's waves, whose threads share a unit's registers; those of a thread that hold no
# weights; and the schedulers of a unit whose compiler keeps two halves in a register (RDNA's).
WAVE, OTHER_REGISTERS, HALVES_BY = 64, 40, 2
# Of a number of a state.
SHARED_BYTES = 4
# Of weights that a unit reads from a cache in a cycle; what a step waits for beside its launch, on
# an H200; what launches have to gain (benchmarks/schedules/recurrences.md, "Steps as launches").
CACHE_BYTES, STEP_CYCLES, LEAST_GAIN = 64, 5500, 1.2
# Where each step is a launch, most threads of a workgroup, and the fewest numbers of a state that
# it may have: what lies side by side in memory for one vector of weights of each.
LAUNCHED_THREADS, LEAST_NUMBERS = 256, 8
# Rows and vectors of a processor's tile: those that it holds in registers beside what they read.
ROWS, MOST_VECTORS = 4, 8
# Tiles of rows that go through the same weights.
TILES = 2


def recurrent_kernel(builder: relax.BlockBuilder, call: relax.Call, form_text: str) -> relax.Expr:
    """``topi.recurrence`` for the current target; call: of its tensors, with weights as ONNX has
    them. form_text: of its RecurrentForm."""
    tensors = list(call.args[1].fields)
    form = RecurrentForm.from_json(form_text)
    directions, batch, size = (int(n) for n in tensors[1].ty.shape)
    stored = np.dtype(str(tensors[1].ty.dtype)).itemsize
    tile = tile_for(Target.current(), form, directions, batch, size, stored)
    place = 1 + form.states
    weights: list[Any] = []
    for which in range(len(form.products)):
        pack = partial(packed, form=form, which=which, tile=tile)
        weights.append(builder.emit(_call(builder, pack, "recurrent_weights", tensors[place])))
    given = [*tensors[:place], *weights, *tensors[place + 1 :]]
    made = _call(builder, lambda *of: recurrence(of, form, tile), "recurrence", *given)
    if not tile.numbers:
        return made
    every = builder.emit(made)
    return relax.Tuple([relax.TupleGetItem(every, which) for which in range(1 + form.states)])


def _call(builder: relax.BlockBuilder, make: Callable[..., Any], name: str, *of: Any) -> relax.Expr:
    # What is no tensor is bound already, and a function so made has no name of its own.
    plain = {LOADS_AND_STORES: True}
    return builder.call_te(
        lambda *given: make(*given), *of, primfunc_name_hint=name, primfunc_attrs=plain
    )


def tile_for(
    target: Target, form: RecurrentForm, directions: int, batch: int, size: int, stored: int
) -> RecurrentTile:
    """How a layer's tasks go through their sequences on a device; stored: bytes of a weight."""
    if "gpu" in target.keys:
        limits = TargetLimits.of(target)
        tile = _of_workgroup(limits, form, directions, batch, size)
        return _of_launches(limits, form, tile, directions, batch, size, stored) or tile
    processor = Processor.of(target)
    rows = min(ROWS, batch)
    lanes = processor.lanes
    vectors = max(1, min(MOST_VECTORS, (processor.registers - 2) // rows - 1))
    return RecurrentTile(1, min(batch, rows * TILES), rows=rows, lanes=lanes, vectors=vectors)


def _of_workgroup(
    limits: TargetLimits, form: RecurrentForm, directions: int, batch: int, size: int
) -> RecurrentTile:
    wave, most_threads = max(1, limits.wave), min(MOST_THREADS, limits.threads)
    threads = min(-(-size // wave) * wave, most_threads)
    enough = limits.device.units.count * GROUPS_OF_UNIT
    room = limits.shared_bytes // (size * SHARED_BYTES)
    most = max(1, min(MOST_SEQUENCES, room, batch))
    fitting = (n for n in range(1, most) if directions * -(-batch // n) <= enough)
    vector = next(n for n in VECTORS if size % n == 0)
    sequences = next(fitting, most)

    def tile_of(slices: int) -> RecurrentTile:
        every = threads * slices
        return RecurrentTile(every, sequences, slices, vector, kept=_most_kept(limits, every))

    tile = tile_of(1)
    # A unit waits for the weights of a step, and the more threads there are the more are on their
    # way; where each unit has several workgroups they are anyway.
    if size > threads or directions * -(-batch // sequences) > enough:
        return tile
    vectors = size // vector
    sliced = [
        each
        for each in map(tile_of, SLICES)
        if vectors % each.slices == 0
        and each.threads <= most_threads
        and each.shared_numbers(form, size) * SHARED_BYTES <= limits.shared_bytes
    ]
    # No more than keep their weights in registers; else as many as have enough to do.
    kept = (each for each in sliced if each.keeps_weights(form, size))
    busy = (each for each in reversed(sliced) if vectors >= each.slices * LEAST_VECTORS)
    return next(kept, next(busy, tile))


def _most_kept(limits: TargetLimits, threads: int) -> int:
    """Weights that each of a workgroup's threads has registers for; what was timed keeps what it
    was timed with, and Intel's threads what its model has."""
    units = limits.device.units
    if limits.device.measured or limits.wave < WAVE:
        return MOST_KEPT
    # Whether weights will be halves is not known yet.
    of_register = 2 if units.schedulers == HALVES_BY else 1
    room = (units.registers // threads - OTHER_REGISTERS) * of_register
    return max(0, min(MOST_KEPT, room))


def _of_launches(
    limits: TargetLimits,
    form: RecurrentForm,
    tile: RecurrentTile,
    directions: int,
    batch: int,
    size: int,
    stored: int,
) -> RecurrentTile | None:
    """Each step of one sequence as a launch, whose workgroups share the weights. None where a step
    whose weights one unit reads takes no longer.
    """
    rates = limits.device.rates
    if rates is None or batch > 1 or len(form.products) > 1 or tile.keeps_weights(form, size):
        return None
    weights = form.gates * size * size * stored
    whole = weights / CACHE_BYTES / rates.clock
    if whole < LEAST_GAIN * (rates.launch + STEP_CYCLES / rates.clock):
        return None
    numbers, most = LEAST_NUMBERS, min(LAUNCHED_THREADS, limits.threads)
    while directions * -(-size // numbers) > limits.device.units.count and 2 * numbers <= most:
        numbers *= 2
    vectors = size // tile.vector
    slices = max(n for n in range(1, most // numbers + 1) if vectors % n == 0)
    launched = replace(tile, threads=numbers * slices, slices=slices, numbers=numbers)
    fits = launched.shared_numbers(form, size) * SHARED_BYTES <= limits.shared_bytes
    return launched if fits else None
