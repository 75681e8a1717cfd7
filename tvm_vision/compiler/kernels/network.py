"""All kernels of a network on their way to a library: what is known is taken, the rest made.

Functions with the same key are one kernel, whatever a network calls them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import tvm
from tvm import tirx
from tvm.target import Target

from ...errors import SharedMemoryError
from ...schedules import Chooser, ScheduleConfig, TargetLimits
from .beside import Waiting, made_beside, processes_for
from .code import KernelCode, Workspace
from .kept import KERNELS
from .key import kernel_digest, placeholder, written
from .library import KernelLibrary
from .make import build_kernels, schedule_kernels
from .maker import Job, KernelMaker
from .workspaces import with_workspaces


@dataclass
class NetworkKernels:
    """The functions of a network for one target.

    Attributes:
        functions: without schedules, by name.
        target: what code is made for.
        limits: what kernels may have; None on a processor, of which the target says all.
        keys: the key of each function.
        choices: what tuning chose for a kernel, by key.
        texts: its function as TVM writes it to JSON, by key, until there is code of it.
        code: of kernels, by key.
        workspaces: what the launches of a scheduled kernel share, by key.
        known: how many functions were made before.
    """

    functions: Mapping[str, tirx.PrimFunc]
    target: Target
    limits: TargetLimits | None
    keys: dict[str, str] = field(default_factory=dict)
    choices: dict[str, ScheduleConfig | None] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    code: dict[str, KernelCode] = field(default_factory=dict)
    workspaces: dict[str, tuple[Workspace, ...]] = field(default_factory=dict)
    known: int = 0

    @classmethod
    def of(
        cls,
        functions: Mapping[str, tirx.PrimFunc],
        target: Target,
        limits: TargetLimits,
        choose: Chooser | None,
    ) -> NetworkKernels:
        """limits: of GPUs, see ``schedule_module``; choose: see there, too."""
        kernels = cls(functions, target, limits if "gpu" in target.keys else None)
        for name, function in functions.items():
            choice = choose(function) if choose else None
            text = written(function)
            key = kernel_digest(text, target, kernels.limits, choice)
            kernels.keys[name], kernels.choices[key], kernels.texts[key] = key, choice, text
        return kernels

    def look_up(self) -> None:
        """Take what this process or another one made before."""
        for key in self.choices:
            code = KERNELS.load(key)
            if code is not None:
                self._take(key, code)
        self.known = sum(key in self.code for key in self.keys.values())

    def missing(self) -> dict[str, str]:
        """The names of the functions that are to be made, one for each key."""
        first = {key: name for name, key in sorted(self.keys.items(), reverse=True)}
        return {name: key for key, name in first.items() if key not in self.code}

    def make_beside(self, waiting: Waiting | None, *, keep: bool) -> None:
        """Make what is missing by several processes, where there is enough of it. What cannot be
        made stays missing.

        waiting: one of them that was started before.
        """
        missing = self.missing()
        processes = processes_for(len(missing), waiting)
        if processes == 1:
            return
        jobs = {key: self._job(name) for name, key in missing.items()}
        maker = KernelMaker(self.target, self.limits)
        for key, code in made_beside(jobs, maker, processes, waiting).items():
            self._add(key, code, keep=keep)

    def _job(self, name: str) -> Job:
        key = self.keys[name]
        return Job(name, placeholder(key), self.texts[key], self.choices[key])

    def scheduled(self) -> tvm.IRModule:
        """These functions with schedules. Raises UnsupportedKernelError where there is none."""
        missing = self.missing()
        functions = {name: self.functions[name] for name in missing}
        choices = {name: self.choices[key] for name, key in missing.items()}
        return schedule_kernels(functions, self.target, self.limits, choices)

    def with_workspaces(self, module: tvm.IRModule) -> tvm.IRModule:
        """Scheduled functions of a GPU with arguments for what their launches share."""
        module, found = with_workspaces(module)
        self.workspaces |= {self.keys[name]: shared for name, shared in found.items()}
        return module

    def workspaces_of(self, name: str) -> tuple[Workspace, ...]:
        """The workspaces of a function."""
        return self.workspaces[self.keys[name]]

    def library(self, module: tvm.IRModule, *, keep: bool) -> KernelLibrary:
        """All functions, those in ``module`` made now, and kept for others where ``keep`` says so.

        Raises UnsupportedKernelError, and what TVM raises.
        """
        missing = self.missing()
        names = {name: placeholder(key) for name, key in missing.items()}
        shared = {name: self.workspaces.get(key, ()) for name, key in missing.items()}
        try:
            made = build_kernels(module, self.target, names, shared)
        except SharedMemoryError:
            # Which of them it is, and what fits, is found out one by one.
            maker = KernelMaker(self.target, self.limits)
            made = {name: maker.made(self._job(name)) for name in missing}
        for name, code in made.items():
            self._add(missing[name], code, keep=keep)
        named = {name: self.code[key].named(name) for name, key in self.keys.items()}
        return KernelLibrary(named, self.target)

    def _add(self, key: str, code: KernelCode, *, keep: bool) -> None:
        self._take(key, code)
        # A record that is passed over says so each time.
        if keep and code.tuned == (self.choices[key] is not None):
            KERNELS.store(key, code)

    def _take(self, key: str, code: KernelCode) -> None:
        self.code[key] = code
        self.workspaces[key] = code.workspaces
        self.texts.pop(key, None)

    @property
    def matrices(self) -> dict[str, str]:
        """Of the functions that multiply cooperative matrices, which: see ``KernelCode``."""
        found = {name: self.code[key].matrices for name, key in self.keys.items()}
        return {name: factors for name, factors in found.items() if factors is not None}

    @property
    def tuned(self) -> int:
        """How many functions have a schedule from a record."""
        return sum(self.code[key].tuned for key in self.keys.values())
