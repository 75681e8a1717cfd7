"""A kernel whose tiles need more shared memory than was estimated gets smaller ones."""

from __future__ import annotations

import logging
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, te, tirx
from tvm.target import Target

from support.interpreter import run
from support.relax_models import module_of
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.kernels.maker import Job, KernelMaker
from tvm_vision.compiler.target import parse_target
from tvm_vision.devices import known_devices
from tvm_vision.errors import SharedMemoryError, UnsupportedKernelError
from tvm_vision.schedules import ScheduleConfig, TargetLimits
from tvm_vision.schedules.cost.gemm_tile import GemmTile

OP = relax.op
BYTES = 2048
RNG = np.random.default_rng(5)


def with_little(config: dict[str, Any]) -> Target:
    """A target with less shared memory than any tile that pays needs."""
    return parse_target({**config, "max_shared_memory_per_block": BYTES})


ROBOT = with_little(known_devices()["renoir"].target_config())
# What the templates take it for.
THOUGHT = replace(TargetLimits.of(ROBOT), shared_bytes=16 * BYTES)


def product(size: int) -> tirx.PrimFunc:
    a, b = (te.placeholder((size, size), "float32", name) for name in "ab")
    k = te.reduce_axis((0, size), "k")
    total = te.compute((size, size), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k))
    return te.create_prim_func([a, b, total])


def made(limits: TargetLimits, choice: ScheduleConfig | None = None) -> Any:
    job = Job("product", "p".ljust(64, "_"), tvm.ir.save_json(product(256)), choice)
    return KernelMaker(ROBOT, limits).made(job)


def shared_floats(code: Any) -> int:
    return sum(
        int(n) for n in re.findall(r"shared float \w+\[(\d+)\]", code.shaders[0].told.source)
    )


def test_tiles_that_do_not_fit_are_made_smaller(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "tvm_vision"):
        code = made(THOUGHT)
    (said,) = (record.getMessage() for record in caplog.records)
    assert re.fullmatch(
        rf"kernel product\w*: needs \d+ bytes of shared memory, the target has {BYTES} .*; "
        "smaller ones are taken, which may be slower",
        said,
    )
    assert 4 * shared_floats(code) <= BYTES


def test_a_tuned_tile_that_does_not_fit_is_not_taken(caplog: pytest.LogCaptureFixture) -> None:
    choice = ScheduleConfig("contraction", GemmTile(64, 64, 16, 4, 4))
    code = made(THOUGHT, choice)
    assert not code.tuned and 4 * shared_floats(code) <= BYTES


def test_what_fits_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "tvm_vision"):
        made(TargetLimits.of(ROBOT))
    assert not caplog.records


def test_a_kernel_that_needs_more_however_it_is_scheduled_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: Any) -> None:
        raise SharedMemoryError("kernel product: needs 9 bytes")

    monkeypatch.setattr(KernelMaker, "_made", refuse)
    with pytest.raises(UnsupportedKernelError, match="product: needs 9 bytes"):
        made(THOUGHT)


def test_a_network_with_such_kernels_is_right(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, device_info: Any
) -> None:
    """Made by one process, and a kernel with memory between its launches beside it."""

    def build(b: Any, x: Any, weights: Any) -> Any:
        grown = b.emit(OP.matmul(b.emit(OP.matmul(x, weights)), weights))
        return b.emit(OP.sort(grown, axis=-1))

    x = RNG.standard_normal((256, 256)).astype("float32")
    weights = RNG.standard_normal((256, 256)).astype("float32") / 16
    module, signature = module_of(build, x.shape, weights.shape)
    of = TargetLimits.of
    monkeypatch.setattr(
        TargetLimits, "of", lambda *given: replace(of(*given), shared_bytes=16 * BYTES)
    )
    target = with_little(dict(parse_target("vulkan").export()))
    with caplog.at_level(logging.WARNING, "tvm_vision"):
        compiled = compile_model(module, signature, target=target, kernel_cache=False)
    assert any("smaller ones are taken" in record.getMessage() for record in caplog.records)
    expected = np.sort(x @ weights @ weights)
    np.testing.assert_allclose(run(compiled, [x, weights])[0], expected, rtol=0, atol=1e-4)
