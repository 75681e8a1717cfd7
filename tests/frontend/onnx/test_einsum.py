"""Einsum as products: the same sums as NumPy's, of any equation, and what is left to move."""

import random

import numpy as np
import onnx
import pytest
from onnx import helper

from support.onnx_models import make_model, run_on_cpu
from tvm_vision.evaluate import Reference
from tvm_vision.frontend.onnx import einsum
from tvm_vision.frontend.onnx.einsum import Equation, as_matrices, read_equation
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.frontend.onnx.rewrites import rewrite

SIZES = dict(zip("abcdefgh", (2, 3, 4, 5, 2, 3, 1, 6), strict=True))


def of_equation(equation, shapes, dtype=np.float32, opset=17, softmax=""):
    """A network of one Einsum, and numbers for it; softmax: "before" its first operand, or "after"
    it, of numbers to which something is added."""
    rng = np.random.default_rng(len(equation) + sum(map(sum, shapes)))
    arrays = [rng.integers(-4, 5, shape).astype(dtype) for shape in shapes]
    names = [f"x{number}" for number in range(len(shapes))]
    nodes = [helper.make_node("Einsum", names, ["y"], equation=equation)]
    factors = [array.astype(np.float64) for array in arrays]
    if softmax == "before":
        nodes[0].input[0] = "shares"
        nodes.insert(0, helper.make_node("Softmax", ["x0"], ["shares"], axis=-1))
        factors[0] = np.exp(factors[0]) / np.exp(factors[0]).sum(-1, keepdims=True)
    elif softmax == "after":
        nodes += [
            helper.make_node("Add", ["y", "y"], ["twice"]),
            helper.make_node("Softmax", ["twice"], ["z"], axis=-1),
        ]
    expected = np.einsum(equation, *factors)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    outputs = ["y", "z"] if softmax == "after" else ["y"]
    graph = helper.make_graph(
        nodes,
        "einsum",
        [helper.make_tensor_value_info(n, kind, s) for n, s in zip(names, shapes, strict=True)],
        [helper.make_tensor_value_info(name, kind, expected.shape) for name in outputs],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return model, arrays, expected


def steps_of(equation, *shapes, **options):
    """The operators that an Einsum becomes, which give what NumPy gives."""
    model, arrays, expected = of_equation(equation, shapes, **options)
    rewrite(model)
    onnx.checker.check_model(model)
    reference = Reference(model)
    found = reference.run(dict(zip(reference.inputs, arrays, strict=True)))["y"]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 if "softmax" in options else 0)
    own = 3 if options.get("softmax") == "after" else 1 + ("softmax" in options)
    steps = [node.op_type for node in model.graph.node]
    return steps[: len(steps) - own + 1] if own == 3 else steps[own - 1 :]


@pytest.mark.parametrize(
    ("equation", "shapes", "softmax", "steps"),
    [
        # Heads before rows, and behind them.
        ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)], "after", ["Transpose", "MatMul"]),
        ("bhqk,bhkd->bhqd", [(2, 3, 4, 6), (2, 3, 6, 5)], "before", ["MatMul"]),
        ("bqhd,bkhd->bhqk", [(2, 4, 3, 5), (2, 6, 3, 5)], "after", ["Transpose"] * 2 + ["MatMul"]),
        ("bhqk,bkhd->bqhd", [(2, 3, 4, 6), (2, 6, 3, 5)], "before",
         ["Transpose", "MatMul", "Transpose"]),
        # Positions of images, by rows: one matrix for all of a row.
        ("bhwc,hkc->bhwk", [(2, 3, 4, 5), (3, 6, 5)], "after", ["Transpose", "Reshape", "MatMul"]),
    ],
)  # fmt: skip
def test_attention_is_products(equation, shapes, softmax, steps):
    assert steps_of(equation, *shapes, softmax=softmax) == steps
    assert steps_of(equation, *shapes) == (["Einsum"] if "Transpose" in steps else steps)


@pytest.mark.parametrize(
    ("equation", "shapes", "steps"),
    [
        ("bnc,cd->bnd", [(2, 4, 5), (5, 3)], ["MatMul"]),
        ("...c,cd->...d", [(2, 3, 4, 5), (5, 3)], ["MatMul"]),
        ("bchw,oc->bohw", [(2, 5, 3, 4), (6, 5)], ["Reshape"] * 2 + ["MatMul", "Reshape"]),
        ("bqc,bchw->bqhw", [(2, 6, 5), (2, 5, 3, 4)], ["Reshape", "MatMul", "Reshape"]),
        ("ij,jk", [(2, 3), (3, 4)], ["MatMul"]),
        # No sum over what both have; a sum and no rows; a sum of one alone.
        ("bi,bj->bij", [(2, 3), (2, 4)], ["Unsqueeze"] * 2 + ["Mul"]),
        ("bchw,bchw->bc", [(2, 3, 4, 5)] * 2, ["Mul", "ReduceSum"]),
        ("abc,cd->ad", [(2, 3, 4), (4, 5)], ["ReduceSum", "MatMul"]),
        ("abc->ca", [(2, 3, 4)], ["ReduceSum", "Transpose"]),
        ("ij->ji", [(2, 3)], ["Transpose"]),
        ("ij->ij", [(2, 3)], ["Identity"]),
        ("ij,ij->", [(2, 3)] * 2, ["Mul", "ReduceSum"]),
    ],
)  # fmt: skip
def test_what_an_equation_becomes(equation, shapes, steps):
    assert steps_of(equation, *shapes) == steps


def test_the_cheapest_order_of_several():
    # The small product comes first, though it stands last.
    assert steps_of("ab,bc,cd->ad", (40, 30), (30, 20), (20, 2)).count("MatMul") == 2
    model, _, _ = of_equation("ab,bc,cd->ad", [(40, 30), (30, 20), (20, 2)])
    rewrite(model)
    first = next(node for node in model.graph.node if node.op_type == "MatMul")
    assert list(first.input) == ["x1", "x2"]


def drawn(rng):
    """An equation and the shapes of its operands: any labels, in any order, some of one element."""
    labels = rng.sample(sorted(SIZES), rng.randint(1, 6))
    count = rng.choice((1, 2, 2, 2, 3, 4))
    terms = [
        rng.sample(labels, rng.randint(0 if count > 1 else 1, len(labels))) for _ in range(count)
    ]
    known = sorted({label for term in terms for label in term})
    result = rng.sample(known, rng.randint(0, len(known)))
    wide = rng.choice((0, 0, 0, 1, 2))
    shapes = []
    for at, term in enumerate(terms):
        shape = [SIZES[label] for label in term]
        if wide and (at == 0 or rng.random() < 0.7):
            place = rng.randint(0, len(term))
            shape[place:place] = [rng.choice((1, size)) for size in (7, 3)[:wide]]
            term.insert(place, "...")
        terms[at] = "".join(term)
        shapes.append(tuple(shape))
    if wide:
        result.insert(rng.randint(0, len(result)), "...")
    text = ",".join(terms) + (f"->{''.join(result)}" if wide or rng.random() < 0.9 else "")
    return text, shapes


@pytest.mark.parametrize("seed", range(6))
def test_any_equation(seed, monkeypatch):
    rng = random.Random(seed)
    monkeypatch.setattr(einsum._Products, "turns", lambda _: False)
    for _ in range(40):
        equation, shapes = drawn(rng)
        steps = steps_of(equation, *shapes)
        assert "Einsum" not in steps, equation


def test_what_stays_is_right():
    """Two operands whose axes would have to be turned."""
    rng, left = random.Random(9), 8
    while left:
        model, arrays, expected = of_equation(*drawn(rng))
        rewrite(model)
        if [node.op_type for node in model.graph.node] != ["Einsum"]:
            continue
        left -= 1
        (found,) = run_on_cpu(import_onnx(model)[0], *arrays)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("opset", [12, 13, 18, 21])
def test_every_opset_that_has_it(opset):
    steps = steps_of("abc,d...->da...", (2, 3, 4), (5, 3), opset=opset)
    assert "ReduceSum" in steps and "Einsum" not in steps


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int32, np.int64])
def test_other_numbers(dtype):
    assert steps_of("ij,jk->ik", (2, 3), (3, 4), dtype=dtype) == ["MatMul"]


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [("ii->i", [(3, 3)]), ("iij,j->i", [(3, 3, 2), (2,)]), ("...ii->...i", [(2, 3, 3)])],
)
def test_diagonals_stay(equation, shapes):
    model, arrays, expected = of_equation(equation, shapes)
    rewrite(model)
    assert [node.op_type for node in model.graph.node] == ["Einsum"]
    (found,) = run_on_cpu(import_onnx(model)[0], *arrays)
    np.testing.assert_array_equal(found, expected)


def test_diagonals_of_halves_are_summed_in_float32():
    model, arrays, expected = of_equation("iij->j", [(3, 3, 2)], np.float16)
    rewrite(model)
    assert [node.op_type for node in model.graph.node] == ["Cast", "Einsum", "Cast"]
    (found,) = run_on_cpu(import_onnx(model)[0], *arrays)
    np.testing.assert_array_equal(found, expected)


def test_sizes_that_are_not_known_stay():
    nodes = [helper.make_node("Einsum", ["x", "y"], ["z"], equation="ij,jk->ik")]
    model = make_model(nodes, [("x", (2, "n")), ("y", ("n", 3))], [("z", (2, 3))])
    rewrite(model)
    assert [node.op_type for node in model.graph.node] == ["Einsum"]


def test_equations_that_do_not_fit():
    assert read_equation("ij,jk->ik", [2]) is None
    assert read_equation("ij->ik", [2]) is None
    assert read_equation("ij->ii", [2]) is None
    assert read_equation("ij->i", [3]) is None
    assert read_equation("ijk->i", [2]) is None


def test_what_is_read_of_an_equation():
    assert read_equation(" i j , j k ", [2, 2]) == Equation((("i", "j"), ("j", "k")), ("i", "k"))
    # What comes of an ellipsis stands before the letters where nothing is said of a result.
    assert read_equation("z...,...y", [3, 2]) == Equation(
        (("z", "...2", "...1"), ("...1", "y")), ("...2", "...1", "y", "z")
    )


def test_own_axes_of_an_operand_are_batch_where_the_result_has_them_first():
    how = as_matrices(tuple("tbhwc"), tuple("hkc"), tuple("tbhwk"))
    assert (how.batch, how.rows, how.columns, how.terms) == (
        ("t", "b", "h"), ("w",), ("k",), ("c",)
    )  # fmt: skip
    assert not how.swapped
