"""What is repeated for all pixels beside what each of them has: convolved, or multiplied, once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from tvm import relax

from support.compiled import results_of
from support.relax_models import module_of, operators_in
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.relax.channels_last import calls_of
from tvm_vision.compiler.relax.operators import fixed_shape
from tvm_vision.compiler.relax.repeated_parts import LINEAR, repeated_parts

OP = relax.op
CONVOLUTIONS = {3: OP.nn.conv1d, 4: OP.nn.conv2d, 5: OP.nn.conv3d}
Build = Callable[..., Any]
FEW, SIZES = 6, {3: (40,), 4: (9, 8), 5: (4, 5, 6)}


def weights(*shape: int, dtype: str = "float32") -> Any:
    numbers = np.random.default_rng(shape[0]).standard_normal(shape)
    return relax.const(numbers.astype(dtype), dtype)


def convolved(value: Any, out: int, size: Any = 1, groups: int = 1, **how: Any) -> Any:
    _, channels, *axes = fixed_shape(value) or ()
    sizes = [size] * len(axes) if isinstance(size, int) else size
    weight = weights(out, channels // groups, *sizes, dtype=str(value.ty.dtype))
    return CONVOLUTIONS[len(axes) + 2](value, weight, groups=groups, **how)


def expanded(builder: relax.BlockBuilder, value: Any, sizes: Sequence[int], n: int = 1) -> Any:
    channels = (fixed_shape(value) or ())[1]
    return builder.emit(OP.broadcast_to(value, (n, channels, *sizes)))


def tiled(builder: relax.BlockBuilder, value: Any, sizes: Sequence[int], n: int = 1) -> Any:
    return builder.emit(OP.tile(value, (1, 1, *sizes)))


def repeated(builder: relax.BlockBuilder, value: Any, sizes: Sequence[int], n: int = 1) -> Any:
    for axis, size in enumerate(sizes, 2):
        value = builder.emit(OP.repeat(value, size, axis))
    return value


def enlarged(builder: relax.BlockBuilder, value: Any, sizes: Sequence[int], n: int = 1) -> Any:
    return builder.emit(
        OP.image.resize2d(
            value, list(sizes), layout="NCHW", method="linear",
            coordinate_transformation_mode="half_pixel",
        )
    )  # fmt: skip


def turned(builder: relax.BlockBuilder, value: Any, sizes: Sequence[int], n: int = 1) -> Any:
    """Expanded as rows of channels, then turned."""
    channels = (fixed_shape(value) or ())[1]
    row = builder.emit(OP.reshape(value, (1, 1, channels)))
    rows = builder.emit(OP.broadcast_to(row, (n, int(np.prod(sizes)), channels)))
    columns = builder.emit(OP.permute_dims(rows, [0, 2, 1]))
    return builder.emit(OP.reshape(columns, (n, channels, *sizes)))


def computed(builder: relax.BlockBuilder, value: Any, sizes: Sequence[int], n: int = 1) -> Any:
    """Something of what is expanded, and of it and each channel's number."""
    wide = expanded(builder, value, sizes, n)
    channels = (fixed_shape(value) or ())[1]
    shift = weights(1, channels, *[1] * len(sizes), dtype=str(value.ty.dtype))
    return builder.emit(OP.tanh(builder.emit(OP.multiply(OP.nn.relu(wide), shift))))


def beside(*order: int, how: Any = expanded, size: int = 1, out: int = 7, **other: Any) -> Build:
    """A convolution of inputs in order, those of one pixel expanded as the others are large."""

    def build(builder: relax.BlockBuilder, *inputs: Any) -> Any:
        shapes = [fixed_shape(each) or () for each in inputs]
        n, _, *sizes = max(shapes, key=lambda shape: int(np.prod([shape[0], *shape[2:]])))
        parts = [
            inputs[i]
            if (shapes[i][0], *shapes[i][2:]) == (n, *sizes)
            else how(builder, inputs[i], sizes, n)
            for i in order
        ]
        joined = builder.emit(OP.concat(parts, 1)) if len(parts) > 1 else parts[0]
        made = builder.emit(convolved(joined, out, size, **other))
        bias = weights(1, out, *[1] * len(sizes), dtype=str(made.ty.dtype))
        return builder.emit(OP.nn.relu(builder.emit(OP.add(made, bias))))

    return build


def multiplied(*order: int) -> Build:
    """Rows times weights: inputs in order, beside each other, those of one row expanded."""

    def build(builder: relax.BlockBuilder, *inputs: Any) -> Any:
        shapes = [fixed_shape(each) or () for each in inputs]
        outer = np.broadcast_shapes(*(shape[:-1] for shape in shapes))
        parts = [builder.emit(OP.broadcast_to(inputs[i], (*outer, shapes[i][-1]))) for i in order]
        joined = builder.emit(OP.concat(parts, -1)) if len(parts) > 1 else parts[0]
        return builder.emit(OP.matmul(joined, weights(sum(shapes[i][-1] for i in order), 9)))

    return build


def chain(builder: relax.BlockBuilder, image: Any, vector: Any) -> Any:
    """What is made of something repeated alone is repeated."""
    sizes = (fixed_shape(image) or ())[2:]
    first = builder.emit(convolved(expanded(builder, vector, sizes), 5))
    second = builder.emit(convolved(builder.emit(OP.nn.relu(first)), 6))
    return builder.emit(convolved(builder.emit(OP.concat([second, image], 1)), 7))


def behind_a_view(builder: relax.BlockBuilder, image: Any, vector: Any) -> Any:
    """Rows of channels beside each other, as an image."""
    n, height, width, channels = fixed_shape(image) or ()
    rows = builder.emit(OP.reshape(image, (n, height * width, channels)))
    few = builder.emit(OP.broadcast_to(vector, (n, height * width, FEW)))
    joined = builder.emit(OP.concat([rows, few], 2))
    pixels = builder.emit(OP.reshape(joined, (n, height, width, channels + FEW)))
    return builder.emit(convolved(builder.emit(OP.permute_dims(pixels, [0, 3, 1, 2])), 7))


def everything(builder: relax.BlockBuilder, *vectors: Any) -> Any:
    joined = builder.emit(OP.concat([expanded(builder, each, (9, 8)) for each in vectors], 1))
    return builder.emit(OP.nn.relu(builder.emit(convolved(joined, 7, 3))))


def twice(builder: relax.BlockBuilder, image: Any, vector: Any) -> Any:
    """Two convolutions of one concatenation, which is a result as well."""
    sizes = (fixed_shape(image) or ())[2:]
    joined = builder.emit(OP.concat([image, expanded(builder, vector, sizes)], 1))
    return [builder.emit(convolved(joined, 5)), builder.emit(convolved(joined, 7)), joined]


IMAGE, VECTOR = (1, 5, *SIZES[4]), (1, FEW, 1, 1)
# Name -> what is built, the inputs' shapes, and the extents along pixels of what is convolved.
FORMS: dict[str, tuple[Build, tuple[Any, ...], list[Any]]] = {
    "behind": (beside(0, 1), (IMAGE, VECTOR), [(9, 8), (1, 1)]),
    "before": (beside(1, 0), (IMAGE, VECTOR), [(9, 8), (1, 1)]),
    "between": (beside(0, 1, 0), (IMAGE, VECTOR), [(9, 8), (1, 1)]),
    "several": (
        beside(1, 0, 2), (IMAGE, VECTOR, (1, 3, 1, 1)), [(9, 8), (1, 1)]
    ),
    "the same twice": (beside(1, 0, 1), (IMAGE, VECTOR), [(9, 8), (1, 1)]),
    "everything": (everything, (VECTOR, (1, 3, 1, 1)), [(1, 1)]),
    "everything, and a row": (everything, (VECTOR, (1, 3, 1, 8)), [(1, 1), (1, 8)]),
    "nothing else": (
        lambda b, x: b.emit(convolved(expanded(b, x, (9, 8)), 7, 3)), (VECTOR,), [(1, 1)]
    ),
    "tiled": (beside(0, 1, how=tiled), (IMAGE, VECTOR), [(9, 8), (1, 1)]),
    "repeated": (beside(0, 1, how=repeated), (IMAGE, VECTOR), [(9, 8), (1, 1)]),
    "enlarged": (beside(0, 1, how=enlarged), (IMAGE, VECTOR), [(9, 8), (1, 1)]),
    "turned": (beside(0, 1, how=turned), (IMAGE, VECTOR), [(9, 8), (1, 1)]),
    "computed": (beside(0, 1, how=computed), (IMAGE, VECTOR), [(9, 8), (1, 1)]),
    "a row": (beside(0, 1), (IMAGE, (1, FEW, 1, 8)), [(9, 8), (1, 8)]),
    "a row and a vector": (
        beside(2, 0, 1), (IMAGE, (1, FEW, 1, 8), VECTOR), [(9, 8), (1, 8), (1, 1)]
    ),
    "windows": (beside(0, 1, size=3), (IMAGE, VECTOR), [(9, 8), (1, 1)]),
    "windows with steps": (
        beside(0, 1, size=3, strides=(2, 1), dilation=(1, 2)), (IMAGE, VECTOR), [(9, 8), (1, 1)]
    ),
    "windows with zeros along columns": (
        beside(0, 1, size=3, padding=(0, 1, 0, 1)), (IMAGE, VECTOR), [(9, 8), (1, 8)]
    ),
    "windows of a row": (beside(0, 1, size=3), (IMAGE, (1, FEW, 1, 8)), [(9, 8), (1, 8)]),
    "a batch": (
        beside(0, 1), ((3, 5, 9, 8), (3, FEW, 1, 1)), [(9, 8), (1, 1)]
    ),
    "one vector for a batch": (
        beside(0, 1), ((3, 5, 9, 8), VECTOR), [(9, 8), (1, 1)]
    ),
    "sound": (beside(0, 1), ((1, 5, 40), (1, FEW, 1)), [(40,), (1,)]),
    "volumes": (beside(0, 1), ((1, 5, 4, 5, 6), (1, FEW, 1, 1, 1)), [(4, 5, 6), (1, 1, 1)]),
    "windows of volumes": (
        beside(0, 1, size=2), ((1, 5, 4, 5, 6), (1, FEW, 1, 1, 1)), [(4, 5, 6), (1, 1, 1)]
    ),
    "volumes of a batch": (
        beside(1, 0), ((2, 5, 4, 5, 6), (2, FEW, 1, 1, 1)), [(4, 5, 6), (1, 1, 1)]
    ),
    "rows": (multiplied(0, 1), ((20, 5), (1, FEW)), [(), ()]),
    "rows of rows": (multiplied(1, 0), ((3, 20, 5), (3, 1, FEW)), [(20,), (1,)]),
    "behind a view": (behind_a_view, ((2, 9, 8, 5), (2, 1, FEW)), [(9, 8), (1, 1)]),
    "a chain": (chain, (IMAGE, VECTOR), [(1, 1), (1, 1), (9, 8), (1, 1)]),
    "two convolutions": (twice, (IMAGE, VECTOR), [(9, 8), (1, 1)] * 2),
}  # fmt: skip


def arrays_of(shapes: Any, dtype: str = "float32") -> list[np.ndarray]:
    return [
        np.random.default_rng(i).standard_normal(shape).astype(dtype)
        for i, shape in enumerate(shapes)
    ]


@pytest.mark.parametrize("target", ["llvm", "vulkan"])
@pytest.mark.parametrize("form", FORMS)
def test_what_is_repeated_is_convolved_once_and_values_stay(form: str, target: str) -> None:
    build, shapes, pixels = FORMS[form]
    mod, signature = module_of(build, *shapes)
    once = repeated_parts(mod, 1)
    read = [
        shape[1:-1] if name == "relax.matmul" else shape[2:]
        for name in LINEAR
        for call in calls_of(once, name)
        for shape in [fixed_shape(call.args[0]) or ()]
    ]
    assert sorted(read) == sorted(pixels)
    arrays = arrays_of(shapes)
    wanted = results_of(mod, signature, "llvm", arrays, opt_level=0)
    found = results_of(once, signature, target, arrays)
    for each, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(each, expected, atol=2e-5)


@pytest.mark.parametrize(
    "form", ["behind", "one vector for a batch", "sound", "windows of volumes"]
)
def test_networks_are_compiled_so(form: str) -> None:
    build, shapes, _ = FORMS[form]
    larger = tuple(
        (n, 32 * channels, *(3 * size if size > 1 else 1 for size in sizes))
        for n, channels, *sizes in shapes
    )
    mod, signature = module_of(build, *larger)
    arrays = arrays_of(larger)
    results, kernels = [], []
    for switch in ("off", "on"):
        compiled = compile_model(mod, signature, target="llvm", repeated_parts=switch)
        kernels.append(" ".join(kernel["function"] for kernel in compiled.graph["kernels"]))
        results += results_of(mod, signature, "llvm", arrays, repeated_parts=switch)
    np.testing.assert_allclose(results[1], results[0], rtol=1e-4, atol=2e-3)
    assert ["broadcast" in names for names in kernels] == [True, False]


@pytest.mark.parametrize("form", ["between", "windows", "one vector for a batch"])
def test_in_fp16(form: str) -> None:
    build, shapes, _ = FORMS[form]
    mod, signature = module_of(build, *shapes, dtype="float16")
    once = repeated_parts(mod, 1)
    assert once is not mod
    arrays = arrays_of(shapes, "float16")
    results = [results_of(each, signature, "llvm", arrays, opt_level=0) for each in (mod, once)]
    np.testing.assert_allclose(results[1][0], results[0][0], rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(
    ("build", "shapes"),
    [
        (beside(0, 1, groups=2, out=6), ((1, 6, 9, 8), VECTOR)),
        (beside(0, 1, size=3, padding=1), (IMAGE, VECTOR)),
        (beside(0, 0), (IMAGE,)),
        # Nothing is the same along an axis of pixels that is tiled.
        (lambda b, x: b.emit(convolved(b.emit(OP.tile(x, (1, 1, 2, 2))), 5)), (IMAGE,)),
        (lambda b, x: b.emit(convolved(b.emit(OP.tile(x, (1, 9, 1, 1))), 5)), (IMAGE,)),
        # Channels of different pixels, one behind the other.
        (
            lambda b, x: b.emit(
                convolved(b.emit(OP.reshape(b.emit(OP.broadcast_to(x, (1, 6, 8))), (1, 8, 6))), 5)
            ),
            ((1, 6, 1),),
        ),
        # A number beyond the image.
        (
            lambda b, x: b.emit(
                convolved(
                    b.emit(
                        OP.image.resize2d(
                            x, [9, 8], roi=[0.0, 0.0, 2.0, 2.0], layout="NCHW", method="linear",
                            coordinate_transformation_mode="tf_crop_and_resize",
                        )
                    ),
                    5,
                )
            ),
            (VECTOR,),
        ),
    ],
)  # fmt: skip
def test_others_stay(build: Build, shapes: Any) -> None:
    mod, _ = module_of(build, *shapes)
    assert repeated_parts(mod, 1).same_as(mod)


@pytest.mark.parametrize(
    ("channels", "least", "moved"), [(3, 1, False), (4, 1, False), (5, 1, True), (5, 7000, False)]
)
def test_little_that_is_repeated_stays(channels: int, least: int, moved: bool) -> None:
    """An addition to each result is worth four multiplications, what is left the number given."""
    mod, _ = module_of(beside(0, 1), IMAGE, (1, channels, 1, 1))
    assert (not repeated_parts(mod, least).same_as(mod)) == moved


def test_other_readers_keep_the_concatenation() -> None:
    mod, _ = module_of(twice, IMAGE, VECTOR)
    assert operators_in(repeated_parts(mod, 1)).count("concat") == 1
