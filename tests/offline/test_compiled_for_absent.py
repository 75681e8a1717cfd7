"""Whole networks through the drivers of GPUs that are not here: they compile, and fit the device.

Skipped where the drivers were not unpacked (make static-drivers); nothing is fetched here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import tvm_vision
from benchmarks.peers import networks as peers
from support import networks
from tvm_vision.devices import known_devices
from tvm_vision.errors import DeviceError
from tvm_vision.offline import drivers, machines, pipelines
from tvm_vision.offline.model import examine
from tvm_vision.offline.network import Kernel, Network, read_network
from tvm_vision.offline.survey import survey

DEVICES = ("renoir", "phoenix", "tgl", "arc")
# At the sizes they are used at: tiles, and so registers, depend on them.
NETWORKS: dict[str, Callable[[], Any]] = {
    "squeezenet1_1": networks.squeezenet1_1,
    "mobilenet_v2": networks.mobilenet_v2,
    "resnet18": networks.resnet18,
    "shufflenet_v2": networks.shufflenet_v2,
    "efficientnet_lite0": networks.efficientnet_lite0,
    "yoeo_like": lambda: networks.yoeo_like(416),
    "yoeo": peers.NETWORKS["yoeo"].model,
}
# Numbers of SPIR-V: an instruction, and what integers of 64 bits take, which these GPUs emulate.
OP_CAPABILITY, INT64 = 17, 11
PRECISIONS = ("fp32", "fp16", "int8")
# Registers of Intel's at the most: tiles without any are slower, modelled (benchmarks/static.md).
SPILLS = {"fp32": 40, "fp16": 6, "int8": 24}
# What `make test` tries of them: all of it takes a quarter of an hour.
QUICK = (
    ("renoir", "squeezenet1_1", "fp32"),
    ("phoenix", "squeezenet1_1", "fp16"),
    ("tgl", "squeezenet1_1", "fp16"),
)
CASES = [
    pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow)
    for case in itertools.product(DEVICES, NETWORKS, PRECISIONS)
]


def driver_for(device: str) -> drivers.Driver:
    try:
        return drivers.find(device)
    except DeviceError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("device", [each for each in DEVICES if each in machines.MACHINES])
def test_the_model_has_the_registers_that_the_driver_tells(device: str) -> None:
    driver = driver_for(device)
    told = pipelines.compile_kernels([], driver).core
    if not driver.opens:
        pytest.skip("the system's driver does not tell all of it")
    machine = machines.find(device)
    assert told is not None
    assert (told["simds"], told["waves"]) == (machine.simds, machine.slots)
    assert (told["vgprs"], told["vgpr_granule"]) == (machine.registers, machine.granule)
    # What a device has may be less than what its kind has at the most.
    assert told["units"] <= machine.units


@pytest.mark.parametrize(("device", "name", "precision"), CASES)
def test_kernels_fit_the_device(device: str, name: str, precision: str, tmp_path: Path) -> None:
    limits = known_devices()[device].attributes
    network, compiled = _compile(name, precision, driver_for(device), tmp_path)
    assert set(compiled.pipelines) == set(network.kernels)
    assert [each.name for each in network.kernels.values() if INT64 in _capabilities(each)] == []
    if device not in machines.MACHINES:
        for kernel in survey(network, compiled, device)["kernels"].values():
            assert kernel["lanes"] in (8, 16, 32), kernel
            assert kernel["spills"] <= SPILLS[precision], kernel
            assert kernel["shared_bytes"] <= int(limits["max_shared_memory_per_block"]), kernel
        return
    machine = machines.of_target(device, network.target)
    frame = examine(network, compiled, machine)
    assert [kernel.name for kernel in frame.kernels.values() if kernel.spills] == []
    for kernel in frame.kernels.values():
        assert kernel.unknown == 0, kernel
        assert kernel.shared_bytes <= machine.shared_bytes, kernel
        assert kernel.threads <= int(limits["max_threads_per_block"]), kernel
        assert kernel.threads >= kernel.lanes, kernel  # no workgroup below a wave
        assert 2 * kernel.shared_bytes <= machine.shared_bytes, kernel  # two of them fit a unit
        assert kernel.occupancy.per_simd * machine.simds >= kernel.occupancy.waves, kernel
        if machine.family == "GCN":
            said = compiled.pipelines[kernel.name].statistics["Subgroups per SIMD"]
            assert min(said, machine.slots) >= int(kernel.occupancy.per_simd)
    assert 0 < frame.memory_seconds < frame.seconds < 1


def _capabilities(kernel: Kernel) -> set[int]:
    """Of a shader: the first instructions of SPIR-V (its specification, 2.4)."""
    words = np.frombuffer(kernel.code, "<u4")
    found, at = set(), 5
    while words[at] & 0xFFFF == OP_CAPABILITY:
        found.add(int(words[at + 1]))
        at += int(words[at] >> 16)
    return found


def _compile(
    name: str, precision: str, driver: drivers.Driver, folder: Path
) -> tuple[Network, pipelines.Compiled]:
    model: Any = NETWORKS[name]()
    if precision == "int8":
        model, precision = _quantized(model, folder), "fp32"  # of what stays in floating point
    path = tvm_vision.compile(
        model, folder / "m.tar", target=driver.device, precision=precision, name=name
    )
    network = read_network(path)
    return network, pipelines.compile_kernels(list(network.kernels.values()), driver)


def _quantized(model: onnx.ModelProto, folder: Path) -> Path:
    """A network in bytes, by one sample of noise: its kernels are those of any samples."""
    source, made, sample = (folder / name for name in ("source.onnx", "made.onnx", "sample.npz"))
    onnx.save(model, source)
    (given,) = model.graph.input
    shape = [each.dim_value for each in given.type.tensor_type.shape.dim]
    np.savez(
        sample,
        allow_pickle=False,
        **{given.name: np.random.default_rng(1).random(shape, dtype="float32")},
    )
    tvm_vision.quantize(source, made, sample_images=[sample])
    return made
