"""How Winograd's convolution as one kernel (gpu/winograd_conv.py) is cut, and what it takes."""

from __future__ import annotations

from dataclasses import dataclass

from ..common import TargetLimits, up
from .device_model import DeviceModel
from .pipelines import WaveCycles, cycles_of_groups, resident_groups
from .tile_costs import PipelineCosts

M, EDGE = 2, 4  # of a tile: its results, and the pixels that it is made of, in height and in width
NUMBERS = EDGE * EDGE
VECTOR = 4  # tiles of a thread


@dataclass(frozen=True)
class WinogradTile:
    """How the convolution is cut.

    Attributes:
        tiles, results: of a workgroup.
        channels: that are transformed at once.
        own: results of a thread, of four tiles each.
    """

    tiles: int = 16
    results: int = 32
    channels: int = 16
    own: int = 8

    @property
    def threads(self) -> int:
        """Of a workgroup."""
        return NUMBERS * (self.results // self.own) * (self.tiles // VECTOR)

    def shared_bytes(self, size: int) -> int:
        """Of numbers of ``size`` bytes: a step's, and the results in place of its weights."""
        factors = self.results * max(self.channels, self.tiles)
        return NUMBERS * size * (factors + self.channels * self.tiles)


TILES = (WinogradTile(), WinogradTile(results=16, own=4))


@dataclass(frozen=True)
class Layer:
    """What is computed.

    Attributes:
        batch, outputs, height, width: of the results.
        inputs: channels that are read.
        fp16: whether it is of halves.
    """

    batch: int
    inputs: int
    outputs: int
    height: int
    width: int
    fp16: bool

    @property
    def rows(self) -> int:
        """Rows of tiles."""
        return up(self.height, M)

    @property
    def columns(self) -> int:
        """Tiles of a row."""
        return up(self.width, M)

    @property
    def tiles(self) -> int:
        """All tiles of a channel."""
        return self.batch * self.rows * self.columns

    @property
    def size(self) -> int:
        """Bytes of a number."""
        return 2 if self.fp16 else 4


def candidates(layer: Layer, limits: TargetLimits) -> list[WinogradTile]:
    """Every way to cut it that the limits allow, the likeliest first."""
    device, costs = limits.device, limits.device.winograd
    found = [
        tile
        for tile in TILES
        if tile.threads <= limits.threads and tile.shared_bytes(layer.size) <= limits.shared_bytes
    ]
    if costs is None:
        return found
    fitting = [t for t in found if not costs.most or costs.registers_of(outputs(t)) <= costs.most]
    return sorted(fitting, key=lambda tile: cycles(layer, tile, device))


def outputs(tile: WinogradTile) -> int:
    """Sums of a thread."""
    return tile.own * VECTOR


def cycles(layer: Layer, tile: WinogradTile, device: DeviceModel) -> float:
    """Of all workgroups, on a device whose costs are known."""
    costs, pipelines = device.winograd, device.packed_gemm or device.gemm
    assert costs is not None and isinstance(pipelines, PipelineCosts)
    units = device.units_of(pipelines)
    packed = layer.fp16 and device.packed_fp16
    steps, depth, sums = up(layer.inputs, tile.channels), tile.channels, outputs(tile)
    products = depth * sums * (0.5 if packed else 1.0)
    work = products + (pipelines.convert * sums if packed else 0.0) + costs.transform
    issued = steps * work * units.lanes * units.schedulers / pipelines.width
    read = depth * (VECTOR + tile.own)
    written = NUMBERS * depth * (tile.tiles + tile.results) / tile.threads
    shared = steps * units.lanes * layer.size * (read + written) / pipelines.shared_rate
    wave = WaveCycles(issued + steps * costs.wait + costs.start, issued, shared, 0.0)
    groups = up(layer.tiles, tile.tiles) * up(layer.outputs, tile.results)
    resident = resident_groups(
        tile.threads, tile.shared_bytes(layer.size), costs.registers_of(sums), units
    )
    return cycles_of_groups(wave, groups, up(tile.threads, units.lanes), resident, units)
