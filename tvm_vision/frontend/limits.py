"""How large a tensor may be, whatever file it is in."""

from __future__ import annotations

# Kernels count elements in 32 bits.
MOST_ELEMENTS = (1 << 31) - 1
