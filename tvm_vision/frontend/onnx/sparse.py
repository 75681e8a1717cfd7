"""Weights that a file keeps as the few numbers in them that are not 0, written out."""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import numpy_helper

from ...errors import UnsupportedModelError
from .checks import MOST_CONSTANT_BYTES
from .graph import inner_graphs


def write_out_sparse(graph: onnx.GraphProto) -> None:
    """Change sparse weights, of a graph and of those in it, to plain ones.

    Raises UnsupportedModelError for places that a weight has not, and for one that is too large.
    """
    for sparse in graph.sparse_initializer:
        graph.initializer.append(_written_out(sparse, sparse.values.name))
    graph.ClearField("sparse_initializer")
    for node in graph.node:
        for entry in node.attribute:
            if entry.name == "sparse_value" and entry.HasField("sparse_tensor"):
                value = _written_out(entry.sparse_tensor, node.output[0])
                entry.CopyFrom(onnx.helper.make_attribute("value", value))
        for inner in inner_graphs(node):
            write_out_sparse(inner)


def _written_out(sparse: onnx.SparseTensorProto, name: str) -> onnx.TensorProto:
    """The tensor; its places count through it, or have a number for each axis."""
    values, places = numpy_helper.to_array(sparse.values), numpy_helper.to_array(sparse.indices)
    shape = tuple(sparse.dims)
    if any(size < 0 for size in shape) or math.prod(shape) * values.itemsize > MOST_CONSTANT_BYTES:
        raise UnsupportedModelError(
            f"sparse weights of at most {MOST_CONSTANT_BYTES} bytes when written out are needed, "
            f"and '{name}' has the shape {shape}: export the model with fewer zeros in it"
        )
    found = np.zeros(shape, values.dtype)
    try:
        found[np.unravel_index(places, shape) if places.ndim == 1 else tuple(places.T)] = values
    except (IndexError, ValueError):
        raise UnsupportedModelError(
            f"places within {shape} are needed, and the sparse weight '{name}' has others: export "
            "the model again"
        ) from None
    return numpy_helper.from_array(found, name)
