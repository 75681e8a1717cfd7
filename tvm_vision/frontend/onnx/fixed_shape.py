"""Models whose shapes data decides, by branches or by counting rows, as models of fixed shape."""

from __future__ import annotations

import onnx

from .bounded import bounded
from .branches import choose_by_data, has_branches, settle_alike
from .fold import folded


def of_fixed_shape(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` without branches, and with tensors of the largest size for rows that data counts.

    model: with its constants folded; the same object where data decides about no shape.

    Raises RefusedNodes.
    """
    # What is known of a branch may decide the branches within it: it is folded before these.
    while has_branches(model):
        model = folded(choose_by_data(model))
        while (settled := settle_alike(model)) is not model:
            model = folded(settled)
    return bounded(model)
