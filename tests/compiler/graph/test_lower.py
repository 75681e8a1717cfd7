"""Relax functions as static graphs: tuples, views, copies, constants; and what is refused."""

import numpy as np
import pytest
import tvm
from tvm import relax

from support.interpreter import run
from support.relax_models import constant, module_of
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.graph.lower import lower_to_graph
from tvm_vision.compiler.target import parse_target
from tvm_vision.errors import InputError, UnsupportedModelError
from tvm_vision.frontend.signature import Signature, TensorSpec

X = np.arange(24, dtype="float32").reshape(2, 12)
OP = relax.op


def compiled(build, *shapes, opt_level=3, precision="fp32"):
    module, signature = module_of(build, *(shapes or [X.shape]))
    return compile_model(
        module, signature, target=parse_target("llvm"), opt_level=opt_level, precision=precision
    )


def check_owners(graph):
    """Inputs, outputs and parameters have storages of their own."""
    storage = [t["storage"] for t in graph["tensors"]]
    owners = [*graph["inputs"], *graph["outputs"], *graph["params"].values()]
    assert len({storage[t] for t in owners}) == len(owners)
    named = {storage[t] for t in (*graph["inputs"], *graph["params"].values())}
    for kernel in graph["kernels"]:
        written = kernel["args"][len(kernel["args"]) - kernel["num_outputs"] :]
        assert not named & {storage[t] for t in written}


def split_and_swap(builder, x):
    parts = builder.emit(OP.split(x, 2, axis=1))
    return [builder.emit(OP.exp(parts[1])), parts[0]]


def test_tuple_outputs_become_tensors():
    model = compiled(split_and_swap, opt_level=1)
    split = model.graph["kernels"][0]
    assert split["num_outputs"] == 2
    first, second = run(model, [X])
    np.testing.assert_allclose(first, np.exp(X[:, 6:]), rtol=1e-6)
    np.testing.assert_array_equal(second, X[:, :6])
    check_owners(model.graph)


def test_numbers_without_axes_are_views():
    """Of a mean of everything, which a network then broadcasts."""

    def build(builder, x):
        mean = builder.emit(OP.reshape(builder.emit(OP.mean(x, keepdims=True)), ()))
        return builder.emit(OP.subtract(x, mean))

    module, signature = module_of(build, X.shape)
    compiled = compile_model(module, signature, target="llvm", opt_level=1)
    assert [kernel["function"] for kernel in compiled.graph["kernels"]] == ["mean", "subtract"]
    (result,) = run(compiled, [X])
    np.testing.assert_allclose(result, X - X.mean(), rtol=1e-6)


@pytest.mark.parametrize("opt_level", [0, 1, 2, 3])
def test_reshapes_are_views(opt_level):
    def build(builder, x):
        y = builder.emit(OP.reshape(x, (12, 2)))
        z = builder.emit(OP.nn.softmax(y, axis=1))
        return builder.emit(OP.reshape(z, (24,)))

    model = compiled(build, opt_level=opt_level)
    assert len(model.graph["kernels"]) == 1
    (result,) = run(model, [X])
    e = np.exp(X.reshape(12, 2) - X.reshape(12, 2).max(1, keepdims=True))
    np.testing.assert_allclose(result, (e / e.sum(1, keepdims=True)).reshape(24), rtol=1e-5)
    check_owners(model.graph)


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda b, x: x, [X]),
        (lambda b, x: [x, x], [X, X]),
        (lambda b, x: b.emit(OP.reshape(x, (24,))), [X.reshape(24)]),
        (lambda b, x: [y := b.emit(OP.negative(x)), y], [-X, -X]),
        (
            lambda b, x: [y := b.emit(OP.negative(x)), b.emit(OP.reshape(y, (6, 4)))],
            [-X, -X.reshape(6, 4)],
        ),
        (lambda b, x: [relax.const(X), b.emit(OP.negative(x))], [X, -X]),
        (lambda b, x: [relax.const(X), relax.const(X)], [X, X]),
    ],
    ids=["input", "input twice", "view of input", "twice", "view of output", "constant",
         "constant twice"],
)  # fmt: skip
def test_outputs_that_need_copies(build, expected):
    model = compiled(build)
    check_owners(model.graph)
    for result, wanted in zip(run(model, [X]), expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


def test_what_no_output_needs_is_left_out():
    def build(builder, x):
        builder.emit(OP.exp(x))
        return builder.emit(OP.negative(x))

    assert len(compiled(build, opt_level=0).graph["kernels"]) == 1


def test_equal_constants_are_kept_once():
    def build(builder, x):
        y = builder.emit(OP.matmul(x, relax.const(np.eye(12, dtype="float32"))))
        return builder.emit(OP.matmul(y, relax.const(np.eye(12, dtype="float32"))))

    model = compiled(build)
    # As large as the processor's vectors make it, which its rows may be filled up to.
    (weights,) = model.params.values()
    assert model.memory["weights"] == weights.nbytes


def test_memory_counts_every_storage():
    weights, _ = constant(0, 12, 5)

    def build(builder, x):
        return builder.emit(OP.matmul(builder.emit(OP.exp(x)), weights))

    model = compiled(build)
    assert model.memory["weights"] == 240
    assert model.memory["peak"] == sum(model.graph["storages"])
    assert model.memory["activations"] == (24 + 24 + 10) * 4


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda b, x: b.emit(OP.nonzero(x)), "'relax.run.nonzero' has none"),
        (
            lambda b, x: b.emit(relax.op.call_pure_packed("a.function", x, ty_args=x.ty)),
            "'a.function' has none for fixed shapes",
        ),
    ],
)
def test_what_has_no_fixed_shape_or_kernel_is_refused(build, message):
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([2, 12], "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(build(builder, x))
        builder.emit_func_output(result)
    signature = Signature((TensorSpec("x", (2, 12), "float32"),), ())
    with pytest.raises(UnsupportedModelError, match=message) as error:
        compile_model(builder.get(), signature, target="llvm")
    assert "\n" not in str(error.value)


def test_types_that_memory_does_not_hold_are_refused():
    module, signature = module_of(lambda b, x: b.emit(OP.astype(x, "int4")), X.shape)
    with pytest.raises(UnsupportedModelError, match="int8 to float64 is needed.* is int4"):
        compile_model(module, signature, target="llvm")


def test_open_shapes_are_refused():
    n = tvm.tirx.Var("n", "int64")
    builder = relax.BlockBuilder()
    x = relax.Var("image", relax.TensorType([n, 3], "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(x)
    with pytest.raises(UnsupportedModelError, match="input 'image'.*pass input_shapes"):
        lower_to_graph(builder.get())


def test_a_signature_of_another_module_is_refused():
    module, signature = module_of(lambda b, x: b.emit(OP.exp(x)), X.shape)
    with pytest.raises(InputError, match="signature with 1 tensors"):
        compile_model(module, Signature(signature.inputs * 2, signature.outputs), target="llvm")
