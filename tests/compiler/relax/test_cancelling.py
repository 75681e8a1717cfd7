"""Sums that take another one back are those of float32, on all targets, not of real numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relax

from support.interpreter import run
from support.relax_models import module_of
from tvm_vision.compiler import compile_model

# Above it float32 has whole numbers alone: adding and taking it rounds.
ROUNDER = np.float32(1.5 * 2**23)
VALUES = np.array([[1.5, 0.3, -0.7, 2.5, 0, 1e-9, 100.4, 3e38]], np.float32)
OF_EACH = np.where(np.arange(8) % 2, ROUNDER, 2 * ROUNDER).astype(np.float32)[None]


def constant(value: Any) -> relax.Expr:
    return relax.const(np.asarray(value, np.float32), "float32")


def added(builder: Any, x: Any, number: Any, op: Any = relax.op.add) -> Any:
    return builder.emit(op(x, constant(number)))


def taken(builder: Any, x: Any, number: Any) -> Any:
    return added(builder, x, number, relax.op.subtract)


FORMS: dict[str, tuple[Any, Any]] = {
    "x + c - c": (
        lambda b, x: taken(b, added(b, x, ROUNDER), ROUNDER),
        lambda x: (x + ROUNDER) - ROUNDER,
    ),
    "x - c + c": (
        lambda b, x: added(b, taken(b, x, ROUNDER), ROUNDER),
        lambda x: (x - ROUNDER) + ROUNDER,
    ),
    "x + c + -c": (
        lambda b, x: added(b, added(b, x, ROUNDER), -ROUNDER),
        lambda x: (x + ROUNDER) + -ROUNDER,
    ),
    "x + each - each": (
        lambda b, x: taken(b, added(b, x, OF_EACH), OF_EACH),
        lambda x: (x + OF_EACH) - OF_EACH,
    ),
    "x + c - x": (
        lambda b, x: b.emit(relax.op.subtract(added(b, x, 1), x)),
        lambda x: (x + np.float32(1)) - x,
    ),
    "x - (x + c)": (
        lambda b, x: b.emit(relax.op.subtract(x, added(b, x, 1))),
        lambda x: x - (x + np.float32(1)),
    ),
    "e - e": (
        lambda b, x: (lambda e: b.emit(relax.op.subtract(e, e)))(b.emit(relax.op.exp(x))),
        lambda x: np.exp(x) - np.exp(x),
    ),
    "behind a sum": (
        lambda b, x: taken(b, added(b, b.emit(relax.op.matmul(x, constant(np.eye(8)))), ROUNDER),
                           ROUNDER),
        lambda x: (x + ROUNDER) - ROUNDER,
    ),
    "behind others": (
        lambda b, x: b.emit(relax.op.nn.relu(taken(b, added(b, b.emit(relax.op.abs(x)), ROUNDER),
                                                   ROUNDER))),
        lambda x: np.maximum((np.abs(x) + ROUNDER) - ROUNDER, 0),
    ),
}  # fmt: skip


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize("target", ["vulkan", "llvm"])
@pytest.mark.parametrize("form", FORMS)
def test_what_is_taken_back_was_rounded(form: str, target: str) -> None:
    build, exact = FORMS[form]
    module, signature = module_of(build, VALUES.shape)
    (found,) = run(compile_model(module, signature, target=target), [VALUES])
    with np.errstate(all="ignore"):
        expected = exact(VALUES)
    # exp of the largest is no number, and so is that less itself.
    np.testing.assert_array_equal(found, expected)


def test_others_stay_one_kernel() -> None:
    """What fake quantization adds for training, and sums of other numbers."""

    def network(builder: Any, x: Any) -> Any:
        rounded = builder.emit(relax.op.round(x))
        x = builder.emit(relax.op.add(x, builder.emit(relax.op.subtract(rounded, x))))
        return taken(builder, added(builder, x, 3), 2)

    module, signature = module_of(network, VALUES.shape)
    assert len(compile_model(module, signature, target="llvm").graph["kernels"]) == 1
