"""The pass that puts a quantized network into int8, and when it is taken."""

from __future__ import annotations

import tvm
from tvm.target import Target

from .rewriter import QdqRewriter
from .rules import RULES


def bytes_wanted(target: Target, way: str) -> bool:
    """What ``CompileOptions.int8`` says for a target."""
    features = ("supports_integer_dot_product", "supports_8bit_buffer", "supports_int8")
    products = all(bool(target.attrs.get(feature, False)) for feature in features)
    return way == "on" or (way == "auto" and products)


@tvm.transform.module_pass(opt_level=0, name="QuantizedInBytes")
def in_bytes(mod: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
    """A pass over ``main``, see ``rewriter``. Dead bindings are left behind."""
    network = QdqRewriter(mod)
    network.rules = RULES
    network.builder_.update_func(mod.get_global_var("main"), network.rewrite(mod["main"]))
    return network.builder_.get()
