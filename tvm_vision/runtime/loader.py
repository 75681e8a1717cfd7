"""From a package to an executor that is ready to take frames."""

from __future__ import annotations

import os
from typing import Any

import tvm

from ..errors import InputError, PackageError, TvmVisionError
from ..package import Package, PackageInfo, read_package
from .device import CHOICES, choose_device
from .graph_executor import GraphExecutor, create


def load(path: str | os.PathLike[str], device: str = "auto") -> GraphExecutor:
    """Check a package, tar or folder, load it and its weights onto a device.

    device: "auto" (what the package was made for), "vulkan" or "cpu".

    Raises PackageError for a package that is not sound, InputError for a device that it was not
    made for, DeviceError where that device is absent, too small or lacks a feature.
    """
    with read_package(path) as package:
        kind = _device_kind(package.info, device)
        package.check_machine()
        chosen = choose_device(kind).tvm_device()
        executor = create(package.info.to_json(), _library(package), chosen)
        executor.load_params(package.params_path.read_bytes())
    return executor


def _device_kind(info: PackageInfo, wanted: str) -> str:
    if wanted not in CHOICES:
        raise InputError(f"a device of {', '.join(CHOICES)} is needed, found '{wanted}'")
    made_for = info.device_kind
    if wanted not in ("auto", made_for):
        target = {"cpu": "llvm"}.get(wanted, wanted)
        raise InputError(
            f"the package is made for {made_for}, and {wanted} is asked for: compile the model "
            f"with --target {target}"
        )
    return made_for


def _library(package: Package) -> Any:
    try:
        return tvm.runtime.load_module(str(package.library_path))
    except TvmVisionError:
        raise
    except Exception as error:  # TVM and the dynamic linker raise every kind there is
        reason = (str(error).strip().splitlines() or [type(error).__name__])[-1]
        raise PackageError(
            f"mod.so cannot be loaded ({reason}): compile the model again with this tvm_vision"
        ) from None
