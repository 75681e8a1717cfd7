"""A ROS graph for tests: the node as a process, its network, cameras, listeners and bags."""

# So started, a node asks again for an image that was sent before it knew of the camera.
SURE = "input_reliability:=reliable"
