"""The order of a graph's nodes: each behind those whose results it reads.

ONNX asks for it, and its checker and inference tools rely on it; onnxruntime does not, and tools
that were only ever tried with it, as its converter to fp16, append nodes at the end.
"""

from __future__ import annotations

import heapq

import onnx

from .graph import inner_graphs, put_nodes, reads


def put_in_order(graph: onnx.GraphProto) -> None:
    """Move nodes, also those of branches and bodies, behind what they read; those that are there
    keep their order. Nodes in a circle stay where they are: there is no order for them."""
    for node in graph.node:
        for inner in inner_graphs(node):
            put_in_order(inner)
    maker = {name: place for place, node in enumerate(graph.node) for name in node.output if name}
    before = [{maker[name] for name in reads(node) if name in maker} for node in graph.node]
    if all(place > max(makers, default=-1) for place, makers in enumerate(before)):
        return
    readers: list[list[int]] = [[] for _ in before]
    for place, makers in enumerate(before):
        for each in makers:
            readers[each].append(place)
    left = [len(makers) for makers in before]
    ready = [place for place, count in enumerate(left) if not count]
    order = []
    while ready:
        place = heapq.heappop(ready)
        order.append(place)
        for reader in readers[place]:
            left[reader] -= 1
            if not left[reader]:
                heapq.heappush(ready, reader)
    if len(order) == len(before):
        put_nodes(graph, [graph.node[place] for place in order])
