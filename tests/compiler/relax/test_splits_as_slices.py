"""Splits whose parts are read where they lie: slices, each with one reader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import relax

from support.compiled import first_results
from support.relax_models import constant, module_of, operators_in
from tvm_vision.compiler.relax.splits_as_slices import splits_as_slices

OP = relax.op
SHAPE = (1, 6, 5, 24)
X = np.random.default_rng(1).standard_normal(SHAPE).astype("float32")


def parts(b: relax.BlockBuilder, x: Any, *ends: int, axis: int = 3) -> list[Any]:
    split = b.emit(OP.split(x, list(ends), axis))
    return [b.emit(relax.TupleGetItem(split, n)) for n in range(len(ends) + 1)]


def gated(b: relax.BlockBuilder, x: Any) -> Any:
    """As MambaOut: an activation that is written out, what is put together, and a window."""
    gate, kept, window = parts(b, x, 12, 16)
    silu = b.emit(OP.multiply(gate, b.emit(OP.sigmoid(gate))))
    made = b.emit(
        OP.nn.conv2d(
            window, constant(2, 3, 3, 1, 8)[0], padding=1, groups=8, data_layout="NHWC",
            kernel_layout="HWIO",
        )
    )  # fmt: skip
    return b.emit(OP.multiply(silu, b.emit(OP.concat([kept, made], 3))))


def products(b: relax.BlockBuilder, x: Any) -> Any:
    """By another name, and from the end."""
    first, second = parts(b, x, 12, axis=-1)
    left = b.emit(OP.matmul(b.emit(first), constant(3, 12, 4)[0]))
    return b.emit(OP.add(left, b.emit(OP.matmul(second, constant(4, 12, 4)[0]))))


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize("network", [gated, products])
def test_parts_are_read_where_they_lie(network: Callable) -> None:
    module, signature = module_of(network, SHAPE)
    made = splits_as_slices(module)
    names = operators_in(made)
    assert "split" not in names and names.count("strided_slice") >= 2
    found = first_results((made, module), signature, X)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-6)


def handed_out(b: relax.BlockBuilder, x: Any) -> Any:
    """A part is a result, which is a copy of its own."""
    first, second = parts(b, x, 12)
    return [b.emit(OP.exp(first)), second]


def two_kinds(b: relax.BlockBuilder, x: Any) -> Any:
    """A sum and an activation, which are no kernel together, read the same part."""
    first, second = parts(b, x, 12)
    return [b.emit(OP.exp(first)), b.emit(OP.sum(second)), b.emit(OP.exp(second))]


def contiguous(b: relax.BlockBuilder, x: Any) -> Any:
    first, second = parts(b, x, 2, axis=1)
    return [b.emit(OP.exp(first)), b.emit(OP.sin(second))]


def broadcast(b: relax.BlockBuilder, x: Any) -> Any:
    """What is made of a part is larger: it would be read again and again."""
    first, second = parts(b, x, 1)
    return [b.emit(OP.exp(second)), b.emit(OP.multiply(first, constant(5, *SHAPE)[0]))]


def whole(b: relax.BlockBuilder, x: Any) -> Any:
    return b.emit(relax.op.split(x, [12], 3))


@pytest.mark.parametrize("network", [handed_out, two_kinds, contiguous, broadcast, whole])
def test_others_stay(network: Callable) -> None:
    module, _ = module_of(network, SHAPE)
    assert splits_as_slices(module).same_as(module)
