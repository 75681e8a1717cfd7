"""Relax passes: from the operators of a model to the kernels that its main function calls.

What each optimisation level does, every one with all that the levels below it do:

0. each operator becomes a kernel (or none, where it only reshapes); nothing is rewritten;
1. what depends on constants alone is computed now, equal operators are computed once, turns of axes
   that move nothing need no kernel;
2. neighbours are fused to one kernel: what follows a convolution, a product or a sum element by
   element, chains of elementwise operators, concatenations with what leads to them, or in place;
3. scales and shifts of channels (batch norms) go into the weights of the convolution or product
   before them; quantised networks are computed in bytes (``quantised``); on processors, channels
   lie in blocks of one vector (``layout``); on GPUs, 3×3
   convolutions become Winograd's where those are estimated to be faster (``winograd``).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import tvm
from tvm import relax
from tvm.target import Target

from ..errors import InputError, UnsupportedModelError
from ..schedules import Limits
from .channels_last import calls_of, channels_last, turns
from .dead_blocks import drop_dead_blocks
from .fold_constants import fold_constants
from .fold_scales import fold_scales
from .fusion import fuse
from .in_place import in_place_wanted, keep_apart
from .integer_kernels import WORD, integer_kernels
from .layout import block_channels
from .node_names import NodeNames
from .operators import is_of_bytes
from .padded_channels import pad_channels
from .plain_turns import plain_turns
from .quantised import bytes_wanted, in_bytes
from .target import vector_lanes
from .winograd import winograd

LOGGER = logging.getLogger(__name__)

OPT_LEVELS = (0, 1, 2, 3)
TURNS_PAY = 6  # convolutions that gain what a change of layout costs
DENSE_PAYS = 1.25  # most convolutions for each dense one
LAYOUTS = ("auto", "nchw", "nhwc")


def check_opt_level(opt_level: int) -> None:
    """Raise InputError unless ``opt_level`` is one of OPT_LEVELS."""
    if opt_level not in OPT_LEVELS:
        raise InputError(f"an optimisation level of 0, 1, 2 or 3 is needed, found {opt_level!r}")


def check_layout(layout: str) -> None:
    """Raise InputError unless ``layout`` is one of LAYOUTS."""
    if layout not in LAYOUTS:
        raise InputError(f"a layout of {' or '.join(LAYOUTS)} is needed, found {layout!r}")


def to_kernels(
    mod: tvm.IRModule,
    target: Target,
    opt_level: int,
    layout: str = "auto",
    precision: str = "fp32",
    runs_on: Target | None = None,
) -> tuple[tvm.IRModule, list[list[str]]]:
    """``main`` as calls of TensorIR functions, without schedules, and the nodes in each call.

    The nodes of the n-th call are those of the model that it computes, as their Relax variables
    were named, or the operators' own names where the variables have none. layout: "nchw" keeps
    the model's order of axes everywhere, "nhwc" puts channels last, "auto" leaves it to the target
    and to the network, see ``channels_last_pays``. precision: what the kernels will store.
    runs_on: what runs the kernels made for ``target``, where that is another.
    """
    with runs_on or target, tvm.transform.PassContext(opt_level=3):
        quantised = opt_level >= 3 and bytes_wanted(target)
        rewrites = [fold_constants, in_bytes] if quantised else []
        operators = _sequence([*rewrites, *_simplify(opt_level)])(mod)
        block = channel_block(target) if opt_level >= 3 and layout == "auto" else 1
        if block > 1:
            operators = _sequence([block_channels(block), relax.transform.DeadCodeElimination()])(
                operators
            )
        elif opt_level >= 3 and "gpu" in target.keys:
            matrices = precision == "fp16" and bool(Limits.of(target).matrices)
            operators = _layout_on_gpu(operators, layout, matrices)
            operators = winograd(operators, target, precision, matrices)
        if quantised:
            limits = Limits.of(target)
            # Matrices read the weights of an output side by side, threads those of several.
            words = limits.dot_product and not limits.byte_matrices
            operators = integer_kernels(operators, WORD if "gpu" in target.keys else 1, words)
        if opt_level >= 1:
            operators = plain_turns(operators)
        calls = _sequence(_legalize(opt_level))(operators)
        if opt_level < 2:
            return calls, NodeNames(calls).of_calls(calls)
        if in_place_wanted():
            calls = keep_apart(calls)
        grouped, nodes = fuse(calls, Limits.of(target).tensors)
        return drop_dead_blocks(relax.transform.FuseTIR()(grouped)), nodes


def _layout_on_gpu(mod: tvm.IRModule, layout: str, matrices: bool) -> tvm.IRModule:
    """``mod`` with channels last where that is asked for, or left open and faster.

    Raises UnsupportedModelError where it is asked for and TVM cannot.
    """
    if layout == "nchw" or (layout == "auto" and not matrices and not _mostly_of_bytes(mod)):
        return mod
    try:
        turned = channels_last(mod)
    except tvm.error.InternalError as error:
        # TVM's pass gives up on some selections and reshapes of more than four axes.
        if layout == "auto":
            LOGGER.debug("channels stay where they are: %s", error)
            return mod
        raise UnsupportedModelError(
            "the network's operators cannot all be turned to channels last: compile it with "
            "--layout auto"
        ) from error
    if layout == "auto" and not channels_last_pays(mod, turned):
        return mod
    return pad_channels(turned) if matrices else turned


def channel_block(target: Target) -> int:
    """Channels that lie side by side in memory: those of one vector of a processor.

    1 on GPUs, which have layouts of their own.
    """
    return 1 if "gpu" in target.keys else vector_lanes(target)


def channels_last_pays(mod: tvm.IRModule, turned: tvm.IRModule) -> bool:
    """Whether channels last are faster where halves are multiplied by cooperative matrices, or
    bytes by words.

    ``turned`` is ``mod`` in that layout. They are where most convolutions are dense (grouped ones
    use no matrices) or of bytes, and where axes hardly have to be turned but at the network's ends:
    a turn within is a kernel, which takes as long as a small convolution. Measured for halves in
    benchmarks/schedules.md; in float32, and without matrices, the model's order is faster.
    """
    convolutions = calls_of(turned, "relax.nn.conv2d")
    dense = sum(int(call.attrs.groups) == 1 or is_of_bytes(call) for call in convolutions)
    ends = len(_tensors(mod["main"].params)) + len(_tensors([mod["main"].body]))
    within = turns(turned) - turns(mod) - ends
    return TURNS_PAY * within <= len(convolutions) <= DENSE_PAYS * dense


def _mostly_of_bytes(mod: tvm.IRModule) -> bool:
    convolutions = calls_of(mod, "relax.nn.conv2d")
    return 2 * sum(map(is_of_bytes, convolutions)) > len(convolutions)


def _tensors(expressions: Sequence[relax.Expr]) -> list[tvm.ir.Type]:
    """The types of tensors, those in tuples too."""
    found: list[tvm.ir.Type] = []
    for expression in expressions:
        of = expression.ty
        found += list(of.fields) if isinstance(of, relax.TupleType) else [of]
    return found


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
