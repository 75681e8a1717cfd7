"""What Relax offers passes in C++ alone."""

from __future__ import annotations

from typing import Any

from tvm import relax


def set_type(expr: Any, kind: Any) -> None:
    """Give an expression the type ``kind``, in place."""
    relax.expr._update_type(expr, kind)
