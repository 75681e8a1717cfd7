"""Steps of single values: activations, and what is made of two tensors."""

from __future__ import annotations

from .network import Network, step


@step(2, 3, 4, 5, weight=4)
def activation(net: Network, value: str) -> str | None:
    kind, attributes = net.one_of(
        ("Relu", {}), ("LeakyRelu", {"alpha": 0.1}), ("Sigmoid", {}), ("Tanh", {}),
        ("HardSigmoid", {"alpha": 0.2, "beta": 0.5}), ("HardSwish", {}), ("Elu", {}),
        ("Selu", {}), ("Softplus", {}), ("Softsign", {}), ("Mish", {}), ("Celu", {}),
        ("Abs", {}), ("Neg", {}), ("Erf", {}), ("ThresholdedRelu", {"alpha": 0.3}),
        ("Sin", {}), ("Cos", {}), ("Atan", {}),
    )  # fmt: skip
    return net.add(kind, value, **attributes)


@step(2, 3, 4, 5, weight=2)
def activation_of_parts(net: Network, value: str) -> str | None:
    def silu() -> str | None:
        return net.add("Mul", value, net.add("Sigmoid", value))

    def gelu() -> str | None:
        inner = net.add("Erf", net.add("Div", value, net.constant(2**0.5)))
        outer = net.add("Mul", value, net.add("Add", inner, net.constant(1.0)))
        return net.add("Mul", outer, net.constant(0.5))

    def hard_swish() -> str | None:
        shifted = net.add("Add", value, net.constant(3.0))
        clipped = net.add("Clip", shifted, net.constant(0.0), net.constant(6.0))
        return net.add("Mul", value, net.add("Div", clipped, net.constant(6.0)))

    def prelu() -> str | None:
        shape = [1] * (len(net.shapes[value]) - 1)
        shape[:1] = [net.shapes[value][1]] if shape else []
        return net.add("PRelu", value, net.normal(*shape, scale=0.3))

    def clip() -> str | None:
        return net.add("Clip", value, net.constant(-0.5), net.constant(net.one_of(0.5, 6.0)))

    def root() -> str | None:
        positive = net.add("Add", net.add("Abs", value), net.constant(0.1))
        return net.add(net.one_of("Sqrt", "Log", "Reciprocal"), positive)

    return net.one_of(silu, gelu, hard_swish, prelu, clip, root)()


@step(2, 3, 4, 5, weight=4)
def with_another(net: Network, value: str) -> str | None:
    """Element by element, with a tensor or a constant of a shape that is broadcast."""
    shape = net.shapes[value]
    others = [other for other in net.others(shape) if other != value]
    if others and net.maybe(0.6):
        other = net.one_of(*others)
    else:
        sizes = [net.one_of(size, size, 1) for size in shape]
        other = net.normal(*sizes[net.between(0, len(sizes) - 1) :])
    operator = net.one_of("Add", "Add", "Add", "Mul", "Mul", "Sub", "Max", "Min", "Div")
    if operator == "Div":
        other = net.add("Add", net.add("Abs", other), net.constant(1.0))
        return net.add("Div", value, other)
    return net.add(operator, *net.one_of((value, other), (other, value)))


@step(2, 3, 4, 5, weight=2)
def chosen(net: Network, value: str) -> str | None:
    """Where a condition holds, one of two."""
    others = net.others(net.shapes[value])
    condition = net.add(net.one_of("Greater", "LessOrEqual"), value, net.constant(0.1))
    return net.add("Where", condition, net.one_of(*others), net.add("Neg", value))
