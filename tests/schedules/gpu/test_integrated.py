"""Kernels for GPUs that share the processor's memory: what fits a unit of AMD's and Intel's."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm.target import Target

from support.compiled import executor_of
from support.networks import NETWORKS, mainly, reference
from support.shared_memory import shared_bytes
from tvm_vision.compiler import compile_model
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.schedules import TargetLimits
from tvm_vision.schedules.cost import gemm
from tvm_vision.schedules.cost.device_model import DeviceModel
from tvm_vision.schedules.cost.gemm_tile import GemmTile, Product
from tvm_vision.schedules.gpu.reduction import RowSums
from tvm_vision.schedules.gpu.reduction import default as reduction_default
from tvm_vision.schedules.gpu.window import WindowSum
from tvm_vision.schedules.gpu.window import default as window_default
from tvm_vision.schedules.gpu.winograd import Tiles
from tvm_vision.schedules.gpu.winograd import default as winograd_default

UNIT_SHARED_BYTES = 65536  # that the workgroups of a unit have together


def gpu(wave: int, *keys: str, **attributes: Any) -> dict[str, Any]:
    """A target with limits of drivers of integrated GPUs."""
    return {
        "kind": "vulkan",
        "keys": ["vulkan", "gpu", *keys],
        "device_type": "integrated",
        "max_threads_per_block": 1024,
        "max_shared_memory_per_block": 65536,
        "max_per_stage_descriptor_storage_buffer": 1 << 20,
        "thread_warp_size": wave,
        "supports_float16": True,
        "supports_16bit_buffer": True,
        "supports_int8": True,
        "supports_8bit_buffer": True,
        **attributes,
    }


RENOIR = gpu(64, "compute_units_8")
PHOENIX = gpu(
    64,
    "compute_units_12",
    "cooperative_matrix_16x16x16",
    supports_cooperative_matrix=True,
    supports_integer_dot_product=True,
)
TIGER_LAKE = gpu(32, supports_integer_dot_product=True)


HEAD = re.compile(r"// grid (\d+) x (\d+) x (\d+).*, workgroup (\d+) x (\d+) x (\d+)")


def workgroups(source: str) -> Iterator[tuple[str, int, int, int]]:
    """Of each kernel: name, threads of a workgroup and of the grid, bytes of shared memory."""
    for kernel in source.split("#version 450")[1:]:
        name = re.search(r"^// (\w+)$", kernel, re.M)
        head = HEAD.search(kernel)
        assert name and head
        x, y, z, *group = map(int, head.groups())
        threads = math.prod(group)
        yield name[1], threads, threads * x * y * z, shared_bytes(kernel)


def compiled(name: str, target: dict[str, Any], **options: Any) -> tuple[Any, Any]:
    """A network of 64×64 pixels for a target; and as an ONNX model."""
    model = NETWORKS[name](64)
    module, signature = import_onnx(model)
    return compile_model(module, signature, target=target, **options), model


def check_workgroups(made: Any, wave: int) -> None:
    """Workgroups fill waves where there is work for one, and a unit holds two of them."""
    found = list(workgroups(made.library.source()))
    assert found
    for kernel, threads, grid, shared in found:
        assert threads >= min(wave, grid), kernel
        assert 2 * shared <= UNIT_SHARED_BYTES, kernel


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize("name", mainly("blocks"))
def test_networks_for_waves_of_64_fill_them_and_are_right(name: str) -> None:
    """lavapipe runs what has the limits of AMD's Vega: no kernel counts on waves of a size."""
    check_network(name)


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize(
    "name",
    ["blocks", *(pytest.param(n, marks=pytest.mark.slow) for n in ("shufflenet_v2", "yoeo_like"))],
)
def test_networks_in_fp16_for_waves_of_64(name: str) -> None:
    check_network(name, precision="fp16")


def check_network(name: str, **options: Any) -> None:
    made, model = compiled(name, RENOIR, **options)
    check_workgroups(made, 64)
    image = np.random.default_rng(1).random((1, 3, 64, 64), "float32")
    executor = executor_of(made)
    executor.run(input=image)
    close = 1e-2 if options else 1e-5
    for one, other in zip(executor.outputs().values(), reference(model, image), strict=True):
        if other.dtype == np.uint8:
            assert np.mean(one != other) < 1e-2
        else:
            assert np.abs(one - other).max() < close * np.abs(other).max()


@pytest.mark.parametrize(
    ("name", "target", "precision"),
    [
        ("blocks", PHOENIX, "fp16"),
        pytest.param("resnet18", PHOENIX, "fp16", marks=pytest.mark.slow),
        pytest.param("yoeo_like", TIGER_LAKE, "fp32", marks=pytest.mark.slow),
    ],
)
def test_workgroups_fill_waves_of_others(name: str, target: dict[str, Any], precision: str) -> None:
    made, _ = compiled(name, target, precision=precision)
    check_workgroups(made, target["thread_warp_size"])


ANY_WORK = st.integers(1, 5000)


@settings(max_examples=200)
@given(st.lists(st.integers(2, 600), min_size=1, max_size=4), st.integers(32, 4096), st.booleans())
def test_rows_fill_waves(rows: list[int], terms: int, along: bool) -> None:
    limits = TargetLimits.of(Target(RENOIR, host="llvm"))
    shape = reduction_default(RowSums(tuple(rows), terms, along), limits)
    assert shape.rows * shape.parts >= 64 or 2 * shape.parts > terms
    assert shape.rows * shape.parts <= limits.threads


@given(st.lists(st.integers(1, 600), min_size=1, max_size=4), st.booleans())
def test_windows_fill_waves(extents: list[int], vectors: bool) -> None:
    limits = TargetLimits.of(Target(RENOIR, host="llvm"))
    assert window_default(WindowSum(tuple(extents), vectors), limits).threads in (1, 64, 128)
    assert winograd_default(Tiles(math.prod(extents), vectors), limits).threads in (64, 128)


@settings(max_examples=50, deadline=None)
@given(ANY_WORK, ANY_WORK, ANY_WORK, st.sampled_from(["", "m", "n"]))
def test_products_fill_waves(m: int, n: int, k: int, windows: str) -> None:
    limits = TargetLimits.of(Target(RENOIR, host="llvm"))
    for tile in gemm.candidates(Product(1, m, n, k, windows=windows), limits):
        assert tile.threads >= 64 and 2 * tile.shared_bytes <= UNIT_SHARED_BYTES


def test_few_threads_are_no_reason_to_have_none() -> None:
    """A device may hold fewer threads than it issues together."""
    limits = TargetLimits.of(Target(gpu(64, max_threads_per_block=48), host="llvm"))
    tile = gemm.default(Product(1, 64, 64, 64), limits)
    assert tile.threads <= 48


def test_shared_memory_is_for_two_workgroups_where_the_device_says_less() -> None:
    small = gpu(16, max_shared_memory_per_block=16384)
    assert TargetLimits.of(Target(small, host="llvm")).shared_bytes == 16384
    assert TargetLimits.of(Target(RENOIR, host="llvm")).shared_bytes == 32768


WORK = Product(1, 64, 3136, 576, windows="n")


@pytest.mark.parametrize(
    ("one", "other", "of"),
    [
        # Half of the threads idle.
        (GemmTile(32, 64, 16, 4, 4), GemmTile(16, 32, 16, 4, 4), WORK),
        # What is read by windows takes longer to find.
        (GemmTile(64, 32, 16, 8), GemmTile(32, 64, 16, 8), Product(1, 512, 512, 576, windows="n")),
    ],
)
def test_estimates_of_pipelines(one: GemmTile, other: GemmTile, of: Product) -> None:
    device = DeviceModel.of(Target(RENOIR, host="llvm"))
    assert gemm.cycles(one, of, device) < gemm.cycles(other, of, device)


def test_more_units_take_less_time_and_more_terms_more() -> None:
    device = DeviceModel.of(Target(RENOIR, host="llvm"))
    tile = GemmTile(32, 64, 16)
    times = [gemm.cycles(tile, WORK, device.with_units(units)) for units in (2, 8, 32)]
    assert times == sorted(times, reverse=True)
    longer = dataclasses.replace(WORK, k=2 * WORK.k)
    assert gemm.cycles(tile, longer, device) > 1.8 * gemm.cycles(tile, WORK, device)
    cut = dataclasses.replace(tile, split_k=2)
    assert gemm.cycles(cut, WORK, device) > gemm.cycles(cut, WORK, device.with_units(64))
