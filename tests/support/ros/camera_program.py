"""A camera in a process of its own: images of WIDTH x HEIGHT, best effort, 30 times a second."""

import sys
from array import array

import rclpy
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import Image

from tvm_vision_ros.stop import Stop

if __name__ == "__main__":
    width, height = map(int, sys.argv[1:])
    stop = Stop()
    stop.on_signals()
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    node = rclpy.create_node("driver")
    quality = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
    publisher = node.create_publisher(Image, "image", quality)
    data = array("B", bytes(3 * width * height))
    message = Image(height=height, width=width, encoding="bgr8", step=3 * width, data=data)
    while not stop.wait(timeout=1 / 30):
        message.header.stamp = node.get_clock().now().to_msg()
        publisher.publish(message)
    node.destroy_node()
    rclpy.try_shutdown()
