"""Models with branches, loops and sequences, and with shapes that data decides by counting rows, as
models of tensors of fixed shape."""

from __future__ import annotations

import onnx

from .bounded import bounded
from .branches import choose_by_data, has_branches, settle_alike
from .fold import folded
from .loops import has_loops, unrolled
from .sequences import has_sequences, with_known_lengths, without_sequences


def of_fixed_shape(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` without branches, loops and sequences, and with tensors of the largest size for
    rows that data counts.

    model: with its constants folded; the same object where data decides about no shape.

    Raises RefusedNodes.
    """
    # What is known of a branch may decide the branches within it: it is folded before these.
    while has_branches(model) or has_loops(model):
        if has_loops(model):
            if (counted := with_known_lengths(model)) is not model:
                model = folded(counted)
            model = folded(unrolled(model))
        else:
            model = folded(choose_by_data(model))
        while (settled := settle_alike(model)) is not model:
            model = folded(settled)
    while (counted := with_known_lengths(model)) is not model:
        model = folded(counted)
    if has_sequences(model):
        model = folded(without_sequences(model))
    return bounded(model)
