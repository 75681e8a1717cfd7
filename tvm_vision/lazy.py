"""Names of a package that are imported on first use: a leaf beside error_lines.

A package lists its names with their modules, and imports them for type checkers alone; a test holds
the two against each other.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

from .error_lines import use_of


def lazy_names(
    package: str,
    modules: Mapping[str, str | tuple[str, str]],
    others: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package, whose modules are imported on first use.

    modules: name -> the module that has it, as ".api", or that module and its name there, "" for
    the module itself.
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(
                f"module '{package}' has no attribute '{name}'{use_of(name, others)}"
            )
        found = modules[name]
        module, there = (found, name) if isinstance(found, str) else found
        imported = import_module(module, package)
        return getattr(imported, there) if there else imported

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return get, names
