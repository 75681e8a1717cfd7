"""The executable vision_node: starts ROS and the node, and ends cleanly whenever it is told to."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import threading
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from .dds_profile import dds_profile, profile_variables
from .stop import Stop

# A frame, or a network that is being loaded, may take as long; then the process ends anyway.
PATIENCE_SECONDS = 10.0
# The exit code where another start would end the same way: wrong parameters, or no ROS.
WRONG_START = os.EX_CONFIG
HIGHEST_DOMAIN = 232
# Of a namespace.
NAME = re.compile(r"[A-Za-z]\w*", re.ASCII)
USAGE = """\
usage: vision_node [--cameras NAME,NAME] [--ros-args -p NAME:=VALUE ... -r FROM:=TO ...]

One network over the images of a camera, or of several that share it. The parameter model is the
path of a package:

  vision_node --ros-args -p model:=/path/to/yoeo.tar -r image:=/camera/image_raw

docs/reference/node.md has all parameters, topics and services."""
# Those that node.py imports; further messages are imported when they are published.
ROS_PACKAGES = (
    "rclpy",
    "diagnostic_msgs.msg",
    "lifecycle_msgs.srv",
    "rcl_interfaces.msg",
    "sensor_msgs.msg",
    "std_msgs.msg",
    "std_srvs.srv",
)


def main(arguments: Sequence[str] | None = None, **options: Any) -> int:
    """Run until SIGINT, SIGTERM or SIGHUP; returns the exit code.

    It is 0 then, 1 after an error that nobody expected, and WRONG_START, with one line, where the
    node cannot run as it was started. options: of VisionNode.
    """
    stop = Stop()
    stop.on_signals()
    prepare_environment()
    # As all of tvm_vision, not before the environment is prepared.
    from tvm_vision.standard_streams import open_closed

    open_closed()
    return run(sys.argv if arguments is None else arguments, stop, **options)


def prepare_environment() -> None:
    """What must be set before ROS and TVM are imported; what is set already stays."""
    # The compiler is not needed, and takes half a second and 100 MB.
    os.environ.setdefault("TVM_USE_RUNTIME_LIB", "1")
    # Large images do not fit into the shared memory of Fast DDS as it is by default.
    profile = dds_profile()
    names = profile_variables()
    if profile is not None and not any(name in os.environ for name in names):
        os.environ.update(dict.fromkeys(names, str(profile)))
    if not os.environ.get("HOME") and not os.environ.get("ROS_HOME"):
        # rcl has to write its log somewhere.
        os.environ.setdefault("ROS_LOG_DIR", os.path.join(tempfile.gettempdir(), "ros-log"))


def run(arguments: Sequence[str], stop: Stop, **options: Any) -> int:
    """The node from ``rclpy.init`` to its end, until ``stop``; options: of VisionNode."""
    if stop.requested:
        return 0
    # These import TVM: not before the environment is prepared.
    from tvm_vision.errors import TvmVisionError

    from .reasons import one_line

    if {"-h", "--help"} & set(arguments):
        print(USAGE)
        return 0
    try:
        nodes = make_nodes(arguments, **options)
    except TvmVisionError as error:
        print(f"vision_node: {one_line(error)}", file=sys.stderr)
        return WRONG_START
    from rclpy.executors import SingleThreadedExecutor

    from .ros_spinning import Spinning
    from .service_manager import ServiceManager, attend_in_executor

    service = ServiceManager(os.environ)
    executor = SingleThreadedExecutor()
    for node in nodes:
        executor.add_node(node)
        node.start()
    attend_in_executor(service, nodes)
    # Not in this thread: signals are handled here, at once, whatever the executor waits for. And an
    # error that nobody handled ends the node: one that answers no more would be worse, and a launch
    # file can start another.
    spinning = Spinning(executor, at_end=stop.request)
    stop.wait()
    service.stopping()
    finish(spinning, nodes)
    if spinning.fault:
        print(spinning.fault, file=sys.stderr)
        return 1
    return 0


def cameras_in(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The names behind ``--cameras``, "left,right", and the arguments without them.

    Raises InputError for names that ROS does not take.
    """
    from tvm_vision.errors import InputError

    if "--cameras" not in arguments:
        return [], list(arguments)
    at = list(arguments).index("--cameras")
    text = "".join(arguments[at + 1 : at + 2])
    names = text.split(",")
    if len(set(names)) < len(names) or not all(map(NAME.fullmatch, names)):
        raise InputError(f"--cameras must be different names as left,right, found '{text}'")
    return names, [*arguments[:at], *arguments[at + 2 :]]


def make_nodes(arguments: Sequence[str], **options: Any) -> list[Any]:
    """ROS and a node, or with ``--cameras`` one for each that share their network.

    Raises InputError for what is missing, and for wrong arguments.
    """
    from tvm_vision.errors import InputError, TvmVisionError

    require_ros("vision_node")
    domain = os.environ.get("ROS_DOMAIN_ID", "")
    if domain.isdigit() and int(domain) > HIGHEST_DOMAIN:
        # Fast DDS ends the process with a calculation of ports.
        raise InputError(f"ROS_DOMAIN_ID must be in 0 to {HIGHEST_DOMAIN}, found {domain}")
    import rclpy
    from rclpy.exceptions import NameValidationException, ParameterException
    from rclpy.signals import SignalHandlerOptions
    from rclpy.utilities import remove_ros_args

    from .library_log import log_into
    from .model_loader import load_and_warm
    from .node import VisionNode
    from .reasons import without_places
    from .sharing import SharedNetworks, Turns

    names, others = cameras_in(arguments)
    try:
        # rclpy's own handlers would end the context under the node's feet.
        rclpy.init(args=others, signal_handler_options=SignalHandlerOptions.NO)
    except RuntimeError as error:
        if type(error).__name__ == "UnknownROSArgsError":  # which has no public name
            raise InputError(
                "arguments of ROS are needed as '-p NAME:=VALUE' for parameters and '-r FROM:=TO' "
                f"for names, found {error}: put -p or -r before them"
            ) from None
        # A file of parameters, an argument or a variable of the environment.
        raise InputError(f"ROS cannot be started: {without_places(str(error))}") from None
    # Behind the program's name. Passed over they would look as if they counted.
    if unknown := remove_ros_args(others)[1:]:
        rclpy.try_shutdown()
        raise InputError(
            "arguments behind --ros-args, or --cameras, are needed, found "
            f"'{unknown[0]}': see vision_node --help"
        )
    try:
        if names:
            networks, turns = SharedNetworks(options.pop("load", load_and_warm)), Turns()
            nodes = [
                VisionNode(networks.loader(), turns, namespace=name, **options) for name in names
            ]
        else:
            nodes = [VisionNode(**options)]
    except (TvmVisionError, ParameterException) as error:
        rclpy.try_shutdown()
        raise InputError(str(error)) from None
    except (NameValidationException, RuntimeError) as error:
        rclpy.try_shutdown()
        if not (isinstance(error, NameValidationException) or "creating node" in str(error)):
            raise
        # The namespace, the name, or both with what ROS puts behind them.
        reason = without_places(str(error)).partition(":\n")[0]
        raise InputError(f"ROS takes no such node: {reason}: give it another name") from None
    log_into(nodes[0].get_logger())
    return nodes


def require_ros(what: str) -> None:
    """Raises InputError where ROS 2 or one of its packages that the node needs is missing."""
    from tvm_vision.errors import InputError

    for package in ROS_PACKAGES:
        try:
            import_module(package)
        except ImportError as error:
            raise InputError(
                f"{what} needs ROS 2, and {package} cannot be imported ({error}): source "
                "/opt/ros/$ROS_DISTRO/setup.bash, or, without ROS, make ros"
            ) from None


def finish(spinning: Any, nodes: Sequence[Any]) -> None:
    """End the executor, then the nodes, then ROS; and the process where one of them hangs."""
    import rclpy

    watchdog = threading.Timer(PATIENCE_SECONDS, os._exit, (0,))
    watchdog.daemon = True
    watchdog.start()
    spinning.end()
    for node in nodes:
        node.end()
    rclpy.try_shutdown()
    watchdog.cancel()


if __name__ == "__main__":
    sys.exit(main())
