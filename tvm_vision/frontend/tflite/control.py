"""Graphs that a graph calls: both branches of a condition, and the steps of a loop one by one.

What follows from constants is computed at once, so that a loop's counter and condition are known.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..onnx.graph import Unsupported
from ..refusals import Cut, Remedy
from .network import EXPORT, Value
from .read import TfliteModel
from .step import Converter, Step
from .values import Values

MOST_STEPS, MOST_NODES = 1000, 20_000
BY_DATA = Remedy("export the network with a fixed number of steps", Cut())


def _graph(step: Step, number: int) -> TfliteModel:
    others = step.values.others
    if not 1 <= number <= len(others):
        raise Unsupported(f"it calls graph {number} of {len(others) + 1}", EXPORT)
    return others[number - 1]


def _called(step: Step, graph: TfliteModel, given: Sequence[Value]) -> list[Value]:
    """What a graph makes of these values, with its nodes in the network."""
    if len(graph.inputs) != len(given):
        raise Unsupported(f"it calls a graph of {len(graph.inputs)} inputs", EXPORT)
    inner = Values(step.network, graph.tensors, step.values.others)
    inner.states, inner.convert = step.values.states, step.values.convert
    for tensor, value in zip(graph.inputs, given, strict=True):
        inner.set_stored(tensor.index, value)
    for operator in graph.operators:
        inner.convert(Step(operator, inner))
    if step.network.nodes > MOST_NODES:
        raise Unsupported(f"its steps are more than {MOST_NODES} nodes", BY_DATA)
    return [inner.stored(tensor.index) for tensor in graph.outputs]


def _known(step: Step, value: Value) -> bool | None:
    """Whether a condition holds; None where the data decides."""
    array = step.network.array(value)
    return None if array is None else bool(array.all())


def condition(step: Step) -> None:
    """IF: the branch that is known, or a choice between the results of both."""
    options = step.options
    graphs = [_graph(step, n) for n in (options.ThenSubgraphIndex(), options.ElseSubgraphIndex())]
    given = [step.stored(place) for place in range(1, step.count)]
    known = _known(step, step.stored(0))
    if known is not None:
        results = _called(step, graphs[0 if known else 1], given)
    else:
        results = _chosen(step, *(_called(step, graph, given) for graph in graphs))
    for place, value in enumerate(results):
        step.keep(value, place=place)


def _chosen(step: Step, one: Sequence[Value], other: Sequence[Value]) -> list[Value]:
    network = step.network
    kinds = [[(network.dtype(v), network.shape(v)) for v in values] for values in (one, other)]
    if kinds[0] != kinds[1]:
        raise Unsupported("its branches give tensors of other shapes", "let both give the same")
    return [step.emit("Where", step.stored(0), a, b) for a, b in zip(one, other, strict=True)]


def loop(step: Step) -> None:
    """WHILE: its body for each step, as long as its condition is known to hold."""
    options = step.options
    until, body = (
        _graph(step, n) for n in (options.CondSubgraphIndex(), options.BodySubgraphIndex())
    )
    values = [step.stored(place) for place in range(step.count)]
    for _ in range(MOST_STEPS):
        (goes_on,) = _called(step, until, values)
        known = _known(step, goes_on)
        if known is None:
            raise Unsupported("the number of its steps depends on the data", BY_DATA)
        if not known:
            break
        values = _called(step, body, values)
    else:
        raise Unsupported(f"it has more than {MOST_STEPS} steps", BY_DATA)
    for place, value in enumerate(values):
        step.keep(value, place=place)


def call(step: Step) -> None:
    """CALL: another graph's nodes in its place."""
    given = [step.stored(place) for place in range(step.count)]
    for place, value in enumerate(_called(step, _graph(step, step.options.Subgraph()), given)):
        step.keep(value, place=place)


def composite(step: Step) -> None:
    """STABLEHLO_COMPOSITE: the graph that says what it computes, whatever it is called."""
    given = [step.stored(place) for place in range(step.count)]
    graph = _graph(step, step.options.DecompositionSubgraphIndex())
    for place, value in enumerate(_called(step, graph, given)):
        step.keep(value, place=place)


CONTROL: dict[str, Converter] = {
    "CALL": call,
    "IF": condition,
    "STABLEHLO_COMPOSITE": composite,
    "WHILE": loop,
}
