"""Steps behind steps of their kind, which compilers join or take apart."""

from __future__ import annotations

from typing import Any

from .network import Network, step
from .value_steps import activation, activation_of_parts


@step(2, 3, 4, weight=2)
def activations_in_a_row(net: Network, value: str) -> str | None:
    """Each gets what has a known range from the one before."""
    made: str | None = value
    for _ in range(net.between(2, 3)):
        made = made and net.one_of(activation, activation_of_parts)(net, made)
    return made


@step(4, weight=2)
def padded_pool(net: Network, value: str) -> str | None:
    """A Pad, of zeros or another value, before a pool that has pads of its own."""
    pads = [net.between(0, 2) for _ in range(4)]
    places = net.whole(0, 0, *pads[:2], 0, 0, *pads[2:])
    padded = net.add("Pad", value, places, net.constant(net.one_of(0.0, 0.0, -1.5, 2.0)))
    kernel = net.one_of(2, 3)
    attributes: dict[str, Any] = {
        "kernel_shape": [kernel] * 2,
        "strides": [net.one_of(1, 2)] * 2,
        "pads": [net.between(0, (kernel - 1) // 2)] * 4,
    }
    if net.maybe():
        return net.add("MaxPool", padded, **attributes)
    return net.add("AveragePool", padded, count_include_pad=int(net.maybe()), **attributes)


@step(3, 4, weight=2)
def parts_apart(net: Network, value: str) -> str | None:
    """Parts of the channels, each with steps of its own, side by side or added up again."""
    axis = net.one_of(1, -1)
    size = net.shapes[value][axis]
    count = net.one_of(2, 3)
    if size % count:
        return None
    parts = net.add("Split", value, outputs=count, num_outputs=count, axis=axis)
    if parts is None:
        return None
    made = [activation(net, part) if net.maybe(0.7) else part for part in parts]
    if net.maybe():
        return net.add("Concat", *(made[i] for i in net.random.permutation(count)), axis=axis)
    total: str | None = made[0]
    for part in made[1:]:
        total = net.add(net.one_of("Add", "Mul", "Max"), total, part)
    return total


@step(3, 4, weight=2)
def turned_there_and_back(net: Network, value: str) -> str | None:
    """Axes turned, a step, and turned back, or on."""
    rank = len(net.shapes[value])
    order = net.random.permutation(rank).tolist()
    turned = net.add("Transpose", value, perm=order)
    made = turned and net.one_of(activation, activation_of_parts)(net, turned)
    back = [order.index(axis) for axis in range(rank)]
    again = back if net.maybe(0.7) else net.random.permutation(rank).tolist()
    return made and net.add("Transpose", made, perm=again)
