"""ONNX node names as names of Relax variables, and back.

A node's bindings are named after it, so that every later step can say which layer it speaks of.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

# Bytes that an identifier cannot hold are written _xHH; a node's variables end in _xn, _xn1, ...
_OTHERS = re.compile(rb"[^A-Za-z0-9_]|_(?=x)")
_ESCAPE = re.compile(r"_x([0-9a-f]{2})")
# What ``name_after`` calls steps that stand in a node's place, and the node.
STEP = re.compile(r"(.+)/[A-Za-z0-9]+_\d+", re.DOTALL)
_VARIABLE = re.compile(r"(.+)_xn\d*", re.DOTALL)


def variable_hint(node_name: str) -> str:
    """The name for variables of the node ``node_name``."""
    # An escape in the name itself must survive: its underscore is escaped in turn.
    raw = _OTHERS.sub(lambda found: b"_x%02x" % found[0][0], node_name.encode())
    return f"{raw.decode()}_xn"


def node_name(variable: str) -> str | None:
    """The ONNX node that the variable ``variable`` belongs to; None for any other variable."""
    match = _VARIABLE.fullmatch(variable)
    if match is None:
        return None
    parts = _ESCAPE.split(match[1])
    literal = [part.encode() for part in parts[::2]]
    escaped = [bytes([int(part, 16)]) for part in parts[1::2]] + [b""]
    return b"".join(a + b for a, b in zip(literal, escaped, strict=True)).decode(errors="replace")


def name_nodes(graph: onnx.GraphProto) -> None:
    """Give each node of ``graph`` a name of its own; nodes with one keep it, the first of equals.

    A node without a name is called after its operator and its place, as in "Conv_12".
    """
    taken: set[str] = set()
    for index, node in enumerate(graph.node):
        name = wanted = node.name or f"{node.op_type}_{index}"
        number = 1
        while name in taken:
            name, number = f"{wanted}.{number}", number + 1
        node.name = name
        taken.add(name)


def name_after(node: onnx.NodeProto, steps: Sequence[onnx.NodeProto]) -> None:
    """Name what replaces a node: the last one as the node, the others with its name in front."""
    for number, step in enumerate(steps):
        last = number == len(steps) - 1
        step.name = node.name if last else f"{node.name}/{step.op_type}_{number}"
