"""What is asked of a function's numbers goes through hundreds of blocks, each after what it is made
of: back from the last, Python ended it after a thousand calls of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tvm import te, tirx

from tvm_vision.compiler.tir.coordinates import holds_coordinates
from tvm_vision.compiler.tir.fp16_moments import moments
from tvm_vision.compiler.tir.fp16_range import holds_lost
from tvm_vision.compiler.tir.fp16_reciprocals import holds_reciprocals
from tvm_vision.compiler.tir.fp16_roots import whole_numbers_of
from tvm_vision.compiler.tir.fp16_sums import holds_wide_sums

BLOCKS = 400
STEPS: dict[str, Callable[[Any], Any]] = {
    "copies": lambda value: value,
    "maxima": lambda value: te.max(value, tirx.FloatImm("float32", 0)),
    "sums": lambda value: value + tirx.FloatImm("float32", 1),
    "quotients": lambda value: tirx.FloatImm("float32", 1) / te.sqrt(value),
}
QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "coordinates": lambda function: holds_coordinates(function, [1]),
    "moments": lambda function: moments(function, {}, [], [0, 1]).kinds,
    "range": lambda function: holds_lost(function, {}, [0]),
    "reciprocals": lambda function: holds_reciprocals(function, [0]),
    "roots": lambda function: whole_numbers_of(function, 0),
    "sums": lambda function: holds_wide_sums(function, [0], [0, 1]),
}


def after(value: Any, step: Callable[[Any], Any], number: int) -> Any:
    return te.compute((4,), lambda i: step(value[i]), f"v{number}")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("asked", QUESTIONS)
def test_questions_of_long_functions_end(asked: str, step: str) -> None:
    first = value = te.placeholder((4,), "float32", "x")
    for number in range(BLOCKS):
        value = after(value, STEPS[step], number)
    assert len(QUESTIONS[asked](te.create_prim_func([first, value]))) == 2
