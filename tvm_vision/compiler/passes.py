"""Relax passes: from the operators of a model to the kernels that its main function calls.

What each optimisation level does, every one with all that the levels below it do:

0. each operator becomes a kernel (or none, where it only reshapes); nothing is rewritten;
1. what depends on constants alone is computed now, equal operators are computed once;
2. neighbours are fused to one kernel: what follows a convolution, a product or a sum element by
   element, chains of elementwise operators, concatenations with what leads to them, or in place;
3. scales and shifts of channels (batch norms) go into the weights of the convolution or product
   before them; on processors, channels lie in blocks of one vector (``layout``).
"""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.target import Target

from ..errors import InputError
from .fold_constants import fold_constants
from .fold_scales import fold_scales
from .in_place import in_place_wanted, keep_apart
from .layout import block_channels
from .node_names import NodeNames
from .target import vector_lanes

OPT_LEVELS = (0, 1, 2, 3)
LAYOUTS = ("auto", "nchw")


def check_opt_level(opt_level: int) -> None:
    """Raise InputError unless ``opt_level`` is one of OPT_LEVELS."""
    if opt_level not in OPT_LEVELS:
        raise InputError(f"an optimisation level of 0, 1, 2 or 3 is needed, found {opt_level!r}")


def check_layout(layout: str) -> None:
    """Raise InputError unless ``layout`` is one of LAYOUTS."""
    if layout not in LAYOUTS:
        raise InputError(f"a layout of {' or '.join(LAYOUTS)} is needed, found {layout!r}")


def to_kernels(
    mod: tvm.IRModule, target: Target, opt_level: int, layout: str = "auto"
) -> tuple[tvm.IRModule, list[list[str]]]:
    """``main`` as calls of TensorIR functions, without schedules, and the nodes in each call.

    The nodes of the n-th call are those of the model that it computes, as their Relax variables
    were named, or the operators' own names where the variables have none. layout: "nchw" keeps
    the model's order of axes everywhere, "auto" leaves it to the target.
    """
    with target, tvm.transform.PassContext(opt_level=3):
        operators = _sequence(_simplify(opt_level))(mod)
        block = channel_block(target) if opt_level >= 3 and layout == "auto" else 1
        if block > 1:
            operators = _sequence([block_channels(block), relax.transform.DeadCodeElimination()])(
                operators
            )
        calls = _sequence(_legalize(opt_level))(operators)
        if opt_level < 2:
            return calls, NodeNames(calls).of_calls(calls)
        if in_place_wanted():
            calls = keep_apart(calls)
        grouped = _sequence([relax.transform.FuseOps(), relax.transform.DeadCodeElimination()])(
            calls
        )
        nodes = NodeNames(calls).of_calls(grouped)
        return relax.transform.FuseTIR()(grouped), nodes


def channel_block(target: Target) -> int:
    """Channels that lie side by side in memory: those of one vector of a processor.

    1, the model's order, on GPUs: there neighbouring threads take neighbouring pixels.
    """
    return 1 if "gpu" in target.keys else vector_lanes(target)


def _sequence(passes: list[tvm.transform.Pass]) -> tvm.transform.Pass:
    return tvm.transform.Sequential(passes)


def _simplify(opt_level: int) -> list[tvm.transform.Pass]:
    """Rewrites of operators. Norms are always taken apart: in TVM they carry running averages."""
    passes = [relax.transform.DecomposeOpsForInference()]
    if opt_level >= 1:
        passes += [
            fold_constants,
            relax.transform.EliminateCommonSubexpr(),
        ]
    if opt_level >= 3:
        passes.append(fold_scales)
    return [*passes, relax.transform.DeadCodeElimination()]


def _legalize(opt_level: int) -> list[tvm.transform.Pass]:
    """Operators to TensorIR; sorts and scans first, which have kernels of their own."""
    passes = [
        relax.backend.DispatchSortScan(),
        relax.transform.LegalizeOps(),
        relax.transform.AnnotateTIROpPattern(),
    ]
    if opt_level >= 1:
        passes.append(relax.transform.FoldConstant())
    return [*passes, relax.transform.DeadCodeElimination()]
