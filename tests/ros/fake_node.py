"""The executable vision_node with the network of fakes.py; run as a program."""

import signal
import sys
import threading

import fakes

from tvm_vision_ros.main import prepare_environment, run

if __name__ == "__main__":
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    prepare_environment()
    sys.exit(run(sys.argv, stop, load=fakes.load))
