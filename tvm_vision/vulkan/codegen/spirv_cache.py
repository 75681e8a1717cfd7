"""Compiled shaders kept on disk, by the content of their source."""

from __future__ import annotations

from ...cache.files import KeptFiles

# The largest kernels have some 100 KB, those of fifty networks 60 MB.
SHADERS = KeptFiles("spirv", ".spv", most_bytes=16 << 20, most_total=64 << 20)
_MAGIC = 0x07230203  # first word of every SPIR-V module


def load(key: str) -> bytes | None:
    """The module stored under ``key``; None when absent or damaged."""
    spirv = SHADERS.load(key)
    if spirv is None or len(spirv) < 20 or len(spirv) % 4:
        return None
    return spirv if int.from_bytes(spirv[:4], "little") == _MAGIC else None


def store(key: str, spirv: bytes) -> None:
    """Keep a module, where the cache can be written."""
    SHADERS.store(key, spirv)
