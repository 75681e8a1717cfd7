"""How right a compiled network is: errors against onnxruntime, per output and per layer."""

from .compare import OutputError, compare_outputs, tolerance_for
from .reference import Reference

__all__ = ["OutputError", "Reference", "compare_outputs", "tolerance_for"]
