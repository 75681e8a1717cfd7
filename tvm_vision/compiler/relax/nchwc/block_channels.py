"""The pass that keeps channels in blocks."""

from __future__ import annotations

import tvm

from ..winograd_cost import Choice
from .rewriter import NchwcRewriter
from .rules import RULES


def block_channels(block: int, winograd: Choice = lambda layer: None) -> tvm.transform.Pass:
    """A pass over ``main``: channels in blocks of ``block``, see ``rewriter``.

    winograd: the size of Winograd's tiles for a convolution that can have them, None for none.

    Tensors with another number of channels are filled up. Inputs and outputs keep their order.
    """

    @tvm.transform.module_pass(opt_level=0, name="BlockChannels")
    def rewrite(mod: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
        blocks = NchwcRewriter(mod)
        blocks.block, blocks.rules, blocks.winograd = block, RULES, winograd
        blocks.builder_.update_func(mod.get_global_var("main"), blocks.rewrite(mod["main"]))
        return blocks.builder_.get()

    return rewrite
