"""What the compiler made, on a device without a package between; and targets to compile for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import tvm
from tvm.target import Target

from tvm_vision.compiler import CompiledModel, compile_model
from tvm_vision.compiler.compilation import Compilation
from tvm_vision.compiler.pipeline import run
from tvm_vision.compiler.target import parse_target, with_llvm_opt_level
from tvm_vision.devices import known_devices
from tvm_vision.options import CompileOptions
from tvm_vision.runtime import graph_executor

# Where kernels are counted: the same whatever the device of the tests is.
FIXED = Target(known_devices()["lavapipe"].target_config())
# Attributes of a GPU with matrices of fp16 in 16×16×16, beside those of another target.
MATRICES = {
    "keys": ["vulkan", "gpu", "cooperative_matrix_16x16x16"],
    "supports_cooperative_matrix": True,
}
# All that the choice of layout and tiles asks of such a GPU; it computes no matrices here.
MATRIX_GPU = {
    "kind": "vulkan",
    "keys": MATRICES["keys"],
    "max_threads_per_block": 1024,
    "max_shared_memory_per_block": 49152,
    "thread_warp_size": 32,
    "supports_float16": True,
    "supports_16bit_buffer": True,
}


def this_processor() -> Target:
    """For what TVM builds itself: LLVM does as much as the tests' options say."""
    return with_llvm_opt_level(parse_target("llvm"), CompileOptions.of().llvm_opt_level)


def kernels_of(
    module: tvm.IRModule, target: Any, **options: Any
) -> tuple[tvm.IRModule, list[list[str]]]:
    """``main`` as calls of fused functions, before there is a graph, and the nodes in each call."""
    network = Compilation(module, target, CompileOptions.of(options))
    last = "fuse_tir" if network.options.opt_level >= 2 else "name_nodes"
    run(network, last=last)
    return network.module, network.nodes


def executor_of(made: CompiledModel, device: Any = None) -> graph_executor.GraphExecutor:
    """The network on a device, the first Vulkan one if none is given, with its weights."""
    description = {
        "graph": made.graph,
        "inputs": [{"name": spec.name} for spec in made.inputs],
        "outputs": [{"name": spec.name} for spec in made.outputs],
    }
    executor = graph_executor.create(description, made.library.module, device or tvm.vulkan(0))
    executor.load_params(made.params)
    return executor


def results_of(
    module: tvm.IRModule, signature: Any, target: str, arrays: Iterable[np.ndarray], **options: Any
) -> list[np.ndarray]:
    """All results of a module compiled for "vulkan" or "llvm", on that device, for its inputs."""
    device = tvm.device("vulkan" if target == "vulkan" else "cpu")
    executor = executor_of(compile_model(module, signature, target=target, **options), device)
    for number, array in enumerate(arrays):
        executor.set_input(number, array)
    executor.run()
    return [executor.get_output(i).numpy() for i in range(executor.num_outputs)]


def outputs_for(
    executor: graph_executor.GraphExecutor, feeds: Iterable[dict[str, np.ndarray]]
) -> list[dict[str, np.ndarray]]:
    """Outputs by name, for each of some inputs by name."""
    found = []
    for feed in feeds:
        executor.run(**feed)
        found.append(executor.outputs())
    return found


def first_results(
    modules: Iterable[tvm.IRModule], signature: Any, x: np.ndarray
) -> list[np.ndarray]:
    """The first result of each module of one input ``x0``, compiled for Vulkan as it is written."""
    found: list[np.ndarray] = []
    for module in modules:
        executor = executor_of(compile_model(module, signature, target="vulkan", opt_level=0))
        executor.run(x0=x)
        found.append(executor.outputs()["y0"])
    return found
