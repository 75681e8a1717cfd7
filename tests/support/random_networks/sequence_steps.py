"""Steps of sequences: [batch, length, features], and of what is normalized along its last axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from .network import Network, step


@step(3)
def tokens_to_pixels(net: Network, value: str) -> str | None:
    batch, count, channels = net.shapes[value]
    widths = [w for w in range(1, count + 1) if count % w == 0]
    width = net.one_of(*widths)
    turned = net.add("Transpose", value, perm=[0, 2, 1])
    return net.add("Reshape", turned, net.whole(batch, channels, count // width, width))


@step(3, 2, weight=4)
def dense(net: Network, value: str) -> str | None:
    inputs, outputs = net.shapes[value][-1], net.width(1, 4, 8, 12, 17, 24)
    if len(net.shapes[value]) == 2 and net.maybe():
        turned = net.maybe()
        weight = net.normal(*((outputs, inputs) if turned else (inputs, outputs)), scale=0.3)
        return net.add(
            "Gemm", value, weight, net.normal(outputs), transB=int(turned),
            alpha=net.one_of(1.0, 1.0, 0.5), beta=net.one_of(1.0, 1.0, 2.0),
        )  # fmt: skip
    product = net.add("MatMul", value, net.normal(inputs, outputs, scale=inputs**-0.5))
    if product is None or net.maybe(0.3):
        return product
    bias = net.normal(outputs)
    return net.add("Add", *net.one_of((product, bias), (bias, product)))


@step(3, weight=3)
def attention(net: Network, value: str) -> str | None:
    batch, count, channels = net.shapes[value]
    heads = [h for h in (1, 2, 3, 4) if channels % h == 0]
    number = net.one_of(*heads)
    size = channels // number
    parts: list[Any] = []
    if net.maybe():
        both = net.add("MatMul", value, net.normal(channels, 3 * channels, scale=channels**-0.5))
        apart = net.add("Reshape", both, net.whole(batch, count, 3, number, size))
        turned = net.add("Transpose", apart, perm=[2, 0, 3, 1, 4])
        if turned is None:
            return None
        parts = [
            net.add("Gather", turned, net.constant(index, "int64"), axis=0) for index in range(3)
        ]
    else:
        for _ in range(3):
            weight = net.normal(channels, channels, scale=channels**-0.5)
            apart = net.add(
                "Reshape", net.add("MatMul", value, weight), net.whole(0, -1, number, size)
            )
            parts.append(net.add("Transpose", apart, perm=[0, 2, 1, 3]))
    if None in parts:
        return None
    turned = net.add("Transpose", parts[1], perm=[0, 1, 3, 2])
    scores = net.add("MatMul", parts[0], turned)
    scaled = net.add("Mul", scores, net.constant(size**-0.5))
    if net.maybe(0.3):
        scaled = net.add("Add", scaled, net.normal(1, number, count, count))
    shares = net.add("Softmax", scaled, axis=-1)
    mixed = net.add("Transpose", net.add("MatMul", shares, parts[2]), perm=[0, 2, 1, 3])
    return net.add("Reshape", mixed, net.whole(batch, count, channels))


@step(2, 3, 4)
def layer_normalization(net: Network, value: str) -> str | None:
    axis = net.one_of(-1, -1, 1)
    rest = net.shapes[value][axis:] if axis != 1 else net.shapes[value][1:]
    if np.prod(rest) < 2:
        return None
    scale, shift = net.normal(*rest), net.normal(*rest)
    if net.maybe():
        return net.add("LayerNormalization", value, scale, shift, axis=axis)
    axes = net.whole(*range(-len(rest), 0))
    centred = net.add("Sub", value, net.add("ReduceMean", value, axes))
    squares = net.add("Pow", centred, net.constant(2.0))
    variance = net.add("Add", net.add("ReduceMean", squares, axes), net.constant(1e-5))
    normal = net.add("Div", centred, net.add("Sqrt", variance))
    return net.add("Add", net.add("Mul", normal, scale), shift)
