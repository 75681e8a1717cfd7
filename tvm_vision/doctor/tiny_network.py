"""The network of the self-test, convolution, Relu, mean and product: on the device, and by numpy.

A Relax module from the start: ONNX's own tools take longer to come up than the whole test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ..runtime.graph_executor import GraphExecutor

SIZE = (1, 3, 32, 32)
_RANDOM = np.random.default_rng(2)
FILTERS = _RANDOM.standard_normal((16, 3, 3, 3), np.float32)
MATRIX = _RANDOM.standard_normal((16, 8), np.float32)


def compiled() -> GraphExecutor:
    """The network on the first Vulkan device; ``x``, float32[1, 3, 32, 32], gives float32[1, 8].

    Made here and now, no kernel of it kept: the compiler is examined, too. Raises what
    ``compile_model`` and ``graph_executor.create`` raise.
    """
    import tvm
    from tvm import relax

    from ..compiler import compile_model
    from ..frontend.signature import Signature, spec_of
    from ..runtime import graph_executor

    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(SIZE, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            conv = builder.emit(relax.op.nn.conv2d(x, relax.const(FILTERS), padding=1))
            mean = builder.emit(relax.op.mean(builder.emit(relax.op.nn.relu(conv)), [2, 3]))
            y = builder.emit_output(relax.op.matmul(mean, relax.const(MATRIX)))
        builder.emit_func_output(y)
    signature = Signature((spec_of("x", x.ty),), (spec_of("y", y.ty),))
    made = compile_model(
        builder.get(), signature, target="vulkan", options={"kernel_cache": False}
    )  # fmt: skip
    description = {
        "graph": made.graph,
        "inputs": [{"name": spec.name} for spec in made.inputs],
        "outputs": [{"name": spec.name} for spec in made.outputs],
    }
    executor = graph_executor.create(description, made.library.module, tvm.vulkan(0))
    executor.load_params(made.params)
    return executor


def reference(x: np.ndarray) -> np.ndarray:
    """What the network has to give for x, computed by numpy in float64."""
    padded = np.pad(x[0].astype(np.float64), ((0, 0), (1, 1), (1, 1)))
    conv = np.zeros((len(FILTERS), *SIZE[2:]))
    for i, j in np.ndindex(3, 3):
        shifted = padded[:, i : i + SIZE[2], j : j + SIZE[3]]
        conv += np.einsum("chw,oc->ohw", shifted, FILTERS[:, :, i, j])
    return (np.maximum(conv, 0.0).mean((1, 2)) @ MATRIX)[np.newaxis]
