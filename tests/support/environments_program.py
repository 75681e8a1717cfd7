"""Opens the devices under one environment after the other: see test_no_device.py.

Arguments: JSON, a list of environments, each variables by name. Prints of each the number of
devices and why there is none, as a line of JSON.
"""

from __future__ import annotations

import json
import os
import sys

import tvm_vision.vulkan as vulkan


def main() -> None:
    for environment in json.loads(sys.argv[1]):
        before = dict(os.environ)
        os.environ.update(environment)
        vulkan.shutdown()  # the next use reads the environment
        print(json.dumps([len(vulkan.devices()), vulkan.status()]), flush=True)
        os.environ.clear()
        os.environ.update(before)


if __name__ == "__main__":
    main()
