"""Two cameras, one network: ros2 launch tvm_vision two_cameras.launch.py model:=/path/to/yoeo.tar

The network is loaded once, and looks at an image of one camera and of the other in turns. Images
come on /left/image and /right/image, results go to /left/detections and /right/detections; all
arguments of vision.launch.py count.
"""

import os

from ament_index_python.packages import get_package_share_directory
from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource

LAUNCH = os.path.join(get_package_share_directory("tvm_vision"), "launch")


def generate_launch_description():
    cameras = DeclareLaunchArgument(
        "cameras", default_value="left,right", description="Names of the cameras."
    )
    path = os.path.join(LAUNCH, "vision.launch.py")
    return LaunchDescription(
        [cameras, IncludeLaunchDescription(PythonLaunchDescriptionSource(path))]
    )
