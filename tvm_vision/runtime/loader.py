"""From a package on disk to an executor that takes frames.

What takes a while to import (numpy, TVM's Python) is imported while the device is being opened.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from functools import partial
from typing import TYPE_CHECKING, Any

from .. import vulkan
from ..error_lines import last_line
from ..errors import DeviceError, InputError, PackageError
from ..package.peek import peek
from ..side_threads import meanwhile
from .choices import need_device
from .recovery import Recovery

LOGGER = logging.getLogger(__name__)

if TYPE_CHECKING:
    import numpy as np

    from ..package import Fleet, Package, PublicKeys
    from .graph_executor import GraphExecutor
    from .recovering import Parts


def load(
    path: str | os.PathLike[str] | Package,
    device: str = "auto",
    target: str = "",
    verify: str | os.PathLike[str] | None = None,
    recovery: Recovery | None = None,
) -> GraphExecutor:
    """Load a package, a tar or folder, onto its device; the network is ready for its first frame.

    device: "auto" takes the kind of device that the package was compiled for; "vulkan" and "cpu"
    insist on one. With several Vulkan devices TVM_VISION_VULKAN_DEVICE chooses.
    target: of a package for several devices the variant of that name; else the one for this
        machine, see ``tvm_vision.runtime.variants.plan_variant``. The others are not read.
    verify: a file of public keys (PEM, Ed25519), one of which has to have signed the package; what
        is loaded are the bytes that were checked. None: whoever made it.
    recovery: how long a frame may take, and what is done where the device is lost; see Recovery. A
        fallback has to be signed as well.

    mod.so is native code: loading a package is trusting who made it. Everything else of it is
    checked before. Raises PackageError for a package that is damaged, not signed as it has to be or
    for another machine, DeviceError where the device is absent or lacks what a kernel needs,
    InputError for keys that cannot be read, for a word that is no device, and for a fallback that
    cannot take the network's place.
    """
    package = opened(path, device, target, verify)
    from .graph_executor import made_for_another
    from .recovering import RecoveringExecutor

    recovery = recovery or Recovery()
    parts = _parts(package, device)
    fallback = None
    if recovery.fallback and parts.device.type != "cpu":
        fallback = partial(_fallback, package, recovery.fallback)
        fallback()  # now, not when it is needed
    try:
        executor = RecoveringExecutor(parts, recovery, fallback)
        if executor.device_note:
            LOGGER.warning("%s: %s", package.info.model.name, executor.device_note)
        executor.prepare()
    except DeviceError as error:
        made_for = made_for_another(package.info.target, parts.device)
        if not made_for:
            raise
        raise type(error)(f"{error}; the package was made for {made_for}") from None
    return executor


def _parts(package: Package, device: str) -> Parts:
    """What an executor of a package is made of; its library is loaded, its weights are not."""
    from .library import load_library
    from .recovering import Parts

    package.check_machine()
    chosen = _device(str(package.info.target.get("kind")), device)
    try:
        library = load_library(package.library_path)
    except (OSError, RuntimeError) as error:
        raise PackageError(
            f"mod.so of the package cannot be loaded ({last_line(error)}); compile the network "
            "again"
        ) from None
    return Parts(json.dumps(package.info.to_json()), library, chosen, _Weights(package))


class _Weights:
    """The weights of a package: those that were read at first, from its file later."""

    def __init__(self, package: Package) -> None:
        self._package: Package | None = package
        self._origin, self._checksum = package.origin, package.info.checksum

    def __call__(self) -> dict[str, np.ndarray] | bytes:
        """Raises PackageError where the file is no longer there, or another."""
        package = self._package
        if package is not None:
            if self._origin is not None:
                # Not held for the day that they are needed again: they lie on the device.
                self._package = None
            return _weights(package)
        assert self._origin is not None
        again = self._origin.read()
        if again.info.checksum != self._checksum:
            raise PackageError(
                f"the package that was loaded is needed again, and '{self._origin.path}' is "
                "another by now: load the network anew"
            )
        return _weights(again)


def _fallback(package: Package, wanted: str) -> Parts:
    """What takes a network's place on the CPU, signed as that had to be. Raises InputError where it
    cannot."""
    keys = package.origin.verify if package.origin else None
    if wanted != "cpu":
        found = open_package(wanted, "cpu", verify=keys)
    elif package.origin is None or not package.origin.variant:
        raise InputError(
            "a package for several devices is needed to fall back to the cpu, and this is for one: "
            "compile it with --target vulkan,llvm, or give the path of a package for the cpu"
        )
    else:
        found = open_package(package.origin.path, "cpu", verify=keys)
    for what in ("inputs", "outputs"):
        ours, theirs = (", ".join(map(str, getattr(p.info, what))) for p in (package, found))
        if ours != theirs:
            raise InputError(
                f"a fallback with the {what} of the network ({ours}) is needed, and '{wanted}' has "
                f"{theirs}: compile it from the same model"
            )
    return _parts(found, "cpu")


def opened(
    path: str | os.PathLike[str] | Package,
    device: str,
    target: str,
    verify: str | os.PathLike[str] | None,
) -> Package:
    """``open_package``, or the package itself where it was read already; then nothing says any more
    who signed it, and InputError is raised for ``verify``, as for what is neither. It is for a word
    that is no device, too."""
    need_device(device)
    if isinstance(path, (str, os.PathLike)):
        return open_package(path, device, target, verify)
    if not hasattr(path, "check_machine"):  # with the class, what checks packages is imported
        raise InputError(
            f"the path of a package is needed, found a value of type {type(path).__name__}"
        )
    if verify is not None:
        raise InputError(
            "verify needs the path of a package, found one that was read: give the path"
        )
    return path


def open_package(
    path: str | os.PathLike[str],
    device: str = "auto",
    target: str = "",
    verify: str | os.PathLike[str] | PublicKeys | None = None,
) -> Package:
    """``read_package``, of the variant for this machine where there are several, while the device
    is being opened, weights are read, and imported is what ``load`` will need.

    All of these take a while, and none waits for another.
    """

    def import_executor() -> None:
        # What goes wrong with it goes wrong again where it is used.
        with contextlib.suppress(Exception):
            from . import graph_executor  # noqa: F401

    seen = peek(path)
    # Of a variant that is named it is known below whether it needs one.
    named = seen.is_fleet and bool(target)
    if device != "cpu" and seen.target_kind == "vulkan" and not named:
        vulkan.begin_to_open_device()
    from ..package import PublicKeys, read_package

    meanwhile(import_executor)
    keys = PublicKeys.read(verify) if isinstance(verify, (str, os.PathLike)) else verify
    if target and not seen.is_fleet:
        raise InputError(
            f"a package for several devices is needed to take '{target}' of, and "
            f"'{os.fspath(path)}' is for one: leave the target out"
        )

    def choose(fleet: Fleet) -> str:
        from .variants import choose_variant

        chosen = choose_variant(fleet, device, target)
        LOGGER.info("of %s: %s", ", ".join(fleet.names), chosen.describe())
        if named and chosen.is_vulkan and device != "cpu":
            vulkan.begin_to_open_device()
        return chosen.name

    return read_package(path, seen.params, variant=choose, verify=keys)


def _weights(package: Package) -> dict[str, np.ndarray] | bytes:
    """The weights in the package's memory; all its bytes for types that numpy does not have."""
    import numpy as np

    from ..package.params import list_params

    stored = list_params(package.params)
    try:
        return {
            name: np.ndarray(t.shape, np.dtype(t.dtype), package.params, t.offset)
            for name, t in stored.items()
        }
    except TypeError:
        return package.params[:]


def _device(kind: str, wanted: str) -> Any:
    """The device for kernels of a target kind, "vulkan" or "llvm"."""
    from ..tvm_compat.ffi import tvm_ffi

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
