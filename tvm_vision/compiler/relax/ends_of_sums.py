"""Sums that take in what follows them, too.

TVM's FuseOps lets a sum, or a maximum, take in what is before it and nothing behind: the root of a
sum of squares is a kernel of its own, which computes a number a channel. A mean takes in what is
behind it and nothing before. Here such a sum, what is before it and the first of what is made of it
element by element become one function, which takes in the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tvm
from tvm import relax, tirx

from .cancelling import cancelling
from .join_calls import Group, join_calls, read_by
from .kernel_calls import (
    BROADCAST,
    OUT_FUSABLE,
    REDUCTION,
    KernelCalls,
    bindings_of,
    patterns_of,
)
from .node_names import Nodes
from .operators import fixed_shape

_NAME = "end_of_sum"


def join_ends_of_sums(
    mod: tvm.IRModule, most_tensors: int, fits: Callable[[tirx.PrimFunc], bool]
) -> tuple[tvm.IRModule, Nodes]:
    """``main`` with such calls as one, and the nodes of the model in each of these.

    Args:
        most_tensors: that a kernel may read and write.
        fits: whether there is a schedule for a function; what has none stays as it is.
    """
    calls = _Calls(mod)
    found = [group for var, _ in calls.bound if (group := calls.around(var, most_tensors))]
    found.sort(key=lambda group: calls.order[group[-1][0]])
    return join_calls(mod, found, _NAME, fits)


class _Calls:
    """The calls of ``main``, by what they are bound to, and who reads their results."""

    def __init__(self, mod: tvm.IRModule) -> None:
        functions = {gv: f for gv, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)}
        patterns = patterns_of(functions)
        self.bound = KernelCalls(mod["main"]).bound
        self.order = {var: place for place, (var, _) in enumerate(self.bound)}
        self._of = dict(self.bound)
        self._patterns = {var: patterns[call.args[0]] for var, call in self.bound}
        self._sources = {var: list(relax.analysis.free_vars(call)) for var, call in self.bound}
        self._readers: dict[Any, list[Any]] = {}
        for var, value in bindings_of(mod["main"]):
            for used in relax.analysis.free_vars(value):
                self._readers.setdefault(used, []).append(var)
        for used in relax.analysis.free_vars(mod["main"].body.body):
            self._readers.setdefault(used, []).append(None)
        self._apart = cancelling(mod)
        self._taken: set[Any] = set()
        self._follows: set[Any] = set()
        for var, _ in self.bound:
            if self._patterns[var] <= BROADCAST and any(
                self._takes_in(source, var) for source in self._sources[var]
            ):
                self._follows.add(var)

    def around(self, var: Any, most_tensors: int) -> Group:
        """A sum with what is before it and what is made of it first, in order; empty for others."""
        # Places of the largest are of int64, which what follows may yet make narrower.
        is_float = "float" in str(getattr(var.ty, "dtype", ""))
        if self._patterns[var] != REDUCTION or not is_float or var in self._taken:
            return []
        end = self._only_reader(var)
        if end is None or self._patterns[end] > BROADCAST or _elements(end) != _elements(var):
            return []
        if end in self._taken or not self._apart.get(end, set()).isdisjoint([var]):
            return []
        group = [var, end]
        for inner in self._before(var):
            wider = [*group, inner]
            if 1 + len(read_by([self._of[each] for each in wider], wider)) > most_tensors:
                break
            group = wider
        self._taken.update(group)
        return [(each, self._of[each]) for each in sorted(group, key=self.order.__getitem__)]

    def _before(self, var: Any) -> list[Any]:
        """What FuseOps would take into a sum, the last first."""
        found: list[Any] = []
        while True:
            last = found[-1] if found else var
            inner = [source for source in self._sources[last] if self._is_before(source, last)]
            if len(inner) != 1 or not self._apart.get(last, set()).isdisjoint(inner):
                return found
            found += inner

    def _is_before(self, var: Any, reader: Any) -> bool:
        return (
            var in self._of
            and var not in self._taken
            and var not in self._follows
            and self._patterns[var] <= BROADCAST
            and self._read_by_none_but(reader, var)
        )

    def _takes_in(self, var: Any, reader: Any) -> bool:
        """Whether a call's kernel takes in who reads it."""
        takes = var in self._follows or self._patterns.get(var) == OUT_FUSABLE
        alone = takes and self._read_by_none_but(reader, var)
        return alone and _elements(var) == _elements(reader)

    def _read_by_none_but(self, reader: Any, var: Any) -> bool:
        found = self._only_reader(var)
        return found is not None and bool(found.same_as(reader))

    def _only_reader(self, var: Any) -> Any:
        """The call that alone reads a result; None where there is none, or more."""
        readers = self._readers.get(var, [])
        return readers[0] if len(readers) == 1 and readers[0] in self._of else None


def _elements(var: Any) -> int | None:
    shape = fixed_shape(var)
    return None if shape is None else math.prod(shape)
