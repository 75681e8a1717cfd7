"""Operators as TensorIR functions: TVM's, and those that this project has better ones for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tvm import relax

from ...topi.arg_reduce import arg_reduce


def _of_places(largest: bool) -> Callable[[relax.BlockBuilder, relax.Call], relax.Expr]:
    def legalize(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        axis = call.attrs.axis
        computed = partial(
            arg_reduce, axis=None if axis is None else int(axis),
            keepdims=bool(call.attrs.keepdims), largest=largest,
        )  # fmt: skip
        name = "argmax" if largest else "argmin"
        return builder.call_te(computed, call.args[0], primfunc_name_hint=name)

    return legalize


OWN: dict[str, Any] = {"relax.argmax": _of_places(True), "relax.argmin": _of_places(False)}


def legalize_ops() -> Any:
    """The pass."""
    return relax.transform.LegalizeOps(OWN)
