"""Standard input, output and error where a process begins without them."""

from __future__ import annotations

import os
import sys

STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def open_closed() -> None:
    """Let those that were closed be /dev/null, as for a program whose supervisor gives it none.

    The next file that is opened would have the number of one, and what prints by number, as C++
    does, would write into it; Python has None in their place.
    """
    for number, (name, mode) in enumerate(STREAMS):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free: this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, closefd=False))
