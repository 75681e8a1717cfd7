"""In which order channels lie in memory: what is fast on which device.

See ``nchwc`` for blocks of channels, ``channels_last`` for the other.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence

import tvm
from tvm import relax
from tvm.target import Target

from tvm_vision.schedules.cpu.processor import vector_lanes

from ...errors import UnsupportedModelError
from ...schedules.gpu.window import MOST_UNROLLED
from .channels_last import channels_last, convolutions_of, transposes
from .operators import is_int8
from .pad_channels import pad_channels

LOGGER = logging.getLogger(__name__)

# Where convolutions take matrices of fp16, what channels last gain or lose, in microseconds on an
# H100; fitted to benchmarks/results/nvidia-h100-layouts.json.
DENSE_GAIN = 40e-9  # a multiplication of a dense convolution
GROUPS_LOSE = 100e-9  # one of a convolution in groups, depthwise ones too
LARGE_LOSE = 4  # times as much: large windows of each channel, the least of four on an H200
GATE_LOSES = 2.5
TURN_LOSES = 2.0  # a kernel that turns axes
# Of bytes, as static models of integrated GPUs have it, which lose most: a multiplication of a
# dense convolution in the model's order, where each byte is found by itself
# (benchmarks/schedules/convolutions.md).
BYTES_GAIN = 1000e-9
TURN_OF_BYTES_LOSES = 20.0
# Elsewhere.
TURNS_SAVED = 8  # turns of axes fewer, where products have channels last in the model
# Of float32 on an H200: a tenth of what ResNet-50 takes, which channels last cost it at the most.
DENSE_LOSES = 20e-9
TURNS_PAY = 6  # convolutions that gain what a change of layout costs
FEW_RESULTS = 4  # of a convolution, most of a matrix of which would be padding
FEW = 8  # convolutions, with less of which a network is mostly something else
DENSE_PAYS = 1.25  # most convolutions for each dense one


def layout_on_gpu(mod: tvm.IRModule, layout: str, matrices: bool, measured: bool) -> tvm.IRModule:
    """``mod`` with channels last where that is asked for, or left open and faster.

    matrices: whether convolutions will use cooperative matrices. measured: whether kernels were
    timed on such a device.

    Raises UnsupportedModelError where it is asked for and TVM cannot.
    """
    if layout == "nchw":
        return mod
    of_bytes = _mostly_of_bytes(mod)
    if layout == "auto" and not (matrices or of_bytes or transposes(mod) > TURNS_SAVED):
        return mod
    try:
        # Between convolutions of halves shuffles gain nothing with their channels last: they stay.
        transposed = channels_last(mod, shuffles=of_bytes)
    except (tvm.error.InternalError, ValueError) as error:
        # TVM's pass gives up on some selections and reshapes of more than four axes, and shapes
        # that do not go together are a ValueError.
        if layout == "auto":
            LOGGER.debug("channels stay where they are: %s", error)
            return mod
        raise UnsupportedModelError(
            "the network's operators cannot all be turned to channels last: compile it with "
            "--layout auto"
        ) from error
    if layout == "auto" and not (
        channels_last_pays(mod, transposed, measured)
        if matrices or of_bytes
        else _saves_turns(mod, transposed, measured)
    ):
        return mod
    return pad_channels(transposed) if matrices else transposed


def channel_block(target: Target) -> int:
    """Channels that lie side by side in memory: those of one vector of a processor.

    1 on GPUs, which have layouts of their own.
    """
    return 1 if "gpu" in target.keys else vector_lanes(target)


def _saves_turns(mod: tvm.IRModule, transposed: tvm.IRModule, measured: bool) -> bool:
    """Whether fewer axes are turned with channels last, as where blocks have their products so, and
    on devices that were measured more is gained by that than convolutions of float32 lose."""
    convolutions = convolutions_of(transposed)
    saved = transposes(mod) - transposes(transposed)
    if not convolutions or saved < TURNS_SAVED:
        return False
    if not measured:
        return True
    dense, grouped = _dense_and_grouped(convolutions)
    return TURN_LOSES * saved >= DENSE_LOSES * dense + GROUPS_LOSE * grouped


def channels_last_pays(mod: tvm.IRModule, transposed: tvm.IRModule, measured: bool) -> bool:
    """Whether channels last are faster where fp16 are multiplied by cooperative matrices, or
    bytes by words.

    ``transposed`` is ``mod`` in that layout. In fp16 both take matrices, and channels last lie in
    vectors for dense convolutions. What is measured is added up
    (benchmarks/schedules/convolutions.md): these gain by each multiplication; convolutions in
    groups lose, gates (squeeze-excite) do, whose means over the image have few threads then, and so
    does each turn of axes that the network's own order needs not, a kernel by itself. Of bytes
    dense ones gain so much that they pay for turns within a network, those of a U-Net for
    example. With few convolutions dense ones must prevail, and axes be turned at the network's
    ends alone; so must they on devices that nobody measured: their memory holds up what is not
    dense, and what is of one row, which gains nothing then and pays for the turns at its ends
    (benchmarks/static.md).
    """
    convolutions = convolutions_of(transposed)
    ends = len(_tensors(mod["main"].params)) + len(_tensors([mod["main"].body]))
    own = transposes(mod)
    within = transposes(transposed) - own - ends
    dense, grouped = _dense_and_grouped(convolutions)
    if _mostly_of_bytes(mod):
        return BYTES_GAIN * dense >= TURN_OF_BYTES_LOSES * within
    if not measured and _saves_turns(mod, transposed, measured):
        return True
    if not measured or len(convolutions) < FEW:
        of_rows = [c for c in convolutions if int(c.attrs.groups) == 1 and _rows(c) > 1]
        # With channels first these have a kernel of their own (schedules/gpu/window_rows.py).
        count = len(of_rows) - (0 if measured else sum(map(_makes_few, of_rows)))
        return TURNS_PAY * within <= len(convolutions) <= DENSE_PAYS * count
    # Two convolutions of one pixel each: to few channels, and back to all.
    gates = sum(math.prod(_sizes(call)[1:-1]) == 1 for call in convolutions) // 2
    return microseconds_gained(dense, grouped, gates, within - own) >= 0


def microseconds_gained(dense: int, grouped: int, gates: int, turns: int) -> float:
    """By channels last instead of first, on an H100: of multiplications of dense convolutions and
    of those in groups, gates, and kernels that turn axes in one order and not in the other."""
    lost = GROUPS_LOSE * grouped + GATE_LOSES * gates + TURN_LOSES * turns
    return DENSE_GAIN * dense - lost


def _sizes(value: relax.Expr) -> list[int]:
    return [int(size) for size in value.ty.shape]


def _makes_few(call: relax.Call) -> bool:
    """Whether a convolution by windows gives few results of all channels of a pixel."""
    window = _sizes(call.args[1])
    return math.prod(window[:-2]) > 1 and window[-1] <= FEW_RESULTS


def _rows(call: relax.Call) -> int:
    """Of what a convolution with channels last reads or of its window, whichever are more."""
    image, window = (_sizes(argument) for argument in call.args)
    return max(math.prod(image[1:-2]), math.prod(window[:-3]))


def _dense_and_grouped(convolutions: Sequence[relax.Call]) -> tuple[int, int]:
    """Multiplications of convolutions that take all channels, and of those in groups; of large
    windows as many as lose what these do."""
    dense = sum(_multiplications(call) for call in convolutions if int(call.attrs.groups) == 1)
    more = (LARGE_LOSE - 1) * sum(map(_multiplications, filter(_has_large_window, convolutions)))
    return dense, sum(map(_multiplications, convolutions)) - dense + more


def _has_large_window(call: relax.Call) -> bool:
    """Whether with channels first it has rows in shared memory (schedules/gpu/window_rows.py)."""
    window = math.prod(_sizes(call.args[1])[:-2])
    return int(call.attrs.groups) == _sizes(call)[-1] and window > MOST_UNROLLED


def _multiplications(call: relax.Call) -> int:
    """Of a convolution with channels last."""
    results, weights = _sizes(call), _sizes(call.args[1])
    return math.prod(results) * math.prod(weights) // results[-1]


def _mostly_of_bytes(mod: tvm.IRModule) -> bool:
    convolutions = convolutions_of(mod)
    return 2 * sum(map(is_int8, convolutions)) > len(convolutions)


def _tensors(expressions: Sequence[relax.Expr]) -> list[tvm.ir.Type]:
    """The types of tensors, those in tuples too."""
    found: list[tvm.ir.Type] = []
    for expression in expressions:
        of = expression.ty
        found += list(of.fields) if isinstance(of, relax.TupleType) else [of]
    return found
