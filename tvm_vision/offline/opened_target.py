"""Prints the target of Vulkan device 0 as JSON: a process of its own, run with another driver."""

from __future__ import annotations

import json
from typing import Any

from tvm_vision import vulkan
from tvm_vision.errors import DeviceError


def opened_target() -> dict[str, Any]:
    """The compiler's target for device 0, as plain data. Raises DeviceError where there is none."""
    from tvm.target import Target

    if not vulkan.devices():
        raise DeviceError(vulkan.status())
    attributes = Target({"kind": "vulkan", "from_device": 0}).export()
    plain = (str, int, float, bool)
    return {
        str(name): value if isinstance(value, plain) else [str(each) for each in value]
        for name, value in attributes.items()
    }


if __name__ == "__main__":
    print(json.dumps(opened_target()))
