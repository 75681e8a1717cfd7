"""Every operator that can be imported, and what can be done about known others."""

from __future__ import annotations

from ..refusals import CUT, Cut, Refusal, Remedy
from .complex_numbers import COMPLEX_NUMBERS
from .control import CONTROL
from .detection import CUSTOM_DETECTION
from .elementwise import ELEMENTWISE
from .indexed import INDEXED
from .moves import MOVES
from .pads import PADS
from .read import Operator
from .recurrent import RECURRENT_OPERATORS
from .states import STATES
from .step import Converter
from .sums import SUMS
from .types import TYPES
from .windows import CUSTOM_WINDOWS, WINDOWS

BUILT_IN: dict[str, Converter] = {
    **WINDOWS,
    **ELEMENTWISE,
    **MOVES,
    **INDEXED,
    **PADS,
    **SUMS,
    **TYPES,
    **STATES,
    **RECURRENT_OPERATORS,
    **CONTROL,
    **COMPLEX_NUMBERS,
}
CUSTOM: dict[str, Converter] = {**CUSTOM_WINDOWS, **CUSTOM_DETECTION}

_SELECTION = Cut("the selection among boxes")
_LANDMARKS = Cut("it, where points and features have fixed sizes")
_COUNTED_BY_DATA = ("WHERE", "UNIQUE")
_REMEDIES: dict[str, str | Cut] = {
    "NON_MAX_SUPPRESSION_V4": _SELECTION,
    "NON_MAX_SUPPRESSION_V5": _SELECTION,
    "WHERE": "use SELECT_V2",
    "UNIQUE": Cut(),
    "HASHTABLE_LOOKUP": "look up outside of the network",
    "Landmarks2TransformMatrix": _LANDMARKS,
    "TransformLandmarks": _LANDMARKS,
    "TransformTensorBilinear": _LANDMARKS,
}


def converter_of(operator: Operator) -> Converter | None:
    """What converts an operator; None where nothing does."""
    return (CUSTOM if operator.custom else BUILT_IN).get(operator.kind)


def refusal_of(operator: Operator, name: str) -> Refusal:
    """Why an operator that nothing converts is refused. name: of its first result."""
    kind = operator.kind
    reason = "a custom operator" if operator.custom else "there is no conversion for it"
    remedy = Remedy(_REMEDIES.get(kind, CUT))
    if kind in _COUNTED_BY_DATA:
        reason = "the number of its results depends on the data"
    elif kind.startswith("Flex"):
        reason, remedy = (
            "an operator of TensorFlow",
            Remedy("convert with TFLite's built-in operators alone"),
        )
    elif kind == "edgetpu-custom-op":
        reason = "what the Edge TPU's compiler made"
        remedy = Remedy("compile the file that was given to edgetpu_compiler")
    return Refusal(kind, name, reason, remedy)
