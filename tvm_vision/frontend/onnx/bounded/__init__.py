"""Rows whose number depends on the data, as tensors of the largest size and a count of the real
rows: an abstract interpretation of axes, one small rule an operator, by kind in one file each.
"""

from .rewrite import ROWS, bounded, drop_traced_shapes, undecided

__all__ = ["ROWS", "bounded", "drop_traced_shapes", "undecided"]
