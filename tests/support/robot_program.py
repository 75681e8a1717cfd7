"""What happens around a program on a robot, one scene of it: see test_surroundings.py.

Arguments: the folder of ``faults.write_to_lose``, a network of it, and the scene. Prints "right"
where every frame was, and what else the scene has to tell.
"""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tvm_vision
from tvm_vision.errors import TvmVisionError
from tvm_vision.runtime.recovery import Recovery

FRAMES = 50
STOPPED = 1.2  # s
LIMIT = 0.4  # s, that a frame may take


class Robot:
    """A network and what is known of it."""

    def __init__(self, folder: str, package: str) -> None:
        self.folder, self.package = Path(folder), Path(folder) / package
        self.x, self.y = np.load(f"{folder}/x.npy"), np.load(f"{folder}/y.npy")

    def load(self, **given: Any) -> Any:
        """The network, loaded."""
        return tvm_vision.load(self.package, **given)

    def right(self, executor: Any) -> bool:
        """Whether a frame is."""
        (output,) = executor.frame({0: self.x}).values()
        return bool(np.allclose(output, self.y, rtol=1e-4, atol=1e-5))


def plain(robot: Robot) -> bool:
    return robot.right(robot.load())


def numpy_raises(robot: Robot) -> bool:
    """Every rounding that numpy tells of is an error of the program's."""
    np.seterr(all="raise")
    return plain(robot)


def no_descriptors_to_run(robot: Robot) -> bool:
    executor = robot.load()
    assert robot.right(executor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
    return robot.right(executor)


def few_descriptors_to_load(robot: Robot) -> bool:
    """Each number from too few on is told in a line, until there are enough."""
    plain(robot)  # what is imported and opened once
    taken = max(map(int, os.listdir("/proc/self/fd")))
    for spare in range(12):
        resource.setrlimit(resource.RLIMIT_NOFILE, (taken + spare, 4096))
        try:
            return plain(robot)
        except TvmVisionError as error:
            print(error)
    return False


def package_goes(robot: Robot) -> bool:
    """It is deleted, is another one's, is none any more, and is shorter, while the network runs."""
    path = robot.folder / f"gone-{robot.package.name}"
    whole = robot.package.read_bytes()
    path.write_bytes(whole)
    executor = tvm_vision.load(path)
    found = [robot.right(executor)]
    path.unlink()
    found.append(robot.right(executor))
    shutil.copy(robot.folder / "other.tar", path)
    found.append(robot.right(executor))
    path.write_bytes(whole[:1000])
    found.append(robot.right(executor))
    return all(found)


def folder_package_goes(robot: Robot) -> bool:
    """The same of a package that is a folder, whose files are written over in their place."""
    from tvm_vision.package import unpack_package

    path = robot.folder / f"unpacked-{robot.package.stem}"
    unpack_package(robot.package, path)
    executor = tvm_vision.load(path)
    found = [robot.right(executor)]
    for member in path.iterdir():
        os.truncate(member, 0)
    found.append(robot.right(executor))
    shutil.rmtree(path)
    return all([*found, robot.right(executor)])


def driver_goes(robot: Robot) -> bool:
    """What loads after it is gone is told so; what runs goes on; when it is back all is well."""
    executor = robot.load()
    names = dict.fromkeys(("VK_ICD_FILENAMES", "VK_DRIVER_FILES"), "/nowhere.json")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    assert robot.right(executor)
    del executor
    tvm_vision.vulkan.shutdown()
    try:
        assert plain(robot)
    except TvmVisionError as error:
        print(error)
    for name, value in before.items():
        os.environ.pop(name)
        os.environ.update({name: value} if value else {})
    return plain(robot)


def event_loop(robot: Robot) -> bool:
    """Whose handler of a signal is called, with frames in another thread."""
    told: list[str] = []

    async def main() -> bool:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, told.append, "SIGTERM")
        executor = await loop.run_in_executor(None, robot.load)
        found = []
        for frame in range(FRAMES):
            if frame == FRAMES // 2:
                os.kill(os.getpid(), signal.SIGTERM)
            found.append(await loop.run_in_executor(None, robot.right, executor))
        return all(found)

    return asyncio.run(main()) and told == ["SIGTERM"]


def handlers_of_the_program(robot: Robot) -> bool:
    """A thousand signals a second, and none of its handlers is replaced."""
    told: list[int] = []
    signal.signal(signal.SIGALRM, lambda number, _: told.append(number))
    before = [signal.getsignal(number) for number in range(1, signal.NSIG)]
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    executor = robot.load()
    found = [robot.right(executor) for _ in range(FRAMES)]
    signal.setitimer(signal.ITIMER_REAL, 0)
    after = [signal.getsignal(number) for number in range(1, signal.NSIG)]
    return all(found) and bool(told) and after == before


def stopped_in_a_frame(robot: Robot) -> bool:
    """For longer than a frame may take: nothing is lost by it."""
    executor = robot.load(recovery=Recovery(frame_timeout=LIMIT))
    code = (
        "import os, signal, sys, time\n"
        f"for _ in range(3):\n time.sleep(0.2); os.kill({os.getpid()}, signal.SIGSTOP)\n"
        f" time.sleep({STOPPED}); os.kill({os.getpid()}, signal.SIGCONT)"
    )
    stopper = subprocess.Popen([sys.executable, "-c", code])
    found, longest = True, 0.0
    while stopper.poll() is None:
        start = time.monotonic()
        found = robot.right(executor) and found
        longest = max(longest, time.monotonic() - start)
    print(executor.losses.lost, "lost,", "stopped" if longest > STOPPED else "never stopped")
    return found


SCENES: dict[str, Callable[[Robot], bool]] = {
    scene.__name__: scene
    for scene in (
        plain, numpy_raises, no_descriptors_to_run, few_descriptors_to_load, package_goes,
        folder_package_goes, driver_goes, event_loop, handlers_of_the_program, stopped_in_a_frame,
    )
}  # fmt: skip

if __name__ == "__main__":
    print("right" if SCENES[sys.argv[3]](Robot(*sys.argv[1:3])) else "wrong")
