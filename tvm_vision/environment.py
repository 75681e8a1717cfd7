"""What has to be read of the environment before the native library is there to read it.

Its table (csrc/device_options.cc) has all variables of devices. There these are checked, too: a
wrong value is refused when a device is used, and means the default until then.
"""

from __future__ import annotations

import os


def only_runs() -> bool:
    """Whether this process runs networks and compiles none, of the TVM that is installed."""
    return os.environ.get("TVM_USE_RUNTIME_LIB") == "1" and not os.environ.get("TVM_LIBRARY_PATH")


def backend() -> str:
    """``"tvm_vision"`` or ``"tvm"``: whose Vulkan was asked for."""
    return "tvm" if os.environ.get("TVM_VISION_VULKAN_BACKEND") == "tvm" else "tvm_vision"
