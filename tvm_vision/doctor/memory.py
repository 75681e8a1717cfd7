"""Memory of the host that is left, for this process too where it is in a container."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .finding import OK, WARN, Finding, Machine, number, read

# Bytes below which a compilation of a usual network is likely to be ended by the kernel.
LEAST = 1 << 30
GIB = 1 << 30


def check_memory(machine: Machine) -> Iterator[Finding]:
    """What is available of the host's memory, and of its group's limit."""
    fields = dict(re.findall(r"^(\w+):\s+(\d+) kB", read(machine.path("/proc/meminfo")), re.M))
    if "MemAvailable" not in fields:
        yield Finding("memory", WARN, "/proc/meminfo tells nothing", "mount /proc")
        return
    total, left = (int(fields[name]) << 10 for name in ("MemTotal", "MemAvailable"))
    words = f"{left / GIB:.1f} of {total / GIB:.1f} GiB are available"
    limit = number(machine.path("/sys/fs/cgroup/memory.max"))
    used = number(machine.path("/sys/fs/cgroup/memory.current"))
    # Of what the group has, the kernel gives up files that it only keeps.
    kept = sum(
        int(count)
        for count in re.findall(
            r"^(?:in)?active_file (\d+)$", read(machine.path("/sys/fs/cgroup/memory.stat")), re.M
        )
    )
    if limit is not None and used is not None and limit - used + kept < left:
        left = limit - used + kept
        words = f"{left / GIB:.1f} GiB of this container's {limit / GIB:.1f} GiB are available"
    if left < LEAST:
        yield Finding(
            "memory", WARN, words,
            "end other programs, add swap, or compile on another machine (--target NAME)",
        )  # fmt: skip
    else:
        yield Finding("memory", OK, words)
