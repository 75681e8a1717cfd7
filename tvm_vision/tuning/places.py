"""Where a measurement holds: the key of a device in records.

Of a GPU that is its name and driver. Of a processor it is what it is called, what LLVM makes code
for (its processor and features), how many threads share a kernel, and LLVM's version.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import tvm_ffi
from tvm.target import codegen

from ..compiler.target import what_is_elsewhere
from ..drivers import driver_of
from ..processors import name_here
from .records import TuningKey
from .worker import CPU_THREADS

ELSEWHERE = "processor"  # that was not asked what it is called


@dataclass(frozen=True)
class ProcessorHere:
    """A machine's processor: what it is called, and threads that share a kernel there."""

    name: str
    threads: int

    @classmethod
    def ask(cls) -> ProcessorHere:
        """This machine's; threads as a network gets them (TVM_NUM_THREADS)."""
        return cls(name_here(), int(tvm_ffi.get_global_func(CPU_THREADS)()))

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ProcessorHere:
        """What ``to_json`` wrote."""
        fields = json.loads(text)
        return cls(str(fields["name"]), int(fields["threads"]))


def place_of(target: Any, precision: str, processor: ProcessorHere | None = None) -> TuningKey:
    """Name and driver of the device that a target was made for.

    target: tvm.target.Target. processor: of a target of LLVM the one that measures, where that is
        not this machine's.
    """
    if "gpu" in target.keys:
        name = str(target.attrs.get("device_name", "unknown"))
        return TuningKey(name, driver_of(target.attrs), precision)
    here = processor or ProcessorHere.ask()
    name = here.name if processor or _is_here(target) else ELSEWHERE
    driver = f"LLVM {codegen.llvm_version_major()}, {here.threads} threads"
    return TuningKey(f"{name} ({_made_for(target.attrs)})", driver, precision)


def _is_here(target: Any) -> bool:
    native = str(codegen.llvm_get_system_cpu())
    return not what_is_elsewhere(target) and str(target.attrs.get("mcpu", "")) == native


def _made_for(attributes: Mapping[str, Any]) -> str:
    """The processor and features that code is made for, in a word or some."""
    triple = str(attributes.get("mtriple", "") or codegen.llvm_get_system_triple())
    processor = str(attributes.get("mcpu", "") or triple.partition("-")[0])
    return " ".join([processor, *sorted(str(each) for each in attributes.get("mattr", ()))])
