"""Vulkan for the stock TVM wheel: device, memory, kernels and code generator.

Importing it registers the backend; a product of its own, it uses nothing else of tvm_vision but errors.
"""

from .device import (
    DeviceInfo,
    backend_in_use,
    devices,
    memory_in_use,
    pipeline_cache_path,
    register,
    shutdown,
    status,
    validation_messages,
)

__all__ = [
    "DeviceInfo",
    "backend_in_use",
    "devices",
    "memory_in_use",
    "pipeline_cache_path",
    "register",
    "shutdown",
    "status",
    "validation_messages",
]
