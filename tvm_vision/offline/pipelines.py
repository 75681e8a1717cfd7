"""Kernels through a driver's compiler: what it says of each, and the machine code it made.

The driver is asked by a small program of ours (pipeline_statistics.cc), because drivers that were
unpacked bring a C library that this process has not; it is compiled when it is first needed.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import DeviceError
from ..whole_files import ScratchFolder
from .drivers import Driver
from .native import build
from .network import Kernel

SOURCE = Path(__file__).with_name("pipeline_statistics.cc")
ASSEMBLY = "Assembly"


@dataclass(frozen=True)
class Pipeline:
    """What a driver made of one kernel.

    Attributes:
        kernel: its name.
        subgroup: lanes of a subgroup, as the driver chose them.
        statistics: by the names that the driver has for them.
        texts: internal representations, by the driver's names; the assembly last.
    """

    kernel: str
    subgroup: int
    statistics: dict[str, Any]
    texts: dict[str, str]

    @property
    def assembly(self) -> str:
        """The machine code as text; "" where the driver gives none."""
        return self.texts.get(ASSEMBLY, "")


@dataclass(frozen=True)
class Compiled:
    """Kernels as one driver compiled them.

    Attributes:
        device: as the driver names it.
        driver: its name and version.
        pipelines: by the kernels' names.
        core: what it tells of its units (VK_AMD_shader_core_properties): units, simds of one,
            waves of a SIMD, registers (vgprs) of one and their granule; None where it does not.
    """

    device: str
    driver: str
    pipelines: dict[str, Pipeline]
    core: dict[str, int] | None = None


def compile_kernels(kernels: Sequence[Kernel], driver: Driver) -> Compiled:
    """What a driver makes of kernels, by their names.

    Raises DeviceError for a kernel that it does not compile, and where it does not start;
    InputError where the program that asks it cannot be built.
    """
    program = build_program()
    with ScratchFolder() as scratch:
        lines = []
        for number, kernel in enumerate(kernels):
            path = scratch / f"{number}.spv"
            path.write_bytes(kernel.code)
            lines.append("\t".join(map(str, (path, *kernel.interface))))
        done = driver.run([str(program), str(scratch)], "".join(f"{line}\n" for line in lines))
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        if len(answers) < 1 + len(kernels) or done.returncode:
            raise DeviceError(_why_it_ended(driver, kernels, answers, done))
        found = [_pipeline(kernels[a["kernel"]], a, driver) for a in answers[1:]]
    about = answers[0]
    by_name = {each.kernel: each for each in found}
    return Compiled(about["device"], about["driver"], by_name, about.get("core"))


def _pipeline(kernel: Kernel, answer: dict[str, Any], driver: Driver) -> Pipeline:
    if answer["result"] != 0:
        raise DeviceError(
            f"the driver for {driver.device} does not compile kernel {kernel.name}: "
            f"vkCreateComputePipelines gives {answer['result']}"
        )
    executable = answer["executables"][0]
    texts = {
        name: Path(path).read_text(errors="replace")
        for name, path in executable["representations"].items()
    }
    return Pipeline(kernel.name, executable["subgroup"], executable["statistics"], texts)


def _why_it_ended(
    driver: Driver,
    kernels: Sequence[Kernel],
    answers: Sequence[Any],
    done: subprocess.CompletedProcess[str],
) -> str:
    said = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
    if not answers:
        return f"the driver for {driver.device} does not start: {said}"
    at = kernels[min(len(answers) - 1, len(kernels) - 1)].name
    return f"the driver for {driver.device} ended while it compiled kernel {at}: {said}"


def build_program() -> Path:
    """The program that asks drivers; compiled for this machine where it is not there yet.

    Raises InputError where there is no C++ compiler, or Vulkan's headers are missing.
    """
    options = ["-std=c++17", "-O1"]
    return build(SOURCE, "pipeline_statistics", os.environ.get("CXX") or "g++", options)
