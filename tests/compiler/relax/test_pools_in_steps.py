"""Pools of large windows as several of small ones, against the same pools at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from support.compiled import executor_of
from support.relax_models import module_of
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.relax import pools_in_steps as module
from tvm_vision.compiler.relax.channels_last import calls_of

OP, MAX, MEAN = relax.op, "relax.nn.max_pool2d", "relax.nn.avg_pool2d"
SHAPE = (2, 3, 17, 19)


@pytest.fixture(autouse=True)
def _worth_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST_SAVED", 0)
    monkeypatch.setattr(module, "LEAST_TIMES", 2)


def pyramid(*sizes: Any, apart: bool = False) -> Any:
    """Pools around each pixel of one image, concatenated."""

    def build(builder: relax.BlockBuilder, x: Any) -> Any:
        image = builder.emit(OP.nn.relu(x))
        pools = []
        for size in sizes:
            size = [size, size] if isinstance(size, int) else size
            pads = [(extent - 1) // 2 for extent in size] * 2
            source = builder.emit(OP.nn.relu(x)) if apart else image
            pools.append(builder.emit(OP.nn.max_pool2d(source, list(size), padding=pads)))
        return builder.emit(OP.concat(pools, 1)) if len(pools) > 1 else pools[0]

    return build


def pool(kind: str, size: list[int], strides: Any = 1, padding: Any = 0, **how: Any) -> Any:
    def build(builder: relax.BlockBuilder, x: Any) -> Any:
        strided = [strides, strides] if isinstance(strides, int) else strides
        return builder.emit(getattr(OP.nn, kind)(x, size, strided, padding, **how))

    return build


def windows(mod: tvm.IRModule, kind: str = MAX) -> list[list[int]]:
    return [list(map(int, call.attrs.pool_size)) for call in calls_of(mod, kind)]


def assert_same(build: Any, target: str, dtype: str = "float32") -> tvm.IRModule:
    mod, signature = module_of(build, SHAPE, dtype=dtype)
    moved = module.pools_in_steps(mod)
    x = np.random.default_rng(0).uniform(-100, 100, SHAPE).astype(dtype)
    results = []
    for each, on, level in ((mod, "llvm", 0), (moved, target, 3)):
        device = tvm.device("vulkan" if on == "vulkan" else "cpu")
        compiled = compile_model(each, signature, target=on, opt_level=level)
        executor = executor_of(compiled, device)
        executor.run(x0=x)
        results.append(executor.get_output(0).numpy())
    np.testing.assert_allclose(results[1], results[0], rtol=1e-5, atol=1e-4)
    return moved


@pytest.mark.parametrize("target", ["llvm", "vulkan"])
@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((5, 9, 13), [[5, 5], [5, 5], [5, 5]]),
        ((3, 7, 7), [[3, 3], [5, 5], [5, 5]]),
        (((5, 3), (9, 7), (11, 5)), [[5, 3], [5, 5], [7, 3]]),
        ((5, 3), [[5, 5], [3, 3]]),
    ],
)
def test_pools_of_one_image_go_on_from_each_other(
    sizes: Any, expected: Any, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LEAST_TIMES", 100)
    assert windows(assert_same(pyramid(*sizes), target)) == expected


def test_pools_of_other_images_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST_TIMES", 100)
    mod, _ = module_of(pyramid(5, 9, apart=True), SHAPE)
    assert windows(module.pools_in_steps(mod)) == [[5, 5], [9, 9]]


@pytest.mark.parametrize("target", ["llvm", "vulkan"])
@pytest.mark.parametrize(
    "build",
    [
        pool("max_pool2d", [9, 7], padding=[4, 3, 4, 3]),
        pool("max_pool2d", [9, 8], [2, 1], [3, 1, 0, 4]),
        pool("max_pool2d", [7, 9], 2, [3, 4, 3, 4], ceil_mode=True),
        pool("max_pool2d", [5, 5], padding=[4, 4, 4, 4], dilation=[2, 2]),
        pool("avg_pool2d", [9, 7], padding=[4, 3, 4, 3]),
        pool("avg_pool2d", [9, 7], padding=[4, 3, 4, 3], count_include_pad=True),
        pool("avg_pool2d", [9, 8], [2, 1], [3, 1, 0, 4], ceil_mode=True),
        pool("avg_pool2d", [8, 9], 2, [3, 4, 3, 4], ceil_mode=True, count_include_pad=True),
    ],
)
def test_large_windows_are_columns_and_rows(build: Any, target: str) -> None:
    moved = assert_same(build, target)
    (columns, rows) = windows(moved, MAX) or windows(moved, MEAN)
    assert columns[1] == rows[0] == 1


def test_windows_of_whole_numbers() -> None:
    assert_same(pool("max_pool2d", [9, 9], padding=[4, 4, 4, 4]), "vulkan", "int32")


@pytest.mark.parametrize(
    "build", [pool("max_pool2d", [8, 8], 8), pool("avg_pool2d", [17, 19]), pyramid(3)]
)
def test_windows_that_do_not_meet_stay(build: Any) -> None:
    mod, _ = module_of(build, SHAPE)
    moved = module.pools_in_steps(mod)
    assert [windows(moved, kind) for kind in (MAX, MEAN)] == [
        windows(mod, kind) for kind in (MAX, MEAN)
    ]


def test_windows_stay_where_little_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    mod, _ = module_of(pool("max_pool2d", [13, 13], padding=[6] * 4), SHAPE)
    assert windows(module.pools_in_steps(mod)) == [[13, 13]]
