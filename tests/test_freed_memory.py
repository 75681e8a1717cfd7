"""What is freed between two pieces in use is given back, where a process has grown by it."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
from tvm_vision.freed_memory import FreedMemory, resident
freed = FreedMemory()
freed.give_back()
before = resident()
held = [bytearray(b"x" * 100_000) for _ in range(2000)]  # too small for pages of their own
grown = resident() - before
between = held[::20]
del held
kept = resident() - before
freed.give_back()
print(grown, kept, resident() - before, len(between))
"""


def test_what_is_freed_between_pieces_in_use_goes_back() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    grown, kept, left, _ = map(int, done.stdout.split())
    assert grown > 190_000_000 and kept > 0.9 * grown
    assert left < 0.2 * grown
