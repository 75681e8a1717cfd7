"""What Relax offers passes in C++ alone, and what it says of its own operators."""

from __future__ import annotations

from functools import cache
from typing import Any

import tvm
from tvm import relax, te


def set_type(expr: Any, kind: Any) -> None:
    """Give an expression the type ``kind``, in place."""
    relax.expr._update_type(expr, kind)


def _take(builder: Any, call: Any) -> Any:
    """TVM's kernel of relax.take, without the line that TVM prints for each of its mode "fast"."""
    data, indices = call.args
    axis, mode = call.attrs.axis, call.attrs.mode
    if mode != "fast" or axis is None:
        return builder.call_te(tvm.topi.take, data, indices, axis, mode=mode)
    return builder.call_te(_taken, data, indices, int(axis), primfunc_name_hint="take")


def _taken(data: te.Tensor, indices: te.Tensor, axis: int) -> te.Tensor:
    rank, axis = len(indices.shape), axis % len(data.shape)

    def element(*at: Any) -> Any:
        return data(*at[:axis], indices(*at[axis : axis + rank]), *at[axis + rank :])

    shape = [*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :]]
    return te.compute(shape, element, name="T_take", tag=tvm.topi.tag.INJECTIVE)


@cache
def quiet_take() -> None:
    """Let the passes of this process make kernels of relax.take in silence, those too that fold."""
    tvm.ir.register_op_attr("relax.take", "FLegalize", _take, level=11)
