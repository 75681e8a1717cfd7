"""settings.py as parameters of a node: declared with descriptors, checked, and applied."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Any

from rcl_interfaces.msg import (
    FloatingPointRange,
    IntegerRange,
    ParameterDescriptor,
    SetParametersResult,
)
from rclpy.node import Node
from rclpy.parameter import Parameter as RosParameter

from tvm_vision.error_lines import meant
from tvm_vision.errors import InputError

from . import qos_overrides
from .class_settings import PREFIX, split, widened
from .other_parameters import OwnParameters, own_parameters
from .ros_names import resolved
from .settings import START, Parameter, Settings, input_topics, parameters, problem_in


def declare(node: Node) -> Settings:
    """Declare all parameters, with the values given at the start where there are some.

    Raises InputError, naming the parameter, for a value of the wrong type or out of range, and for
    a topic that ROS can make no name of.
    """
    values = {item.name: _declare(node, item) for item in parameters().values()}
    if problem := qos_overrides.problem_in(given(node)):
        raise InputError(problem)
    for name, value in given(node).items():
        # Not where the endpoints are made: while parameters change, none can be declared.
        if name.startswith(qos_overrides.PREFIX):
            node.declare_parameter(name, value, ParameterDescriptor(read_only=True))
    settings = Settings(**values)
    need_topics(node, settings)
    return settings


def need_topics(node: Node, settings: Settings) -> None:
    """Raises InputError, naming the parameter, for a topic that ROS can make no name of."""
    for name, topic in input_topics(settings).items():
        try:
            resolved(node, topic)
        except InputError as error:
            raise InputError(f"{name} must be the name of a topic: {error}") from None


def given(node: Node) -> dict[str, Any]:
    """What was given at the start, by file or argument, known or not."""
    return {name: item.value for name, item in node._parameter_overrides.items()}


def take_others(node: Node) -> OwnParameters:
    """Let parameters by other nodes' names count as ours, and say so; before ``declare``."""
    overrides = node._parameter_overrides
    own = own_parameters(given(node))
    overrides.update({name: RosParameter(name, value=v) for name, v in own.values.items()})
    for line in own.lines:
        node.get_logger().info(line)
    return own


def name_unknown(node: Node, understood: Container[str]) -> None:
    """Say what was given and means nothing here: rclpy passes over it without a word."""
    for name in sorted(given(node)):
        if not (node.has_parameter(name) or name in understood or split(name)):
            hint = meant(name, parameters(), "docs/reference/node.md lists all there are")
            node.get_logger().warning(f"the parameter {name} is not known and ignored: {hint}")


def undeclared(node: Node, names: Iterable[str]) -> str:
    """Why parameters of these names cannot be set, of the first that is not there; "" where all
    are: rclpy's own reason names none."""
    for name in names:
        if node.has_parameter(name):
            continue
        hint = meant(name, node._parameters, "ros2 param list names all there are")
        classes = "of the network in use " if name.startswith(PREFIX) else ""
        return f"{name} is no parameter {classes}here: {hint}"
    return ""


def _declare(node: Node, item: Parameter) -> Any:
    # Without a type first, for rclpy's own refusal of 1 for 1.0 is an exception without a remedy.
    loose = ParameterDescriptor(dynamic_typing=True)
    given = node.declare_parameter(item.name, item.default, loose).value
    node.undeclare_parameter(item.name)
    value = widened(item.name, given)
    problem = item.problem(value)
    if problem:
        raise InputError(problem)
    node.declare_parameter(item.name, value, descriptor(item), ignore_override=True)
    return value


def descriptor(item: Parameter) -> ParameterDescriptor:
    """What tools show: meaning, unit, range."""
    unit = f" [{item.unit}]" if item.unit else ""
    result = ParameterDescriptor(
        name=item.name,
        description=f"{item.description}{unit} A change counts {item.effect}.",
        read_only=item.effect == START,
        additional_constraints=f"One of {item.allowed}." if item.choices else "",
    )
    if item.span is not None:
        low, high = item.span
        if item.kind is int:
            bounds = IntegerRange(from_value=int(low), to_value=int(high), step=0)
            result.integer_range = [bounds]
        else:
            span = FloatingPointRange(from_value=low, to_value=high, step=0.0)
            result.floating_point_range = [span]
    return result


def widen(changes: Iterable[RosParameter]) -> list[RosParameter]:
    """Parameters with 1 as 1.0 where a double is meant."""
    return [RosParameter(item.name, value=widened(item.name, item.value)) for item in changes]


def known_among(changes: Iterable[RosParameter]) -> dict[str, Any]:
    """The values of those that settings.py has, by name."""
    known = parameters()
    return {item.name: item.value for item in changes if item.name in known}


def watch(node: Node, check: Callable[[dict[str, Any]], str]) -> None:
    """Call ``check`` before parameters change.

    check: returns why not, or "", and changes nothing, for others may still refuse.
    """

    def allow(changes: list[RosParameter]) -> SetParametersResult:
        known = known_among(changes)
        problem = problem_in(known) or check(known)
        return SetParametersResult(successful=not problem, reason=problem)

    node.add_on_set_parameters_callback(allow)
