"""Code written for TVM's former graph executor, with one changed import.

python examples/former_graph_executor.py
"""

import tempfile
from pathlib import Path

import numpy as np
import tvm
from small_network import SIZE, write_network

import tvm_vision
from tvm_vision.package import unpack_package
from tvm_vision.runtime import graph_executor  # was: from tvm.contrib import graph_executor

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    package = tvm_vision.compile(write_network(folder / "colors.onnx"), folder / "colors.tar")
    unpack_package(package, folder / "colors")

    lib = tvm.runtime.load_module(str(folder / "colors" / "mod.so"))
    graph_json = (folder / "colors" / "mod.json").read_text()
    params = (folder / "colors" / "mod.params").read_bytes()
    device = tvm.vulkan(0) if tvm.vulkan(0).exist else tvm.cpu(0)

    module = graph_executor.create(graph_json, lib, device)
    module.load_params(params)
    module.set_input(image=np.ones((1, 3, SIZE, SIZE), np.float32))
    module.run()
    print(device, module.get_output(0).numpy())
