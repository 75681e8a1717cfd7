"""The kernels of a package, and what a frame launches: no device is needed to tell."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import PackageError

if TYPE_CHECKING:
    from ..package import Package
    from ..package.graph import PlannedGraph


@dataclass(frozen=True)
class Kernel:
    """A shader as pipelines are made of it.

    Attributes:
        name: in the library.
        entry: name of the shader's entry point.
        code: SPIR-V.
        threads: of a workgroup, by axis.
        buffers: storage buffers it takes.
        scalar_bytes: of its scalars; ``uniform`` says that they come in a uniform buffer.
        subgroup: lanes that it counts on, 0 where it does not care.
    """

    name: str
    entry: str
    code: bytes
    threads: tuple[int, int, int]
    buffers: int
    scalar_bytes: int
    uniform: bool
    subgroup: int

    @property
    def interface(self) -> tuple[str, int, int, int, int, int]:
        """As pipeline_statistics.cc reads it."""
        return (
            self.entry, self.buffers, self.scalar_bytes, int(self.uniform), self.subgroup,
            self.threads[0],
        )  # fmt: skip

    @property
    def workgroup(self) -> int:
        """Threads of a workgroup."""
        x, y, z = self.threads
        return x * y * z


@dataclass(frozen=True)
class Launch:
    """One kernel of a frame.

    Attributes:
        kernel: its name.
        groups: workgroups.
        bytes: of the tensors it reads and writes, each counted once.
    """

    kernel: str
    groups: int
    bytes: int


@dataclass(frozen=True)
class Network:
    """What a frame of a package runs, in order, and the kernels it takes.

    Attributes:
        name, precision: of the package.
        kernels: by name.
        launches: of a frame, in order.
        target: that the package was compiled for, by the names of its attributes.
    """

    name: str
    precision: str
    kernels: dict[str, Kernel]
    launches: tuple[Launch, ...]
    target: Mapping[str, Any] = field(default_factory=dict)


def read_network(package: str | os.PathLike[str] | Package) -> Network:
    """The kernels and launches of a package for Vulkan.

    Raises PackageError for a package that is damaged, for a processor or for another machine.
    """
    from ..runtime.library import load_library
    from ..runtime.loader import open_package

    if isinstance(package, (str, os.PathLike)):
        with open_package(package) as opened:
            return read_network(opened)
    kind = str(package.info.target.get("kind"))
    if kind != "vulkan":
        raise PackageError(
            f"a package for vulkan is needed to read its shaders, found one for {kind}: compile "
            "the network with --target vulkan"
        )
    package.check_machine()
    graph = package.info.graph
    kernels, launches = read_library(load_library(package.library_path), graph)
    info = package.info
    return Network(info.model.name, info.precision, kernels, launches, info.target)


def read_library(library: Any, graph: PlannedGraph) -> tuple[dict[str, Kernel], tuple[Launch, ...]]:
    """The kernels that a graph launches out of a library, by name, and the launches in order.

    Raises PackageError where they do not belong together.
    """
    from ..tvm_compat.ffi import tvm_ffi

    listed = tvm_ffi.get_global_func(_LAUNCHES)(json.dumps({"graph": graph.to_json()}), library)
    sizes = dict(enumerate(tensor.nbytes for tensor in graph.tensors))
    launches = tuple(
        Launch(
            str(fields["kernel"]),
            math.prod(int(count) for count in fields["grid"]),
            # What a kernel's host code allocates for itself is no tensor of the graph's.
            sum(sizes.get(i, 0) for i in {int(tensor) for tensor in fields["tensors"]}),
        )
        for fields in listed
    )
    used = {launch.kernel for launch in launches}
    found = read_kernels(library)
    return {kernel.name: kernel for kernel in found if kernel.name in used}, launches


def read_kernels(library: Any) -> tuple[Kernel, ...]:
    """All kernels of a library."""
    from ..tvm_compat.ffi import tvm_ffi

    return tuple(map(_kernel, tvm_ffi.get_global_func(_KERNELS)(library)))


_KERNELS = "tvm_vision.vulkan.kernels"
_LAUNCHES = "tvm_vision.graph_executor.launches"


def _kernel(fields: Any) -> Kernel:
    x, y, z = (int(n) for n in fields["local_size"])
    return Kernel(
        name=str(fields["name"]),
        entry=str(fields["entry"]),
        code=bytes(fields["code"]),
        threads=(x, y, z),
        buffers=int(fields["buffers"]),
        scalar_bytes=int(fields["scalar_bytes"]),
        uniform=bool(fields["uniform"]),
        subgroup=int(fields["subgroup"]),
    )
