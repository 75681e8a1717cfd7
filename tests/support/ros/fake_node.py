"""The executable vision_node with the network of fakes.py; run as a program."""

import sys

from tvm_vision_ros.main import main


def load(request):
    # Not before: the test of signals wants a program that starts as fast as the real one.
    from support.ros import fakes

    return fakes.load(request)


if __name__ == "__main__":
    print("started", flush=True)
    sys.exit(main(load=load))
