"""What TVM works out anew at each call, and is the same each time: kept.

Each primitive of a schedule checks its arguments against their annotations, and takes every
annotation apart to do so; each walk over a function looks up the classes that it asks for. Together
that is a seventh of a compilation. Each walk also asks in which of its forms it was given what it
is to call, for longer than most walks take, and who goes through an array asks for its length again
at each element, and has each number looked at as if it were a slice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import tvm_ffi
from tvm.s_tir.schedule import _type_checker
from tvm_ffi import container, structural


@cache
def keep_types() -> None:
    """From here on, in this process."""
    _keep(_type_checker, "_dispatcher")
    _keep(structural, "_callback_type_to_type_index")
    container.Array.__iter__ = _elements
    for name, call in (("structural_walk", "StructuralWalk"), ("structural_map", "StructuralMap")):
        quick = _without_forms(getattr(tvm_ffi, name), getattr(structural._ffi_api, call))
        for module in (tvm_ffi, structural):
            setattr(module, name, quick)


def _keep(module: Any, name: str) -> None:
    """A function of a module answers the same question once. Its answers are never changed."""
    setattr(module, name, cache(getattr(module, name)))


def _elements(array: container.Array) -> Iterator[Any]:
    element = container._ffi_api.ArrayGetItem
    return (element(array, place) for place in range(len(array)))


def _without_forms(whole: Callable[..., Any], call: Callable[..., Any]) -> Callable[..., Any]:
    """A walk, or a map, of callbacks as nearly all give them; ``whole`` takes all others."""
    orders = {order.name[: -len("ORDER")].lower(): int(order) for order in structural.WalkOrder}

    def quick(root: Any, callbacks: Any = (), *others: Any, **named: Any) -> Any:
        order = orders.get(named.get("order", "post"))
        known = order is not None and len(named) == ("order" in named)
        if others or not known or not isinstance(callbacks, (list, tuple)):
            return whole(root, callbacks, *others, **named)
        alone = isinstance(callbacks, tuple) and len(callbacks) == 2 and callable(callbacks[1])
        entries = []
        for entry in [callbacks] if alone else callbacks:
            if not isinstance(entry, tuple) or len(entry) != 2 or not callable(entry[1]):
                return whole(root, callbacks, **named)
            kinds, callback = entry
            for kind in kinds if isinstance(kinds, tuple) else (kinds,):
                index = structural._callback_type_to_type_index(kind, api_name=whole.__name__)
                entries.append((index, callback))
        return call(root, entries, [], order)

    return quick
