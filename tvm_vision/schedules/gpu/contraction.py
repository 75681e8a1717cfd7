"""Sums of products: dense, strided, dilated, grouped and transposed convolutions, matrix products.

What is recognised is the structure, not the name: a block that adds up products of two tensors.
Every iteration variable is of one of four kinds, by the tensors that it indexes:

- n: the output and the tensor whose neighbours are neighbours in the output (the image);
- m: the output and the other tensor (output channels of the weights);
- b: the output and both (groups, batches of matrices);
- k: both tensors but not the output.

Fused by kind they make the matrix product of gemm.py; a convolution is then one whose B is computed
from the image as it is fetched (implicit GEMM).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import TensorLoad, Var
from tvm.ir.prim import expr as prim
from tvm.s_tir import Schedule

from ..common import (
    NotThisKind,
    TargetLimits,
    extents_of,
    index_map,
    kinds_of,
    only_reduction,
    product,
)
from ..cost import coopmat_gemm as coopmat_gemm_cost
from ..cost.coopmat_gemm import CoopmatTile
from ..cost.gemm import default
from ..cost.gemm_tile import GemmTile, Product
from ..factors import INT8, OTHERS, kind_of_factors
from ..iter_maps import transform_block_layout
from .coopmat_gemm import schedule_matrix
from .gemm import schedule_gemm
from .packed_fp16 import adds_fp16
from .split_k import schedule_total, split_reduction

LEAST_M, LEAST_N, LEAST_K = 3, 8, 4  # with less the tiles would be mostly padding
LEAST = 2  # of m without windows, of n without groups of them: sums by rows read all anew for each
# But a picture made of many channels, by windows: sums by rows would read each number of the image
# for each place of a window, and wait for one another in each pixel.
LONG, LEAST_WINDOW = 4096, 64


@dataclass(frozen=True)
class Contraction:
    """A sum of products as a matrix product.

    Attributes:
        kinds: for each iteration variable one of b, m, n, k; g for one that is split into b and m.
        extents: of the iteration variables.
        group: how many values of the variable g share a group; 1 where there is none.
        image: which factor is the image, 0 or 1.
        order: the iteration variables as they are fused; those of k as the weights have them.
    """

    kinds: str
    extents: tuple[int, ...]
    group: int = 1
    image: int = 0
    order: tuple[int, ...] = ()

    def size(self, kind: str) -> int:
        """The extent of the fused b, m, n or k."""
        size = product(e for e, k in zip(self.extents, self.kinds, strict=True) if k == kind)
        grouped = [e for e, k in zip(self.extents, self.kinds, strict=True) if k == "g"]
        if grouped and kind == "b":
            size *= grouped[0] // self.group
        if grouped and kind == "m":
            size *= self.group
        return size

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """b, m, n and k of the matrix product."""
        b, m, n, k = (self.size(kind) for kind in "bmnk")
        return b, m, n, k

    def fuse(self, *axes: Any) -> tuple[Any, ...]:
        """The index map to b, m, n, k."""
        fused = dict.fromkeys("bmnk", 0 * axes[0])
        for number in self.order or range(len(axes)):
            axis, extent, kind = axes[number], self.extents[number], self.kinds[number]
            if extent == 1:  # would tie its tensor to the axes it is fused with
                continue
            if kind == "g":
                fused["b"] = fused["b"] * (extent // self.group) + axis // self.group
                fused["m"] = fused["m"] * self.group + axis % self.group
            else:
                fused[kind] = fused[kind] * extent + axis
        return tuple(fused[kind] for kind in "bmnk")


def shape_of(schedule: Schedule) -> Product:
    """The matrix product that a kernel is.

    Raises:
        NotThisKind: another kernel, or one where tiles do not pay off.
    """
    return as_product(schedule)[1]


def schedule_contraction(
    schedule: Schedule, limits: TargetLimits, tile: GemmTile | None = None
) -> None:
    """Schedules a kernel that is one large sum of products and what surrounds it.

    Args:
        tile: how to cut it; None leaves it to the model.

    Raises:
        NotThisKind: another kernel, or one where tiles do not pay off.
        tvm.s_tir.ScheduleError: a kernel that resists; the schedule is then spoilt.
    """
    block, shape, found = as_product(schedule)
    tile = tile or default(shape, limits)
    fuse_axes(schedule, block, found)
    parts, total = split_reduction(schedule, block, tile.split_k)
    device = limits.device
    schedule_gemm(
        schedule,
        parts,
        tile,
        simpler=not device.measured,
        packed=device.packed_fp16,
        packed_lanes=device.packed_lanes,
        ahead=limits.fetch_ahead,
    )
    if total is not None:
        schedule_total(schedule, total, limits)


def schedule_matrices(
    schedule: Schedule, limits: TargetLimits, tile: CoopmatTile | None = None
) -> None:
    """As schedule_contraction, with the cooperative matrices of subgroups.

    Raises:
        NotThisKind: also where the device has none of a fitting shape for the factors.
    """
    block, shape, found = as_product(schedule)
    tile = tile or next(iter(coopmat_gemm_cost.candidates(shape, limits)), None)
    if tile is None:
        raise NotThisKind("no cooperative matrix fits")
    fuse_axes(schedule, block, found)
    parts, total = split_reduction(schedule, block, tile.split_k)
    schedule_matrix(schedule, parts, tile, limits.subgroup)
    if total is not None:
        schedule_total(schedule, total, limits)


def as_product(schedule: Schedule) -> tuple[Any, Product, Contraction]:
    """The block of a sum of products, its sizes as a matrix product, and how its axes fuse to them.

    Raises:
        NotThisKind: another kernel, or one where tiles do not pay off.
    """
    block = only_reduction(schedule)
    found = analyse(schedule, block)
    b, m, n, k = found.sizes
    body = schedule.get(block)
    windows = _windows(body, found)
    # Of several products with one row each a tile would add up its padding, too: nothing in the
    # output tells its rows apart.
    apart = b == 1 or min(m, n) > 1
    picture = apart and bool(windows) and max(m, n) >= LONG and k >= LEAST_WINDOW
    least_m = LEAST_M if windows else LEAST
    least_n = LEAST_N if windows and b > 1 else LEAST
    if k < LEAST_K or ((m < least_m or n < least_n) and not picture):
        raise NotThisKind("too thin for tiles")
    kinds = _factors(body, found), windows, adds_fp16(body)
    return block, Product(b, m, n, k, *kinds, n_first=found.image == 0), found


def _factors(body: Any, found: Contraction) -> str:
    """Which kind the factors of a block are of."""
    one, other = (str(load.ty.dtype) for load in factors_of(body))
    kind = kind_of_factors(one, other, str(body.writes[0].source.ty.dtype.dtype))
    # Bytes are kept by words along k, which only the other order has beside each other.
    return OTHERS if kind == INT8 and found.image == 0 else kind


def _windows(body: Any, found: Contraction) -> str:
    """Which of m and n a factor belongs to that is read by windows, "" for neither."""
    moving = [axis.var for axis in body.iter_vars if int(axis.dom.extent) > 1]
    for number, load in enumerate(factors_of(body)):
        for index in load.indices:
            if sum(_in(axis, _variables([index])) for axis in moving) > 1:
                return "n" if number == found.image else "m"
    return ""


def fuse_axes(schedule: Schedule, block: Any, found: Contraction) -> None:
    """Gives a block the four iteration variables b, m, n, k."""
    transform = index_map(schedule, block, found.fuse, len(found.kinds))
    transform_block_layout(schedule, block, transform)


def analyse(schedule: Schedule, block: Any) -> Contraction:
    """What kind each iteration variable of a block is of.

    Raises:
        NotThisKind: the block is no sum of products of two tensors.
    """
    body = schedule.get(block)
    if set(kinds_of(schedule, block)) - {"S", "R"}:
        raise NotThisKind("an axis is neither spatial nor reduced")
    one, other = factors_of(body)
    extents = extents_of(schedule, block)
    axes = [axis.var for axis in body.iter_vars]
    used = [_variables(load.indices) for load in (one, other)]
    written = _variables(body.body.indices)
    last = [a for a, e in zip(axes, extents, strict=True) if _in(a, written) and e > 1]
    if not last:
        raise NotThisKind("has one output")
    image = _image(last[-1], used)
    kinds, group = "", 1
    for axis, extent in zip(axes, extents, strict=True):
        inside = (_in(axis, written), _in(axis, used[image]), _in(axis, used[1 - image]))
        kind = _KINDS.get(inside)
        if extent == 1:
            kind = "n" if inside[0] else "k"
        elif inside == (True, True, True):
            group = _group(axis, extent, (one, other)[image].indices)
            kind = "g" if group > 1 else "b"
        if kind is None:
            raise NotThisKind(f"axis {axis.name} is of none of the four kinds")
        kinds += kind
    if kinds.count("g") > 1 or ("g" in kinds and "m" in kinds.replace("g", "")):
        raise NotThisKind("has groups of more than one axis")
    order = _order(axes, kinds, (one, other)[1 - image].indices)
    return Contraction(kinds, tuple(extents), group, image, order)


def _order(axes: list[Any], kinds: str, weights: Any) -> tuple[int, ...]:
    """The axes' numbers, those of k sorted by the first index of the weights that they are in."""
    places = [_variables([index]) for index in weights]
    summed = [number for number, kind in enumerate(kinds) if kind == "k"]
    found = sorted(
        summed,
        key=lambda number: next(
            (at for at, used in enumerate(places) if _in(axes[number], used)), 0
        ),
    )
    own = iter(found)
    return tuple(next(own) if kind == "k" else number for number, kind in enumerate(kinds))


# (in the output, in the image, in the weights) -> kind
_KINDS = {
    (True, True, False): "n",
    (True, False, True): "m",
    (True, True, True): "b",
    (False, True, True): "k",
}


def _image(axis: Any, used: list[list[Any]]) -> int:
    """Which of the tensors an output's fastest axis belongs to."""
    holds = [_in(axis, variables) for variables in used]
    if holds[0] and holds[1]:
        return 0
    if not any(holds):
        raise NotThisKind("an output axis indexes neither tensor")
    return holds.index(True)


def factors_of(body: Any) -> tuple[Any, Any]:
    """The two loads whose products a block adds up."""
    store = body.body
    if type(store) is not tirx.BufferStore or type(store.value) is not prim.Add:
        raise NotThisKind("adds nothing up")
    terms = [store.value.a, store.value.b]
    own = [t for t in terms if type(t) is TensorLoad and t.source.same_as(store.buffer)]
    rest = [t for t in terms if type(t) is prim.Mul]
    if len(own) != 1 or len(rest) != 1:
        raise NotThisKind("adds up no products")
    loads = [_uncast(rest[0].a), _uncast(rest[0].b)]
    if any(type(load) is not TensorLoad for load in loads):
        raise NotThisKind("multiplies no tensors")
    if loads[0].source.same_as(loads[1].source):
        raise NotThisKind("multiplies a tensor with itself")
    init = body.init
    if type(init) is not tirx.BufferStore or not _is_zero(init.value):
        raise NotThisKind("starts from a value other than 0")
    return loads[0], loads[1]


def _is_zero(value: Any) -> bool:
    return type(value) in (prim.FloatImm, prim.IntImm) and float(value.value) == 0.0


def _uncast(value: Any) -> Any:
    return value.value if type(value) is prim.Cast else value


def _variables(expressions: Any) -> list[Any]:
    found: list[Any] = []
    for expression in expressions:
        tvm_ffi.structural_walk(expression, (Var, found.append))
    return found


def _in(axis: Any, variables: list[Any]) -> bool:
    return any(axis.same_as(variable) for variable in variables)


def _group(axis: Any, extent: int, indices: Any) -> int:
    """The divisor where ``axis`` occurs in the indices only as ``axis // divisor``; else 1."""
    divided: list[int] = []

    def see(node: Any) -> None:
        if axis.same_as(node.a) and type(node.b) is prim.IntImm:
            divided.append(int(node.b.value))

    for index in indices:
        tvm_ffi.structural_walk(index, (prim.FloorDiv, see))
    occurrences = sum(axis.same_as(variable) for variable in _variables(indices))
    same = len(divided) == occurrences and len(set(divided)) == 1
    return divided[0] if same and extent % divided[0] == 0 else 1
