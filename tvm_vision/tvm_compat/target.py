"""The constructor behind ``tvm.target.Target``, which every way of writing a target passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm_ffi

_MARK = "_tvm_vision_original_target"


def is_wrapped() -> bool:
    """Whether ``wrap_constructor`` was called in this process."""
    from tvm.target import _ffi_api

    return hasattr(_ffi_api, _MARK)


def wrap_constructor(complete: Callable[[Any], Any]) -> None:
    """Have whatever a target is written as pass ``complete`` before TVM reads it."""
    from tvm.target import _ffi_api

    original = _ffi_api.Target

    def construct(written: Any, *host: Any) -> Any:
        return original(complete(written), *host)

    # The caller takes the FFI's own function type without a check, so a plain one would crash.
    _ffi_api.Target = tvm_ffi.convert(construct)
    setattr(_ffi_api, _MARK, original)
