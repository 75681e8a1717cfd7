"""Commands whose device is lost, once, for good, or hangs: see tests/cli/test_lost_device.py.

Argument: a folder with network.tar, network.onnx, images/CLASS/, in.mcap and the loader that fails,
which TVM_VISION_VULKAN_LOADER names. Prints what each command came to as JSON.
"""

from __future__ import annotations

import faulthandler
import json
import sys
from pathlib import Path
from typing import Any

from click.testing import CliRunner

import tvm_vision.vulkan as vulkan
from support.failing_loader import FOREVER, HANG, Loader
from support.vulkan_results import VALUES
from tvm_vision.runtime import recovery
from tvm_vision.runtime.recovering import RecoveringExecutor
from tvm_vision.tools.cli import main as tvm_vision

LOST = VALUES["VK_ERROR_DEVICE_LOST"]
FAULTS = {"once": (1, LOST), "for good": (FOREVER, LOST), "hang": (1, HANG)}
FRAMES = ("run", "frame", "profile")
COMMANDS = {
    "detect": "detect {0}/network.tar {0}/images/cat {0}/images/dog --json",
    "classify": "classify {0}/network.tar {0}/images/cat {0}/images/dog",
    "bag": "bag {0}/in.mcap {0}/{1}.mcap -m {0}/network.tar --results-only",
    "benchmark": "benchmark {0}/network.tar --repeat 5",
    "profile": "profile {0}/network.tar --repeat 5",
    "evaluate": "evaluate {0}/network.onnx {0}/images --target vulkan --like {0}/network.tar "
    "--no-reference --output {0}/{1} --json",
}


class Armed:
    """Arms the loader with the third frame of a command."""

    def __init__(self, loader: Loader) -> None:
        self._loader, self._fault, self._frames = loader, (0, 0), 0
        invoke = RecoveringExecutor._invoke

        def counted(executor: Any, name: str, *arguments: Any) -> Any:
            if name in FRAMES:
                self._frames += 1
                if self._frames == 3:
                    loader.arm("vkQueueSubmit", 1, *self._fault)
            return invoke(executor, name, *arguments)

        RecoveringExecutor._invoke = counted  # type: ignore[method-assign,assignment]

    def begin(self, fault: str) -> None:
        self._fault, self._frames = FAULTS[fault], 0

    def end(self) -> None:
        self._loader.arm("")


def main() -> None:
    faulthandler.dump_traceback_later(100, exit=True)
    folder = Path(sys.argv[1])
    armed = Armed(Loader(str(folder / "libfaulty_loader.so")))
    recovery.PAUSE = 0.0
    met: dict[str, dict[str, Any]] = {}
    for fault in FAULTS:
        for name, command in COMMANDS.items():
            words = command.format(folder, fault.replace(" ", "-")).split()
            armed.begin(fault)
            result = CliRunner().invoke(tvm_vision, [*words, "--frame-timeout", "0.3"])
            armed.end()
            vulkan.shutdown()
            met.setdefault(name, {})[fault] = {
                "code": result.exit_code,
                "out": result.stdout.splitlines(),
                "err": result.stderr.splitlines(),
            }
    print(json.dumps(met))


main()
