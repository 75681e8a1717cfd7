"""Words that commands offer and the library checks. A leaf, so that help needs no numpy."""

from __future__ import annotations

import re

from ..errors import InputError

DEVICES = ("auto", "vulkan", "cpu")
FILL_MODES = ("random", "zeros", "ones")

# How others name a device by its number, which they have none without.
_NUMBERED = re.compile(r"(?:cuda|gpu|vulkan)?:?(\d+)")
_GPUS = ("cuda", "gpu", "mps", "rocm", "opencl", "metal", "vk")

#: What a figure can be written as, by the ending of its file.
FIGURES = (".png", ".svg", ".pdf")


def meant_device(word: object) -> str:
    """What a word that is no device stands for with other programs; "" where nothing is known."""
    if number := _NUMBERED.fullmatch(str(word).lower()):
        return f"vulkan, and TVM_VISION_VULKAN_DEVICE={number[1]} for which"
    if str(word).lower() in _GPUS:
        return "vulkan"
    return "cpu" if str(word).lower() in ("llvm", "host") else ""


def need_device(wanted: object) -> None:
    """Raise InputError for what is none of DEVICES, with the one that was meant."""
    if not isinstance(wanted, str) or wanted not in DEVICES:
        use = meant_device(wanted)
        remedy = f"use {use}" if use else "leave it out for the one that the package was made for"
        raise InputError(f"a device of {', '.join(DEVICES)} is needed, found {wanted!r}: {remedy}")
