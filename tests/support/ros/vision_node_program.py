"""The executable vision_node as a program."""

import sys

from tvm_vision_ros.main import main

if __name__ == "__main__":
    sys.exit(main())
