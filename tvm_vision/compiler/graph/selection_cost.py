"""Whether a selection or prologue is faster inside the product that reads it, or as a kernel of
its own.

Inside, it saves a launch, and a tensor that is written and read; but a value is found anew each
time that a tile fetches it, and of several tensors each is read and one is taken; a prologue reads
its smaller tensors beside the large one. As in relax/winograd_cost.py, a kernel takes as long as
the slower of its arithmetic and its bytes. On devices that kernels were timed on selections of a
few tensors are always inside, as they were then, and prologues where no matrices wait for what they
compute.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm import tirx

from ...schedules import TargetLimits, likeliest
from ...schedules.cost import coopmat_gemm, direct_conv, gemm, winograd_conv
from ...schedules.cost.device_model import DeviceModel
from ...schedules.cost.direct_conv import DirectConvTile, Windows
from ...schedules.cost.gemm_tile import VECTOR, Product
from ...schedules.cost.tile_costs import PipelineCosts
from ...schedules.cost.winograd_conv import Layer, WinogradTile
from ...schedules.templates import shape_of

# Tensors of a selection up to which it is inside on a device that was timed. With 83, the shifts of
# an optical flow's correlation, a convolution took 145 us on an H200, the frame in float32 123.
MOST_TIMED = 32


def pays(
    selection: tirx.PrimFunc,
    product: tirx.PrimFunc,
    at: int,
    limits: TargetLimits,
    computes: bool = False,
) -> bool:
    """Whether a product that makes its parameter ``at`` by a selection is no slower than both.

    Args:
        computes: whether it is a prologue. Where the device's rates are not known, or kernels were
            timed on it, it is as good inside products without matrices, and a selection of few
            tensors inside any.
    """
    *read, made = map(_bytes, selection.params)
    device, rates = limits.device, limits.device.rates
    choice = likeliest(product, limits)
    assert choice is not None
    unknown = choice.template == "winograd_conv" and device.winograd is None
    if rates is None or device.measured or unknown:
        few = len(read) <= MOST_TIMED
        return few and (not computes or choice.template in _WITHOUT_MATRICES)
    others = sum(_bytes(p) for i, p in enumerate(product.params) if i != at)
    shape = shape_of(choice.template, product)
    arithmetic = _CYCLES[choice.template](choice.parameters, shape, device) / rates.clock
    vectors = _fetched(choice.parameters, shape, math.prod(_sizes(product.params[at])))
    units = device.units
    issued = pick_cycles(choice.template, device) * (len(read) - 1) * vectors / units.lanes
    finding = issued / (units.count * units.schedulers) / rates.clock
    inside = max(arithmetic + finding, (sum(read) + others) / rates.bandwidth)
    apart = rates.launch + (sum(read) + made) / rates.bandwidth
    return inside <= apart + max(arithmetic, (made + others) / rates.bandwidth)


_WITHOUT_MATRICES = ("contraction", "winograd_conv")


def pick_cycles(template: str, device: DeviceModel) -> float:
    """Of a scheduler, to find neighbours in one of several tensors, for each but the first."""
    costs, units = device.gemm, device.units
    if template not in _WITHOUT_MATRICES or not isinstance(costs, PipelineCosts):
        return device.pick
    return costs.pick * units.lanes * units.schedulers / costs.width


_CYCLES: dict[str, Any] = {
    "direct_conv": direct_conv.cycles,
    "coopmat_gemm": coopmat_gemm.cycles,
    "contraction": gemm.cycles,
    "winograd_conv": lambda tile, layer, device: winograd_conv.cycles(layer, tile, device),
}


def _fetched(tile: Any, shape: Windows | Product | Layer, selected: int) -> float:
    """Vectors of the selected tensor, of so many elements, that all workgroups fetch."""
    if isinstance(tile, DirectConvTile):
        assert isinstance(shape, Windows)
        steps = -(-shape.channels // tile.k)
        return tile.fetched(shape)[0] * steps * tile.groups(shape)
    if isinstance(tile, WinogradTile):
        assert isinstance(shape, Layer)
        times = -(-shape.outputs // tile.results)
        return shape.tiles * shape.inputs * winograd_conv.NUMBERS * times / VECTOR
    assert isinstance(shape, Product)
    # Which factor it is: the one that is read by windows, else the one of its size.
    of_m = shape.windows == "m" or (not shape.windows and selected == shape.b * shape.m * shape.k)
    rows, times = (shape.m, -(-shape.n // tile.n)) if of_m else (shape.n, -(-shape.m // tile.m))
    return shape.b * rows * shape.k * times / getattr(tile, "wide", VECTOR)


def _sizes(parameter: tirx.Var) -> list[int]:
    return [int(size) for size in parameter.ty.shape]


def _bytes(parameter: tirx.Var) -> int:
    return math.prod(_sizes(parameter)) * np.dtype(str(parameter.ty.dtype)).itemsize
