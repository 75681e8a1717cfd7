"""``Target({"kind": "vulkan", "from_device": 0})`` with the device's own numbers in it.

TVM fills in a target kind's defaults (subgroups of 1 lane, 256 threads) before it asks the device,
and then asks only for what is missing, so those would stay wrong. The one place that every way of
writing a target in Python passes is the FFI constructor; it is wrapped to ask the device first.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import tvm_ffi

from .device_keys import keys_of


def _as_config(written: Any) -> dict[str, Any] | None:
    """The dict behind a target written as dict or JSON; None for anything else."""
    if hasattr(written, "items"):
        return {str(key): value for key, value in written.items()}
    text = str(written) if isinstance(written, str) else ""
    if not text.startswith("{"):
        return None
    try:
        config = json.loads(text)
    except json.JSONDecodeError:
        return None  # TVM's own message names the place.
    return config if isinstance(config, dict) else None


def _complete(
    written: Any, defaults: tuple[str, ...], read: Callable[[Any, str], Any], device: Callable
) -> Any:
    config = _as_config(written)
    if config is None or config.get("kind") != "vulkan" or "from_device" not in config:
        return written
    dev = device("vulkan", int(config["from_device"]))
    if not dev.exist:
        return written
    for name in defaults:
        if name not in config:
            config[name] = read(dev, name)
    if "keys" not in config:
        config["keys"] = ["vulkan", "gpu", *device_keys(int(config["from_device"]))]
    return tvm_ffi.convert(config)


def device_keys(index: int) -> list[str]:
    """The keys, see ``tvm_vision.target_keys``, of the device of a number."""
    return keys_of(tvm_ffi.get_global_func("tvm_vision.vulkan.devices")()[index])


def install() -> None:
    """Have TVM's target constructor ask devices, and complete what TVM knows of its operators.

    Does nothing the second time or without TVM's compiler.
    """
    if tvm_ffi.get_global_func("target.Target", allow_missing=True) is None:
        return
    import tvm
    from tvm.target import Target
    from tvm.target.detect_target import register_device_target_detector

    from ..tvm_compat.target import is_wrapped, wrap_constructor

    if is_wrapped():
        return
    structural = ("kind", "tag", "keys", "host")
    exported = Target({"kind": "vulkan"}).export()
    defaults = tuple(str(name) for name in exported if name not in structural)
    read = tvm_ffi.get_global_func("device_api.vulkan.get_target_property")
    wrap_constructor(lambda written: _complete(written, defaults, read, tvm.device))
    # TVM says so of "round" but not of this one, and would round lane by lane.
    tvm.ir.register_op_attr("tirx.nearbyint", "TVectorizable", True)
    register_device_target_detector(
        "vulkan", lambda dev: Target({"kind": "vulkan", "from_device": dev.index})
    )
