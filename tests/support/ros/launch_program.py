"""What ``ros2 launch FILE name:=value ...`` does, without ros2cli."""

import sys

from launch import LaunchService
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource

if __name__ == "__main__":
    path, *values = sys.argv[1:]
    service = LaunchService(noninteractive=True)
    service.include_launch_description(
        IncludeLaunchDescription(
            PythonLaunchDescriptionSource(path),
            launch_arguments=[tuple(value.split(":=", 1)) for value in values],
        )
    )
    sys.exit(service.run())
