"""Neural vision for robots: networks on any Vulkan GPU with the stock wheel of Apache TVM.

Importing it registers the Vulkan backend: ``tvm.vulkan(0)`` and targets of kind ``vulkan`` work.
``compile``, ``quantize`` and ``load`` are imported on first use, so that running never imports the
compiler.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from . import vulkan

# The only place for it in Python; package.xml and CHANGELOG.md repeat it.
__version__ = "0.1.0"
__all__ = ["compile", "load", "quantize", "vulkan"]

# Name -> the module that has it.
_LAZY = {"compile": ".api", "load": ".runtime.loader", "quantize": ".api"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(import_module(_LAZY[name], __name__), name)
