"""How right a compiled network is: errors against onnxruntime, per output and per layer."""

from .agreement import Agreement, compare_frames, compare_package, strictness_for
from .compare import OutputError, compare_outputs, tolerance_for
from .reference import Reference

__all__ = [
    "Agreement",
    "OutputError",
    "Reference",
    "compare_frames",
    "compare_outputs",
    "compare_package",
    "strictness_for",
    "tolerance_for",
]
