"""What code asks of a processor beyond what every one of its kind has, by Linux's names.

LLVM names features of processors, and Linux says in /proc/cpuinfo which there are; here is which of
these names mean the same, for features that change what code is generated. Code with an instruction
that a processor lacks ends the process.
"""

from __future__ import annotations

import platform
from collections.abc import Collection, Iterable
from functools import lru_cache
from pathlib import Path

CPU_INFO = Path("/proc/cpuinfo")
# Kind of processor -> LLVM's name of a feature -> Linux's.
_FEATURES = {
    "x86_64": {
        "sse4.1": "sse4_1", "sse4.2": "sse4_2", "popcnt": "popcnt", "movbe": "movbe",
        "lzcnt": "abm", "bmi": "bmi1", "bmi2": "bmi2", "f16c": "f16c", "fma": "fma",
        "avx": "avx", "avx2": "avx2", "avxvnni": "avx_vnni", "avx512f": "avx512f",
        "avx512dq": "avx512dq", "avx512bw": "avx512bw", "avx512vl": "avx512vl",
        "avx512cd": "avx512cd", "avx512vnni": "avx512_vnni", "avx512bf16": "avx512_bf16",
        "avx512fp16": "avx512_fp16", "avx512ifma": "avx512ifma", "avx512vbmi": "avx512vbmi",
        "avx512vbmi2": "avx512_vbmi2", "avx512bitalg": "avx512_bitalg",
        "avx512vpopcntdq": "avx512_vpopcntdq", "gfni": "gfni",
    },
    "aarch64": {
        "lse": "atomics", "rdm": "asimdrdm", "fullfp16": "asimdhp", "dotprod": "asimddp",
        "i8mm": "i8mm", "bf16": "bf16", "sve": "sve", "sve2": "sve2",
    },
}  # fmt: skip


def linux_names(machine: str, features: Iterable[str]) -> tuple[str, ...]:
    """Of features as LLVM names them those that Linux tells of, by its names, in order.

    machine: as platform.machine() has it; of a kind that is not known there are none.
    """
    known = _FEATURES.get(machine, {})
    return tuple(sorted({known[name] for name in features if name in known}))


def hidden_here(features: Iterable[str]) -> tuple[str, ...]:
    """Of features as LLVM names them those that this processor lacks, in order, as far as Linux
    tells of them: LLVM knows a processor by its model, of which a virtual machine may hide some."""
    known, here = _FEATURES.get(platform.machine(), {}), features_here()
    if here is None:
        return ()
    return tuple(sorted({name for name in features if name in known and known[name] not in here}))


@lru_cache(maxsize=1)
def features_here() -> frozenset[str] | None:
    """What Linux says that this processor has; None where it says nothing."""
    words = _told("Features" if platform.machine() == "aarch64" else "flags")
    return None if words is None else frozenset(words.split())


@lru_cache(maxsize=1)
def name_here() -> str:
    """What this processor is called, as Linux tells it; its kind where Linux says nothing."""
    return _told("model name") or platform.machine()


def _told(name: str) -> str | None:
    """What /proc/cpuinfo says of the first processor under a name."""
    try:
        lines = CPU_INFO.read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    for line in lines:
        key, colon, words = line.partition(":")
        if colon and key.strip() == name:
            return " ".join(words.split())
    return None


def lacking(needed: Iterable[str], here: Collection[str] | None) -> tuple[str, ...]:
    """Those of some features, by Linux's names, that a processor lacks; none where nothing is known
    of it (None)."""
    return () if here is None else tuple(name for name in needed if name not in here)


def lacking_here(needed: Iterable[str]) -> tuple[str, ...]:
    """Those of some features, by Linux's names, that this processor lacks, as far as is known."""
    return lacking(needed, features_here())
