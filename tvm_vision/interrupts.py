"""Ctrl-C while TVM's C++ calls Python, which makes an error without a word of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ctrl_c_as_itself() -> Iterator[None]:
    """An error without a text, as which Ctrl-C in a Python function comes back through TVM's C++,
    leaves the block as KeyboardInterrupt."""
    try:
        yield
    except RuntimeError as error:
        if str(error):
            raise
        raise KeyboardInterrupt from None
