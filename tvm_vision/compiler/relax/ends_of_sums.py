"""Sums that take in what follows them, too.

TVM's FuseOps lets a sum, or a maximum, take in what is before it and nothing behind: the root of a
sum of squares is a kernel of its own, which computes a number a channel. A mean takes in what is
behind it and nothing before. Here such a sum, what is before it and the first of what is made of it
element by element become one function, which takes in the rest; and so do a mean and what is before
it that nothing else reads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from .join_calls import Calls, Group, join_calls
from .kernel_calls import BROADCAST, INJECTIVE, OUT_FUSABLE, REDUCTION
from .node_names import Nodes
from .operators import elements_of
from .whole_rows import summed

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
    return join_calls(mod, calls, found, _NAME, fits)


class _Calls(Calls):
    """The calls of ``main``, and which of them a sum would be joined to."""

    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        self._functions = mod
        self._means: dict[Any, bool] = {}
        self._taken: set[Any] = set()
        self._follows: set[Any] = set()
        for var, _ in self.bound:
            if self.patterns[var] <= BROADCAST and any(
                self._takes_in(source, var) for source in self.sources[var]
            ):
                self._follows.add(var)

    def around(self, var: Any, most_tensors: int) -> Group:
        """A sum with what is before it and what is made of it first, in order; empty for others."""
        # Places of the largest are of int64, which what follows may yet make narrower.
        is_float = "float" in str(getattr(var.ty, "dtype", ""))
        if not is_float or var in self._taken:
            return []
        if self._is_mean(var):
            group = [var]
        elif self.patterns[var] == REDUCTION and (end := self._end_of(var)) is not None:
            group = [var, end]
        else:
            return []
        # FuseOps takes moves into a sum by itself, and nothing into a mean.
        for inner in self._before(var, INJECTIVE if len(group) == 1 else BROADCAST):
            wider = [*group, inner]
            if self.tensors(wider) > most_tensors:
                break
            group = wider
        if len(group) == 1 or (self._is_mean(var) and self._is_behind_sum(group[1:])):
            return []
        self._taken.update(group)
        return self.group(group)

    def _is_behind_sum(self, group: list[Any]) -> bool:
        """Whether a kernel takes in what alone reads it by several ways, as x * clip(x)."""
        return any(
            source not in group
            and (source in self._follows or self.patterns.get(source) == OUT_FUSABLE)
            and elements_of(source) == elements_of(var)
            and self.readers[source].issubset(group)
            for var in group
            for source in self.sources[var]
        )

    def _is_mean(self, var: Any) -> bool:
        """Whether a call sums up each number that it reads once, and divides the sums."""
        if self.patterns[var] != OUT_FUSABLE:
            return False
        function = self.of[var].args[0]
        if function not in self._means:
            self._means[function] = is_mean(self._functions[function])
        return self._means[function]

    def _end_of(self, var: Any) -> Any:
        """What is made of a sum first, element by element; None where there is no such call."""
        end = self._only_reader(var)
        if end is None or self.patterns[end] > BROADCAST or elements_of(end) != elements_of(var):
            return None
        if end in self._taken or not self.apart.get(end, set()).isdisjoint([var]):
            return None
        return end

    def _before(self, var: Any, most: int) -> list[Any]:
        """What is before a sum and read by nothing else, up to a pattern, the last first."""
        found: list[Any] = []
        while True:
            last = found[-1] if found else var
            inner = [s for s in self.sources[last] if self._is_before(s, last, most)]
            if len(inner) != 1 or not self.apart.get(last, set()).isdisjoint(inner):
                return found
            found += inner

    def _is_before(self, var: Any, reader: Any, most: int) -> bool:
        return (
            var in self.of
            and var not in self._taken
            and var not in self._follows
            and self.patterns[var] <= most
            and self._read_by_none_but(reader, var)
        )

    def _takes_in(self, var: Any, reader: Any) -> bool:
        """Whether a call's kernel takes in who reads it."""
        takes = var in self._follows or self.patterns.get(var) == OUT_FUSABLE
        alone = takes and self._read_by_none_but(reader, var)
        return alone and elements_of(var) == elements_of(reader)

    def _read_by_none_but(self, reader: Any, var: Any) -> bool:
        found = self._only_reader(var)
        return found is not None and bool(found.same_as(reader))

    def _only_reader(self, var: Any) -> Any:
        """The call that alone reads a result; None where there is none, or more."""
        readers = self.readers.get(var, set())
        reader = next(iter(readers)) if len(readers) == 1 else None
        return reader if reader in self.of else None


def is_mean(function: tirx.PrimFunc) -> bool:
    """Whether a function is one sum over rows of a tensor, and what is made of it: windows that
    overlap, or rows that are gone through again, would compute what is before them several times.
    """
    sums: list[Any] = []

    def see(block: Any) -> None:
        if block.init is not None:
            sums.append(block)

    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, see))
    return len(sums) == 1 and summed(function) is not None
