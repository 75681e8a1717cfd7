"""Shaders to read: each kernel's GLSL and SPIR-V, in a folder.

TVM calls the code generator with a module and a target, and nothing else goes with them: who wants
shaders of one compilation says so around it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path

from tvm_vision.vulkan.options import device_options
from tvm_vision.whole_files import write_whole

_folder: ContextVar[Path | None] = ContextVar("dump_folder", default=None)


@contextlib.contextmanager
def shaders_into(folder: Path | None) -> Iterator[None]:
    """What is compiled within is written there; None leaves it to TVM_VISION_DUMP_SHADERS."""
    token = _folder.set(folder)
    try:
        yield
    finally:
        _folder.reset(token)


def dump(sources: Mapping[str, str], shaders: Mapping[str, bytes]) -> None:
    """Write kernels, both by their names, where somebody asked for it."""
    chosen = _folder.get() or device_options()["TVM_VISION_DUMP_SHADERS"]
    if not chosen:
        return
    for name, source in sources.items():
        write_whole(Path(chosen) / f"{name}.comp", source.encode())
        write_whole(Path(chosen) / f"{name}.spv", shaders[name])
