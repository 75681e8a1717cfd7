"""TVM's import without what it does over and over.

A hundred of its lookups fail, of operators that its printer may name and of a class that this
library lacks, and TVM looks past that. But an error of C++ comes with a trace, for whose names the
first one of a process reads the debug information of all libraries. And each of its fifty modules
that take functions from C++ asks for the names of all two thousand. Together that is two fifths of
the import.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any


@contextmanager
def quickly_imported() -> Iterator[None]:
    """In the block ``import tvm`` asks each thing once, and first whether what it wants is there.
    What it finds is the same."""
    ffi = importlib.import_module("tvm_ffi")
    with ExitStack() as stack:

        def instead(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
            before = getattr(owner, name, None)
            if before is not None:  # a TVM of another version imports as it does
                setattr(owner, name, make(before))
                stack.callback(setattr, owner, name, before)

        def with_operators(begin: Callable[..., None]) -> Callable[..., None]:
            def init(namespace: str, target: str | None = None) -> None:
                begin(namespace, target)
                api = sys.modules[target or namespace]
                if namespace == "ir" and hasattr(api, "GetOp"):  # the runtime alone has none
                    operators = _Operators(api)
                    for name in ("GetOp", "RegisterOp", "RegisterOpAttr"):
                        instead(api, name, getattr(operators, name))

            return init

        instead(ffi.registry, "list_global_func_names", lambda _: _Names(ffi))
        instead(ffi.core, "_object_type_key_to_index", lambda index: _Classes(ffi, index))
        instead(ffi, "init_ffi_api", with_operators)
        yield


class _Names:
    """The names of all functions, which are listed again when there are more."""

    def __init__(self, ffi: Any) -> None:
        self._ffi = ffi
        self._names: list[str] = []

    def __call__(self) -> list[str]:
        name_of = self._ffi.get_global_func("ffi.FunctionListGlobalNamesFunctor")()
        count = name_of(-1)
        if count != len(self._names):
            self._names = [name_of(place) for place in range(count)]
        return self._names


class _Classes:
    """The numbers of classes by their names, None of one that C++ does not know."""

    def __init__(self, ffi: Any, index: Callable[[str], int | None]) -> None:
        self._ffi = ffi
        self._index = index
        self._known: set[str] = set()

    def __call__(self, name: str) -> int | None:
        if name not in self._known:
            self._known.update(self._ffi.registry.get_registered_type_keys())
        return self._index(name) if name in self._known else None


class _Operators:
    """TVM's calls that look for operators and describe them, each given what it stands for."""

    def __init__(self, api: Any) -> None:
        self.api = api
        self._known: set[str] = set()
        self._more = True

    def GetOp(self, get: Callable[[str], Any]) -> Callable[[str], Any]:
        def known(name: str) -> Any:
            if name not in self._known and self._more:
                self._known.update(self.api.ListOpNames())
                self._more = False
            if name not in self._known:
                raise AttributeError(f"Operator {name} is not registered")
            return get(name)

        return known

    def RegisterOp(self, register: Callable[..., Any]) -> Callable[..., Any]:
        def another(*described: Any) -> Any:
            self._more = True
            return register(*described)

        return another

    def RegisterOpAttr(self, register: Callable[..., Any]) -> Callable[..., Any]:
        def unless_there(name: str, key: str, value: Any, level: int) -> Any:
            # Another one of the same level is an error.
            if isinstance(value, str) and name in self._known:
                operator = self.api.GetOp(name)
                if self.api.OpHasAttr(operator, key) and self.api.OpGetAttr(operator, key) == value:
                    return None
            return register(name, key, value, level)

        return unless_there
