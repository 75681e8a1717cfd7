"""Starts the vision node: ros2 launch tvm_vision vision.launch.py model:=/path/to/yoeo.tar

Every argument is listed by: ros2 launch tvm_vision vision.launch.py --show-args
"""

import os

from ament_index_python.packages import get_package_share_directory
from launch import LaunchContext, LaunchDescription
from launch.actions import (
    DeclareLaunchArgument,
    EmitEvent,
    OpaqueFunction,
    RegisterEventHandler,
    SetEnvironmentVariable,
)
from launch.event_handlers import OnProcessExit
from launch.events import matches_action
from launch.events.process import ProcessExited, ShutdownProcess
from launch.logging import get_logger
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

from tvm_vision_ros.main import WRONG_START, profile_variables

# rcl ends the process with it where RMW_IMPLEMENTATION names what is not installed.
WRONG_MIDDLEWARE = 102
SHARE = get_package_share_directory("tvm_vision")

# Name -> default, meaning.
ARGUMENTS = {
    "model": ("", "The network: a package (.tar or folder) or a folder with model_config.yaml."),
    "params_file": (
        os.path.join(SHARE, "config", "yoeo.yaml"),
        "YAML file of parameters; the arguments here count over it.",
    ),
    "namespace": ("", "Of the node and its topics."),
    "name": ("vision", "Of the node."),
    "cameras": (
        "",
        "Names as left,right: a node for each, in the namespace of its name, in one process with "
        "one network; namespace and name do not count then.",
    ),
    "image": ("image", "Topic of the camera's images."),
    "image_transport": ("", "raw or compressed; empty: as the file of parameters says."),
    "camera": (
        "",
        "A camera for the node to open itself, in the place of the topic: /dev/video0, a video, "
        "rtsp://...; empty: as the file of parameters says.",
    ),
    "device": ("", "auto, vulkan or cpu; empty: as the file of parameters says."),
    "autostart": ("true", "Configure and activate without a lifecycle manager."),
    "debug": ("true", "Have the topic debug_image; it costs nothing while nobody listens."),
    "log_level": ("info", "debug, info, warn, error or fatal."),
    "respawn": (
        "true",
        "Start the node again when it dies; not after wrong parameters, which stay wrong.",
    ),
    "respawn_delay": ("2.0", "Seconds before that."),
    "dds_profile": (
        os.path.join(SHARE, "config", "fastdds.xml"),
        "Profile of Fast DDS that lets large images through; empty: none. One that is set in the "
        "environment stays. The camera's process needs it as well.",
    ),
}


def generate_launch_description():
    declared = [
        DeclareLaunchArgument(name, default_value=default, description=meaning)
        for name, (default, meaning) in ARGUMENTS.items()
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=actions)])


def actions(context: LaunchContext):
    """The environment and the node, as the arguments want them."""
    values = {name: LaunchConfiguration(name).perform(context) for name in ARGUMENTS}
    check(values)
    profile = values["dds_profile"]
    names = profile_variables()
    chosen = profile and not any(name in os.environ for name in names)
    environment = [SetEnvironmentVariable(name, profile) for name in names if chosen]
    node = vision_node(values)
    after_exit = RegisterEventHandler(OnProcessExit(target_action=node, on_exit=exited))
    return [*environment, after_exit, node]


def check(values):
    """Say what an argument must be; launch itself passes over a file that is not there."""
    for name in ("autostart", "debug", "respawn"):
        if values[name].lower() not in ("true", "false"):
            raise RuntimeError(f"{name} must be true or false, found '{values[name]}'")
    try:
        float(values["respawn_delay"])
    except ValueError:
        found = values["respawn_delay"]
        raise RuntimeError(f"respawn_delay must be in seconds, found '{found}'") from None
    if not os.path.isfile(values["params_file"]):
        raise RuntimeError(f"params_file must be a file, found '{values['params_file']}'")


def exited(event: ProcessExited, context: LaunchContext):
    """Leave the node alone where another start would end the same way, and all others running."""
    if event.returncode not in (WRONG_START, WRONG_MIDDLEWARE):
        return None
    get_logger(event.process_name).error(
        f"exit code {event.returncode}: it is not started again, for it would end the same way; "
        "correct what it said above"
    )
    return [EmitEvent(event=ShutdownProcess(process_matcher=matches_action(event.action)))]


def vision_node(values):
    # Only what was said: an empty argument leaves what the file of parameters says.
    parameters = {
        "autostart": values["autostart"].lower() == "true",
        "publish_debug_image": values["debug"].lower() == "true",
    }
    # As text, whatever they look like: launch makes a number of 0.
    parameters |= {
        name: ParameterValue(values[name], value_type=str)
        for name in ("model", "device", "image_transport", "camera")
        if values[name]
    }
    cameras = values["cameras"]
    return Node(
        package="tvm_vision",
        executable="vision_node",
        # Each of several nodes in a process has its own.
        name=None if cameras else values["name"],
        namespace=None if cameras else values["namespace"],
        output="screen",
        emulate_tty=True,
        parameters=[values["params_file"], parameters],
        # A remap, so that it also holds in a namespace and when a parameter names another topic.
        remappings=[
            ("image", values["image"]),
            ("image/compressed", f"{values['image']}/compressed"),
        ],
        arguments=[
            *(["--cameras", cameras] if cameras else []),
            "--ros-args",
            "--log-level",
            values["log_level"],
        ],
        respawn=values["respawn"].lower() == "true",
        # launch starts it again before it hears of the exit code, where it does not wait at all.
        respawn_delay=max(float(values["respawn_delay"]), 0.1),
    )
