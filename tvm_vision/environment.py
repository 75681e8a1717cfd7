"""What has to be read of the environment before the native library is there to read it.

Its table (csrc/device_options.cc) has all variables of devices. There these are checked, too: a
wrong value is refused when a device is used, and means the default until then.
"""

from __future__ import annotations

import os


def only_runs() -> bool:
    """Whether this process runs networks and compiles none, of the TVM that is installed."""
    return os.environ.get("TVM_USE_RUNTIME_LIB") == "1" and not os.environ.get("TVM_LIBRARY_PATH")


def cache_folder() -> str:
    """The folder of what was compiled, by TVM_VISION_CACHE_DIR; "" for none."""
    chosen = os.environ.get("TVM_VISION_CACHE_DIR")
    if chosen is not None:
        return chosen
    for variable, below in (("XDG_CACHE_HOME", "tvm_vision"), ("HOME", ".cache/tvm_vision")):
        if folder := os.environ.get(variable):
            return f"{folder}/{below}"
    return ""


def dumps_shaders() -> bool:
    """Whether every kernel that is made is to be written for people to read."""
    return bool(os.environ.get("TVM_VISION_DUMP_SHADERS"))


def all_of_tvm() -> dict[str, str]:
    """Every variable that TVM, or the native library, may read: what begins with TVM."""
    return {name: value for name, value in sorted(os.environ.items()) if name.startswith("TVM")}


def backend() -> str:
    """``"tvm_vision"`` or ``"tvm"``: whose Vulkan was asked for."""
    return "tvm" if os.environ.get("TVM_VISION_VULKAN_BACKEND") == "tvm" else "tvm_vision"
