"""Relax modules in, compiled networks for one target out: passes, static graph, memory, build.

``compile_model`` is all of it; ``parse_target`` reads targets as people write them. A process that
makes kernels needs none of this, and imports none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy_names

if TYPE_CHECKING:
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

_BUILD = ("CompiledModel", "build_function", "compile_model", "prepare")

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            **dict.fromkeys(_BUILD, ".build"),
            "StaticGraph": ".graph.static_graph",
            "parse_target": ".target",
        },
    )
