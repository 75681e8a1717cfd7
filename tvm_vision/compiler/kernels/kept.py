"""The kernels that were made before: by this process, and, in files, by others of this user."""

from __future__ import annotations

import threading
from collections import OrderedDict

from ...cache.files import KeptFiles
from .code import KernelCode

# A kernel takes 10 to 40 KB; the largest networks have some 500.
FILES = KeptFiles("kernels", ".kernel", most_bytes=64 << 20, most_total=256 << 20)
MOST_IN_MEMORY = 64 << 20  # bytes of files


class KeptKernels:
    """Kernels by their keys, those in memory bounded by the size of their files.

    A kernel that cannot be read, for whatever reason, is one that was not made before.
    """

    def __init__(self, files: KeptFiles, most_in_memory: int) -> None:
        self._files = files
        self._most = most_in_memory
        self._lock = threading.Lock()
        self._memory: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0

    def load(self, key: str) -> KernelCode | None:
        """The kernel of a key, where it was made before."""
        with self._lock:
            content = self._memory.get(key)
            if content is not None:
                self._memory.move_to_end(key)
                return KernelCode.from_bytes(content)
        content = self._files.load(key)
        if content is None:
            return None
        try:
            found = KernelCode.from_bytes(content)
        except ValueError:
            return None
        self._remember(key, content)
        return found

    def store(self, key: str, code: KernelCode) -> None:
        """Keep a kernel, in files as well where these can be written."""
        content = code.to_bytes()
        self._remember(key, content)
        self._files.store(key, content)

    def forget(self) -> None:
        """Leave it all to the files."""
        with self._lock:
            self._memory.clear()
            self._size = 0

    def _remember(self, key: str, content: bytes) -> None:
        with self._lock:
            self._size += len(content) - len(self._memory.pop(key, b""))
            self._memory[key] = content
            while self._size > self._most:
                _, oldest = self._memory.popitem(last=False)
                self._size -= len(oldest)


KERNELS = KeptKernels(FILES, MOST_IN_MEMORY)
