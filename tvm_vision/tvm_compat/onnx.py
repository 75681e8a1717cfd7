"""TVM's importer of ONNX, as far as it does not say itself what it can."""

from __future__ import annotations

from collections.abc import Container


def imported_operators() -> Container[str]:
    """The operators that the importer has a conversion for, by their names in ONNX."""
    from tvm.relax.frontend.onnx.onnx_frontend import _get_convert_map

    return _get_convert_map()
