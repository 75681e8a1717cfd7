"""How right a compiled network is: errors against onnxruntime, per output and per layer."""

from .agreement import Agreement, compare_frames, compare_package, seeing, strictness_for
from .compare import OutputError, compare_outputs, tolerance_for
from .litert import LiteRtReference
from .reference import Reference, reference_of

__all__ = [
    "Agreement",
    "LiteRtReference",
    "OutputError",
    "Reference",
    "compare_frames",
    "compare_outputs",
    "compare_package",
    "reference_of",
    "seeing",
    "strictness_for",
    "tolerance_for",
]
