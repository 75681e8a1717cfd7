"""From a package on disk to an executor that takes frames."""

from __future__ import annotations

import json
import os
from typing import Any

import tvm

from .. import vulkan
from ..errors import DeviceError, PackageError
from ..package import Package, read_package
from .device import CHOICES
from .graph_executor import GraphExecutor, create


def load(path: str | os.PathLike[str] | Package, device: str = "auto") -> GraphExecutor:
    """Load a package, a tar or folder, onto its device; the network is ready for its first frame.

    device: "auto" takes the kind of device that the package was compiled for; "vulkan" and "cpu"
    insist on one. With several Vulkan devices TVM_VISION_VULKAN_DEVICE chooses.

    mod.so is native code: loading a package is trusting who made it. Everything else of it is
    checked before. Raises PackageError for a package that is damaged or for another machine,
    DeviceError where the device is absent or lacks what a kernel needs.
    """
    package = path if isinstance(path, Package) else read_package(path)
    package.check_machine()
    chosen = _device(str(package.info.target.get("kind")), device)
    try:
        library = tvm.runtime.load_module(str(package.library_path))
    except (OSError, RuntimeError, tvm.error.InternalError) as error:
        reason = str(error).strip().splitlines()[-1]
        raise PackageError(
            f"mod.so of the package cannot be loaded ({reason}); compile the network again"
        ) from None
    executor = create(json.dumps(package.info.to_json()), library, chosen)
    executor.load_params(package.params_path.read_bytes())
    executor.prepare()
    return executor


def _device(kind: str, wanted: str) -> Any:
    """The tvm.runtime.Device for kernels of a target kind, "vulkan" or "llvm"."""
    if wanted not in CHOICES:
        raise ValueError(f"expected a device of {', '.join(CHOICES)}, got '{wanted}'")
    needed = "vulkan" if kind == "vulkan" else "cpu"
    if wanted not in ("auto", needed):
        raise DeviceError(
            f"device {wanted} was asked for, but the package was compiled for {needed}; compile "
            f"the network with --target {'llvm' if wanted == 'cpu' else 'vulkan'}"
        )
    if needed == "cpu":
        return tvm.cpu(0)
    if not vulkan.devices():
        raise DeviceError(
            f"the package was compiled for vulkan, but {vulkan.status()}; or compile the network "
            "with --target llvm"
        )
    return tvm.vulkan(0)
