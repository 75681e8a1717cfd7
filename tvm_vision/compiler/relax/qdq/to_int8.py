"""The pass that puts a quantized network into int8, and when it is taken."""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.target import Target

from ..operators import operator_of
from .rewriter import QdqRewriter
from .rules import RULES


def bytes_wanted(target: Target, way: str) -> bool:
    """What ``CompileOptions.int8`` says for a target."""
    features = ("supports_integer_dot_product", "supports_8bit_buffer", "supports_int8")
    products = all(bool(target.attrs.get(feature, False)) for feature in features)
    return way == "on" or (way == "auto" and products)


def is_quantized(mod: tvm.IRModule) -> bool:
    """Whether ``main`` has numbers that QuantizeLinear rounded."""
    found: list[str] = []
    relax.analysis.post_order_visit(mod["main"], lambda expr: found.append(operator_of(expr)))
    return "relax.quantize" in found


@tvm.transform.module_pass(opt_level=0, name="QuantizedInBytes")
def in_bytes(mod: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
    """A pass over ``main``, see ``rewriter``. Dead bindings are left behind."""
    network = QdqRewriter(mod)
    network.rules = RULES
    network.builder_.update_func(mod.get_global_var("main"), network.rewrite(mod["main"]))
    return network.builder_.get()
