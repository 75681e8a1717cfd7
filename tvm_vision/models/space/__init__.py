"""Where in space things are that an image shows: by depth, by the ground, by their known size.

camera.py: pixels to rays; objects.py: boxes to places; ground.py: pixels to points on the ground;
poses.py: from one frame to another. Metres and numpy's float64 throughout; camera frames are
optical ones (x right, y down, z forward; ROS REP 103).
"""
