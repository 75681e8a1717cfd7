"""Relax passes: from the operators of a model to the kernels that its main function calls.

What each optimisation level does, every one with all that the levels below it do:

0. each operator becomes a kernel (or none, where it only reshapes); nothing is rewritten;
1. what depends on constants alone is computed now, equal operators are computed once;
2. neighbours are fused to one kernel: what follows a convolution, a product or a sum element by
   element, chains of elementwise operators, concatenations with what leads to them;
3. scales and shifts of channels (batch norms) go into the weights of the convolution or product
   before them.
"""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.target import Target

from ..errors import InputError
from .fold_constants import fold_constants
from .fold_scales import fold_scales
from .node_names import NodeNames

OPT_LEVELS = (0, 1, 2, 3)


def check_opt_level(opt_level: int) -> None:
    """Raise InputError unless ``opt_level`` is one of OPT_LEVELS."""
    if opt_level not in OPT_LEVELS:
        raise InputError(f"an optimisation level of 0, 1, 2 or 3 is needed, found {opt_level!r}")


def to_kernels(
    mod: tvm.IRModule, target: Target, opt_level: int
) -> tuple[tvm.IRModule, list[list[str]]]:
    """``main`` as calls of TensorIR functions, without schedules, and the nodes in each call.

    The nodes of the n-th call are those of the model that it computes, as their Relax variables
    were named, or the operators' own names where the variables have none.
    """
    with target, tvm.transform.PassContext(opt_level=3):
        operators = _sequence(_simplify(opt_level))(mod)
        calls = _sequence(_legalize(opt_level))(operators)
        if opt_level < 2:
            return calls, NodeNames(calls).of_calls(calls)
        grouped = _sequence([relax.transform.FuseOps(), relax.transform.DeadCodeElimination()])(
            calls
        )
        nodes = NodeNames(calls).of_calls(grouped)
        return relax.transform.FuseTIR()(grouped), nodes


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
