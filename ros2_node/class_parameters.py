"""class_settings.py as parameters of a node: those of the classes of the network in use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rcl_interfaces.msg import SetParametersResult
from rclpy.node import Node
from rclpy.parameter import Parameter as RosParameter

from tvm_vision.error_lines import meant
from tvm_vision.models.class_options import ClassOptions

from .class_settings import PREFIX, ClassSettings, parameters_of, problem_in, split, widened
from .ros_parameters import descriptor


class ClassParameters:
    """Declared when a network is there; values given before wait for one that has the class."""

    def __init__(
        self, node: Node, quiet: frozenset[str], changed: Callable[[dict[str, ClassOptions]], Any]
    ) -> None:
        """quiet: names of given parameters that nobody wrote, of classes that may not be there.
        changed: gets the options of the network in use when one of them changed.

        Raises InputError for a value of the wrong type or out of range.
        """
        self._node, self._changed = node, changed
        self._settings = ClassSettings()
        self._names: tuple[str, ...] = ()
        self._declared: list[str] = []
        self._quiet = {split(name) for name in quiet}
        overrides = node._parameter_overrides.items()
        self._settings.set({name: widened(name, item.value) for name, item in overrides})
        node.add_on_set_parameters_callback(self._allow)

    def open(self, class_names: tuple[str, ...]) -> dict[str, ClassOptions]:
        """Have the parameters of these classes and no others; returns their options."""
        if class_names != self._names:
            self._names = class_names
            self._tell_unknown()
            self._declare()
        return self._settings.options(class_names)

    def _declare(self) -> None:
        for name in self._declared:
            self._node.undeclare_parameter(name)
        self._declared = []
        for item in parameters_of(self._names):
            found = split(item.name)
            assert found is not None
            value = self._settings.value(*found)
            self._node.declare_parameter(item.name, value, descriptor(item), ignore_override=True)
            self._declared.append(item.name)

    def _tell_unknown(self) -> None:
        quiet = {found[0] for found in self._quiet if found is not None}
        for name in self._settings.unknown(self._names):
            if name in quiet:
                continue
            hint = meant(name, self._names, f"it has {', '.join(self._names[:12]) or 'none'}")
            self._node.get_logger().warning(
                f"the parameters {PREFIX}{name}.* are of no class of the network in use: {hint}"
            )

    def _allow(self, changes: list[RosParameter]) -> SetParametersResult:
        problem = problem_in({item.name: item.value for item in changes})
        return SetParametersResult(successful=not problem, reason=problem)

    def apply(self, changes: list[RosParameter]) -> None:
        """After parameters were set."""
        if self._settings.set({item.name: item.value for item in changes}):
            self._changed(self._settings.options(self._names))
