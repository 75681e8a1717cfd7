"""Links machine code into shared libraries, for the processors that packages are made for, without
a compiler or linker installed."""

from .library import link_library

__all__ = ["link_library"]
