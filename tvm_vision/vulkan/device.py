"""The native library behind ``tvm.vulkan(i)``: loading it, registering it with TVM, asking it.

Importing this module registers the backend. Vulkan is not called before a device is first used.
Where networks are only run (``TVM_USE_RUNTIME_LIB=1``) it loads libraries and no Python of TVM's:
that comes with the first call (``ffi``). Until then TVM's own functions raise our errors as
RuntimeError.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import sys
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from .. import environment
from ..errors import DeviceError, InputError
from ..side_threads import Wait, meanwhile
from ..tvm_compat.runtime_library import LIBRARIES
from .device_keys import keys_of

LIBRARY_NAME = "libtvm_vision_vulkan.so"
BACKENDS = ("tvm_vision", "tvm")
# For the driver to start and to open a device, which takes seconds, and some ten where others keep
# all processors busy.
OPENING_SECONDS = 120.0
NO_DEVICE = -1
# What opens devices now; whether it took too long; and the shutdowns after which all was open.
_opening: list[Wait] = []
_late = False
_open_since = -1


@dataclass(frozen=True)
class DeviceInfo:
    """What a Vulkan device reports. Sizes in bytes, subgroup sizes in lanes.

    ``index`` is the number in ``tvm.vulkan(index)``; ``type`` is ``"discrete"``, ``"integrated"``,
    ``"virtual"``, ``"cpu"`` or ``"other"``; ``compute_units`` is 0 where the driver does not tell;
    ``supports_integer_dot_product``: four products of bytes are added up by one instruction;
    drivers that write it out are left out.
    ``cooperative_matrix_shapes`` holds (m, n, k, A type, B type, C type, result type) per subgroup.
    """

    index: int
    name: str
    type: str
    driver_name: str
    driver_info: str
    vulkan_api_version: int
    memory_bytes: int
    unified_memory: bool
    compute_units: int
    thread_warp_size: int
    min_subgroup_size: int
    max_subgroup_size: int
    max_threads_per_block: int
    max_shared_memory_per_block: int
    max_push_constants_size: int
    max_storage_buffer_range: int
    timestamp_bits: int
    timestamp_period_ns: float
    supports_float16: bool
    supports_float64: bool
    supports_int8: bool
    supports_int16: bool
    supports_int64: bool
    supports_8bit_buffer: bool
    supports_16bit_buffer: bool
    supports_integer_dot_product: bool
    supports_cooperative_matrix: bool
    cooperative_matrix_shapes: tuple[tuple[Any, ...], ...] = ()
    properties: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def is_cpu(self) -> bool:
        """Whether this is an implementation of Vulkan on the CPU, such as lavapipe."""
        return self.type == "cpu"

    @property
    def target_keys(self) -> tuple[str, ...]:
        """What a target for it has beside attributes, see ``tvm_vision.target_keys``."""
        return tuple(keys_of(self.properties))

    @property
    def api_version(self) -> str:
        """Vulkan version of the device, as ``"1.3.230"``."""
        packed = self.vulkan_api_version
        return f"{packed >> 22 & 0x7F}.{packed >> 12 & 0x3FF}.{packed & 0xFFF}"

    def describe(self) -> str:
        """One line for people: name, kind, driver; it says so when the device is a CPU."""
        driver = " ".join(part for part in (self.driver_name, self.driver_info) if part)
        kind = "a CPU implementation of Vulkan, no GPU" if self.is_cpu else f"{self.type} GPU"
        return f"vulkan({self.index}): {self.name} ({kind}; {driver}; Vulkan {self.api_version})"


def _load_library() -> ctypes.CDLL:
    path = Path(__file__).with_name(LIBRARY_NAME)
    if not path.exists():
        raise DeviceError(
            f"the native library {LIBRARY_NAME} was needed beside {Path(__file__).name}, found "
            "none; build it with `pip install .` or `pip install -e .` in the repository"
        )
    if LIBRARIES is not None:
        LIBRARIES.load()
    else:
        from ..tvm_compat import ffi  # noqa: F401  the libraries that ours links to come with TVM
    library = ctypes.CDLL(str(path), ctypes.RTLD_LOCAL)
    library.tvm_vision_vulkan_shutdowns.restype = ctypes.c_uint64
    library.tvm_vision_vulkan_register.restype = ctypes.c_char_p
    return library


def _function(name: str) -> Any:
    from ..tvm_compat.ffi import tvm_ffi

    if _refused is not None:
        raise _refused
    return tvm_ffi.get_global_func(f"tvm_vision.vulkan.{name}")


def _build_vulkan(mod: Any, target: Any) -> Any:
    # Imported by the first compilation: a robot that only runs never needs the code generator.
    from .codegen.build import build_vulkan

    return build_vulkan(mod, target)


def _disassemble(shader: Any) -> str:
    from .codegen.spirv import disassemble

    return disassemble(bytes(shader))


def _register_compiler() -> None:
    """Make TVM compile for ``vulkan`` by this backend, for targets with the device's numbers."""
    from ..tvm_compat.ffi import tvm_ffi
    from . import target
    from .codegen import host_check

    tvm_ffi.register_global_func("target.build.vulkan", _build_vulkan, override=True)
    tvm_ffi.register_global_func("tvm_vision.vulkan.disassemble", _disassemble, override=True)
    target.install()
    host_check.install()


def backend_in_use() -> str:
    """``"tvm_vision"`` when ``tvm.vulkan(i)`` is ours, ``"tvm"`` when it is TVM's own."""
    return _backend


def register(backend: str | None = None) -> str:
    """Make TVM run and compile for ``vulkan`` through this backend.

    ``backend`` is ``"tvm_vision"`` or ``"tvm"``; None reads ``TVM_VISION_VULKAN_BACKEND`` and
    defaults to ours. ``"tvm"`` keeps the Vulkan that an installed TVM brings itself. Returns the
    one in use. Raises InputError for another name, DeviceError for ``"tvm"`` when TVM has no Vulkan
    of its own.
    """
    global _backend, _refused
    wanted = backend or environment.backend()
    if wanted not in BACKENDS:
        raise InputError(f"a backend is {' or '.join(BACKENDS)}, found {wanted!r}")
    if wanted == "tvm":
        from ..tvm_compat.ffi import tvm_ffi

        if tvm_ffi.get_global_func("device_api.vulkan", allow_missing=True) is None:
            raise DeviceError(
                "TVM's own Vulkan was asked for (TVM_VISION_VULKAN_BACKEND=tvm), but this TVM was "
                "built without it; unset the variable to use the one of tvm_vision"
            )
        _backend, _refused = "tvm", None
        return _backend
    if refused := _LIBRARY.tvm_vision_vulkan_register():
        raise DeviceError(refused.decode(errors="replace"))
    if LIBRARIES is None:
        _register_compiler()
    _backend, _refused = "tvm_vision", None
    return _backend


def _plain(value: Any) -> Any:
    """FFI containers and strings as plain Python objects."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (bool, int, float)) or value is None:
        return value
    if hasattr(value, "items"):
        return {str(key): _plain(item) for key, item in value.items()}
    return tuple(_plain(item) for item in value)


def devices() -> list[DeviceInfo]:
    """All Vulkan devices, in the order of ``tvm.vulkan(0)``, ``tvm.vulkan(1)``, …; may be empty.

    The order is discrete, integrated, virtual, other, CPU. ``TVM_VISION_VULKAN_DEVICE`` selects by
    number or by part of a name, separated by commas. Raises DeviceError where the driver does not
    answer, as one does whose GPU is gone.
    """
    _until_drivers_answer()
    names = [f.name for f in fields(DeviceInfo) if f.name not in ("index", "properties")]
    found = []
    for index, described in enumerate(_function("devices")()):
        info = _plain(described)
        found.append(
            DeviceInfo(index=index, properties=info, **{name: info[name] for name in names})
        )
    return found


def status() -> str:
    """Why there is no Vulkan device, in one line with the remedy; empty when there is one."""
    _until_drivers_answer()
    return str(_function("status")())


def begin_to_open_device(device: int = 0) -> None:
    """Open a device in a thread of its own. Who uses the device waits, and is told what is wrong.

    It needs no Python of TVM's, so that this can be imported meanwhile. A thread that comes after
    ``shutdown`` leaves the device closed. NO_DEVICE: only what devices there are is found out.
    """
    ahead = (ctypes.c_int(device), ctypes.c_uint64(_LIBRARY.tvm_vision_vulkan_shutdowns()))
    _opening.append(meanwhile(_LIBRARY.tvm_vision_vulkan_open, *ahead))


def open_device(device: int) -> None:
    """Open a device, or open one that was lost anew. Raises DeviceError where its driver does not
    answer; whatever else is wrong is told to who uses the device."""
    if not _opening:
        begin_to_open_device(device)
    _until_drivers_answer()


def _until_drivers_answer() -> None:
    """Wait for what opens devices, with a limit: calls of a driver have none of their own."""
    global _late, _open_since
    shutdowns = _LIBRARY.tvm_vision_vulkan_shutdowns()
    if not _opening and _open_since != shutdowns:
        begin_to_open_device(NO_DEVICE)
    for wait in list(_opening):
        if not wait(OPENING_SECONDS):
            _late = True
            raise DeviceError(
                "a Vulkan driver that answers is needed, and one has been at opening its device "
                f"for {OPENING_SECONDS:g} s: end this process, see the kernel log for the GPU, and "
                "what tvm-vision doctor says of each driver; restart the machine where it stays so"
            )
        with contextlib.suppress(ValueError):  # another thread waited, too
            _opening.remove(wait)
    _late, _open_since = False, shutdowns


def memory_in_use(device: int = 0) -> dict[str, int]:
    """Memory of all tensors on a device: used, reserved and peak bytes, allocations, blocks."""
    return _plain(_function("memory_in_use")(device))


def pipeline_cache_paths(device: int = 0) -> list[str]:
    """Files that keep the driver's compiled pipelines of this process, one for each library of
    kernels that was used; none where nothing is cached."""
    return [str(path) for path in _function("pipeline_cache_paths")(device)]


def validation_messages() -> list[str]:
    """Messages of the validation layer since the last call (``TVM_VISION_VULKAN_VALIDATION=1``)."""
    return [str(message) for message in _function("validation_messages")()]


def shutdown() -> None:
    """Finish all work and let go of every device; the next use opens them again.

    Runs at exit by itself: it saves the pipeline cache and gives devices back in the right order.
    """
    _LIBRARY.tvm_vision_vulkan_shutdown()


_LIBRARY = _load_library()
_backend = "tvm_vision"
# Why there is no backend: said to who uses it, for an import has nobody to tell in one line.
_refused: DeviceError | None = None
try:
    register()
except DeviceError as error:
    _refused = error


def _end() -> None:
    """Finish all work, before the interpreter ends the threads that are still at it."""
    if _late and not all(wait(0.0) for wait in _opening):
        # What the driver holds would hold up the end of the process, too.
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(1)
    _LIBRARY.tvm_vision_process_ends()
    shutdown()


atexit.register(_end)
# Threads stay in the parent.
os.register_at_fork(after_in_child=_opening.clear)

__all__ = [
    "DeviceInfo",
    "backend_in_use",
    "begin_to_open_device",
    "devices",
    "memory_in_use",
    "open_device",
    "pipeline_cache_paths",
    "register",
    "shutdown",
    "status",
    "validation_messages",
]
