"""Group normalizations as exporters write them: one operator, and one kernel in either layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import relax

from support.compiled import MATRIX_GPU
from support.interpreter import run
from support.relax_models import module_of, operators_in
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.compilation import Compilation
from tvm_vision.compiler.pipeline import run as run_phases
from tvm_vision.compiler.relax.group_norms import group_norms
from tvm_vision.compiler.target import parse_target
from tvm_vision.options import CompileOptions

OP = relax.op
SHAPE = (2, 12, 5, 4)
GROUPS = 3
ROWS = (2, GROUPS, 80)
RANDOM = np.random.default_rng(4)
OF_CHANNELS = RANDOM.uniform(0.5, 2, (12, 1, 1)).astype("float32")
OF_GROUPS = RANDOM.uniform(0.5, 2, (GROUPS, 1)).astype("float32")


def normal(
    b: relax.BlockBuilder, x: Any, rows: tuple[int, ...] = ROWS, of: Any = None
) -> relax.Expr:
    """Rows less their means over their deviations; of: of whose variance, where not of theirs."""
    x = b.emit(OP.reshape(x, rows))
    mean = b.emit(OP.mean(x, [2], keepdims=True))
    variance = b.emit(OP.variance(x if of is None else of, [2], keepdims=True))
    root = b.emit(OP.sqrt(b.emit(OP.add(variance, relax.const(1e-5)))))
    return b.emit(OP.divide(b.emit(OP.subtract(x, mean)), root))


def plain(b: relax.BlockBuilder, x: Any) -> Any:
    return b.emit(OP.reshape(normal(b, x), SHAPE))


def as_torch_writes_it(b: relax.BlockBuilder, x: Any) -> Any:
    """With ones and zeros for groups, and what is learned for channels."""
    rows = b.emit(OP.multiply(normal(b, x), relax.const(np.ones((GROUPS, 1), "float32"))))
    rows = b.emit(OP.add(rows, relax.const(np.zeros((GROUPS, 1), "float32"))))
    image = b.emit(OP.multiply(b.emit(OP.reshape(rows, SHAPE)), relax.const(OF_CHANNELS)))
    return b.emit(OP.nn.relu(b.emit(OP.add(image, relax.const(-OF_CHANNELS)))))


def with_scales_of_groups(b: relax.BlockBuilder, x: Any) -> Any:
    rows = b.emit(OP.multiply(relax.const(OF_GROUPS), normal(b, x)))
    rows = b.emit(OP.add(rows, relax.const(OF_GROUPS[None] - 1)))
    return b.emit(OP.reshape(rows, SHAPE))


def of_a_volume(b: relax.BlockBuilder, x: Any) -> Any:
    volume = b.emit(OP.reshape(x, (2, 6, 2, 5, 4)))
    found = b.emit(OP.reshape(normal(b, volume), (2, 6, 2, 5, 4)))
    return b.emit(OP.reshape(found, SHAPE))


def rows_are_read_too(b: relax.BlockBuilder, x: Any) -> Any:
    rows = normal(b, x)
    return [rows, b.emit(OP.reshape(rows, SHAPE))]


WRITTEN_OUT = [plain, as_torch_writes_it, with_scales_of_groups, of_a_volume, rows_are_read_too]


def one_group(b: relax.BlockBuilder, x: Any) -> Any:
    return b.emit(OP.reshape(normal(b, x, (2, 1, 240)), SHAPE))


def groups_that_cut_channels(b: relax.BlockBuilder, x: Any) -> Any:
    return b.emit(OP.reshape(normal(b, x, (2, 5, 48)), SHAPE))


def groups_over_images(b: relax.BlockBuilder, x: Any) -> Any:
    return b.emit(OP.reshape(normal(b, x, (1, 2 * GROUPS, 80)), SHAPE))


def to_another_image(b: relax.BlockBuilder, x: Any) -> Any:
    return b.emit(OP.reshape(normal(b, x), (2, 12, 4, 5)))


def by_the_variance_of_other_rows(b: relax.BlockBuilder, x: Any) -> Any:
    other = b.emit(OP.reshape(b.emit(OP.multiply(x, x)), ROWS))
    return b.emit(OP.reshape(normal(b, x, of=other), SHAPE))


def scaled_by_places(b: relax.BlockBuilder, x: Any) -> Any:
    places = relax.const(np.linspace(-1, 1, 80, dtype="float32"))
    return b.emit(OP.reshape(b.emit(OP.multiply(normal(b, x), places)), SHAPE))


def along_groups(b: relax.BlockBuilder, x: Any) -> Any:
    rows = b.emit(OP.reshape(x, ROWS))
    mean = b.emit(OP.mean(rows, [1], keepdims=True))
    variance = b.emit(OP.variance(rows, [1], keepdims=True))
    root = b.emit(OP.sqrt(b.emit(OP.add(variance, relax.const(1e-5)))))
    return b.emit(OP.reshape(b.emit(OP.divide(b.emit(OP.subtract(rows, mean)), root)), SHAPE))


OTHERS = [
    one_group,
    groups_that_cut_channels,
    groups_over_images,
    to_another_image,
    by_the_variance_of_other_rows,
    scaled_by_places,
    along_groups,
]


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize("network", [*WRITTEN_OUT, *OTHERS])
@pytest.mark.parametrize("target", ["llvm", "vulkan"])
def test_results_are_the_same(network: Callable, target: str) -> None:
    module, signature = module_of(network, SHAPE)
    x = RANDOM.uniform(-1, 3, SHAPE).astype("float32")
    results = []
    for each in (module, group_norms(module)):
        results.append(run(compile_model(each, signature, target=target, opt_level=0), [x]))
    for found, expected in zip(results[1], results[0], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("network", WRITTEN_OUT)
def test_it_is_one_operator(network: Callable) -> None:
    assert operators_in(group_norms(module_of(network, SHAPE)[0])).count("nn.group_norm") == 1


@pytest.mark.parametrize("network", OTHERS)
def test_what_is_none_stays(network: Callable) -> None:
    module, _ = module_of(network, SHAPE)
    assert operators_in(group_norms(module)) == operators_in(module)


def _between_convolutions(channels: int, edge: int, groups: int) -> Callable:
    """Of one pixel each, from and to 16 channels."""
    shape = (1, channels, edge, edge)

    def network(b: relax.BlockBuilder, x: Any) -> Any:
        grow, shrink = (
            relax.const(RANDOM.standard_normal((*sizes, 1, 1)).astype("float32"))
            for sizes in ((channels, 16), (16, channels))
        )
        image = b.emit(OP.nn.conv2d(x, grow))
        rows = normal(b, image, (1, groups, channels // groups * edge * edge))
        scales = relax.const(np.linspace(1, 2, channels, dtype="float32").reshape(-1, 1, 1))
        image = b.emit(OP.multiply(b.emit(OP.reshape(rows, shape)), scales))
        image = b.emit(OP.nn.relu(b.emit(OP.add(image, scales))))
        return b.emit(OP.nn.conv2d(image, shrink))

    return network


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize(
    ("channels", "edge", "groups", "kernels"),
    [(64, 16, 8, 1), (32, 16, 16, 1), (512, 64, 64, 3), (256, 80, 8, 4)],
    ids=["groups of 8", "groups of 2", "rows for a workgroup each", "rows for several"],
)
def test_few_kernels_in_either_layout(
    layout: str, channels: int, edge: int, groups: int, kernels: int
) -> None:
    """No axes are turned for it, what follows is a part of it, and so are all its steps."""
    module, _ = module_of(_between_convolutions(channels, edge, groups), (1, 16, edge, edge))
    target = parse_target(dict(MATRIX_GPU))
    network = Compilation(module, target, CompileOptions.of({"layout": layout}))
    names = [kernel.function for kernel in run_phases(network, last="lower").graph.kernels]
    turns = sum("transpose" in name for name in names)
    assert turns == (2 if layout == "nhwc" else 0)  # at the network's ends
    assert len(names) - turns == 2 + kernels
