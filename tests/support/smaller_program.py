"""Loads packages onto a device that is described as smaller than it is: see
test_smaller_devices.py.

Arguments: a folder of packages, and JSON, a list of [package, limits as smaller_loader.cc has
them]. The environment says
that TVM_VISION_VULKAN_LOADER is tests/vulkan/cpp/smaller_loader.cc. Prints a line for each: "runs",
or the error.
"""

from __future__ import annotations

import json
import os
import sys

import tvm_vision
import tvm_vision.vulkan as vulkan
from tvm_vision.errors import TvmVisionError


def main() -> None:
    folder, rows = sys.argv[1], json.loads(sys.argv[2])
    for package, limits in rows:
        os.environ["SMALLER_LOADER"] = limits
        vulkan.shutdown()  # the next use asks the device again
        try:
            tvm_vision.load(f"{folder}/{package}")
            print("runs", flush=True)
        except TvmVisionError as error:
            print(f"{type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    main()
