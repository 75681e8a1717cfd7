"""The loader that fails, as a process that has it in place of Vulkan's tells it what to do.

See tests/vulkan/cpp/faulty_loader.cc.
"""

from __future__ import annotations

import ctypes

# Beside the values of VkResult: lost, with the work begun all the same; a device that hangs.
LOST_AFTER, HANG = -1004, 1000
FOREVER = 1 << 40  # as many calls as there are


class Loader:
    """The loader that fails; see tests/vulkan/cpp/faulty_loader.cc."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        self._library.faulty_functions.restype = ctypes.c_char_p
        for name in ("faulty_calls", "faulty_failed", "faulty_devices"):
            getattr(self._library, name).restype = ctypes.c_long
        self.functions = self._library.faulty_functions().decode().split()

    def arm(self, name: str, first: int = FOREVER, count: int = 0, result: int = 0) -> None:
        self._library.faulty_arm(
            name.encode(), ctypes.c_long(first), ctypes.c_long(count), ctypes.c_int(result)
        )

    def calls(self) -> dict[str, int]:
        """Calls of each function so far."""
        return {name: self._library.faulty_calls(name.encode()) for name in self.functions}

    def failed(self) -> int:
        return int(self._library.faulty_failed())

    def devices(self) -> int:
        return int(self._library.faulty_devices())
