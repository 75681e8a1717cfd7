"""Attention in the forms that onnxruntime fuses, of its own domain, put as ONNX's operators.

Keys and values of former calls, past_key and past_value, are of a fixed length as every input is:
those of this call come behind them, and both together go out again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import onnx

from .contributed_layers import HEADS_RANK, PLAIN, LayerBuilder, none_of, rotary
from .graph import GraphEditor, Unsupported, attribute, constant_input, given

Nodes = list[onnx.NodeProto]
SCORES_READ = "its scores are read"
MASKED = -10000.0  # what is added to a score that a mask leaves out


class _Builder(LayerBuilder):
    """Keys and values are heads here, (batch, heads, length, width / heads)."""

    def attend(
        self, q: str, k: str, v: str, scale: float, *added: str, most: float = 0.0, sink: str = ""
    ) -> str:
        """softmax(q · kᵀ · scale + added) · v, of heads; (batch, length, width) again.

        most: what scores are kept below, m tanh(score / m), before anything is added; 0 for none.
        sink: the score of a key of no value, (batch, heads, length, 1), which takes its share.
        """
        scores = self("MatMul", q, self("Transpose", k, perm=[0, 1, 3, 2]))
        scores = self("Mul", scores, self.number(scale))
        if most:
            share = self("Tanh", self("Div", scores, self.number(most)))
            scores = self("Mul", share, self.number(most))
        scores = self.sum(scores, *added)
        if sink:
            shares = self("Softmax", self("Concat", scores, sink, axis=-1), axis=-1)
            shares = self.part(shares, 0, -1, -1)
        else:
            shares = self("Softmax", scores, axis=-1)
        found = self("MatMul", shares, v)
        return self.reshape(self("Transpose", found, perm=[0, 2, 1, 3]), (0, 0, -1))

    def behind(self, past: str, new: str) -> str:
        """The keys or values of former calls, and behind them those of this one."""
        return self("Concat", past, new, axis=2) if past else new

    def among(self, past: str, new: str, before: str, total: int) -> str:
        """The first keys or values of former calls, ``before`` of each batch, behind them those of
        this call, and zeros up to ``total``."""
        old, length = self.graph.shape(past)[2], self.graph.shape(self.node.input[0])[1]
        places = np.arange(total, dtype=np.int64)
        first = self.axes("Unsqueeze", before, [1])
        own = self("Sub", places, first)
        inner = self("Min", self("Max", own, np.array(0, np.int64)), np.array(length - 1, np.int64))
        place = self(
            "Where", self("Less", places, first), places, self("Add", inner, np.array(old))
        )
        batch, heads, _, width = self.graph.shape(past)
        wide = np.array([batch, heads, total, width], np.int64)
        found = self(
            "GatherElements",
            self.behind(past, new),
            self("Expand", self.axes("Unsqueeze", place, [1, 3]), wide),
            axis=2,
        )
        inside = self.axes("Unsqueeze", self("Less", own, np.array(length, np.int64)), [1, 3])
        return self("Where", inside, found, self.number(0))

    def looking_back(self, q: str, k: str, window: int = -1, before: str = "") -> str:
        """What is added to scores so that a query sees no key behind its own, which is as far from
        the last key as the query is from the last query, and of them all only the last ``window``:
        as onnxruntime has it since 1.24, which showed one more before on processors.

        before: how many keys are before the first query's own, of each batch, where those are less
        than all.
        """
        if before:
            size = self.axes("Unsqueeze", before, [1, 2, 3])
        else:
            size = self("Sub", self._count(k), self._count(q))
        queries = self("Add", self.places(q, 2, [1]), size)
        keys = self.places(k, 2, [0])
        hidden = self("Less", queries, keys)
        if window > 0:
            first = self("Sub", queries, np.array(window - 1, np.int64))
            hidden = self("Or", hidden, self("Less", keys, first))
        return self("Where", hidden, self.number(MASKED), self.number(0))

    def _count(self, heads: str) -> str:
        return self("Gather", self("Shape", heads), np.array(2, np.int64))

    def one_way(self, q: str, k: str) -> str:
        """``looking_back`` where the node says so; "" where it does not."""
        return self.looking_back(q, k) if attribute(self.node, "unidirectional", 0) else ""

    def give(self, found: str, *kept: str) -> Nodes:
        """The nodes: the result, and what the node keeps for the next call where it is read."""
        self.finish(found)
        for place, value in enumerate(kept, 1):
            if len(self.node.output) > place and self.node.output[place]:
                self.finish(self("Identity", value), place)
        return self.nodes


@dataclass(frozen=True)
class _Inputs:
    """Places of the inputs of an attention whose queries, keys and values are one product."""

    bias: int
    mask: int
    past: int
    added: int  # to scores; behind all others where there is none


_REAL, _OF_BYTES = _Inputs(2, 3, 4, 5), _Inputs(2, 5, 8, 9)


def _embedded(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """Attention of one input, whose queries, keys and values are a product of its own."""
    none_of(node, past_sequence_length=6)
    build = _Builder(graph, node)
    return _of_product(build, build("MatMul", *node.input[:2]), _REAL)


def _of_bytes(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """QAttention: the same of a product of bytes, times both scales."""
    build = _Builder(graph, node)
    x, weight, scale, weight_scale = (node.input[place] for place in (0, 1, 3, 4))
    zeros = [given(node, place) for place in (6, 7)]
    if zeros[1] and not zeros[0]:
        zeros[0] = graph.make_constant(np.zeros((), graph.dtype(x)), node.name)
    while zeros and not zeros[-1]:
        zeros.pop()
    whole = build.cast(build("MatMulInteger", x, weight, *zeros), np.float32)
    factor = build("Mul", scale, weight_scale)
    return _of_product(build, build("Mul", whole, factor), _OF_BYTES)


def _of_product(build: _Builder, product: str, inputs: _Inputs) -> Nodes:
    node, graph = build.node, build.graph
    if attribute(node, "do_rotary", 0):
        raise Unsupported("it turns queries and keys by their places", PLAIN)
    count, width = attribute(node, "num_heads"), graph.shape(node.input[1])[-1]
    sizes = list(attribute(node, "qkv_hidden_sizes", [width // 3] * 3))
    packed = build.sum(product, given(node, inputs.bias))
    ends = np.cumsum([0, *sizes])
    parts = [build.part(packed, int(a), int(b), -1) for a, b in pairwise(ends)]
    q, k, v = (build.heads(part, count) for part in parts)
    # (2, batch, heads, length, width / heads): keys and values.
    both = given(node, inputs.past)
    if both:
        k, v = (
            build.behind(build("Gather", both, np.array(place, np.int64), axis=0), new)
            for place, new in enumerate((k, v))
        )
    scale = attribute(node, "scale", 0.0) or (sizes[0] // count) ** -0.5
    mask = _mask(build, inputs.mask, k)
    found = build.attend(q, k, v, scale, mask, given(node, inputs.added), build.one_way(q, k))
    if len(node.output) < 2 or not node.output[1]:
        return build.give(found)
    kept = build("Concat", *(build.axes("Unsqueeze", part, [0]) for part in (k, v)), axis=0)
    return build.give(found, kept)


def _multi_head(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """Attention of queries, keys and values, (batch, length, width) each."""
    none_of(node, past_sequence_length=8, cache_indirection=9)
    if not given(node, 1) or not given(node, 2):
        raise Unsupported("queries, keys and values are packed", PLAIN)
    if any(node.output[3:]):
        raise Unsupported(SCORES_READ, PLAIN)
    build, count = _Builder(graph, node), attribute(node, "num_heads")
    inputs, bias = list(node.input[:3]), given(node, 3)
    if bias and len(graph.shape(inputs[1])) != HEADS_RANK:
        # Values may be wider; onnxruntime takes queries and keys to be alike.
        size = graph.shape(bias)[0]
        width = (size - _width(graph, inputs[2], size // 3)) // 2
        ends = pairwise((0, width, 2 * width, size))
        inputs = [
            build("Add", x, build.part(bias, *end, 0)) for x, end in zip(inputs, ends, strict=True)
        ]
    else:
        # Keys and values that are in heads have theirs already.
        width = graph.shape(inputs[0])[-1]
        if bias:
            inputs[0] = build("Add", inputs[0], build.part(bias, 0, width, 0))
    scale = attribute(node, "scale", 0.0) or (width // count) ** -0.5
    q, k, v = (build.heads(x, count) for x in inputs)
    k, v = build.behind(given(node, 6), k), build.behind(given(node, 7), v)
    mask = _mask(build, 4, k)
    return build.give(build.attend(q, k, v, scale, mask, given(node, 5), build.one_way(q, k)), k, v)


def _width(graph: GraphEditor, name: str, otherwise: int) -> int:
    try:
        return graph.shape(name)[-1]
    except Unsupported:
        return otherwise


def _mask(build: _Builder, index: int, keys: str) -> str:
    """What a mask of 1 and 0, (batch, keys) or (batch, queries, keys), or one of how many keys
    there are, (batch,), adds to scores; "" where there is none."""
    node, name = build.node, given(build.node, index)
    if not name:
        return ""
    shape = build.graph.shape(name)
    new_axes = {1: [1], 2: [1, 2], 3: [1]}.get(len(shape))
    if new_axes is None or (len(shape) == 1 and shape != build.graph.shape(node.input[0])[:1]):
        raise Unsupported("its mask is not one of batch and length", PLAIN)
    if len(shape) == 1:
        counts = build.axes("Unsqueeze", build.cast(name, np.int64), new_axes)
        name, new_axes = build("Less", build.places(keys, 2, [0]), counts), [1, 2]
    kept = build.axes("Unsqueeze", build.cast(name, build.dtype), new_axes)
    hidden = build("Sub", build.number(1), kept)
    value = attribute(node, "mask_filter_value", MASKED)
    return build("Mul", hidden, build.number(value))


def _grouped(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """GroupQueryAttention: each head of keys and values is that of several heads of queries; a
    query sees no key behind it.

    Queries are (batch, length, heads · width), keys and values alike; those of former calls are
    in heads. How many of these count may be known only at run time, of each batch.
    """
    build = _Builder(graph, node)
    if any(node.output[3:]):
        raise Unsupported(SCORES_READ, PLAIN)
    # Onnxruntime reads but the first of them in a call without former keys, for all batches.
    if given(node, 9):
        raise Unsupported("its places are given", "leave out its position_ids, which count keys")
    heads, fewer = attribute(node, "num_heads"), attribute(node, "kv_num_heads")
    q, k, v = node.input[:3]
    width = graph.shape(q)[-1] // heads
    if not k:
        width = graph.shape(q)[-1] // (heads + 2 * fewer)
        ends = np.cumsum([0, heads * width, fewer * width, fewer * width])
        q, k, v = (build.part(q, int(a), int(b), -1) for a, b in pairwise(ends))
        for name, count in ((q, heads), (k, fewer)):
            graph.set_shape(name, build.dtype, (*graph.shape(node.input[0])[:2], count * width))
    past = _length_of_past(node, graph)
    total = _total(node, graph, past)
    before = _before(build, past, total)
    if attribute(node, "do_rotary", 0):
        q, k = (_turned(build, x, n, past, before) for x, n in ((q, heads), (k, fewer)))
    q, k, v = build.heads(q, heads), build.heads(k, fewer), build.heads(v, fewer)
    if past and before:
        k, v = (build.among(node.input[3 + i], x, before, total) for i, x in enumerate((k, v)))
    elif past:
        k, v = build.behind(node.input[3], k), build.behind(node.input[4], v)
    many = [_of_each_query(build, x, heads // fewer, width) for x in (k, v)]
    window = attribute(node, "local_window_size", -1)
    scale = attribute(node, "scale", 0.0) or width**-0.5
    added = given(node, 10), build.looking_back(q, many[0], window, before)
    most, sink = max(attribute(node, "softcap", 0.0), 0.0), _sink(build, heads)
    return build.give(build.attend(q, many[0], many[1], scale, *added, most=most, sink=sink), k, v)


def _sink(build: _Builder, heads: int) -> str:
    """The score of a key of no value for every query, of each head or 0; "" where there is none."""
    node, (batch, length, _) = build.node, build.graph.shape(build.node.input[0])
    score = given(node, 11)
    if not score and attribute(node, "smooth_softmax", 0) != 1:
        return ""
    alone = build.reshape(score, (1, -1, 1, 1)) if score else build.number(0)
    return build("Expand", alone, np.array([batch, heads, length, 1], np.int64))


def _length_of_past(node: onnx.NodeProto, graph: GraphEditor) -> int:
    return graph.shape(node.input[3])[2] if given(node, 3) else 0


def _total(node: onnx.NodeProto, graph: GraphEditor, past: int) -> int:
    """The length of the keys that go out: of a buffer that all keys fit into, its own."""
    length = graph.shape(node.input[0])[1]
    said = constant_input(node, graph, 6) if past else None
    return past + length if said is None else max(int(said.reshape(-1)[0]), past, length)


def _before(build: _Builder, past: int, total: int) -> str:
    """How many former keys count, (batch,); "" where all do. What stands behind the last word of a
    first call reads no key that is not there, and nobody reads it."""
    node, graph = build.node, build.graph
    length = graph.shape(node.input[0])[1]
    last = graph.constant(given(node, 5))
    if not past or not given(node, 5):
        return ""
    if last is not None and total == past + length and np.all(last == total - 1):
        return ""
    counts = build.reshape(build.cast(node.input[5], np.int64), (-1,))
    first = build("Sub", counts, np.array(length - 1, np.int64))
    most = np.array(min(past, total - length), np.int64)
    return build("Min", build("Max", first, np.array(0, np.int64)), most)


def _turned(build: _Builder, x: str, heads: int, past: int, before: str) -> str:
    """Queries or keys turned by the angles of their places, which begin behind those of the past:
    onnxruntime's operator for it."""
    graph, node = build.graph, build.node
    first = graph.make_constant(np.array([past], np.int64), x)
    if before:
        steps = np.arange(graph.shape(node.input[0])[1], dtype=np.int64)
        first = build("Add", build.axes("Unsqueeze", before, [1]), steps)
        graph.set_shape(first, np.dtype(np.int64), graph.shape(node.input[0])[:2])
    turn = onnx.helper.make_node(
        "RotaryEmbedding",
        [x, first, *node.input[7:9]],
        [graph.fresh(f"{node.output[0]}/turned")],
        name=node.name,
        num_heads=heads,
        interleaved=attribute(node, "rotary_interleaved", 0),
    )
    build.nodes += rotary(turn, graph)
    return str(turn.output[0])


def _of_each_query(build: _Builder, x: str, times: int, width: int) -> str:
    """Heads of keys or values, each as often as there are queries for it."""
    alone = build.axes("Unsqueeze", x, [2])
    often = build("Concat", *[alone] * times, axis=2)
    return build.reshape(often, (0, attribute(build.node, "num_heads"), -1, width))


ATTENTION: dict[str, Callable[[onnx.NodeProto, GraphEditor], Nodes]] = {
    "Attention": _embedded,
    "GroupQueryAttention": _grouped,
    "MultiHeadAttention": _multi_head,
    "QAttention": _of_bytes,
}
