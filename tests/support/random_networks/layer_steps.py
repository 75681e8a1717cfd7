"""Layers as exporters write them out: of transformers, detectors and matchers."""

from __future__ import annotations

import math

import numpy as np

from .network import Network, step


@step(3, weight=2)
def rotated_by_place(net: Network, value: str) -> str | None:
    """Rotary embedding: halves, or neighbours, change places, one with its sign turned."""
    batch, count, features = net.shapes[value]
    if features % 2:
        return None
    half = features // 2
    if net.maybe():
        first = net.add("Slice", value, net.whole(0), net.whole(half), net.whole(-1))
        second = net.add("Slice", value, net.whole(half), net.whole(1 << 60), net.whole(-1))
        turned = net.add("Concat", net.add("Neg", second), first, axis=-1)
    else:
        pairs = net.add("Reshape", value, net.whole(batch, count, half, 2))
        first, second = (
            net.add("Gather", pairs, net.constant(i, "int64"), axis=-1) for i in (0, 1)
        )
        parts = [
            net.add("Unsqueeze", part, net.whole(-1)) for part in (net.add("Neg", second), first)
        ]
        turned = net.add(
            "Reshape", net.add("Concat", *parts, axis=-1), net.whole(batch, count, features)
        )
    angles = np.outer(np.arange(count), 2.0 ** -np.arange(half)).repeat(2, axis=1)
    cosine, sine = net.constant(np.cos(angles)), net.constant(np.sin(angles))
    return net.add("Add", net.add("Mul", value, cosine), net.add("Mul", turned, sine))


@step(2, 3, 4)
def by_its_root_mean_square(net: Network, value: str) -> str | None:
    axis = net.one_of(-1, 1)
    size = net.shapes[value][axis]
    squares = net.one_of(net.add("Pow", value, net.constant(2.0)), net.add("Mul", value, value))
    mean = net.add("ReduceMean", squares, net.whole(axis))
    root = net.add("Sqrt", net.add("Add", mean, net.constant(1e-5)))
    normal = net.one_of(
        net.add("Div", value, root), net.add("Mul", value, net.add("Reciprocal", root))
    )
    shape = [size] if axis == -1 else [size] + [1] * (len(net.shapes[value]) - 2)
    return net.add("Mul", normal, net.normal(*shape))


@step(3)
def cosine_attention(net: Network, value: str) -> str | None:
    """Queries and keys of length one, scores scaled by a weight of each head."""
    batch, count, features = net.shapes[value]
    heads = net.one_of(*(h for h in (1, 2, 4) if features % h == 0))
    size = features // heads
    parts = []
    for _ in range(3):
        product = net.add("MatMul", value, net.normal(features, features, scale=features**-0.5))
        apart = net.add("Reshape", product, net.whole(batch, count, heads, size))
        parts.append(net.add("Transpose", apart, perm=[0, 2, 1, 3]))
    units = []
    for part in parts[:2]:
        length = net.add("Clip", net.add("ReduceL2", part, net.whole(-1)), net.constant(1e-6))
        shape = net.whole(batch, heads, count, size)
        units.append(net.add("Div", part, net.add("Expand", length, shape)))
    scores = net.add("MatMul", units[0], net.add("Transpose", units[1], perm=[0, 1, 3, 2]))
    scale = net.add("Exp", net.add("Clip", net.normal(heads, 1, 1), "", net.constant(4.6)))
    shares = net.add("Softmax", net.add("Mul", scores, scale), axis=-1)
    mixed = net.add("Transpose", net.add("MatMul", shares, parts[2]), perm=[0, 2, 1, 3])
    return net.add("Reshape", mixed, net.whole(batch, count, features))


@step(3, 4, weight=2)
def masked_shares(net: Network, value: str) -> str | None:
    """Softmax where places that compare otherwise take no part; none are left at times."""
    rows, columns = net.shapes[value][-2:]
    places = net.random.integers(0, 3, (rows, columns))
    compare = net.one_of("Equal", "GreaterOrEqual", "Less")
    wanted = net.add(compare, net.constant(places, "int64"), net.constant(1, "int64"))
    if net.maybe():
        hidden = net.add("ConstantOfShape", net.whole(rows, columns))
        least = net.add("Sub", hidden, net.constant(net.one_of(100.0, 1e4, 3.4e38)))
        masked = net.add("Where", wanted, value, least)
    else:
        added = net.add("Where", wanted, net.constant(0.0), net.constant(-1e9))
        masked = net.add("Add", value, added)
    net.inner.add(masked)  # sums of such numbers are none
    return net.add("Softmax", masked, axis=-1)


@step(4)
def shifted_by_rows(net: Network, value: str) -> str | None:
    """A column of padding, and rows read as one piece: each is one further than the last."""
    batch, channels, rows, columns = net.shapes[value]
    padded = net.add("Pad", value, net.whole(0, 0, 0, 0, 0, 0, 0, 1))
    long = net.add("Reshape", padded, net.whole(batch, channels, rows * (columns + 1)))
    ends = net.whole(rows * columns)
    cut = net.add("Slice", long, net.whole(0), ends, net.whole(2))
    return net.add("Reshape", cut, net.whole(batch, channels, rows, columns))


@step(4, weight=2)
def deformable_attention(net: Network, value: str) -> str | None:
    """Samples of an image around places of reference, summed by shares."""
    batch, channels, height, width = net.shapes[value]
    queries, points = net.between(3, 6), net.between(2, 4)
    query = net.normal(batch, queries, 8)
    offsets = net.add("MatMul", query, net.normal(8, points * 2, scale=0.3))
    offsets = net.add("Reshape", offsets, net.whole(batch, queries, points, 2))
    size = net.constant([width, height])
    places = net.constant(net.random.uniform(0, 1, (1, queries, 1, 2)))
    where = net.add("Add", places, net.add("Div", offsets, size))
    grid = net.add("Sub", net.add("Mul", where, net.constant(2.0)), net.constant(1.0))
    samples = net.add("GridSample", value, grid, align_corners=0, padding_mode="zeros")
    pooled = net.add("ReduceMean", value, net.whole(2, 3), keepdims=0)
    shares = net.add("MatMul", pooled, net.normal(channels, queries * points, scale=0.3))
    shares = net.add("Reshape", shares, net.whole(batch, 1, queries, points))
    weighed = net.add("Mul", samples, net.add("Softmax", shares, axis=-1))
    return net.add("ReduceSum", weighed, net.whole(-1), keepdims=0)


@step(4)
def group_normalization(net: Network, value: str) -> str | None:
    """By way of one long row a group."""
    batch, channels, height, width = net.shapes[value]
    groups = net.one_of(*(g for g in (1, 2, 3, 4) if channels % g == 0))
    rows = net.add("Reshape", value, net.whole(0, groups, -1))
    normal = net.add(
        "InstanceNormalization", rows, net.constant(np.ones(groups)),
        net.constant(np.zeros(groups)), epsilon=1e-3,
    )  # fmt: skip
    back = net.add("Reshape", normal, net.whole(batch, channels, height, width))
    scaled = net.add("Mul", back, net.normal(channels, 1, 1))
    return net.add("Add", scaled, net.normal(channels, 1, 1))


@step(4)
def gate_by_neighbours(net: Network, value: str) -> str | None:
    """A convolution along the channels of what is pooled."""
    pooled = net.add("GlobalAveragePool", value)
    row = net.add("Transpose", net.add("Squeeze", pooled, net.whole(-1)), perm=[0, 2, 1])
    mixed = net.add("Conv", row, net.normal(1, 1, 3, scale=0.5), pads=[1, 1])
    column = net.add("Unsqueeze", net.add("Transpose", mixed, perm=[0, 2, 1]), net.whole(-1))
    return net.add("Mul", value, net.add("Sigmoid", column))


@step(3, 4)
def linear_attention(net: Network, value: str) -> str | None:
    """Products from the other side: keys with values first."""
    *before, count, features = net.shapes[value]
    if min(count, features) < 2:
        return None
    query, key = (
        net.add("MatMul", value, net.normal(features, features, scale=features**-0.5))
        for _ in range(2)
    )
    if net.maybe():
        query, key = net.add("Softmax", query, axis=-1), net.add("Softmax", key, axis=-2)
    else:
        query, key = (
            net.add("Add", net.add("Elu", part), net.constant(1.0)) for part in (query, key)
        )
    order = [*range(len(before)), len(before) + 1, len(before)]
    mixed = net.add("MatMul", net.add("Transpose", key, perm=order), value)
    result = net.add("MatMul", query, mixed)
    return net.add("Mul", result, net.constant(1 / count))


@step(4)
def matched(net: Network, value: str) -> str | None:
    """Correlations of all pixels, softmax along both sides, as of matchers."""
    batch, channels, height, width = net.shapes[value]
    flat = net.add("Reshape", value, net.whole(batch, channels, height * width))
    if (height * width) ** 2 * batch > 1 << 15:
        return None
    turned = net.add("Transpose", flat, perm=[0, 2, 1])
    other = net.add("MatMul", turned, net.normal(channels, channels, scale=channels**-0.5))
    scores = net.add("MatMul", other, flat)
    scores = net.add("Div", scores, net.constant(math.sqrt(channels)))
    both = [net.add("Softmax", scores, axis=axis) for axis in (1, 2)]
    return net.add("Mul", *both) if net.maybe() else net.add("Add", *both)


@step(2, 3)
def product_of_bytes(net: Network, value: str) -> str | None:
    """Dynamically quantized: the scale of the input is computed."""
    features, size = net.shapes[value][-1], net.one_of(4, 9)
    found = net.add("DynamicQuantizeLinear", value, outputs=3)
    if found is None:
        return None
    weight = net.constant(net.random.integers(-100, 101, (features, size)), "int8")
    product = net.add("MatMulInteger", found[0], weight, found[2])
    scale = net.add("Mul", found[1], net.constant(0.01 / math.sqrt(features)))
    return net.add("Mul", net.add("Cast", product, to=1), scale)
