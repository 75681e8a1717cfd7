"""Compiling for the CPU; the same on Vulkan devices is in tests/vulkan."""

import numpy as np
import tvm
from tvm import relax

from tvm_vision.compiler.relax_vm import compile_relax
from tvm_vision.compiler.target import parse_target

SEED = 11


def test_a_compiled_module_gives_numpys_result():
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([3, 5], "float32"))
    weight = np.random.default_rng(SEED).standard_normal((5, 2)).astype(np.float32)
    with builder.function("main", [x]):
        with builder.dataflow():
            product = builder.emit(relax.op.matmul(x, relax.const(weight)))
            result = builder.emit_output(relax.op.nn.relu(product))
        builder.emit_func_output(result)
    executable = compile_relax(builder.get(), parse_target("llvm"))
    data = np.random.default_rng(SEED + 1).standard_normal((3, 5)).astype(np.float32)
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    result = main(tvm.runtime.tensor(data)).numpy()
    np.testing.assert_allclose(result, np.maximum(data @ weight, 0), rtol=1e-5, atol=1e-6)
