"""The ROS 2 node ``vision_node``: sensor_msgs/Image in, detections and masks out.

Only node.py, ros_*.py and main.py import ROS; everything else is tested without it.
"""
