"""``device_options``: what the environment says of devices, as the native library reads it.

Its table (csrc/device_options.cc) has the variables, their values, defaults and meaning.
"""

from __future__ import annotations

import os
from typing import Any


def device_options() -> dict[str, str]:
    """What the environment says now of devices and of networks on them, checked.

    Returns variable -> value, defaults too; docs/reference/environment.md has the variables. Raises
    InputError, in one line, for a wrong value.
    """
    return {str(name): os.fsdecode(bytes(value)) for name, value in _call("options").items()}


def describe_options() -> list[tuple[str, ...]]:
    """Of each variable: its name, values, default, when it is read, what it means."""
    return [tuple(map(str, row)) for row in _call("describe_options")]


def _call(name: str) -> Any:
    # A device is opened while this is imported.
    from ..tvm_compat.ffi import tvm_ffi

    return tvm_ffi.get_global_func(f"tvm_vision.vulkan.{name}")()
