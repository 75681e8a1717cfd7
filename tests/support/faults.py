"""A network's lives under a Vulkan that fails: run in a process of their own, and judged.

See faulty_program.py for what is done, tests/vulkan/cpp/faulty_loader.cc for what fails.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

import tvm_vision
import tvm_vision.vulkan as vulkan
from support import SUPPORT, networks
from support.loaders import compile_loader
from support.onnx_models import relu_model
from support.vulkan_results import RESULTS

SIZE = 24
# What was being done, the call and what it gave; and what a device without its work says.
LINE = re.compile(
    r"Device(Lost)?Error: ("
    r"[\w ,.():-]+: vk\w+ gave VK_\w+(;.*)?|"
    r"waiting for .*: its work was not done within .* s, the time limit, and is given up; .*|"
    r"work for .* was lost when an earlier call failed; load the network again, or restart.*|"
    r"kernel \w+ was given a tensor of .*, which was lost; .*|"
    r"out of (device|host-visible) memory on .* needed .*; .*|"
    r"asking the Vulkan loader .* for its version: vkEnumerateInstanceVersion gave VK_\w+(;.*)?|"
    r"(a Vulkan device was needed|the package was compiled for vulkan), but .*"
    r")"
)
NOTHING_RAN = "InputError: there are no outputs before the first run; call run"
# Of a network that was loaded anew.
NOTHING_SET = re.compile(
    r"InputError: (frame \d+ is not in flight|input \w+ was not set|there are no outputs).*"
)
MEMORY = {
    "in place": {},
    "copied": {"TVM_VISION_VULKAN_MEMORY": "separate", "TVM_VISION_VULKAN_INPUT": "staged"},
}
# Without an answer to the last of all calls, what may still run is left to the device, with it.
MAY_KEEP_ITS_DEVICE = ("vkDeviceWaitIdle", "hang")
SECONDS_OF_A_LIFE = 5.0
ABSORBED, REBUILT, REFUSED = "absorbed", "rebuilt", "error"


def write_network(folder: Path) -> onnx.ModelProto:
    """A small network: its package for Vulkan, network.tar, an input, x.npy, its output, y.npy."""
    builder = networks.Builder(9)
    x = builder.conv("input", 3, 8, 3, 1, act="relu6")
    model = builder.model(SIZE, [(builder.head(x, 8, 10), TensorProto.FLOAT)])
    image = np.random.default_rng(2).random((1, 3, SIZE, SIZE), "float32")
    np.save(folder / "x.npy", image)
    np.save(folder / "y.npy", networks.reference(model, image)[0])
    tvm_vision.compile(model, folder / "network.tar", target="vulkan")
    return model


def write_to_lose(folder: Path) -> None:
    """What a lost device is tried with: ``write_network``, a package of the same network for the
    CPU, cpu.tar, one of another, other.tar, and the loader that fails."""
    model = write_network(folder)
    tvm_vision.compile(model, folder / "cpu.tar", target="llvm")
    tvm_vision.compile(relu_model((1, 4)), folder / "other.tar", target="llvm")
    compile_loader("faulty_loader", folder)


def write_kernel(folder: Path) -> None:
    """A candidate as tuning makes it, kernel.so: a sum of two tensors."""
    import tvm
    from tvm import te, topi

    from tvm_vision.tuning import worker

    x, y = (te.placeholder((64, 96), "float32", name) for name in "xy")
    function = te.create_prim_func([x, y, topi.add(x, y)])
    decision = {"template": "elementwise", "parameters": {"threads": 64, "along": 1}}
    target = '{"kind": "vulkan", "from_device": 0}'
    built = worker.build(tvm.ir.save_json(function), decision, target, str(folder))
    Path(built).rename(folder / "kernel.so")


def lives(
    folder: Path, loader: Path, which: str, memory: str, part: tuple[int, int] = (0, 1)
) -> list[dict[str, Any]]:
    """What became of the network with each fault. part: which of so many, beginning with 0."""
    program = SUPPORT / "faulty_program.py"
    done = subprocess.run(
        [sys.executable, program, folder, loader, which, *map(str, part)],
        env={
            **os.environ,
            "PYTHONPATH": str(SUPPORT.parent),
            "TVM_USE_RUNTIME_LIB": "0" if which == "tune" else "1",
            "TVM_VISION_CACHE_DIR": str(folder / "cache"),
            "TVM_VISION_VULKAN_LOADER": str(loader),
            **MEMORY[memory],
        },
        text=True,
        capture_output=True,
        timeout=7200,
    )
    lines = done.stdout.splitlines()
    last = lines[-1] if lines else "nothing"
    assert done.returncode == 0, f"it ended with {done.returncode} after {last}\n{done.stderr}"
    return [json.loads(line) for line in lines]


def problems(life: dict[str, Any]) -> list[str]:
    """What is not as it should be; empty where all is well."""
    found = []
    lost = False
    for step, met in life["met"].items():
        sound = met in ("right", "skipped") or LINE.fullmatch(met)
        sound = sound or (met == NOTHING_RAN and step.startswith("output"))
        if not (sound or (lost and NOTHING_SET.fullmatch(met))):
            found.append(f"{step}: {met}")
        lost = lost or met.startswith("DeviceLostError")
    if set(life["after"].values()) != {"right"}:
        found.append(f"the life after it: {life['after']}")
    kept = life["devices"] and not {life["function"], life["code"]} & {*MAY_KEEP_ITS_DEVICE}
    if kept:
        found.append(f"{life['devices']} devices were not destroyed")
    found += life["said"]
    if life["seconds"] > SECONDS_OF_A_LIFE:
        found.append(f"it took {life['seconds']:.1f} s")
    named = f"{life['function']} {life['code']}, call {life['first']} ({life['step']})"
    return [f"{named}: {problem}" for problem in found]


def outcome(life: dict[str, Any]) -> str:
    """What a fault came to: nobody noticed, the device was rebuilt, or an error and going on."""
    if life["rebuilt"]:
        return REBUILT
    refused = any("Error: " in met for met in life["met"].values())
    return REFUSED if refused else ABSORBED


def summary(found: list[dict[str, Any]]) -> str:
    """How many faults, on which device, and how long a rebuild and the longest life took."""
    reached = [life for life in found if life["failed"]]
    rebuilt = [life["rebuilding"] for life in reached if life["rebuilt"]]
    device = vulkan.devices()[0]
    return (
        f"{len(reached)} faults on {device.name} ({device.driver_name} {device.driver_info}), "
        "under the validation layer: "
        f"{sum(outcome(life) == ABSORBED for life in reached)} absorbed, "
        f"{sum(outcome(life) == REFUSED for life in reached)} errors, "
        f"{len(rebuilt)} rebuilds of {1e3 * np.median(rebuilt):.0f} ms in the median and "
        f"{1e3 * max(rebuilt):.0f} ms at most; "
        f"{sum(len(problems(life)) for life in found)} problems."
    )


def table(found: Iterable[dict[str, Any]]) -> str:
    """Function, what it gave, and how many faults came to what, as Markdown."""
    counts: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for life in found:
        if not life["failed"]:
            continue  # it has that many calls only where threads meet in another order
        key = life["function"], life["code"]
        counts[key][outcome(life)] += 1
    order = list(RESULTS)
    rows = ["| function | gives | tried | absorbed | error, and going on | rebuilt |"]
    rows += ["|---|---|---|---|---|---|"]
    for key in sorted(counts, key=lambda k: (order.index(k[0]), k[1])):
        by = counts[key]
        cells = [sum(by.values()), by[ABSORBED], by[REFUSED], by[REBUILT]]
        rows.append(f"| `{key[0]}` | {key[1]} | {' | '.join(str(n or '') for n in cells)} |")
    return "\n".join(rows) + "\n"
