"""Nodes whose inputs are all known, computed at once: those of sizes before onnxsim, which takes
far longer for each, and all of models that onnxsim cannot fold."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

import numpy as np
import onnx

from .branches import inline_known
from .empty import known_of_nothing
from .graph import GraphEditor, Unsupported, attribute, constant_value, infer_values, reads
from .known_sizes import NOT_OF_SIZES, is_computed_otherwise
from .slices import put_starts_plainly
from .tools import SMALL, ToolError, run

# Larger results are weights rather than shapes; they stay computations.
MAX_ELEMENTS = 1 << 20
# ONNX's reference walks over the results of these in Python, a millisecond each: more of them stay
# computations, too, which the compiler folds.
SLOW = frozenset({"AffineGrid", "Col2Im", "DeformConv", "RoiAlign"})
MOST_OF_SLOW = 1 << 10
# Where inference learns of one layer a round onnxsim is faster; of most networks all is known after
# two.
SIZE_ROUNDS = 4
# What stays where only sizes are folded: as one quantizer writes weights, and others sizes.
QUANTIZERS = frozenset({"DequantizeLinear", "QuantizeLinear"})
RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform"} | {
    "RandomUniformLike"
}


def folded(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` with constants in place of nodes on constants, and of shapes that are fixed, and
    without branches whose condition is known.

    A folded node may fix the shape of others, whose Shape nodes are constants then: it is done
    until nothing changes.
    """
    return _folded(model, sizes=False)


def with_sizes_folded(model: onnx.ModelProto) -> onnx.ModelProto:
    """As ``folded``, of small values alone that are no outputs: values of weights are not read, and
    may be missing."""
    return _folded(model, sizes=True)


def _folded(model: onnx.ModelProto, *, sizes: bool) -> onnx.ModelProto:
    outputs = {value.name for value in model.graph.output}

    def stays(node: onnx.NodeProto) -> bool:
        return sizes and (node.op_type in QUANTIZERS or not outputs.isdisjoint(node.output))

    given, model = model, onnx.ModelProto()
    model.CopyFrom(given)
    del given
    for _ in range(SIZE_ROUNDS) if sizes else itertools.count():
        computed = infer_values(model)
        graph = GraphEditor(model)
        graph.computed = computed
        moved = False
        for node in model.graph.node:
            _name_type(node, graph)
            moved |= put_starts_plainly(node, graph)
        kept = [n for n in model.graph.node if stays(n) or not fold(n, graph, sizes=sizes)]
        if len(kept) == len(model.graph.node) and not moved:
            inlined = inline_known(model)
            if inlined is model:
                break
            model = inlined
            continue
        graph.put_nodes(model, kept)
    return _without_unread(model)


def _name_type(node: onnx.NodeProto, graph: GraphEditor) -> None:
    """Makes a CastLike, in place, the Cast that it is where the type is known: of its second input
    it reads no value, so that what it casts may be known where that one is not."""
    if node.domain or node.op_type != "CastLike":
        return
    try:
        dtype = graph.dtype(node.input[1])
    except Unsupported:
        return
    to = onnx.helper.np_dtype_to_tensor_dtype(dtype)
    node.op_type = "Cast"
    del node.input[1]
    node.attribute.append(onnx.helper.make_attribute("to", to))


def _without_unread(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model``, in place, without weights that only nodes read that are gone."""
    read = {name for node in model.graph.node for name in reads(node)}
    # Old files list weights among the inputs: without a value they would be inputs.
    read.update(value.name for value in [*model.graph.output, *model.graph.input])
    kept = [tensor for tensor in model.graph.initializer if tensor.name in read]
    if len(kept) < len(model.graph.initializer):
        del model.graph.initializer[:]
        for tensor in kept:
            # ``extend`` would make a message of each, which has at most 2 GB.
            model.graph.initializer.add().CopyFrom(tensor)
    return model


def fold(node: onnx.NodeProto, graph: GraphEditor, *, sizes: bool = False) -> bool:
    """Make constants of the results of ``node``; False where that is not possible.

    sizes: of small values alone.
    """
    most = SMALL if sizes else MAX_ELEMENTS
    if node.op_type == "Constant":
        value = constant_value(node)
        results = None if value is None else [value]
    else:
        results = _computed(node, graph, sizes)
    if results is None or any(np.size(result) > most for result in results):
        return False
    for name, result in zip(node.output, results, strict=False):
        if name:
            graph.set_constant(name, np.asarray(result))
    return True


def _computed(node: onnx.NodeProto, graph: GraphEditor, sizes: bool) -> list[np.ndarray] | None:
    if node.op_type in ("Shape", "Size"):
        return _measured(node, graph)
    if (known := known_of_nothing(node, graph)) is not None:
        return known
    if (
        node.domain
        or node.op_type in RANDOM
        or is_computed_otherwise(node, graph.opset)
        or any(a.type == onnx.AttributeProto.GRAPH for a in node.attribute)
        # Of one place from corner to corner each engine has another.
        or (node.op_type == "AffineGrid" and attribute(node, "align_corners", 0))
    ):
        return None
    names = [name for name in node.input if name]
    if not all(graph.is_constant(name) for name in names):
        return None
    if _is_large(node.output, graph, MOST_OF_SLOW if node.op_type in SLOW else MAX_ELEMENTS):
        return None
    if sizes and (node.op_type in NOT_OF_SIZES or _is_large([*names, *node.output], graph, SMALL)):
        return None
    if all(name in graph.computed for name in node.output if name):
        return [graph.computed[name] if name else np.zeros(0) for name in node.output]
    found = [value for name in names if (value := graph.constant(name)) is not None]
    return _evaluated(node, found, graph)


def _measured(node: onnx.NodeProto, graph: GraphEditor) -> list[np.ndarray] | None:
    """The result of a Shape or Size."""
    try:
        shape = graph.shape(node.input[0])
    except Unsupported:
        return None
    if node.op_type == "Size":
        return [np.array(math.prod(shape), np.int64)]
    part = shape[attribute(node, "start", 0) : attribute(node, "end")]
    return [np.array(part, np.int64)]


def _is_large(names: Iterable[str], graph: GraphEditor, most: int) -> bool:
    """Whether a value is known to have more than ``most`` elements."""
    try:
        return any(math.prod(graph.shape(name)) > most for name in names if name)
    except Unsupported:
        return False


def _evaluated(
    node: onnx.NodeProto, values: list[np.ndarray], graph: GraphEditor
) -> list[np.ndarray] | None:
    names = [name for name in node.input if name]
    weights = dict(zip(names, values, strict=True))
    outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in node.output if name]
    alone = onnx.helper.make_graph(
        [node],
        "node",
        [],
        outputs,
        [onnx.numpy_helper.from_array(np.array(value), name) for name, value in weights.items()],
    )
    imports = [onnx.helper.make_opsetid("", graph.opset)]
    model = onnx.helper.make_model(alone, opset_imports=imports)
    try:
        results = run("evaluate", model)
    except ToolError:  # what the reference cannot compute stays a node
        return None
    made = iter(map(onnx.numpy_helper.to_array, results.graph.initializer))
    return [_as_declared(name, next(made), graph) if name else np.zeros(0) for name in node.output]


def _as_declared(name: str, value: np.ndarray, graph: GraphEditor) -> np.ndarray:
    """A result of the type that it has in the model: in the reference sums of integers are of 64
    bits."""
    try:
        return value.astype(graph.dtype(name), copy=False)
    except Unsupported:
        return value
