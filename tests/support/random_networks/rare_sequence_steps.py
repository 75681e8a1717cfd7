"""Steps of sequences that fewer networks have, and of sums in unusual order."""

from __future__ import annotations

from typing import Any

from onnx import TensorProto

from .network import Network, step


@step(3, weight=2)
def recurrent(net: Network, value: str) -> str | None:
    """Time first, as ONNX has it."""
    count, batch, features = net.shapes[value]
    if count > 40:
        return None
    kind, gates = net.one_of(("LSTM", 4), ("GRU", 3), ("RNN", 1))
    hidden = net.one_of(3, 8, 33)
    direction = net.one_of("forward", "reverse", "bidirectional")
    ways = 2 if direction == "bidirectional" else 1
    inputs = [
        value,
        net.normal(ways, gates * hidden, features, scale=features**-0.5),
        net.normal(ways, gates * hidden, hidden, scale=hidden**-0.5),
    ]
    if net.maybe():
        inputs.append(net.normal(ways, 2 * gates * hidden, scale=0.3))
        if net.maybe():
            inputs += ["", net.normal(ways, batch, hidden)]
    attributes: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
    if kind == "GRU":
        attributes["linear_before_reset"] = int(net.maybe())
    found = net.add(kind, *inputs, outputs=3 if kind == "LSTM" else 2, **attributes)
    if found is None:
        return None
    if net.maybe(0.3):
        return str(found[1])
    turned = net.add("Transpose", found[0], perm=[0, 2, 1, 3])
    return net.add("Reshape", turned, net.whole(count, batch, ways * hidden))


@step(3, 4, weight=2)
def einsum(net: Network, value: str) -> str | None:
    shape = net.shapes[value]
    if len(shape) == 3:
        batch, count, features = shape
        equation, other = net.one_of(
            ("bnc,dc->bnd", (5, features)), ("bnc,bmc->bnm", (batch, 7, features)),
            ("bnc,nm->bmc", (count, 4)), ("bnc,bnd->bcd", (batch, count, 3)),
            ("bnc,c->bn", (features,)), ("...c,cd->...d", (features, 6)),
            ("bnc,hcd->bhnd", (2, features, 3)),
        )  # fmt: skip
    else:
        batch, channels, height, width = shape
        equation, other = net.one_of(
            ("bchw,oc->bohw", (5, channels)), ("bchw,bkhw->bkc", (batch, 3, height, width)),
            ("bchw,hk->bckw", (height, 4)), ("bchw,kwc->bkhc", (3, width, channels)),
            ("bhqd,bhkd->bhqk", (batch, channels, 5, width)),
        )  # fmt: skip
    return net.add("Einsum", value, net.normal(*other, scale=0.3), equation=equation)


@step(2, 3, 4, 5)
def with_itself(net: Network, value: str) -> str | None:
    """Gram matrices: both sides of a product are computed."""
    rank = len(net.shapes[value])
    order = [*range(rank - 2), rank - 1, rank - 2]
    turned = net.add("Transpose", value, perm=order)
    product = net.add("MatMul", *net.one_of((value, turned), (turned, value)))
    return net.add("Mul", product, net.constant(0.1))


@step(3, 4)
def broadcast_product(net: Network, value: str) -> str | None:
    """Matrices of one side stand for all of the other's, or are a vector."""
    shape = net.shapes[value]
    features = shape[-1]
    other = net.one_of(
        (2, 1, features, 5) if len(shape) == 3 else (features, 5), (1, features, 3), (features,),
        (shape[0], *[1] * (len(shape) - 3), features, 4),
    )  # fmt: skip
    if net.maybe(0.3):
        return net.add("MatMul", net.normal(3, shape[-2], scale=0.3), value)
    return net.add("MatMul", value, net.normal(*other, scale=0.3))


@step(2, 3, 4, 5)
def reduced_otherwise(net: Network, value: str) -> str | None:
    rank = len(net.shapes[value])
    axes = [axis for axis in range(rank) if net.maybe(0.4)]
    kind = net.one_of(
        "ReduceL1", "ReduceLogSumExp", "ReduceSumSquare", "ReduceProd", "ReduceLogSum"
    )
    scaled = net.add("Mul", value, net.constant(0.1))
    if kind == "ReduceLogSum":
        scaled = net.add("Add", net.add("Abs", scaled), net.constant(0.1))
    if not axes and net.maybe(0.3):
        return net.add(kind, scaled, net.whole(), keepdims=1, noop_with_empty_axes=1)
    axes = axes or [net.between(-rank, -1)]
    return net.add(
        kind, scaled, net.whole(*axes), keepdims=int(rank - len(axes) < 2 or net.maybe())
    )


@step(2, 3, 4, 5)
def sums_so_far(net: Network, value: str) -> str | None:
    rank = len(net.shapes[value])
    return net.add(
        "CumSum", value, net.constant(net.between(-rank, rank - 1), "int64"),
        exclusive=int(net.maybe()), reverse=int(net.maybe()),
    )  # fmt: skip


@step(2, 3, 4, 5)
def activation_otherwise(net: Network, value: str) -> str | None:
    kind, attributes = net.one_of(
        ("Gelu", {}), ("Gelu", {"approximate": "tanh"}), ("Shrink", {"lambd": 0.3, "bias": 0.1}),
        ("Hardmax", {"axis": -1}), ("Exp", {}), ("Sinh", {}), ("Asinh", {}), ("Cosh", {}),
        ("Tan", {}), ("Identity", {}), ("Softmax", {"axis": 0}), ("Not a number", {}),
    )  # fmt: skip
    if kind == "Not a number":
        broken = net.add("Div", net.add("Relu", value), net.add("Relu", value))
        none = net.add("IsNaN", broken)
        return net.add("Where", none, net.constant(0.0), net.constant(1.0))
    calm = value if kind in ("Gelu", "Shrink", "Hardmax") else net.add("Tanh", value)
    return net.add(kind, calm, **attributes)


@step(2, 3, 4, 5)
def clipped_on_one_side(net: Network, value: str) -> str | None:
    bound = net.constant(net.one_of(0.2, -0.3))
    return net.add("Clip", value, *net.one_of((bound,), ("", bound), (bound, bound), ()))


@step(2, 3, 4, 5)
def several(net: Network, value: str) -> str | None:
    """Operators of any number of inputs, and powers."""
    others = net.others(net.shapes[value])
    if net.maybe(0.3):
        power = net.one_of(net.constant(3.0), net.constant(2, "int64"), net.constant(0.5))
        return net.add("Pow", net.add("Abs", value), power)
    inputs = [value, *(net.one_of(*others) for _ in range(net.between(0, 3)))]
    return net.add(net.one_of("Sum", "Mean", "Max", "Min"), *inputs)


@step(2, 3, 4, 5)
def through_another_type(net: Network, value: str) -> str | None:
    """Double, as a part of a network may be kept in. What half rounds is not compared here."""
    other = net.add("Cast", value, to=TensorProto.DOUBLE)
    changed = net.one_of(
        lambda: net.add("Mul", other, other),
        lambda: net.add("Sqrt", net.add("Abs", other)),
        lambda: net.add("Sub", net.add("Tanh", other), net.constant(0.5, "float64")),
    )()
    return net.add("Cast", changed, to=TensorProto.FLOAT)


@step(2, 3, 4, 5)
def flattened(net: Network, value: str) -> str | None:
    rank = len(net.shapes[value])
    return net.add("Flatten", value, axis=net.between(1 - rank, rank - 1))


@step(3, 4, 5)
def split_evenly(net: Network, value: str) -> str | None:
    """By a number of parts: the last one may be smaller."""
    shape = net.shapes[value]
    axis = net.between(0, len(shape) - 1)
    count = net.between(2, 4)
    if shape[axis] < 2 * count:
        return None
    parts = net.add("Split", value, outputs=count, axis=axis, num_outputs=count)
    return parts and str(parts[net.between(0, count - 1)])
