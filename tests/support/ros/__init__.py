"""A ROS graph for tests: the node as a process, its network, cameras, listeners and bags."""
