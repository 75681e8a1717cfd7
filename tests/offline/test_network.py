"""What a package launches, read without a device, beside what the compiler was asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tvm_vision
import tvm_vision.package
from support import networks, small_network
from support.compiled import MATRIX_GPU
from support.processes import run_python
from tvm_vision.errors import PackageError
from tvm_vision.offline.network import Network, read_network

TARGET: dict[str, Any] = {**MATRIX_GPU, "keys": ["vulkan", "gpu"]}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("offline")
    return tvm_vision.compile(networks.squeezenet1_1(64), folder / "m.tar", target=TARGET)


@pytest.fixture(scope="module")
def network(package: Path) -> Network:
    return read_network(package)


def test_every_call_launches_and_every_kernel_is_launched(package: Path, network: Network) -> None:
    with tvm_vision.package.read_package(package) as opened:
        graph = opened.info.graph
    assert len(network.launches) >= len(graph.kernels) > 20
    assert {launch.kernel for launch in network.launches} == set(network.kernels)
    assert network.precision == "fp32"


def test_threads_reach_every_output(package: Path, network: Network) -> None:
    """Each thread of these kernels writes 64 outputs at the most, and none runs for nothing."""
    with tvm_vision.package.read_package(package) as opened:
        graph = opened.info.graph
    sizes = [tensor.nbytes // 4 for tensor in graph.tensors]
    assert len(network.launches) == len(graph.kernels)
    for launch, call in zip(network.launches, graph.kernels, strict=True):
        outputs = sizes[call.args[-1]]
        threads = launch.groups * network.kernels[launch.kernel].workgroup
        assert outputs / 64 <= threads, launch
        assert launch.bytes == 4 * sum(sizes[i] for i in set(call.args))


def test_kernels_are_shaders(network: Network) -> None:
    for kernel in network.kernels.values():
        assert int.from_bytes(kernel.code[:4], "little") == 0x07230203
        assert 1 <= kernel.workgroup <= TARGET["max_threads_per_block"]
        assert kernel.buffers >= 2


def test_no_device_is_needed(package: Path) -> None:
    program = f"""
from tvm_vision import vulkan
from tvm_vision.offline.network import read_network
assert not vulkan.devices()
print(len(read_network({str(package)!r}).launches))
"""
    done = run_python(program, VK_ICD_FILENAMES="/none.json", VK_DRIVER_FILES="/none.json")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20


def test_a_package_for_a_processor_is_refused(tmp_path: Path) -> None:
    made = tvm_vision.compile(small_network.model(), tmp_path / "m.tar", target="llvm")
    with pytest.raises(PackageError, match="for vulkan is needed .* found one for llvm"):
        read_network(made)
