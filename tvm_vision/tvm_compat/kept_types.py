"""What TVM works out anew at each call, and is the same each time: kept.

Each primitive of a schedule checks its arguments against their annotations, and takes every
annotation apart to do so; each walk over a function looks up the classes that it asks for. Together
that is a seventh of a compilation. Who goes through an array asks for its length again at each
element, and has each number looked at as if it were a slice.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import tvm_ffi.structural
from tvm.s_tir.schedule import _type_checker
from tvm_ffi import container


@cache
def keep_types() -> None:
    """From here on, in this process."""
    _keep(_type_checker, "_dispatcher")
    _keep(tvm_ffi.structural, "_callback_type_to_type_index")
    container.Array.__iter__ = _elements


def _keep(module: Any, name: str) -> None:
    """A function of a module answers the same question once. Its answers are never changed."""
    setattr(module, name, cache(getattr(module, name)))


def _elements(array: container.Array) -> Iterator[Any]:
    element = container._ffi_api.ArrayGetItem
    return (element(array, place) for place in range(len(array)))
