"""From a package on disk to an executor that takes frames.

What takes a while to import (numpy, TVM's Python) is imported while the device is being opened.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from .. import vulkan
from ..errors import DeviceError, PackageError
from ..package import Package, PackageInfo, read_package
from .device import CHOICES

if TYPE_CHECKING:
    import numpy as np

    from .graph_executor import GraphExecutor


def load(path: str | os.PathLike[str] | Package, device: str = "auto") -> GraphExecutor:
    """Load a package, a tar or folder, onto its device; the network is ready for its first frame.

    device: "auto" takes the kind of device that the package was compiled for; "vulkan" and "cpu"
    insist on one. With several Vulkan devices TVM_VISION_VULKAN_DEVICE chooses.

    mod.so is native code: loading a package is trusting who made it. Everything else of it is
    checked before. Raises PackageError for a package that is damaged or for another machine,
    DeviceError where the device is absent or lacks what a kernel needs.
    """
    package = path if isinstance(path, Package) else open_package(path, device)
    from ..vulkan.ffi import tvm_ffi
    from .graph_executor import create

    package.check_machine()
    chosen = _device(str(package.info.target.get("kind")), device)
    try:
        library = tvm_ffi.load_module(str(package.library_path))
    except (OSError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[-1]
        raise PackageError(
            f"mod.so of the package cannot be loaded ({reason}); compile the network again"
        ) from None
    executor = create(json.dumps(package.info.to_json()), library, chosen)
    executor.load_params(_weights(package))
    executor.prepare()
    return executor


def open_package(path: str | os.PathLike[str], device: str = "auto") -> Package:
    """``read_package``, while the device is being opened that ``load`` will need.

    Both take a while, and neither waits for the other.
    """

    def begin(info: PackageInfo) -> None:
        if info.target.get("kind") == "vulkan" and device != "cpu":
            vulkan.begin_to_open_device()

    return read_package(path, begin)


def _weights(package: Package) -> dict[str, np.ndarray] | bytes:
    """The weights where they lie in the file; its content for types that numpy does not have."""
    import numpy as np

    from ..package.params import list_params

    path = package.params_path
    with path.open("rb") as stream:
        stored = list_params(stream)
    content = np.memmap(path, np.uint8, "c")
    try:
        return {
            name: np.ndarray(t.shape, np.dtype(t.dtype), content, t.offset)
            for name, t in stored.items()
        }
    except TypeError:
        return path.read_bytes()


def _device(kind: str, wanted: str) -> Any:
    """The device for kernels of a target kind, "vulkan" or "llvm"."""
    if wanted not in CHOICES:
        raise ValueError(f"expected a device of {', '.join(CHOICES)}, got '{wanted}'")
    from ..vulkan.ffi import tvm_ffi

    needed = "vulkan" if kind == "vulkan" else "cpu"
    if wanted not in ("auto", needed):
        raise DeviceError(
            f"device {wanted} was asked for, but the package was compiled for {needed}; compile "
            f"the network with --target {'llvm' if wanted == 'cpu' else 'vulkan'}"
        )
    if needed == "cpu":
        return tvm_ffi.device("cpu", 0)
    if not vulkan.devices():
        raise DeviceError(
            f"the package was compiled for vulkan, but {vulkan.status()}; or compile the network "
            "with --target llvm"
        )
    return tvm_ffi.device("vulkan", 0)
