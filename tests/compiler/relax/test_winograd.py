"""Winograd's convolution: the same results, only where it can be and is wanted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.target import Target

from support.compiled import MATRICES, executor_of
from support.networks import NETWORKS, reference
from support.numpy_operators import sliding_windows
from support.relax_models import constant, module_of
from tvm_vision.compiler import compile_model, prepare
from tvm_vision.compiler.relax.winograd_cost import (
    ConvShape,
    fastest,
    fastest_on_processor,
    one_kernel_pays,
)
from tvm_vision.devices import known_devices
from tvm_vision.errors import InputError
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.schedules import TargetLimits, schedule_function
from tvm_vision.schedules.cost.device_model import (
    DISCRETE,
    INTEGRATED,
    INTEGRATED_NARROW,
    UNKNOWN,
    DeviceModel,
)

OP = relax.op
VARIABLE = "TVM_VISION_WINOGRAD"
# Largest error over the largest value. The plain convolution: 3e-7 and 4e-4.
TOLERANCE = {("fp32", "2"): 1e-6, ("fp32", "4"): 1e-5, ("fp16", "2"): 2e-3}
OF_ONE_KERNEL = {"fp32": 1e-6, "fp16": 2e-3}
GPU = {"kind": "vulkan", "max_threads_per_block": 256, "max_shared_memory_per_block": 32768,
       "supports_float16": True, "supports_16bit_buffer": True}  # fmt: skip
PROCESSOR = {"kind": "llvm", "mcpu": "haswell"}


@pytest.fixture(autouse=True)
def no_choice_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def convolution(inputs: int, outputs: int, **options: Any) -> Any:
    """A network of one convolution with bias, residual sum and activation."""
    w, _ = constant(0, outputs, inputs, 3, 3)
    bias, _ = constant(1, 1, outputs, 1, 1)

    def build(builder: Any, x: Any, residual: Any) -> Any:
        y = builder.emit(OP.add(builder.emit(OP.nn.conv2d(x, w, **options)), bias))
        return builder.emit(OP.nn.relu(builder.emit(OP.add(y, residual))))

    return build


def functions(module: Any, target: dict[str, Any], **options: Any) -> list[str]:
    """The kernels of a network, by their functions."""
    graph = prepare(module, target=Target(target, host="llvm"), **options)
    return [kernel.function for kernel in graph.kernels]


def count(kernels: list[str]) -> int:
    """Convolutions that are Winograd's, as three kernels."""
    return sum("winograd_output" in name for name in kernels)


def count_of_one(kernels: list[str]) -> int:
    """Those that are one kernel."""
    return sum("winograd_convolution" in name for name in kernels)


def run(
    module: Any, signature: Any, inputs: list[np.ndarray], target: str = "vulkan", **options: Any
) -> Any:
    """Names of the kernels and the results, on the first device of the target."""
    compiled = compile_model(module, signature, target=target, **options)
    executor = executor_of(compiled, tvm.cpu() if target == "llvm" else None)
    for place, value in enumerate(inputs):
        executor.set_input(place, value)
    executor.run()
    results = [executor.get_output(i).numpy() for i in range(executor.num_outputs)]
    return [kernel["function"] for kernel in compiled.graph["kernels"]], results


def convolved(x: np.ndarray, w: np.ndarray, padding: Any) -> np.ndarray:
    """A 3×3 convolution in float64; padding: top, left, bottom, right."""
    top, left, bottom, right = padding
    x = np.pad(x.astype("float64"), ((0, 0), (0, 0), (top, bottom), (left, right)))
    windows = sliding_windows(x, (3, 3), (2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, w.astype("float64"), optimize=True)


def with_residual(shape: Any, outputs: int, padding: Any) -> tuple[Any, Any, Any, Any]:
    """A network of ``convolution``, its signature, random inputs, and what they give."""
    random = np.random.default_rng(3)
    x = random.standard_normal(shape).astype("float32")
    plain = convolved(x, constant(0, outputs, shape[1], 3, 3)[1], padding)
    residual = random.standard_normal(plain.shape).astype("float32")
    expected = np.maximum(plain + constant(1, 1, outputs, 1, 1)[1] + residual, 0)
    build = convolution(shape[1], outputs, padding=list(padding))
    return *module_of(build, shape, plain.shape), [x, residual], expected


def error_of(result: np.ndarray, expected: np.ndarray) -> float:
    if expected.dtype.kind != "f":
        return float((result != expected).mean())
    return float(np.abs(result - expected).max() / np.abs(expected).max())


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize(
    ("shape", "outputs", "padding", "layout", "precision", "m"),
    [
        # What a type changes is apart from padding: each with one layout by default.
        pytest.param(
            *(*case, *way),
            marks=[pytest.mark.slow] if way[0] == "fp16" and place in (0, 2, 3) else [],
        )
        for place, case in enumerate(
            [
                ((1, 64, 14, 14), 64, (1, 1, 1, 1), "nchw"),
                ((2, 17, 9, 13), 33, (1, 1, 1, 1), "nchw"),
                ((1, 20, 11, 12), 16, (0, 0, 0, 0), "nchw"),
                ((2, 16, 13, 10), 20, (0, 1, 2, 3), "nchw"),
                ((1, 19, 9, 12), 17, (1, 0, 1, 1), "nhwc"),
            ]
        )
        for way in TOLERANCE
    ],
)
def test_results_equal_numpy(
    shape: Any, outputs: int, padding: Any, layout: str, precision: str, m: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv(VARIABLE, m)
    module, signature, inputs, expected = with_residual(shape, outputs, padding)
    names, (result,) = run(
        module, signature, inputs, precision=precision, layout=layout, coopmat=False
    )
    # What follows is part of the last of the three kernels.
    own = [name for name in names if "transpose" not in name]
    assert len(own) == 3
    assert count(names) == 1
    assert "relu" in own[-1]
    assert error_of(result, expected) < TOLERANCE[precision, m]


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize(
    ("shape", "outputs", "padding", "precision", "packed"),
    [
        ((1, 64, 14, 14), 64, (1, 1, 1, 1), "fp32", "auto"),
        ((2, 17, 9, 13), 33, (1, 1, 1, 1), "fp16", "on"),
        pytest.param((1, 64, 14, 14), 64, (1, 1, 1, 1), "fp16", "on", marks=pytest.mark.slow),
        pytest.param((2, 16, 13, 10), 20, (0, 1, 2, 3), "fp16", "off", marks=pytest.mark.slow),
    ],
)
def test_one_kernel_equals_numpy(
    shape: Any, outputs: int, padding: Any, precision: str, packed: str
) -> None:
    """Of fp16, too, where the image is the network's, and float32."""
    module, signature, inputs, expected = with_residual(shape, outputs, padding)
    names, (result,) = run(
        module, signature, inputs, precision=precision, winograd="one", packed_fp16=packed
    )
    (name,) = names
    assert count_of_one(names) == 1
    assert "relu" in name
    assert error_of(result, expected) < OF_ONE_KERNEL[precision]


@pytest.mark.parametrize("m", ["2", "4"])
@pytest.mark.parametrize(
    ("shape", "outputs", "padding"),
    [
        ((1, 64, 14, 14), 64, (1, 1, 1, 1)),
        ((3, 32, 9, 13), 33, (1, 1, 1, 1)),
        ((1, 32, 11, 12), 16, (0, 0, 0, 0)),
        ((2, 16, 13, 10), 20, (0, 1, 2, 3)),
        ((1, 16, 30, 2), 16, (2, 2, 2, 2)),
        ((1, 16, 2, 41), 16, (1, 1, 1, 1)),
    ],
)
def test_processors_equal_numpy(
    shape: Any, outputs: int, padding: Any, m: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Channels lie in blocks; what follows is part of the last of three kernels there, too."""
    monkeypatch.setenv(VARIABLE, m)
    module, signature, inputs, expected = with_residual(shape, outputs, padding)
    names, (result,) = run(module, signature, inputs, target="llvm")
    own = [name for name in names if not name.startswith(("pack", "unpack"))]
    assert len(own) == 3
    assert own[0].startswith("winograd_image") and "winograd_output" in own[2]
    assert "relu" in own[2]
    assert error_of(result, expected) < TOLERANCE["fp32", m]


@pytest.mark.usefixtures("device_info")
def test_what_uses_the_result_twice_is_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """SiLU, on rows of whole tiles, which are written as vectors."""
    monkeypatch.setenv(VARIABLE, "4")
    w, weights = constant(0, 24, 16, 3, 3)

    def build(builder: Any, x: Any) -> Any:
        return builder.emit(OP.nn.silu(builder.emit(OP.nn.conv2d(x, w, padding=1))))

    x = np.random.default_rng(3).standard_normal((1, 16, 12, 16)).astype("float32")
    module, signature = module_of(build, x.shape)
    names, (result,) = run(module, signature, [x])
    plain = convolved(x, weights, (1, 1, 1, 1))
    assert names == ["winograd_image", "matmul", "fused_winograd_output_silu"]
    assert error_of(result, plain / (1 + np.exp(-plain))) < TOLERANCE["fp32", "4"]


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize(
    ("name", "m", "least"),
    [
        ("blocks", "4", 2),
        ("blocks", "one", 2),
        pytest.param("resnet18", "one", 7, marks=pytest.mark.slow),
        pytest.param("yoeo_like", "one", 7, marks=pytest.mark.slow),
        pytest.param("resnet18", "4", 7, marks=pytest.mark.slow),
        pytest.param("yoeo_like", "2", 7, marks=pytest.mark.slow),
    ],
)
def test_networks_equal_onnxruntime(
    name: str, m: str, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, m)
    model = NETWORKS[name](64)
    image = np.random.default_rng(7).standard_normal((1, 3, 64, 64)).astype("float32")
    names, results = run(*import_onnx(model), [image])
    assert (count_of_one if m == "one" else count)(names) >= least
    for result, expected in zip(results, reference(model, image), strict=True):
        assert error_of(result, expected) < 1e-5


@pytest.mark.parametrize(
    ("channels", "size", "options", "rewritten"),
    [
        ((16, 16), 3, {"padding": 1}, True),
        ((16, 16), 3, {"padding": [0, 1, 0, 1]}, True),
        ((15, 16), 3, {"padding": 1}, False),
        ((16, 15), 3, {"padding": 1}, False),
        ((16, 16), 5, {"padding": 2}, False),
        ((16, 16), 1, {}, False),
        ((32, 32), 3, {"padding": 1, "groups": 2}, False),
        ((16, 16), 3, {"strides": 2}, False),
        ((16, 16), 3, {"padding": 1, "strides": [1, 2]}, False),
        ((16, 16), 3, {"padding": 2, "dilation": 2}, False),
    ],
)
def test_only_plain_3x3_of_enough_channels(
    channels: Any, size: int, options: Any, rewritten: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "4")
    w, _ = constant(0, channels[1], channels[0] // options.get("groups", 1), size, size)

    def build(builder: Any, x: Any) -> Any:
        return builder.emit(OP.nn.conv2d(x, w, **options))

    module, _ = module_of(build, (1, channels[0], 14, 14))
    assert count(functions(module, GPU)) == rewritten


def test_weights_that_are_no_constants_stay() -> None:
    def build(builder: Any, x: Any, w: Any) -> Any:
        return builder.emit(OP.nn.conv2d(x, w, padding=1))

    module, _ = module_of(build, (1, 16, 14, 14), (16, 16, 3, 3))
    assert functions(module, GPU) == ["conv2d"]


@pytest.mark.parametrize(("size", "tile"), [(9, 4), (8, 2), (4, None)])
def test_small_images_have_small_tiles_or_none(
    size: int, tile: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight tiles are the least that a product of matrices is made of."""
    monkeypatch.setenv(VARIABLE, "4")
    module, _ = module_of(convolution(16, 16, padding=1), *[(1, 16, size, size)] * 2)
    graph = prepare(module, target=Target(GPU, host="llvm"))
    depths = [graph.tensors[t].shape[0] for t in graph.params if len(graph.tensors[t].shape) == 3]
    assert depths == ([] if tile is None else [(tile + 2) ** 2])


@pytest.mark.parametrize(
    ("way", "target", "options"),
    [
        ("0", GPU, {}),
        ("off", PROCESSOR, {}),
        ("4", PROCESSOR, {"opt_level": 2}),
        ("4", PROCESSOR, {"layout": "nchw"}),
        ("4", GPU, {"opt_level": 2}),
        ("auto", GPU, {}),
        ("auto", {**GPU, "device_type": "virtual"}, {}),
        ("auto", {**GPU, "device_type": "cpu"}, {}),
        ("auto", {**GPU, **MATRICES, "device_type": "integrated"}, {"precision": "fp16"}),
        ("auto", {**GPU, **MATRICES, "device_type": "discrete"}, {"precision": "fp16"}),
        ("one", GPU, {"layout": "nhwc"}),
        ("one", {**GPU, "max_threads_per_block": 128}, {}),
        ("one", {**GPU, "max_shared_memory_per_block": 16384}, {}),
        ("one", PROCESSOR, {}),
        ("one", GPU, {"opt_level": 2}),
    ],
)
def test_it_is_off(way: str, target: Any, options: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, way)
    module, _ = module_of(convolution(64, 64, padding=1), *[(1, 64, 56, 56)] * 2)
    kernels = functions(module, target, **options)
    assert count(kernels) + count_of_one(kernels) == 0


@pytest.mark.parametrize(
    ("device", "precision", "layers"),
    [
        ("renoir", "fp16", {(64, 56): True, (128, 28): True, (256, 14): True, (512, 7): False}),
        ("renoir", "fp32", {(64, 56): True, (128, 28): True, (256, 14): True, (512, 7): False}),
        ("phoenix", "fp32", {(64, 56): True, (128, 28): True, (256, 14): False}),
        ("phoenix", "fp16", {(64, 56): False}),
        ("strix", "fp32", {(64, 56): True, (32, 112): False}),
        ("tgl", "fp16", {(64, 56): True, (256, 14): False}),
        ("tgl", "fp32", {(64, 56): True, (256, 14): True}),
    ],
)
def test_it_is_one_kernel_where_models_say_so(
    device: str, precision: str, layers: dict[tuple[int, int], bool]
) -> None:
    """Weights are read for each, and reading them is most of what small images take; matrices are
    faster, and three kernels are where few workgroups wait long for each other."""
    target = known_devices()[device].target_config()
    for (channels, size), expected in layers.items():
        module, _ = module_of(
            convolution(channels, channels, padding=1), *[(1, channels, size, size)] * 2
        )
        kernels = functions(module, target, precision=precision)
        assert count_of_one(kernels) == expected, (channels, size)


def test_devices_that_were_timed_keep_their_kernels() -> None:
    """And those of which nothing is known."""
    layer = ConvShape(1, 64, 64, 56, 56)
    for device in (DISCRETE, UNKNOWN, INTEGRATED_NARROW):
        assert not one_kernel_pays(layer, _limits(device), fp16=False)
    waves = replace(INTEGRATED, units=replace(INTEGRATED.units, lanes=64))
    assert one_kernel_pays(layer, _limits(waves), fp16=True)
    assert not one_kernel_pays(layer, _limits(replace(waves, packed_fp16=False)), fp16=True)


@pytest.mark.parametrize(
    ("device_type", "lanes", "precision"),
    [
        ("integrated", 64, "fp32"),
        ("integrated", 32, "fp32"),
        ("integrated", 32, "fp16"),
        ("discrete", 32, "fp32"),
        ("discrete", 32, "fp16"),
    ],
)
def test_it_is_on_by_itself_on_gpus(device_type: str, lanes: int, precision: str) -> None:
    """But for AMD's integrated ones in fp16, which multiply two of them at once."""
    module, _ = module_of(convolution(256, 256, padding=1), *[(1, 256, 56, 56)] * 2)
    target = {**GPU, "device_type": device_type, "thread_warp_size": lanes}
    assert count(functions(module, target, precision=precision)) == 1


@pytest.mark.parametrize(
    ("precision", "target", "product"),
    [
        ("fp32", GPU, "contraction"),
        ("fp16", GPU, "contraction"),
        ("fp16", MATRICES, "coopmat_gemm"),
    ],
)
def test_templates_take_all_three_kernels(
    precision: str, target: Any, product: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the product is tuned like any other; asked for, it even uses cooperative matrices."""
    monkeypatch.setenv(VARIABLE, "2")
    module, _ = module_of(convolution(64, 64, padding=1), *[(1, 64, 14, 14)] * 2)
    chosen = Target({**GPU, **target}, host="llvm")
    graph = prepare(module, target=chosen, precision=precision, layout="nchw")
    kinds = [
        schedule_function(graph.functions[kernel.function], TargetLimits.of(chosen), chosen)[1]
        for kernel in graph.kernels
    ]
    assert kinds == ["winograd", product, "winograd"]


def test_an_unknown_way_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "6")
    module, _ = module_of(convolution(16, 16, padding=1), *[(1, 16, 14, 14)] * 2)
    with pytest.raises(InputError, match="TVM_VISION_WINOGRAD must be auto, off, one, 2 or 4"):
        functions(module, GPU)


@pytest.mark.parametrize(("m", "target"), [("2", GPU), ("4", PROCESSOR)])
def test_an_image_is_transformed_once_for_all_that_read_it(
    m: str, target: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, m)

    def build(builder: Any, x: Any) -> list[Any]:
        ws = [constant(seed, 16, 16, 3, 3)[0] for seed in range(3)]
        same = [builder.emit(OP.nn.conv2d(x, w, padding=1)) for w in ws[:2]]
        return [*same, builder.emit(OP.nn.conv2d(x, ws[2], padding=0))]

    module, _ = module_of(build, (1, 16, 14, 14))
    names = functions(module, target)
    assert count(names) == 3
    assert sum("winograd_image" in name for name in names) == 2


def test_all_three_kernels_name_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "2")
    module, _ = import_onnx(NETWORKS["resnet18"](64))
    graph = prepare(module, target=Target(GPU, host="llvm"))
    made = {kernel.outputs[0]: kernel for kernel in graph.kernels}
    last = next(kernel for kernel in graph.kernels if "winograd_output" in kernel.function)
    product = next(made[t] for t in last.inputs if t in made and "matmul" in made[t].function)
    image = next(made[t] for t in product.inputs if t in made)
    assert image.nodes == product.nodes == last.nodes[:1]


def _limits(device: DeviceModel) -> TargetLimits:
    return TargetLimits(256, 32768, device.units.lanes, device=device)


def test_estimate_follows_rates() -> None:
    layer, few = ConvShape(1, 64, 64, 56, 56), ConvShape(1, 512, 512, 7, 7)
    discrete = _limits(DISCRETE)
    assert fastest(layer, discrete, fp16=False) == 4
    assert fastest(few, discrete, fp16=False) == 2  # weights are four times as many with 4
    assert fastest(ConvShape(1, 64, 64, 4, 4), discrete, fp16=False) is None  # four tiles
    assert fastest(layer, _limits(UNKNOWN), fp16=False) is None


def test_estimate_follows_the_tiles_of_products_where_those_are_known() -> None:
    layer, few = ConvShape(1, 64, 64, 56, 56), ConvShape(1, 512, 512, 7, 7)
    wide = ConvShape(1, 256, 256, 56, 56)
    waves = replace(INTEGRATED, units=replace(INTEGRATED.units, lanes=64))
    plain, packed = (_limits(replace(waves, packed_fp16=each)) for each in (False, True))
    assert fastest(wide, plain, fp16=False) == 4
    assert fastest(wide, plain, fp16=True) == 2
    assert fastest(layer, packed, fp16=True) is None  # as fast without, with fewer bytes
    assert fastest(layer, plain, fp16=False) is None  # as many bytes to fewer products
    assert fastest(few, plain, fp16=False) is None  # reads 16.8 MB of weights
    assert waves.rates is not None
    slow = replace(waves, rates=replace(waves.rates, clock=waves.rates.clock / 4))
    assert fastest(layer, _limits(slow), fp16=False) == 4


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_estimate_for_processors(lanes: int) -> None:
    """Small tiles where weights are much of what is read, none where there are few tiles."""
    wide, late, last = (
        ConvShape(1, *[c] * 2, *[n] * 2) for c, n in ((64, 56), (512, 14), (512, 7))
    )
    assert fastest_on_processor(wide, lanes) == 4
    assert fastest_on_processor(late, lanes) == (4 if lanes == 4 else 2)
    assert fastest_on_processor(last, lanes) == (2 if lanes == 4 else None)
    assert fastest_on_processor(ConvShape(1, 64, 64, 4, 4), lanes) is None
    assert fastest_on_processor(ConvShape(1, 16, 16, 14, 14), lanes) is None  # transforms are most
    # Many numbers come from afar, and wide vectors of them take longer than their products.
    many = fastest_on_processor(ConvShape(8, 16, 16, 56, 56), lanes)
    assert many == (None if lanes == 16 else 4)


def test_it_is_on_by_itself_on_processors() -> None:
    module, _ = module_of(convolution(64, 64, padding=1), *[(1, 64, 56, 56)] * 2)
    for processor in ("haswell", "skylake-avx512"):
        assert count(functions(module, {"kind": "llvm", "mcpu": processor})) == 1
    assert count(functions(module, PROCESSOR, opt_level=2)) == 0
