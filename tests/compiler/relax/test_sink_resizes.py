"""Enlargements behind the convolutions of one pixel that read them, alone or concatenated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from tvm import relax

from support.compiled import results_of
from support.relax_models import module_of
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.relax import sink_resizes as module
from tvm_vision.compiler.relax.channels_last import calls_of

OP, RESIZE, CONV = relax.op, "relax.image.resize2d", "relax.nn.conv2d"
SMALL, LARGE = (1, 6, 5, 7), (1, 4, 10, 14)
SIZE = (10, 14)
Build = Callable[..., Any]


@pytest.fixture(autouse=True)
def _worth_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST_SAVED", 0)
    monkeypatch.setattr(module, "LEAST_FOR_A_KERNEL", 0)


def enlarged(image: Any, size: Sequence[int] = SIZE, **how: Any) -> Any:
    how = {"method": "linear", "coordinate_transformation_mode": "half_pixel", **how}
    return OP.image.resize2d(image, list(size), layout="NCHW", **how)


def weights(out: int, channels: int, size: int = 1) -> Any:
    shape = (out, channels, size, size)
    return relax.const(np.random.default_rng(out).standard_normal(shape).astype("f4"))


def convolved(image: Any, out: int, size: int = 1, groups: int = 1, **how: Any) -> Any:
    channels = int(image.ty.shape[1]) // groups
    return OP.nn.conv2d(image, weights(out, channels, size), groups=groups, **how)


def alone(out: int = 5, convolutions: int = 1, size: int = 1, **how: Any) -> Build:
    groups = how.pop("groups", 1)

    def build(builder: relax.BlockBuilder, x: Any) -> Any:
        image = builder.emit(enlarged(x, **how))
        made = [builder.emit(convolved(image, out, size, groups)) for _ in range(convolutions)]
        return [builder.emit(OP.nn.relu(each)) for each in made]

    return build


def concatenated(*sources: int, twice: bool = False) -> Build:
    """Of some of the inputs, enlarged where they are small, in order."""

    def build(builder: relax.BlockBuilder, *inputs: Any) -> Any:
        images = [
            builder.emit(enlarged(inputs[i])) if int(inputs[i].ty.shape[2]) == 5 else inputs[i]
            for i in sources
        ]
        joined = builder.emit(OP.concat(images, 1))
        biased = OP.add(convolved(joined, 8), relax.const(np.ones((1, 8, 1, 1), "f4")))
        result = builder.emit(OP.nn.relu(builder.emit(biased)))
        return [result, builder.emit(OP.nn.relu(joined))] if twice else result

    return build


FORMS: dict[str, tuple[Build, tuple[Any, ...]]] = {
    "linear": (alone(), (SMALL,)),
    "nearest": (
        alone(method="nearest_neighbor", coordinate_transformation_mode="asymmetric"), (SMALL,)
    ),
    "cubic between corners": (
        alone(method="cubic", coordinate_transformation_mode="align_corners"), (SMALL,)
    ),
    "two that read one": (alone(convolutions=2), (SMALL,)),
    "beside another": (concatenated(0, 1), (SMALL, LARGE)),
    "between others": (concatenated(1, 0, 1), (SMALL, LARGE)),
    "two of them": (concatenated(0, 1, 0), (SMALL, LARGE)),
    "nothing else": (concatenated(0, 0, 0), (SMALL,)),
}  # fmt: skip


@pytest.mark.parametrize("target", ["llvm", "vulkan"])
@pytest.mark.parametrize("form", FORMS)
def test_convolutions_see_the_small_image_and_values_stay(form: str, target: str) -> None:
    build, shapes = FORMS[form]
    mod, signature = module_of(build, *shapes)
    moved = module.sink_resizes(mod)
    small = sum(call.args[0].ty.shape[2] == 5 for call in calls_of(moved, CONV))
    assert small == len(calls_of(moved, RESIZE)) == max(1, len(calls_of(mod, RESIZE)), small)
    assert len(calls_of(moved, CONV)) - small == ("ther" in form or "two of" in form)
    arrays = [
        np.random.default_rng(i).standard_normal(s).astype("f4") for i, s in enumerate(shapes)
    ]
    wanted = results_of(mod, signature, "llvm", arrays, opt_level=0)
    found = results_of(moved, signature, target, arrays)
    for each, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(each, expected, atol=2e-5)


def test_what_is_enlarged_is_added_up_by_one_kernel() -> None:
    mod, signature = module_of(concatenated(0, 1, 0, 0), SMALL, LARGE)
    compiled = compile_model(mod, signature, target="vulkan")
    kernels = [kernel["function"] for kernel in compiled.graph["kernels"]]
    assert sum("resize" in name for name in kernels) == 1
    assert len(kernels) == 5  # three of small images, their sum, and the convolution of the large


@pytest.mark.parametrize(
    ("build", "shapes"),
    [
        (alone(size=3), (SMALL,)),
        (alone(groups=2, out=6), (SMALL,)),
        (alone(size=1, out=40), (SMALL,)),  # more to enlarge than there was
        (lambda b, x: [b.emit(convolved(b.emit(enlarged(x, (3, 4))), 5))], (SMALL,)),
        (alone(coordinate_transformation_mode="tf_crop_and_resize"), (SMALL,)),
        (concatenated(0, 0), (LARGE,)),
        (concatenated(0, 1, twice=True), (SMALL, LARGE)),
    ],
)
def test_others_stay(build: Build, shapes: Any) -> None:
    mod, _ = module_of(build, *shapes)
    assert module.sink_resizes(mod).same_as(mod)


@pytest.mark.parametrize("form", ["linear", "beside another"])
def test_nothing_moves_where_little_is_saved(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    build, shapes = FORMS[form]
    monkeypatch.undo()
    mod, _ = module_of(build, *shapes)
    assert module.sink_resizes(mod).same_as(mod)
