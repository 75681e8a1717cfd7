"""Attention of tensors that lie whole, as a function to schedule, with inputs and what it gives."""

from __future__ import annotations

import math

import numpy as np
from tvm import te, tirx

from tvm_vision.compiler.tir.cast_buffers import narrowed
from tvm_vision.topi.attention import FORM, AttentionForm, View, attention


def form_of(
    batch: tuple[int, ...], n: int, m: int, d: int, masked: bool = False, value_width: int = 0,
    columns: str = "", turned: bool = False,
) -> AttentionForm:  # fmt: skip
    """Of n queries and m keys of d numbers each; value_width: numbers of a value, 0 for d; columns:
    those of "qkv" whose numbers lie before their places, as channels do; turned: the result's."""

    def whole(number: int, *shape: int, by_columns: bool = False) -> View:
        sizes = (*batch, *(reversed(shape) if by_columns else shape))
        *steps, last, own = (math.prod(sizes[i + 1 :]) for i in range(len(sizes)))
        return View(number, 0, (*steps, own, last) if by_columns else (*steps, last, own))

    wide = value_width or d
    added = (whole(3, n, m),) if masked else ()
    sizes = {"q": (n, d), "k": (m, d), "v": (m, wide)}
    q, k, v = (
        whole(number, *size, by_columns=name in columns)
        for number, (name, size) in enumerate(sizes.items())
    )
    return AttentionForm(batch, n, m, d, wide, d**-0.5, q, k, v, added, turned)


def function_of(form: AttentionForm, *, fp16: bool) -> tirx.PrimFunc:
    """Not scheduled; fp16: of all but what is added."""
    rows = [
        form.queries * form.width, form.keys * form.width, form.keys * form.value_width,
        *[form.queries * form.keys] * len(form.added),
    ]  # fmt: skip
    given = [te.placeholder((form.batches * size,), "float32") for size in rows]
    function = te.create_prim_func([*given, attention(given, form)])
    function = function.with_attr(FORM, form.to_json())
    return narrowed(function, [0, 1, 2, len(given)]) if fp16 else function


def drawn(form: AttentionForm, dtype: str) -> tuple[list[np.ndarray], np.ndarray]:
    """Inputs, and the result in float64; with what is added two of five keys are hidden."""
    random = np.random.default_rng(1)
    q, k, v = (
        random.normal(size=(*form.batch, *size)).astype(dtype) * np.dtype(dtype).type(large)
        for size, large in (
            ((form.queries, form.width), 6), ((form.keys, form.width), 6),
            ((form.keys, form.value_width), 1),
        )
    )  # fmt: skip
    scores = np.einsum("...id,...jd->...ij", q.astype("f8"), k.astype("f8")) * form.scale
    inputs = [
        (values if view.strides[-1] == 1 else values.swapaxes(-1, -2)).ravel()
        for values, view in ((q, form.q), (k, form.k), (v, form.v))
    ]
    if form.added:
        hidden = random.random(scores.shape) < 0.4
        added = np.where(hidden, -np.inf, random.normal(size=scores.shape) * 30).astype("float32")
        added[..., 0] = 0
        scores = scores + added
        inputs.append(added.ravel())
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    found = shares @ v.astype("f8") / shares.sum(-1, keepdims=True)
    return inputs, found.swapaxes(-1, -2) if form.turned else np.moveaxis(found, -2, -3)
