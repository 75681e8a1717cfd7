"""Steps along axes: joined, cut, moved, reduced, chosen."""

from __future__ import annotations

from .network import Network, Shape, step


@step(2, 3, 4, 5, weight=3)
def joined(net: Network, value: str) -> str | None:
    rank = len(net.shapes[value])
    axis = 1 if net.maybe(0.6) else net.between(0, rank - 1)
    fits = [
        name
        for name in net.floats()
        if len(net.shapes[name]) == rank
        and all(
            a == b or number == axis
            for number, (a, b) in enumerate(zip(net.shapes[name], net.shapes[value], strict=True))
        )
    ]
    parts = [value, *(net.one_of(*fits) for _ in range(net.between(1, 3)))]
    net.random.shuffle(parts)
    return net.add("Concat", *map(str, parts), axis=net.one_of(axis, axis - rank))


@step(2, 3, 4, 5, weight=2)
def split(net: Network, value: str) -> str | None:
    """Pieces of which one goes on by itself, and comes back into a concatenation at times."""
    shape = net.shapes[value]
    axis = 1 if net.maybe(0.7) else net.between(0, len(shape) - 1)
    if shape[axis] < 2:
        return None
    first = net.between(1, shape[axis] - 1)
    sizes = net.whole(first, shape[axis] - first)
    parts = net.add("Split", value, sizes, outputs=2, axis=axis)
    if parts is None or net.maybe():
        return parts and parts[0]
    changed = net.add(net.one_of("Relu", "Sigmoid", "Neg"), parts[net.between(0, 1)])
    return net.add("Concat", *net.one_of(parts, parts[::-1]), changed, axis=axis)


@step(2, 3, 4, 5, weight=2)
def cut(net: Network, value: str) -> str | None:
    shape = net.shapes[value]
    axes = [a for a in range(len(shape)) if shape[a] > 1 and net.maybe()]
    if not axes:
        return None
    backwards = [net.maybe(0.15) for _ in axes]
    steps = [net.one_of(1, 1, 2, 3) * (-1 if back else 1) for back in backwards]
    starts, ends = [], []
    for axis, back in zip(axes, backwards, strict=True):
        low = net.between(0, shape[axis] - 2)
        high = net.between(low + 1, shape[axis])
        starts.append(high - 1 if back else net.one_of(low, low - shape[axis]))
        ends.append((low - 1 if low else -(1 << 40)) if back else net.one_of(high, 1 << 40))
    named = [net.one_of(axis, axis - len(shape)) for axis in axes]
    return net.add("Slice", value, *(net.whole(*values) for values in (starts, ends, named, steps)))


@step(2, 3, 4, 5, weight=2)
def padded(net: Network, value: str) -> str | None:
    shape = net.shapes[value]
    mode = net.one_of("constant", "constant", "reflect", "edge")
    pads = [net.one_of(0, 0, 1, 2, 3) for _ in range(2 * len(shape))]
    cut = net.between(0, len(pads) - 1)
    if mode == "constant" and shape[cut % len(shape)] > 1 and net.maybe(0.2):
        pads[cut] = -1
    if mode == "reflect":
        pads = [min(pad, size - 1) for pad, size in zip(pads, 2 * shape, strict=True)]
    if len(shape) > 3:
        pads[:2] = pads[len(shape) : len(shape) + 2] = [0, 0]
    inputs = [value, net.whole(*pads)]
    if mode == "constant" and net.maybe():
        inputs.append(net.constant(net.one_of(0.5, -1.0)))
    return net.add("Pad", *inputs, mode=mode)


@step(2, 3, 4, 5, weight=2)
def transposed(net: Network, value: str) -> str | None:
    order = net.random.permutation(len(net.shapes[value]))
    return net.add("Transpose", value, perm=[int(axis) for axis in order])


@step(2, 3, 4, 5, weight=2)
def reshaped(net: Network, value: str) -> str | None:
    """Two axes made one, or one made two, at times of a product with bias, as heads are."""
    if len(net.shapes[value]) < 4 and net.maybe():
        width = net.shapes[value][-1]
        value = net.add("MatMul", value, net.normal(width, width, scale=width**-0.5))
        value = net.add("Add", value, net.normal(width, scale=0.1))
    shape = list(net.shapes[value])
    axis = net.between(0, len(shape) - 1)
    if len(shape) > 2 and net.maybe():
        axis = min(axis, len(shape) - 2)
        shape[axis : axis + 2] = [shape[axis] * shape[axis + 1]]
    elif len(shape) < 5:
        parts = [part for part in range(1, shape[axis] + 1) if shape[axis] % part == 0]
        part = net.one_of(*parts)
        shape[axis : axis + 1] = [part, shape[axis] // part]
    else:
        return None
    return net.add("Reshape", value, net.whole(*_as_written(net, net.shapes[value], shape)))


def _as_written(net: Network, before: Shape, after: list[int]) -> list[int]:
    """Sizes of a Reshape with 0 for some that stay, and -1 for one of the others."""
    sizes = list(after)
    for axis, (old, new) in enumerate(zip(before, after, strict=False)):
        if old == new and net.maybe(0.4):
            sizes[axis] = 0
    if net.maybe():
        sizes[net.between(0, len(sizes) - 1)] = -1
    return sizes


@step(2, 3, 4, 5, weight=2)
def reduced(net: Network, value: str) -> str | None:
    rank = len(net.shapes[value])
    axes = [axis for axis in range(rank) if net.maybe(0.4)] or [rank - 1]
    keep = int(rank - len(axes) < 2 or net.maybe())
    kind = net.one_of("ReduceMean", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceSum")
    scaled = value
    if kind == "ReduceSum":
        scaled = net.add("Mul", value, net.constant(0.1))
    return net.add(kind, scaled, net.whole(*axes), keepdims=keep)


@step(2, 3, 4, 5)
def softmax(net: Network, value: str) -> str | None:
    kind = net.one_of("Softmax", "Softmax", "LogSoftmax")
    return net.add(kind, value, axis=net.between(-1, len(net.shapes[value]) - 1))


@step(2, 3, 4, 5)
def gathered(net: Network, value: str) -> str | None:
    shape = net.shapes[value]
    axis = net.between(0, len(shape) - 1)
    count = net.one_of(shape[axis], shape[axis] + 1, max(1, shape[axis] - 1))
    places = net.random.integers(-shape[axis], shape[axis], count)
    return net.add("Gather", value, net.constant(places, "int64"), axis=axis)


@step(2, 3, 4)
def repeated(net: Network, value: str) -> str | None:
    shape = net.shapes[value]
    if net.maybe():
        return net.add("Tile", value, net.whole(*[net.one_of(1, 1, 2) for _ in shape]))
    return net.add("Expand", value, net.whole(*[1 if s != 1 else net.one_of(1, 3) for s in shape]))


@step(2, 3, 4)
def ordered(net: Network, value: str) -> str | None:
    axis = net.between(0, len(net.shapes[value]) - 1)
    if net.maybe():
        return net.add("CumSum", value, net.constant(axis, "int64"))
    count = net.between(1, net.shapes[value][axis])
    found = net.add("TopK", value, net.whole(count), outputs=2, axis=axis)
    return found and found[0]


@step(5)
def fewer_axes(net: Network, value: str) -> str | None:
    shape = net.shapes[value]
    return net.add("Reshape", value, net.whole(shape[0], shape[1] * shape[2], *shape[3:]))


@step(2)
def more_axes(net: Network, value: str) -> str | None:
    return net.add("Unsqueeze", value, net.whole(net.between(0, 2)))
