"""Targets: what TVM's compiler has to know of the device it compiles for."""

from __future__ import annotations

import tvm
from tvm.target import Target, codegen

KINDS = ("vulkan", "cpu")


def host_target() -> Target:
    """LLVM for the processor of this machine, with all its vector instructions."""
    return Target({"kind": "llvm", "mcpu": codegen.llvm_get_system_cpu()})


def target_for(kind: str, index: int = 0) -> Target:
    """The target of a device: kind "vulkan" (every number asked of the device) or "cpu".

    Raises ValueError for another kind.
    """
    if kind == "cpu":
        return host_target()
    if kind != "vulkan":
        raise ValueError(f"expected a kind of {', '.join(KINDS)}, got '{kind}'")
    import tvm_vision.vulkan  # noqa: F401  registers the device API that from_device asks

    return tvm.target.Target({"kind": "vulkan", "from_device": index}, host=host_target())
