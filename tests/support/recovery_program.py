"""A device that is lost, again and again, and what becomes of the network: see test_recovery.py.

Argument: a folder with network.tar, cpu.tar, x.npy, y.npy and the loader that fails, which
TVM_VISION_VULKAN_LOADER names. Prints what each scene came to as JSON.
"""

from __future__ import annotations

import faulthandler
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tvm_vision
import tvm_vision.vulkan as vulkan
from support.failing_loader import FOREVER, HANG, Loader
from support.vulkan_results import VALUES
from tvm_vision.errors import TvmVisionError
from tvm_vision.runtime import recovery
from tvm_vision.runtime.recovery import Recovery

LOST = VALUES["VK_ERROR_DEVICE_LOST"]
SUBMIT = "vkQueueSubmit"
TIMES = 30


class Scene:
    """An executor, and what its frames came to."""

    def __init__(self, folder: Path, loader: Loader, **options: Any) -> None:
        self.x, self.y = np.load(folder / "x.npy"), np.load(folder / "y.npy")
        self.loader = loader
        self.executor: Any = tvm_vision.load(folder / "network.tar", recovery=Recovery(**options))
        self.frames: list[str] = []

    def frame(self) -> None:
        self.note(lambda: self.executor.run(input=self.x))

    def note(self, work: Callable[[], object]) -> None:
        """Do it, and write down whether the outputs are right, or the error."""
        try:
            work()
            close = np.allclose(self.executor.get_output(0).numpy(), self.y, rtol=1e-4, atol=1e-5)
            self.frames.append("right" if close else "wrong")
        except TvmVisionError as error:
            self.frames.append(f"{type(error).__name__}: {error}")

    def lose(self, count: int = 1) -> None:
        """From the next submission on the device is lost, so many times."""
        self.loader.arm(SUBMIT, 1, count, LOST)

    def ends(self) -> dict[str, Any]:
        """What there is to tell."""
        self.loader.arm("")
        losses, device = self.executor.losses, self.executor.device.type
        found = {**vars(losses), "frames": self.frames, "device": device}
        found["devices"] = self.loader.devices()
        return found


def once(scene: Scene) -> None:
    for number in range(5):
        if number == 2:
            scene.lose()
        scene.frame()


def often(scene: Scene) -> None:
    for _ in range(TIMES):
        scene.lose()
        scene.frame()


def hang(scene: Scene) -> None:
    scene.frame()
    scene.loader.arm(SUBMIT, 1, 1, HANG)
    scene.frame()
    scene.frame()


def in_flight(scene: Scene) -> None:
    def submit() -> int:
        scene.executor.set_input(0, scene.x)
        return int(scene.executor.submit())

    scene.lose()
    scene.note(submit)
    first = submit()
    submit()
    scene.note(lambda: scene.executor.wait(first))


def for_good(scene: Scene) -> None:
    scene.lose(FOREVER)
    for _ in range(6):
        if not scene.executor.losses.on_fallback:
            scene.frame()


def back(scene: Scene) -> None:
    scene.lose(FOREVER)
    for _ in range(4):
        scene.frame()
    scene.loader.arm("")
    scene.executor._attempts._times.clear()  # a minute later
    scene.frame()


def main() -> None:
    faulthandler.dump_traceback_later(100, exit=True)
    folder = Path(sys.argv[1])
    loader = Loader(str(folder / "libfaulty_loader.so"))
    recovery.PAUSE = 0.0
    recovery.MINUTE = 3600.0
    cpu = str(folder / "cpu.tar")
    scenes: dict[str, tuple[Callable[[Scene], None], dict[str, Any]]] = {
        "once": (once, {}),
        "often": (often, {"rebuilds_per_minute": 60}),
        "hang": (hang, {"frame_timeout": 0.2}),
        "in flight": (in_flight, {}),
        "fallback": (for_good, {"rebuilds_per_minute": 2, "fallback": cpu}),
        "back": (back, {"rebuilds_per_minute": 2}),
    }
    met: dict[str, Any] = {}
    for name, (play, options) in scenes.items():
        scene = Scene(folder, loader, **options)
        play(scene)
        met[name] = scene.ends()
        del scene
        vulkan.shutdown()
    print(json.dumps({**met, "said": vulkan.validation_messages()}))


main()
