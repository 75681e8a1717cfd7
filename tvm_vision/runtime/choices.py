"""Words that commands offer and the library checks. A leaf, so that help needs no numpy."""

from __future__ import annotations

DEVICES = ("auto", "vulkan", "cpu")
FILL_MODES = ("random", "zeros", "ones")

#: What a figure can be written as, by the ending of its file.
FIGURES = (".png", ".svg", ".pdf")
