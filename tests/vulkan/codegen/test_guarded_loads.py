"""Guarded loads without branches: at an index that is valid, and with the same results."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from onnx.helper import make_node
from tvm.script import tirx as T

from support import lowering
from support.compiled import executor_of
from support.networks import NETWORKS
from support.onnx_models import make_model
from support.quantized_networks import Quantized
from tvm_vision import vulkan
from tvm_vision.compiler import compile_model
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.schedules.gpu.kernel_marks import SELECT_LOADS, SUBGROUP, with_marks
from tvm_vision.target_keys import FEW_BRANCHES
from tvm_vision.vulkan.codegen.glsl import analysis, guards

# A buffer's element or a constant, the former at an index that does not depend on the condition.
BRANCH = re.compile(r"\? \w+\[[^?;]*\] : [\w(]*-?[\d.]+\)?;")
MADE = ("depthwise", "dense")
INDEX = re.compile(r"const int (at\w*) = (\w+) \? (\w+) : 0;")


def compiled(model: Any, how: str, **options: Any) -> Any:
    if how == "branch" and FEW_BRANCHES in vulkan.devices()[0].target_keys:
        pytest.skip("the driver's compiler does not get over so many branches")
    module, signature = import_onnx(model)
    return compile_model(module, signature, target="vulkan", guarded_loads=how, **options)


def source(made: Any) -> str:
    return made.library.source()


def outputs(made: Any, **image: np.ndarray) -> list[np.ndarray]:
    executor = executor_of(made)
    executor.run(**image)
    return list(executor.outputs().values())


def test_both_sides_name_one_mark() -> None:
    assert (SELECT_LOADS, SUBGROUP) == (analysis.SELECT_LOADS, analysis.SUBGROUP)


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("blocks", {"winograd": "4"}),
        pytest.param("squeezenet1_1", {"winograd": "4"}, marks=pytest.mark.slow),
        pytest.param("mobilenet_v2", {}, marks=pytest.mark.slow),
        pytest.param("yoeo_like", {"precision": "fp16", "layout": "nhwc"}, marks=pytest.mark.slow),
    ],
)
def test_networks_compute_the_same(name: str, options: dict[str, Any]) -> None:
    model = NETWORKS[name](64)
    image = np.random.default_rng(3).random((1, 3, 64, 64), "float32")
    made = {how: compiled(model, how, **options) for how in ("branch", "select")}
    sources = {how: source(each) for how, each in made.items()}
    assert BRANCH.search(sources["branch"])
    assert INDEX.search(sources["select"]) and not BRANCH.search(sources["select"])
    for one, other in zip(*(outputs(each, input=image) for each in made.values()), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.usefixtures("device_info")
def test_int8_computes_the_same() -> None:
    net = Quantized((1, 3, 20, 20))
    first = net.conv(net.rounded("x", 0.009, 3), 16, 3, 3, 3, scale=0.009, pads=[1, 1, 1, 1])
    model = net.model(net.conv(first, 8, 16, 3, 3, scale=0.01, pads=[1, 1, 1, 1]))
    image = np.random.default_rng(3).random((1, 3, 20, 20), "float32")
    made = [compiled(model, how, int8="on") for how in ("branch", "select")]
    assert INDEX.search(source(made[1]))
    for one, other in zip(*(outputs(each, x=image) for each in made), strict=True):
        np.testing.assert_array_equal(one, other)


def of_a_discrete_gpu(how: str) -> dict[str, str]:
    """Shaders of a depthwise convolution and of one that is none, both with padding."""
    noise = np.random.default_rng(0)
    weights = [
        ("a", noise.standard_normal((16, 1, 5, 5), "float32")),
        ("b", noise.standard_normal((7, 16, 3, 3), "float32")),
    ]
    nodes = [
        make_node("Conv", ["x", "a"], ["y"], group=16, pads=[2, 2, 2, 2]),
        make_node("Conv", ["y", "b"], ["z"], pads=[1, 1, 1, 1]),
    ]
    model = make_model(nodes, [("x", [1, 16, 19, 21])], [("z", None)], weights)
    module, signature = import_onnx(model)
    target = {"kind": "vulkan", "device_type": "discrete", "thread_warp_size": 32}
    made = compile_model(
        module, signature, target={**lowering.ALL_FEATURES, **target}, guarded_loads=how
    )
    texts = source(made).split("#version")
    (depthwise,) = (text for text in texts if "// conv2d_kernel" in text)
    (dense,) = (text for text in texts if "// conv2d1_kernel" in text)
    return {"depthwise": depthwise, "dense": dense}


def test_windows_alone_select_where_that_was_measured() -> None:
    """On a discrete GPU: elsewhere it gains nothing there, and concatenations lose."""
    for how, selecting in (("auto", {"depthwise"}), ("branch", set()), ("select", {*MADE})):
        texts = of_a_discrete_gpu(how)
        assert {name for name, text in texts.items() if INDEX.search(text)} == selecting


@T.prim_func(s_tir=True)
def padded(a: T.Buffer((8, 64), "float32"), b: T.Buffer((8, 66), "float32")):
    for i in T.thread_binding(8, "blockIdx.x"):
        for j in T.thread_binding(66, "threadIdx.x"):
            with T.sblock("b"):
                y, x = T.axis.remap("SS", [i, j])
                b[y, x] = T.if_then_else(1 <= x and x < 65, a[y, x - 1], T.float32(-1))


@T.prim_func(s_tir=True)
def nested(
    a: T.Buffer((70,), "float32"), at: T.Buffer((64,), "int32"), b: T.Buffer((96,), "float32")
):
    for g in T.thread_binding(2, "blockIdx.x"):
        for i in T.thread_binding(48, "threadIdx.x"):
            with T.sblock("b"):
                x = T.axis.spatial(96, g * 48 + i)
                b[x] = T.if_then_else(
                    x < 64,
                    T.if_then_else(at[x] > 2, a[at[x]], T.float32(-1)) * T.float32(2),
                    T.float32(-3),
                )


@T.prim_func(s_tir=True)
def sampled(
    a: T.Buffer((8,), "float32"), at: T.Buffer((96,), "float32"), b: T.Buffer((96,), "float32")
):
    """As images are read at places that are computed."""
    for g in T.thread_binding(2, "blockIdx.x"):
        for i in T.thread_binding(48, "threadIdx.x"):
            with T.sblock("b"):
                x = T.axis.spatial(96, g * 48 + i)
                b[x] = T.if_then_else(
                    T.floor(at[x] / T.float32(2)) < T.float32(8)
                    and T.float32(0) <= T.floor(at[x] / T.float32(2)),
                    a[T.Cast("int32", T.floor(at[x] / T.float32(2)))],
                    T.float32(0),
                )


@T.prim_func(s_tir=True)
def divided(a: T.Buffer((64,), "int32"), by: T.Buffer((64,), "int32"), b: T.Buffer((96,), "int32")):
    for g in T.thread_binding(2, "blockIdx.x"):
        for i in T.thread_binding(48, "threadIdx.x"):
            with T.sblock("b"):
                x = T.axis.spatial(96, g * 48 + i)
                b[x] = T.if_then_else(x < 64, T.truncdiv(a[x], by[x]), 7)


@T.prim_func(s_tir=True)
def either(
    a: T.Buffer((64,), "float32"), c: T.Buffer((64,), "float32"), b: T.Buffer((128,), "float32")
):
    for g in T.thread_binding(2, "blockIdx.x"):
        for i in T.thread_binding(64, "threadIdx.x"):
            with T.sblock("b"):
                x = T.axis.spatial(128, g * 64 + i)
                b[x] = T.if_then_else(x < 64, a[x], c[x - 64])


@T.prim_func(s_tir=True)
def of_four(
    a: T.Buffer((64,), "float32"),
    c: T.Buffer((32,), "float32"),
    d: T.Buffer((16,), "float32"),
    e: T.Buffer((16,), "float32"),
    b: T.Buffer((136,), "float32"),
):
    """A concatenation with zeros behind it."""
    for g in T.thread_binding(2, "blockIdx.x"):
        for i in T.thread_binding(68, "threadIdx.x"):
            with T.sblock("b"):
                x = T.axis.spatial(136, g * 68 + i)
                b[x] = T.if_then_else(
                    x < 128,
                    T.if_then_else(
                        x < 112,
                        T.if_then_else(x < 96, T.if_then_else(x < 64, a[x], c[x - 64]), d[x - 96]),
                        e[x - 112],
                    ),
                    T.float32(0),
                )


@T.prim_func(s_tir=True)
def of_three(
    a: T.Buffer((64,), "float32"),
    c: T.Buffer((32,), "float32"),
    d: T.Buffer((32,), "float32"),
    b: T.Buffer((128,), "float32"),
):
    for g in T.thread_binding(2, "blockIdx.x"):
        for i in T.thread_binding(64, "threadIdx.x"):
            with T.sblock("b"):
                x = T.axis.spatial(128, g * 64 + i)
                b[x] = T.if_then_else(
                    x < 64, a[x], T.if_then_else(x < 96, c[x - 64], d[x - 96]) * T.float32(2)
                )


@T.prim_func(s_tir=True)
def roots(a: T.Buffer((64,), "float32"), b: T.Buffer((96,), "float32")):
    for g in T.thread_binding(2, "blockIdx.x"):
        for i in T.thread_binding(48, "threadIdx.x"):
            with T.sblock("b"):
                x = T.axis.spatial(96, g * 48 + i)
                b[x] = T.if_then_else(x < 64, T.sqrt(a[x]), T.float32(0))


@T.prim_func(s_tir=True)
def neighbours(a: T.Buffer((64,), "float32"), b: T.Buffer((32, 4), "float32")):
    """Of four pixels side by side those in the middle have one guard."""
    for g in T.thread_binding(2, "blockIdx.x"):
        for i in T.thread_binding(16, "threadIdx.x"):
            for j in T.unroll(4):
                with T.sblock("b"):
                    y = T.axis.spatial(32, g * 16 + i)
                    x = T.axis.spatial(4, j)
                    b[y, x] = T.if_then_else(
                        4 <= y and y < 16 and (x < 3 or y < 15), a[y * 4 + x - 13], T.float32(-1)
                    )


@T.prim_func(s_tir=True)
def few(a: T.Buffer((3,), "float32"), b: T.Buffer((32, 4), "float32")):
    """Where the guard never holds, no square is 3 more than fours: places further apart than there
    are elements."""
    for g in T.thread_binding(2, "blockIdx.x"):
        for i in T.thread_binding(16, "threadIdx.x"):
            for j in T.unroll(4):
                with T.sblock("b"):
                    y = T.axis.spatial(32, g * 16 + i)
                    x = T.axis.spatial(4, j)
                    b[y, x] = T.if_then_else(y * y % 4 == 3, a[y + x * 2], T.float32(-1))


def text(function: Any) -> str:
    (kernel,) = lowering.kernels(with_marks(function, {SELECT_LOADS: 1}))
    return str(kernel.source)


def test_the_index_is_valid_and_the_value_dropped() -> None:
    written = text(padded)
    (index,) = INDEX.findall(written)
    name, guard, _ = index
    assert re.search(rf"const float (v\w*) = a_?\w*\[{name}\];", written)
    assert re.search(rf"{guard} \? v\w* : -1\.0", written)
    assert not INDEX.search(lowering.kernels(padded)[0].source)


def test_a_choice_within_a_choice_guards_by_both() -> None:
    written = text(nested)
    guards = [guard for _, guard, _ in INDEX.findall(written)]
    assert len(set(guards)) == 2  # the index of an index by the outer one
    inner = re.search(rf"const bool {guards[-1]} = (.*);", written)
    assert inner and inner[1].startswith(f"{guards[0]} && ")


def test_what_is_rounded_guards_the_place() -> None:
    written = text(sampled)
    assert len(INDEX.findall(written)) == 2  # of the place, and of what lies there
    assert not re.search(r"\? \w+\[| else", written)


def test_of_two_loads_each_is_guarded() -> None:
    written = text(either)
    (_, one, _), (_, other, _) = re.findall(r"const int (at\w*) = (!?\w+) \? (.+) : 0;", written)
    assert other == f"!{one}"
    assert not re.search(r"\? \w+\[", written)


def test_of_several_tensors_each_is_read_at_a_valid_place() -> None:
    written = text(of_four)
    assert len(INDEX.findall(written)) + written.count(" ? 0 : ") >= 4
    assert not re.search(r"\? \w+\[| else", written)


def test_of_many_tensors_one_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "MOST_LOADS", 3)
    assert re.search(r"\? \w+\[| else", text(of_four))


def test_neighbours_share_a_choice() -> None:
    written = text(neighbours)
    assert len(INDEX.findall(written)) == 2
    assert len(re.findall(r"a_?\w*\[at\w* \+ [12]\]", written)) == 2


def test_none_is_behind_the_end() -> None:
    written = text(few)
    assert set(re.findall(r"a_?\w*\[at\w* \+ (\d)\]", written)) == {"2"}
    assert len(INDEX.findall(written)) == 3


@pytest.mark.parametrize("function", [divided, roots])
def test_what_could_do_harm_stays_a_branch(function: Any) -> None:
    """A division by what was not meant to be read, a function."""
    assert not INDEX.search(text(function))


def test_a_third_load_stays_in_its_branch() -> None:
    """It would be made for nothing two times of three."""
    assert len(re.findall(r"\? \w+\[| else", text(of_three))) >= 1


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize(
    "function",
    [padded, nested, sampled, divided, either, of_four, of_three, roots, neighbours, few],
)
def test_values(function: Any) -> None:
    random = np.random.default_rng(5)
    arrays = []
    for parameter in function.params:
        buffer = function.buffer_map[parameter] if hasattr(function, "buffer_map") else parameter
        shape = [int(n) for n in buffer.ty.shape]
        dtype = str(buffer.ty.dtype.dtype)
        arrays.append(
            random.integers(1, 70, shape).astype(dtype)
            if dtype == "int32"
            else random.random(shape).astype(dtype)
        )
    expected = lowering.execute(function, *arrays)
    found = lowering.execute(with_marks(function, {SELECT_LOADS: 1}), *arrays)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
