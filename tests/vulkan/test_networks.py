"""Whole networks through TVM's virtual machine on Vulkan, against onnxruntime."""

from __future__ import annotations

import threading
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.target import Target

from support import networks
from support.lowering import HOST
from support.relax_vm import compile_relax
from tvm_vision.frontend.onnx.load import import_onnx

pytestmark = pytest.mark.usefixtures("device_info")

TOLERANCE = 1e-3  # largest error over the largest value, fp32
# Full size where lavapipe is quick enough; the layers and their fusions are the same at any size.
SIZES = {
    "squeezenet1_1": 64,
    "resnet18": 96,
    "mobilenet_v2": 96,
    "shufflenet_v2": 224,
    "yoeo_like": 128,
    "efficientnet_lite0": 96,
    "blocks": 64,
}


@cache
def compile_network(name: str, size: int) -> tuple[Any, np.ndarray, list[np.ndarray]]:
    """Executable, a random image in [0, 1), and onnxruntime's outputs for it."""
    model = networks.NETWORKS[name](size)
    image = np.random.default_rng(size).random((1, 3, size, size), "float32")
    module, _ = import_onnx(model)
    target = Target({"kind": "vulkan", "from_device": 0}, Target(HOST))
    return compile_relax(module, target), image, networks.reference(model, image)


def run(vm: Any, image: np.ndarray) -> list[np.ndarray]:
    result = vm["main"](tvm.runtime.tensor(image, tvm.vulkan(0)))
    outputs = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
    return [output.numpy() for output in outputs]


def assert_close(results: list[np.ndarray], references: list[np.ndarray]) -> None:
    assert len(results) == len(references)
    for result, reference in zip(results, references, strict=True):
        assert result.shape == reference.shape
        assert result.dtype == reference.dtype
        if reference.dtype == np.uint8:
            assert np.mean(result != reference) < 1e-3
        else:
            assert np.abs(result - reference).max() < TOLERANCE * np.abs(reference).max()


@pytest.mark.parametrize("name", networks.RUN)
def test_network_equals_onnxruntime(name: str) -> None:
    executable, image, references = compile_network(name, SIZES[name])
    vm = relax.VirtualMachine(executable, tvm.vulkan(0))
    assert_close(run(vm, image), references)
    # A second frame meets reused memory and cached pipelines.
    assert_close(run(vm, image), references)


def test_exported_library_runs_again(tmp_path: Path) -> None:
    executable, image, references = compile_network("blocks", SIZES["blocks"])
    path = tmp_path / "network.so"
    executable.export_library(str(path))
    loaded = tvm.runtime.load_module(str(path))
    assert_close(run(relax.VirtualMachine(loaded, tvm.vulkan(0)), image), references)


def test_two_networks_in_two_threads() -> None:
    built = {size: compile_network("blocks", size) for size in (64, 96)}
    failures: list[BaseException] = []

    def work(size: int) -> None:
        executable, image, references = built[size]
        try:
            vm = relax.VirtualMachine(executable, tvm.vulkan(0))
            for _ in range(5):
                assert_close(run(vm, image), references)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(size,)) for size in built]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
