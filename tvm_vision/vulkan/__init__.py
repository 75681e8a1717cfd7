"""Vulkan for the stock TVM wheel: device, memory, kernels and code generator.

Importing it registers the backend. A product of its own: of tvm_vision it uses errors alone.
"""

from .device import (
    DeviceInfo,
    backend_in_use,
    begin_to_open_device,
    devices,
    memory_in_use,
    open_device,
    pipeline_cache_paths,
    register,
    shutdown,
    status,
    validation_messages,
)
from .options import describe_options, device_options

__all__ = [
    "DeviceInfo",
    "backend_in_use",
    "begin_to_open_device",
    "describe_options",
    "device_options",
    "devices",
    "memory_in_use",
    "open_device",
    "pipeline_cache_paths",
    "register",
    "shutdown",
    "status",
    "validation_messages",
]
