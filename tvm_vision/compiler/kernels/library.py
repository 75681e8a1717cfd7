"""The code of a network's kernels as one library, in memory or as a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi
from tvm.target import Target

from ...linking import link_library
from ...runtime.library import load_library
from ...vulkan.codegen.build import module_of
from ...whole_files import ScratchFolder
from ..target import host_of
from .code import KernelCode

# Bytes for what is linked beside kernels: tables of names, and TVM's own part.
_ROOM = 1 << 20


class KernelLibrary:
    """A function for each kernel, and all their shaders.

    Attributes:
        kernels: their code, by name.
        device: a runtime module of kind "vulkan"; None on a processor.
    """

    def __init__(self, kernels: Mapping[str, KernelCode], target: Target) -> None:
        self.kernels = dict(sorted(kernels.items()))
        self._host = host_of(target)
        shaders = {s.told.name: s for code in self.kernels.values() for s in code.shaders}
        ordered = [shaders[name] for name in sorted(shaders)]
        self.device: Any = (
            module_of([s.told for s in ordered], {s.told.name: s.spirv for s in ordered})
            if target.kind.name == "vulkan"
            else None
        )

    @cached_property
    def module(self) -> Any:
        """A ``tvm.runtime.Module`` that runs here, linked on first use.

        Raises PackageError where that takes a C++ compiler, and none is installed.
        """
        with ScratchFolder() as folder:
            path = folder / "kernels.so"
            objects = self._objects(folder)
            link_library(str(path), objects)
            module = load_library(path)
        if self.device is not None:
            module.import_module(self.device)
        return module

    def source(self) -> str:
        """The GLSL of all kernels; "" on a processor."""
        return "" if self.device is None else str(self.device.inspect_source("glsl"))

    def export_library(
        self, path: str, *, workspace_dir: str, fcompile: Callable[[str, Sequence[str]], None]
    ) -> None:
        """Link it into a file with ``fcompile``, as ``tvm.runtime.Module`` does. Raises what that
        raises."""
        self._need_room(Path(workspace_dir))
        empty = tvm_ffi.get_global_func(f"target.build.{self._host.kind.name}")
        root = empty(tvm.IRModule({}), self._host)
        if self.device is not None:
            root.import_module(self.device)
        root.export_library(
            path,
            workspace_dir=workspace_dir,
            addons=self._objects(Path(workspace_dir)),
            fcompile=fcompile,
        )

    def _need_room(self, folder: Path) -> None:
        """Raise OSError where a folder has none for what is linked: LLVM, which writes a part of
        it, ends the process then."""
        size = _ROOM + 2 * (len(self.source()) + sum(len(k.host) for k in self.kernels.values()))
        place = folder / "room"
        try:
            with place.open("wb") as stream:
                os.posix_fallocate(stream.fileno(), 0, size)
        finally:
            place.unlink(missing_ok=True)

    def _objects(self, folder: Path) -> list[str]:
        """Each kernel's object file, in an order that does not depend on what was known."""
        paths = []
        for number, code in enumerate(self.kernels.values()):
            path = folder / f"kernel{number}.o"
            path.write_bytes(code.host)
            paths.append(str(path))
        return paths
