"""Complex numbers, which Fourier transforms give: two tensors of real ones.

What only moves numbers is converted once for each of the two.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..onnx.graph import Unsupported
from ..onnx.rewrites_signal import fourier_matrix
from .moves import MOVES
from .network import Value
from .step import Converter, Step

# How DTYPES of ``read`` has the schema's COMPLEX64.
COMPLEX = "type 8"
APART = "take REAL, IMAG or COMPLEX_ABS of them before"
# These say of complex numbers what the real parts say: a size, and TFLite's cast to real numbers.
_BY_REAL_PARTS = ("CAST", "SHAPE", "RANK")


def convert_in_parts(convert: Converter, step: Step) -> None:
    """Convert an operator, perhaps of complex numbers. Raises Unsupported for one that computes
    with them."""
    values, kind = step.values, step.operator.kind
    given = {i: values.parts[i] for i in step.operator.inputs if i in values.parts}
    if not given or kind in COMPLEX_NUMBERS or kind in _BY_REAL_PARTS:
        convert(step)
        return
    if kind not in MOVES:
        raise Unsupported("it computes with complex numbers", APART)
    results: list[list[Value]] = []
    for part in range(2):
        for index, parts in given.items():
            values.set_stored(index, parts[part])
        convert(step)
        results.append([values.stored(index) for index in step.operator.outputs])
    for index, parts in given.items():
        values.set_stored(index, parts[0])
    for index, *made in zip(step.operator.outputs, *results, strict=True):
        values.set_parts(index, (made[0], made[1]))


def rfft2d(step: Step) -> None:
    """Fourier transforms of real rows, then of their columns, as products with known matrices; the
    input is cut, or goes on with zeros, where the lengths say so."""
    lengths, shape = step.numbers(1, "its lengths"), step.shape(0)
    if len(lengths) != 2 or min(lengths) < 1 or len(shape) < 2:
        raise Unsupported(f"lengths {lengths} of {list(shape)}", "export the network again")
    rows, columns = (min(a, b) for a, b in zip(shape[-2:], lengths, strict=True))
    value = _first(step, step.real(0), shape, (rows, columns))
    matrix = fourier_matrix(columns, lengths[1], parts=1, inverse=False, onesided=True)[:, 0]
    parts = [step.emit("MatMul", value, matrix[..., part].astype(np.float32)) for part in (0, 1)]
    if lengths[0] > 1:
        turn = fourier_matrix(rows, lengths[0], parts=1, inverse=False, onesided=False)[:, 0]
        cos, sin = (turn[..., part].T.astype(np.float32) for part in (0, 1))
        real, imaginary = parts
        parts = [
            step.emit("Sub", step.emit("MatMul", cos, real), step.emit("MatMul", sin, imaginary)),
            step.emit("Add", step.emit("MatMul", sin, real), step.emit("MatMul", cos, imaginary)),
        ]
    step.values.set_parts(step.operator.outputs[0], (parts[0], parts[1]))


def _first(step: Step, value: Value, shape: Sequence[int], sizes: Sequence[int]) -> Value:
    """The first rows and columns."""
    if tuple(shape[-2:]) == tuple(sizes):
        return value
    ends, axes = np.array(sizes, np.int64), np.array([-2, -1], np.int64)
    return step.emit("Slice", value, np.zeros(2, np.int64), ends, axes)


def _parts(step: Step) -> tuple[Value, Value]:
    found: tuple[Value, Value] | None = step.values.parts.get(step.index(0))
    if found is None:
        raise Unsupported("its numbers are not complex", "export the network again")
    return found


def real(step: Step) -> None:
    step.keep(_parts(step)[0])


def imaginary(step: Step) -> None:
    step.keep(_parts(step)[1])


def complex_abs(step: Step) -> None:
    squares = [step.emit("Mul", part, part) for part in _parts(step)]
    step.keep(step.emit("Sqrt", step.emit("Add", *squares)))


COMPLEX_NUMBERS: dict[str, Converter] = {
    "RFFT2D": rfft2d,
    "REAL": real,
    "IMAG": imaginary,
    "COMPLEX_ABS": complex_abs,
}
