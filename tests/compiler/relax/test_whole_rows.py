"""Normalizations that networks write out, as one kernel each, against onnxruntime."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from tvm.target import Target

from support.compiled import FIXED, executor_of, kernels_of
from support.fp16_forms import IMAGE, Nodes, expected, network_of, node, of_image
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.build import prepare
from tvm_vision.compiler.relax.kernel_calls import MOST_CALLS
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.schedules import TargetLimits
from tvm_vision.schedules.gpu import reduction

random = np.random.default_rng(3)
CONSTANTS: dict[str, np.ndarray] = {
    "two": np.array(2, np.float32),
    "small": np.array(1e-5, np.float32),
    "gain": random.uniform(0.5, 1.5, 96).astype(np.float32),
    "shift": random.standard_normal(96).astype(np.float32),
    "weights": random.standard_normal((96, 96)).astype(np.float32) / 10,
    "of_channels": random.uniform(0.5, 1.5, 3).astype(np.float32),
    "one": np.array([1]),
    "last": np.array([-1]),
    "pixels": np.array([2, 3]),
    "whole": np.array([1, 20, 96]),
}


def mean(of: str, output: str, axes: str = "last") -> onnx.NodeProto:
    return node("ReduceMean", f"{of} {axes}", output)


# As exporters before opset 17 write layer normalization.
DEVIATIONS = [mean("r", "m"), node("Sub", "r m", "d")]
VARIANCE = [node("Pow", "d two", "s"), mean("s", "v"), node("Add", "v small", "e")]
LAYER = [*DEVIATIONS, *VARIANCE, node("Sqrt", "e", "q"), node("Div", "d q", "n")]
CHANNELS = [mean("i", "m", "one"), node("Sub", "i m", "d"), node("Mul", "d d", "s"),
            mean("s", "v", "one"), node("Add", "v small", "e"), node("Sqrt", "e", "q")]  # fmt: skip
FORMS: dict[str, Nodes] = {
    "layers": [*LAYER, node("Mul", "n gain", "g"), node("Add", "g shift", "y")],
    "roots of mean squares": [
        node("Mul", "r r", "s"), mean("s", "v"), node("Add", "v small", "e"),
        node("Sqrt", "e", "q"), node("Reciprocal", "q", "c"), node("Mul", "r c", "n"),
        node("Mul", "n gain", "y"),
    ],
    "variance of moments": [
        mean("r", "m"), node("Mul", "r r", "s"), mean("s", "k"), node("Mul", "m m", "h"),
        node("Sub", "k h", "v"), node("Add", "v small", "e"), node("Sqrt", "e", "q"),
        node("Sub", "r m", "d"), node("Div", "d q", "y"),
    ],
    "moments without their axis": [
        node("ReduceMean", "r last", "m", keepdims=0), node("Mul", "r r", "s"),
        node("ReduceMean", "s last", "k", keepdims=0), node("Mul", "m m", "h"),
        node("Sub", "k h", "v"), node("Unsqueeze", "m last", "c"), node("Add", "v small", "e"),
        node("Sqrt", "e", "q"), node("Unsqueeze", "q last", "a"), node("Sub", "r c", "d"),
        node("Div", "d a", "y"),
    ],
    "lengths": [node("ReduceL2", "r last", "l"), node("Div", "r l", "y")],
    "shares": [
        node("ReduceMax", "r last", "m"), node("Sub", "r m", "d"), node("Exp", "d", "e"),
        node("ReduceSum", "e last", "s"), node("Div", "e s", "y"),
    ],
    "channels first": of_image(*CHANNELS, node("Div", "d q", "y")),
    "images": of_image(
        mean("i", "m", "pixels"), node("Sub", "i m", "d"), node("Abs", "d", "b"),
        node("ReduceMax", "b pixels", "x1"), node("Div", "d x1", "y"),
    ),
}  # fmt: skip
# Not one: something else reads a part, the rows differ, there is a product between, or what is made
# of the sums is no row.
APART: dict[str, tuple[Nodes, list[int]]] = {
    "a part is wanted": (
        [*LAYER, node("MatMul", "d weights", "w"), node("Add", "w n", "y")], [1, 2, 1, 6],
    ),
    "rows and columns": (
        [mean("r", "m"), mean("r", "k", "one"), node("Sub", "r k", "d"), node("Div", "d m", "y")],
        [1, 1, 3],
    ),
    "the sum reads what nothing else does": (
        of_image(node("ReduceSum", "i pixels", "s"), node("Mul", "picture s", "y")), [2, 1, 1],
    ),
    "a product between": (
        of_image(
            node("GlobalAveragePool", "i", "p"), node("Conv", "p square", "c"),
            node("Sigmoid", "c", "g"), node("Mul", "i g", "y"),
        ),
        [2, 1, 2, 1],
    ),
    "sums alone": ([*DEVIATIONS, *VARIANCE[:1], mean("s", "y")], [1, 3, 1]),
}  # fmt: skip
CONSTANTS["picture"] = random.standard_normal(IMAGE["image"]).astype(np.float32)
CONSTANTS["square"] = random.standard_normal((3, 3, 1, 1)).astype(np.float32)
# Of the largest result; three channels that are nearly the same differ by few digits in fp16.
TOLERANCE = {"fp32": 2e-6, "fp16": 8e-3}


def groups_of(model: onnx.ModelProto, **options) -> list[list[str]]:
    return kernels_of(import_onnx(model)[0], FIXED, **options)[1]


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("name", FORMS)
def test_one_kernel_that_is_right(name: str, precision: str, device_info) -> None:
    model = network_of(FORMS[name], CONSTANTS)
    steps = [f"{each.op_type}_{place}" for place, each in enumerate(model.graph.node)]
    before, norm = groups_of(model)
    assert [*dict.fromkeys(each.split("/")[0] for each in before + norm)] == steps
    assert len(groups_of(model, whole_rows=False)) > 2
    x = np.random.default_rng(4).standard_normal((1, 20, 96)).astype(np.float32) + 1
    made = compile_model(*import_onnx(model), target="vulkan", precision=precision)
    executor = executor_of(made)
    executor.run(x=x)
    wanted = expected(model, x)
    found = executor.get_output(0).numpy()
    bound = TOLERANCE[precision] * np.abs(wanted).max()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=bound)


@pytest.mark.parametrize("name", APART)
def test_as_much_as_can_be_is_one(name: str, device_info) -> None:
    nodes, sizes = APART[name]
    model = network_of(nodes, CONSTANTS)
    assert [len(group) for group in groups_of(model)] == sizes
    x = np.random.default_rng(4).standard_normal((1, 20, 96)).astype(np.float32) + 1
    executor = executor_of(compile_model(*import_onnx(model), target="vulkan"))
    executor.run(x=x)
    wanted = expected(model, x)
    bound = TOLERANCE["fp32"] * np.abs(wanted).max()
    np.testing.assert_allclose(executor.get_output(0).numpy(), wanted, rtol=0, atol=bound)


ROUNDS = 18
UNROLLED: dict[str, Callable[[str, str, str], Nodes]] = {
    "what is added to rows": lambda rows, tag, result: [
        node("Mul", f"{rows} {rows}", f"s{tag}"), mean(f"s{tag}", f"v{tag}"),
        node("Div", f"{rows} v{tag}", f"d{tag}"), node("Add", f"{rows} d{tag}", result),
    ],
    "rows that are kept from a sum on": lambda rows, tag, result: [
        node("Mul", f"{rows} gain", f"g{tag}"), node("ReduceMax", f"{rows} last", f"m{tag}"),
        node("Less", f"m{tag} two", f"c{tag}"), node("Where", f"c{tag} g{tag} {rows}", result),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", UNROLLED)
def test_rounds_that_read_the_last_ones_rows_twice_stay_apart(name: str, device_info) -> None:
    """As a loop that is written out: in one kernel each round would be there twice as often as the
    next, and eighteen of them a quarter of a million times."""
    names = ["r", *(f"w{number}" for number in range(1, ROUNDS)), "y"]
    rounds = [UNROLLED[name](names[n], str(n), names[n + 1]) for n in range(ROUNDS)]
    model = network_of([each for steps in rounds for each in steps], CONSTANTS)
    groups = groups_of(model)
    assert len(groups) >= ROUNDS / 3
    assert any(len(group) > 2 for group in groups)
    x = np.random.default_rng(4).standard_normal((1, 20, 96)).astype(np.float32) + 1
    executor = executor_of(compile_model(*import_onnx(model), target="vulkan"))
    executor.run(x=x)
    wanted = expected(model, x)
    bound = ROUNDS * TOLERANCE["fp32"] * np.abs(wanted).max()
    np.testing.assert_allclose(executor.get_output(0).numpy(), wanted, rtol=0, atol=bound)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_kernels_of_long_chains_of_sums_end(precision: str) -> None:
    """Hundreds of rounds that make each of their rows of the last ones were one function: minutes,
    and in fp16 more than Python goes through."""
    rounds = 120
    nodes = [mean("r", "m0")]
    for n in range(rounds):
        nodes += [node("Expand", f"m{n} whole", f"w{n}"), mean(f"w{n}", f"s{n}"),
                  node("Add", f"s{n} small", f"m{n + 1}")]  # fmt: skip
    nodes.append(node("Mul", f"r m{rounds}", "y"))
    target = Target({"kind": "vulkan", "supports_16bit_buffer": True})
    module, _ = import_onnx(network_of(nodes, CONSTANTS))
    graph = prepare(module, target=target, precision=precision)
    most = max(len(kernel.nodes) for kernel in graph.kernels)
    assert 10 < most <= MOST_CALLS
    assert len(graph.kernels) <= rounds


def test_what_comes_before_is_computed_once() -> None:
    """An error function for each sum and for the results would be three for one."""
    nodes = [node("MatMul", "r weights", "w"), node("Erf", "w", "f"), mean("f", "m"),
             node("Sub", "f m", "d"), node("Mul", "d d", "s"), mean("s", "v"),
             node("Div", "d v", "y")]  # fmt: skip
    _, product, norm = groups_of(network_of(nodes, CONSTANTS))
    assert product == ["MatMul_1", "Erf_2"]
    assert len(norm) == 5


def test_equal_normalizations_are_one_function() -> None:
    nodes = [*LAYER, node("MatMul", "n weights", "r2"), mean("r2", "m2"),
             node("Sub", "r2 m2", "d2"), node("Pow", "d2 two", "s2"), mean("s2", "v2"),
             node("Add", "v2 small", "e2"), node("Sqrt", "e2", "q2"),
             node("Div", "d2 q2", "y")]  # fmt: skip
    module, _ = import_onnx(network_of(nodes, CONSTANTS))
    module, groups = kernels_of(module, FIXED)
    assert [len(group) for group in groups] == [1, 7, 1, 7]
    assert len(module.functions_items()) == 1 + 3


def test_few_long_rows_have_a_kernel_for_their_results() -> None:
    """A channel of 512x512 pixels is written by as many threads as there can be, not by those of
    one workgroup; and channels that lie side by side by workgroups that read several."""
    limits = TargetLimits.of(FIXED)
    assert reduction.worth_joining(1, 4096, 4096, limits)
    assert reduction.worth_joining(4096, 768, 768, limits)
    assert not reduction.worth_joining(8, 512 * 512, 512, limits)
    assert not reduction.worth_joining(32, 4096, 1, limits)
    assert reduction.worth_joining(4096, 4096, 1, limits)


@pytest.mark.parametrize("activation", ["Relu", "HardSwish"])
def test_groups_of_channels_are_one_kernel_with_what_follows(activation: str, device_info) -> None:
    """As exporters before opset 18 write them: rows between two reshapes, scaled behind them."""
    steps = of_image(
        node("Reshape", "i rows", "r1"), node("InstanceNormalization", "r1 ones zeros", "n"),
        node("Shape", "i", "shape"), node("Reshape", "n shape", "b"),
        node("Mul", "b gains", "g"), node("Add", "g shifts", "a"), node(activation, "a", "y"),
    )  # fmt: skip
    of_groups = {
        "rows": np.array([0, 1, -1]), "ones": np.ones(1, np.float32),
        "zeros": np.zeros(1, np.float32),
        "gains": random.uniform(0.5, 1.5, (3, 1, 1)).astype(np.float32),
        "shifts": random.standard_normal((3, 1, 1)).astype(np.float32),
    }  # fmt: skip
    model = network_of(steps, {**CONSTANTS, **of_groups})
    # What is left of the second reshape is a view, which comes last.
    made, norm, _ = groups_of(model)
    assert made[0] == "Relu_0"
    assert (norm[0].split("_")[0], norm[-1]) == ("InstanceNormalization", f"{activation}_8")
    assert len(groups_of(model, whole_rows=False)) > 3
    x = np.random.default_rng(4).standard_normal((1, 20, 96)).astype(np.float32) + 1
    executor = executor_of(compile_model(*import_onnx(model), target="vulkan"))
    executor.run(x=x)
    (found,) = executor.outputs().values()
    wanted = expected(model, x)
    np.testing.assert_allclose(found, wanted, atol=TOLERANCE["fp32"] * np.abs(wanted).max())
