"""A model in two: what can be compiled, and behind it what is left to the caller.

Detection networks often end in what has no fixed size or what no compiler has: suppression, a
choice of boxes by their score, an exporter's own operator. All before that is most of the work.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import onnx

from ...errors import UnsupportedModelError
from ..input_values import InputValues, plain_values
from ..refusals import NodesRefused
from ..signature import OpenShape
from .declared import complete_inputs
from .fixed_inputs import with_input_values
from .fold import folded
from .graph import (
    fixed_values,
    graph_inputs,
    inferred,
    is_fixed,
    node_called,
    reads,
    with_input_shapes,
)
from .load import Shapes, import_onnx, named_onnx
from .parts import behind, has_work

if TYPE_CHECKING:
    import tvm

    from ..signature import Signature


@dataclass(frozen=True)
class CutModel:
    """The two parts of a model.

    imported: the first part, as ``tvm_vision.compile`` takes a model; its outputs are the model's
        own as far as it has them, then what the rest reads.
    rest: a model of the nodes behind it, which onnxruntime runs: it takes outputs of the first part
        and of the model's inputs those that it reads, and gives the model's other outputs. None
        where nothing had to be cut.
    nodes: how many nodes the model has once its constants are folded.
    reasons: what could not be compiled, and what would spare a cut, a line for each.
    left: the operators behind the first part, in order. reads: the values that they take.
    """

    imported: tuple[tvm.IRModule, Signature]
    rest: onnx.ModelProto | None
    nodes: int
    reasons: tuple[str, ...]
    left: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()


def cut_onnx(
    model: str | os.PathLike[str] | onnx.ModelProto,
    *,
    input_shapes: Shapes | None = None,
    input_values: InputValues | None = None,
) -> CutModel:
    """Import as much of a model as can be compiled: all but what comes after a refused node.

    model, input_shapes, input_values: as for ``import_onnx``.

    Raises InputError and UnsupportedModelError as that does where nothing is left that is worth
    it, and where it is not a node that cannot be compiled.
    """
    shapes, values = input_shapes or {}, plain_values(input_values or {})
    try:
        imported = import_onnx(model, input_shapes=shapes, input_values=values)
        return CutModel(imported, None, 0, ())
    except UnsupportedModelError as error:
        whole = plain_onnx(model, shapes, values)
        refusal, refused, reasons = error, set[str](), list[str]()
    while True:
        found = _nodes_of(refusal, whole) - refused
        if not found:
            raise refusal
        refused |= found
        reasons.append(_once_cut(refusal))
        lost_nodes = behind(whole.graph.node, refused)
        try:
            imported = import_onnx(_first_part(whole, lost_nodes, refusal))
        except UnsupportedModelError as error:
            refusal = error
            continue
        rest = _last_part(whole, lost_nodes)
        lost = tuple(value.name for value in rest.graph.output)
        imported = (imported[0], replace(imported[1], cut=lost, input_values=values))
        left = tuple(node.op_type for node in rest.graph.node)
        reads = tuple(value.name for value in rest.graph.input)
        return CutModel(imported, rest, len(whole.graph.node), tuple(reasons), left, reads)


def plain_onnx(
    model: str | os.PathLike[str] | onnx.ModelProto,
    shapes: Shapes,
    values: InputValues | None = None,
) -> onnx.ModelProto:
    """The model with named nodes, fixed inputs, folded constants and known types: its values are
    those at which it is cut."""
    named = named_onnx(model)
    shapes = with_input_values(named, values or {}, shapes)
    complete_inputs(named, shapes)
    return inferred(folded(with_input_shapes(named, shapes)))


def _once_cut(error: UnsupportedModelError) -> str:
    """Why a model was cut, and what would have spared it."""
    if isinstance(error, (NodesRefused, OpenShape)):
        return str(error.without_cut())
    return str(error)


def _nodes_of(error: UnsupportedModelError, model: onnx.ModelProto) -> set[str]:
    """The nodes of ``model`` that an error is about: those that it names, else those whose results
    have no fixed shape."""
    known = {node.name for node in model.graph.node}
    if not isinstance(error, NodesRefused):
        return _open_nodes(model)
    found = {node_called(refusal.node, known) for refusal in error.refusals}
    # Of nodes that simplifying made there are no names here.
    return found - {""} or _open_nodes(model)


def _open_nodes(model: onnx.ModelProto) -> set[str]:
    if not all(map(is_fixed, graph_inputs(model))):
        return set()
    fixed = fixed_values(model.graph)
    return {
        node.name
        for node in model.graph.node
        if any(name and name not in fixed for name in node.output)
    }


def _first_part(
    model: onnx.ModelProto, refused: list[onnx.NodeProto], error: UnsupportedModelError
) -> onnx.ModelProto:
    """The model without the refused nodes and those behind them; its results are what they read."""
    lost = {node.name for node in refused}
    kept = [node for node in model.graph.node if node.name not in lost]
    made = [name for node in kept for name in node.output if name]
    read = {name for node in refused for name in reads(node)}
    own = [value.name for value in model.graph.output if value.name in made]
    outputs = own + [name for name in made if name in read and name not in own]
    part = _part(model, kept, [value.name for value in graph_inputs(model)], outputs)
    if not has_work(part.graph):
        raise UnsupportedModelError(
            "convolutions or products are needed before what cannot be compiled, and there are "
            f"none: use onnxruntime for this model ({error})"
        )
    return part


def _last_part(model: onnx.ModelProto, refused: list[onnx.NodeProto]) -> onnx.ModelProto:
    made = {name for node in refused for name in node.output}
    read = {name for node in refused for name in reads(node)}
    weights = {tensor.name for tensor in model.graph.initializer}
    before = [value.name for value in graph_inputs(model)]
    before += [name for node in model.graph.node for name in node.output if name not in made]
    inputs = [name for name in before if name in read - weights]
    return _part(model, refused, inputs, [v.name for v in model.graph.output if v.name in made])


def _part(
    model: onnx.ModelProto, nodes: list[onnx.NodeProto], inputs: list[str], outputs: list[str]
) -> onnx.ModelProto:
    """A model of those of ``nodes`` that ``outputs`` depend on."""
    wanted = set(outputs)
    needed = []
    for node in reversed(nodes):
        if not wanted.isdisjoint(node.output):
            needed.append(node)
            wanted.update(reads(node))
    graph = model.graph
    types = {value.name: value for value in [*graph.input, *graph.value_info, *graph.output]}
    part = onnx.ModelProto()
    part.CopyFrom(model)
    for field in ("node", "initializer", "value_info", "input", "output"):
        part.graph.ClearField(field)
    part.graph.node.extend(reversed(needed))
    part.graph.initializer.extend(t for t in graph.initializer if t.name in wanted)
    unknown = onnx.ValueInfoProto
    read = [name for name in inputs if name in wanted]
    part.graph.input.extend(types.get(name) or unknown(name=name) for name in read)
    part.graph.output.extend(types.get(name) or unknown(name=name) for name in outputs)
    return part
