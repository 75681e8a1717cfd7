"""Steps with indices, counts and shapes that the network itself computes."""

from __future__ import annotations

import numpy as np

from .network import Network, step


@step(2, 3, 4)
def gathered_one_by_one(net: Network, value: str) -> str | None:
    shape = net.shapes[value]
    axis = net.between(0, len(shape) - 1)
    sizes = [net.between(1, size) for size in shape]
    sizes[axis] = net.between(1, shape[axis] + 2)
    places = net.random.integers(-shape[axis], shape[axis], sizes)
    return net.add(
        "GatherElements", value, net.constant(places, net.one_of("int64", "int32")),
        axis=net.one_of(axis, axis - len(shape)),
    )  # fmt: skip


@step(2, 3, 4, 5)
def gathered_by_tuples(net: Network, value: str) -> str | None:
    shape = net.shapes[value]
    batch = net.one_of(0, 0, 1)
    length = net.between(1, len(shape) - batch)
    count = [*shape[:batch], net.between(2, 5), *net.one_of((), (3,))]
    named = shape[batch : batch + length]
    places = np.stack([net.random.integers(-size, size, count) for size in named], -1)
    return net.add("GatherND", value, net.constant(places, "int64"), batch_dims=batch)


@step(2, 3, 4)
def scattered(net: Network, value: str) -> str | None:
    """Updates at places of their own; sums, products and limits at places that come twice, too."""
    shape = net.shapes[value]
    how = net.one_of("none", "none", "add", "mul", "max", "min")
    if net.maybe():
        axis = net.between(0, len(shape) - 1)
        sizes = [net.between(1, size) for size in shape]
        order = np.argsort(
            net.random.random([*sizes[:axis], shape[axis], *sizes[axis + 1 :]]), axis
        )
        places = np.take(order, range(sizes[axis]), axis)
        if how != "none":
            places = net.random.integers(-shape[axis], shape[axis], sizes)
        updates = net.normal(*sizes)
        return net.add(
            "ScatterElements", value, net.constant(places, "int64"), updates,
            axis=axis, reduction=how,
        )  # fmt: skip
    length = net.between(1, len(shape))
    named = shape[:length]
    count = net.between(1, min(4, int(np.prod(named))))
    flat = net.random.choice(int(np.prod(named)), count, replace=how != "none")
    places = np.stack(np.unravel_index(flat, named), -1)
    updates = net.normal(count, *shape[length:])
    return net.add("ScatterND", value, net.constant(places, "int64"), updates, reduction=how)


@step(2, 3, 4)
def best_places(net: Network, value: str) -> str | None:
    """Of which one-hot rows are made, or numbers."""
    shape = net.shapes[value]
    axis = net.between(0, len(shape) - 1)
    kind = net.one_of("ArgMax", "ArgMax", "ArgMin")
    best = net.add(
        kind, value, axis=net.one_of(axis, axis - len(shape)), keepdims=int(net.maybe()),
        select_last_index=int(net.maybe(0.3)),
    )  # fmt: skip
    if net.maybe():
        return net.add("Cast", best, to=1)
    ends = net.constant([net.one_of(0.0, -0.5), 1.0])
    return net.add(
        "OneHot", best, net.constant(shape[axis], "int64"), ends, axis=net.one_of(-1, 0, 1)
    )


@step(2, 3, 4)
def gathered_by_rank(net: Network, value: str) -> str | None:
    """The rows of the largest numbers, as a detector's decoder takes them."""
    shape = net.shapes[value]
    axis = net.between(0, len(shape) - 1)
    count = net.between(1, shape[axis])
    found = net.add(
        "TopK", value, net.whole(count), outputs=2, axis=axis, largest=int(net.maybe(0.8))
    )
    return found and net.add("GatherElements", value, found[1], axis=axis)


@step(2, 3, 4, 5, weight=2)
def reshaped_by_its_shape(net: Network, value: str) -> str | None:
    """As exporters of dynamic batches write it: Shape, Gather, Concat, Reshape."""
    shape = net.shapes[value]
    if net.maybe(0.3):
        first = net.between(0, len(shape) - 1)
        sizes = net.add("Shape", value, start=first)
        total = net.add("ReduceProd", sizes, keepdims=1)
        return net.add("Reshape", value, net.add("Concat", net.whole(-1), total, axis=0))
    sizes = net.add("Shape", value)
    batch = net.add("Gather", sizes, net.constant(0, "int64"), axis=0)
    last = net.add("Gather", sizes, net.constant([-1], "int64"), axis=0)
    first = net.add("Unsqueeze", batch, net.whole(0))
    half = net.add("Div", last, net.whole(2)) if shape[-1] % 2 == 0 else last
    return net.add("Reshape", value, net.add("Concat", first, net.whole(-1), half, axis=0))


@step(2, 3, 4)
def made_of_a_shape(net: Network, value: str) -> str | None:
    """A grid or a mask of the size of what it is added to."""
    shape = net.shapes[value]
    sizes = net.add("Shape", value)
    if net.maybe():
        last = net.add("Gather", sizes, net.constant(len(shape) - 1, "int64"), axis=0)
        steps = net.add("Range", net.constant(0, "int64"), last, net.constant(1, "int64"))
        made = net.add("Mul", net.add("Cast", steps, to=1), net.constant(1 / shape[-1]))
    else:
        full = net.add("Expand", net.constant(0.5), sizes)
        made = net.add("Trilu", full, upper=int(net.maybe())) if len(shape) > 1 else full
    return net.add("Add", value, made)


@step(2, 3, 4)
def triangle(net: Network, value: str) -> str | None:
    inputs = [value]
    if net.maybe():
        inputs.append(net.constant(net.between(-3, 3), "int64"))
    return net.add("Trilu", *inputs, upper=int(net.maybe()))


@step(2, 3, 4)
def some_rows(net: Network, value: str) -> str | None:
    shape = net.shapes[value]
    axis = net.between(0, len(shape) - 1)
    kept = net.random.random(shape[axis]) < 0.6
    kept[net.between(0, shape[axis] - 1)] = True
    rows = net.constant(np.flatnonzero(kept), "int64")
    return net.add("Gather", value, rows, axis=axis)


@step(3, 4)
def reversed_rows(net: Network, value: str) -> str | None:
    shape = net.shapes[value]
    batch = net.one_of(0, 1)
    lengths = net.random.integers(1, shape[1 - batch] + 1, shape[batch])
    return net.add(
        "ReverseSequence", value, net.constant(lengths, "int64"), batch_axis=batch,
        time_axis=1 - batch,
    )  # fmt: skip


@step(2, 3, 4, 5)
def whole_numbers(net: Network, value: str) -> str | None:
    """Through integers and back, with what these have of their own."""
    kind = net.one_of(6, 7)  # int32, int64
    whole = net.add("Cast", net.add("Mul", value, net.constant(7.0)), to=kind)
    if whole is None:
        return None
    dtype = {6: "int32", 7: "int64"}[kind]
    operator = net.one_of("Mod", "Div", "Mul", "Sub", "Max", "Where")
    if operator == "Where":
        changed = net.add(
            "Where", net.add("Less", whole, net.constant(0, dtype)), net.add("Neg", whole), whole
        )
    else:
        changed = net.add(operator, whole, net.constant(net.one_of(2, 3, 5), dtype))
    return net.add("Mul", net.add("Cast", changed, to=1), net.constant(0.1))


@step(2, 3, 4, 5)
def rounded(net: Network, value: str) -> str | None:
    scaled = net.add("Mul", value, net.constant(3.0))
    kind = net.one_of("Round", "Floor", "Ceil", "Sign", "Mod")
    if kind == "Mod":
        return net.add("Mod", scaled, net.constant(net.one_of(1.5, -0.75)), fmod=1)
    return net.add(kind, scaled)


@step(2, 3, 4, 5)
def masked(net: Network, value: str) -> str | None:
    """By conditions that are joined, as floats or as a choice."""
    low = net.add("Greater", value, net.constant(-0.5))
    high = net.add(net.one_of("Less", "LessOrEqual"), value, net.constant(0.7))
    both = net.add(net.one_of("And", "Or", "Xor"), low, high)
    if net.maybe():
        both = net.add("Not", both)
    if net.maybe():
        return net.add("Mul", value, net.add("Cast", both, to=1))
    return net.add("Where", both, value, net.constant(net.one_of(0.0, -1e4)))
