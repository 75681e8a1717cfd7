"""fake_node.py on what Humble's rclpy 3.3 has: what came later is taken away, by its source."""

import sys
import types

import rclpy.event_handler
import rclpy.lifecycle.node
import rclpy.node

from support.ros.fake_node import load


def take_away() -> None:
    """Modules, methods and checks that came with rclpy 4 to 9."""
    former = types.ModuleType("rclpy.qos_event")
    for name in (
        "PublisherEventCallbacks",
        "SubscriptionEventCallbacks",
        "UnsupportedEventTypeError",
    ):
        setattr(former, name, getattr(rclpy.event_handler, name))
    sys.modules["rclpy.qos_event"] = former
    sys.modules["rclpy.event_handler"] = None  # type: ignore[assignment]
    for moment in ("pre", "post"):
        delattr(rclpy.node.Node, f"add_{moment}_set_parameters_callback")
        delattr(rclpy.node.Node, f"remove_{moment}_set_parameters_callback")
    let_impossible_transitions_raise(rclpy.lifecycle.node.LifecycleNodeMixin)


def let_impossible_transitions_raise(kind: type) -> None:
    """As Jazzy's do, too."""
    name = "_LifecycleNodeMixin__change_state"
    change = getattr(kind, name)

    def change_or_raise(node, transition):
        machine = node._state_machine
        if transition not in (one[0] for one in machine.available_transitions):
            raise RuntimeError("Transition is not registered.")
        return change(node, transition)

    setattr(kind, name, change_or_raise)


if __name__ == "__main__":
    take_away()
    from tvm_vision_ros.main import main

    sys.exit(main(load=load))
