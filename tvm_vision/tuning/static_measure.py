"""Candidates ranked without their device: compiled by its driver, timed by a model of it.

What no device has run has no measured time and no checked result, so that the records say by what
search they came (STATIC), and count only where nothing was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import DeviceError, InputError
from ..offline import drivers, machines
from ..offline.model import KernelReport, LaunchReport, examine_kernel, time_launch
from ..offline.network import read_library
from ..offline.pipelines import compile_kernels
from ..offline.survey import examine_kernel as examine_intel
from ..package.graph import PlannedGraph, PlannedKernel, PlannedTensor
from ..runtime.library import load_library
from .measure import DeviceMeasurer, Measured, MeasureJob, MeasureProcess
from .worker import ENTRY, Argument


def device_of(target: Any) -> str:
    """The name in machines.py of the device that a tvm.target.Target was made for.

    Raises InputError where no model knows it.
    """
    attributes = _attributes(target)
    if device := machines.named_by(attributes):
        return device
    name = attributes.get("device_name", "")
    raise InputError(
        f"a target of {', '.join(machines.MODELLED)} is needed to rank candidates without the "
        f"device, found one for '{name or target}'"
    )


def _attributes(target: Any) -> dict[str, Any]:
    return {**target.attrs, "keys": target.keys}


@dataclass
class StaticMeasurer(DeviceMeasurer):
    """Builds as DeviceMeasurer does, and models the time of a launch instead of measuring it.

    Attributes:
        device: by its name in machines.py, whose driver compiles.
        machine: that its code is modelled on; None for the device.
    """

    device: str = ""
    machine: machines.Machine | None = None
    checks: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._machine = self.machine or machines.find(self.device)
        self._driver = drivers.find(self.device)
        self._examine = examine_intel if self.device in machines.XE else examine_kernel

    @classmethod
    def for_target(cls, target: Any, **more: Any) -> StaticMeasurer:
        """For a tvm.target.Target, other attributes by name. Raises InputError for a device that
        no model knows, DeviceError where its driver is not there."""
        device = device_of(target)
        machine = machines.of_target(device, _attributes(target))
        return cls(str(target), target.kind.name, device=device, machine=machine, **more)

    def check(self, job: MeasureJob, measured: Measured) -> str:
        """Nothing is run, and nothing is known to be wrong."""
        return ""

    def _seconds(
        self, process: MeasureProcess, job: MeasureJob, library: str, limit: float
    ) -> Sequence[float]:
        return (self.modelled_seconds(library, job.arguments),)

    def modelled_seconds(self, library: str, arguments: Sequence[Argument]) -> float:
        """How long a kernel's launches take in a frame, by the model.

        Raises DeviceError where the driver does not compile it, and where the model does not
        follow one of its loops: it would seem to be fast.
        """
        modelled = self.modelled(library, arguments)
        if lost := [kernel.name for kernel, _ in modelled if kernel.unknown]:
            raise DeviceError(f"the model does not follow a loop of kernel {lost[0]}")
        return sum(launch.seconds for _, launch in modelled)

    def modelled(
        self, library: str, arguments: Sequence[Argument]
    ) -> list[tuple[KernelReport, LaunchReport]]:
        """A kernel's launches in a frame, each with what is known of the code.

        Raises DeviceError where the driver does not compile it.
        """
        kernels, launches = read_library(load_library(library), _graph(arguments))
        made = compile_kernels(list(kernels.values()), self._driver).pipelines
        reports = {
            name: self._examine(kernel, made[name], self._machine)
            for name, kernel in kernels.items()
        }
        return [
            (reports[each.kernel], time_launch(each, reports[each.kernel], self._machine))
            for each in launches
        ]


def _graph(arguments: Sequence[Argument]) -> PlannedGraph:
    """A network of one call, each of its tensors in memory of its own."""
    tensors = tuple(PlannedTensor(a.shape, a.dtype, i) for i, a in enumerate(arguments))
    written = tuple(i for i, argument in enumerate(arguments) if argument.written)
    read = tuple(i for i in range(len(arguments)) if i not in written)
    call = PlannedKernel(ENTRY, (*read, *written), len(written), (ENTRY,))
    sizes = tuple(max(1, tensor.nbytes) for tensor in tensors)
    return PlannedGraph(sizes, tensors, {}, read, written, (call,))
