"""Runs a network while the loader does something wrong, and prints what the validation layer says.

Arguments: a folder with network.tar and x.npy, the loader that fails, and what it does wrong, one
after the other ("" for nothing). Prints the messages of each as JSON.
"""

from __future__ import annotations

import ctypes
import json
import sys

import numpy as np

import tvm_vision
import tvm_vision.vulkan as vulkan


def main() -> None:
    folder, path, *faults = sys.argv[1:]
    loader = ctypes.CDLL(path)
    said = {}
    for wrong in faults:
        loader.faulty_plant(wrong.encode())
        executor = tvm_vision.load(f"{folder}/network.tar")
        executor.run(input=np.load(f"{folder}/x.npy"))
        del executor
        vulkan.shutdown()
        said[wrong] = vulkan.validation_messages()
    print(json.dumps(said))


main()
