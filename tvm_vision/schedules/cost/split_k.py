"""Into how many parts a product's sum may be cut over workgroups, and what that costs."""

from __future__ import annotations

from .device_model import DeviceModel
from .tile_costs import SplitKCosts

PARTS = (2, 4, 8)
LEAST_TERMS = 128  # of a part


def parts_of(terms: int, tiles: int, device: DeviceModel) -> list[int]:
    """Into how many parts a sum may be cut, 1 first.

    Args:
        tiles: of the product, without a cut.
    """
    if tiles >= device.enough.tiles:
        return [1]
    return [1, *(n for n in PARTS if terms % n == 0 and terms // n >= LEAST_TERMS)]


def split_k_cycles(product_cycles: float, results: int, parts: int, costs: SplitKCosts) -> float:
    """The cycles of a product and of adding up its parts."""
    if parts == 1:
        return product_cycles
    return costs.margin * product_cycles + costs.total + costs.part * results * parts
