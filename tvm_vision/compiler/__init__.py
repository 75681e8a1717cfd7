"""Relax modules in, compiled networks for one target out: passes, static graph, memory, build.

``compile_model`` is all of it; ``parse_target`` reads targets as people write them.
"""

from .build import CompiledModel, build_function, compile_model, prepare
from .graph.static_graph import StaticGraph
from .target import parse_target

__all__ = [
    "CompiledModel",
    "StaticGraph",
    "build_function",
    "compile_model",
    "parse_target",
    "prepare",
]
