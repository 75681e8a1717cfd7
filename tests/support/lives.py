"""A network's life, step by step, for programs in which something fails on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tvm_vision
import tvm_vision.vulkan as vulkan
from tvm_vision.errors import TvmVisionError
from tvm_vision.runtime.recovery import Recovery
from tvm_vision.tvm_compat.ffi import tvm_ffi

Steps = dict[str, Callable[[], object]]


class Life:
    """Steps, one after the other; after one that fails the next has its turn."""

    #: Seconds that a frame may take, and those that the last rebuild took.
    frame_timeout = rebuilding = 0.0
    #: How often the network was loaded anew by itself, in all lives.
    rebuilt = 0

    def __init__(self) -> None:
        self.after_step: Callable[[str], object] = lambda name: None

    def steps(self) -> Steps:
        """All that there is to do."""
        raise NotImplementedError

    def short_steps(self) -> Steps:
        """What shows whether all is well."""
        raise NotImplementedError

    def live(self, steps: Steps) -> dict[str, str]:
        """What each step came to: "right", "wrong" or the error's line."""
        return {name: self._try(name, step) for name, step in steps.items()}

    def _try(self, name: str, step: Callable[[], object]) -> str:
        try:
            return "wrong" if step() is False else "right"
        except TvmVisionError as error:
            return f"{type(error).__name__}: {error}"
        except (AttributeError, IndexError):
            return "skipped"  # there is no executor, or no frame
        except Exception as error:
            return f"unexpected {type(error).__name__}: {error}"
        finally:
            self.after_step(name)


class NetworkLife(Life):
    """That of an executor."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._package = f"{folder}/network.tar"
        self._x, self._y = np.load(f"{folder}/x.npy"), np.load(f"{folder}/y.npy")
        self._executor: Any = None
        self._tickets: list[int] = []

    def steps(self) -> Steps:
        """Every way to run a network, with an end in the middle and at the end."""
        return {
            "load": self._load,
            "run": lambda: self._executor.run(input=self._x),
            "output of run": self._compare,
            "submit": self._submit,
            "submit another": self._submit,
            "unload in flight": self._drop,
            "load again": self._load,
            "first": self._submit,
            "second": self._submit,
            "wait": lambda: self._executor.wait(self._tickets[-2]),
            "output of wait": self._compare,
            "profile": lambda: self._executor.profile(repeat=1, warmup=0),
            "output of profile": self._compare,
            "trace": lambda: self._executor.trace(frames=1),
            "copy": self._copy,
            "unload": self._drop,
            "shutdown": vulkan.shutdown,
        }

    def short_steps(self) -> Steps:
        """From load to shutdown."""
        return {
            "load": self._load,
            "run": lambda: self._executor.run(input=self._x),
            "output": self._compare,
            "unload": self._drop,
            "shutdown": vulkan.shutdown,
        }

    def _load(self) -> None:
        self._drop()
        recovery = Recovery(frame_timeout=self.frame_timeout)
        self._executor = tvm_vision.load(self._package, recovery=recovery)

    def _submit(self) -> None:
        self._executor.set_input(0, self._x)
        self._tickets.append(self._executor.submit())

    def _compare(self) -> bool:
        return np.allclose(self._executor.get_output(0).numpy(), self._y, rtol=1e-4, atol=1e-5)

    def _copy(self) -> bool:
        """Host to device, device to device, and back, as TVM's tensors do it."""
        allocate = tvm_ffi.get_global_func("runtime.TVMTensorAllocWithScope")
        copy = tvm_ffi.get_global_func("runtime.TVMTensorCopyFromTo")
        device, dtype = tvm_ffi.device("vulkan", 0), tvm_ffi.dtype("float32")
        first, second = (allocate(tvm_ffi.Shape(self._x.shape), dtype, device, None) for _ in "12")
        back = np.zeros_like(self._x)
        copy(tvm_ffi.from_dlpack(self._x), first)
        copy(first, second)
        copy(second, tvm_ffi.from_dlpack(back))
        return bool((back == self._x).all())

    def _drop(self) -> None:
        if self._executor is not None and self._executor.losses.rebuilt:
            self.rebuilt += self._executor.losses.rebuilt
            self.rebuilding = self._executor.losses.seconds
        self._executor, self._tickets = None, []
