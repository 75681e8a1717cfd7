"""Moves between two computations as one, products in order of their rows, and scaled behind."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from tvm import relax
from tvm.target import Target

from support.compiled import executor_of
from support.relax_models import constant, module_of
from support.relax_numpy import run_by_numpy
from tvm_vision.compiler import compile_model, prepare
from tvm_vision.compiler.relax.channels_last import calls_of
from tvm_vision.compiler.relax.join_moves import join_moves
from tvm_vision.compiler.relax.operators import fixed_shape, operator_of
from tvm_vision.compiler.relax.rows_in_order import rows_in_order
from tvm_vision.compiler.relax.scale_products import scale_products

OP = relax.op
GPU = {"kind": "vulkan", "max_threads_per_block": 256, "max_shared_memory_per_block": 16384}


def image(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape).astype("float32")


def turns(module: Any) -> int:
    return len(calls_of(module, "relax.permute_dims"))


# Moves as one.


def random_move(b: relax.BlockBuilder, x: Any, rng: np.random.Generator) -> Any:
    shape = fixed_shape(x) or ()
    kind = rng.integers(7)
    axis = int(rng.integers(len(shape)))
    extent = shape[axis]
    if kind < 2:
        return b.emit(OP.permute_dims(x, [int(a) for a in rng.permutation(len(shape))]))
    if kind == 2:
        factors = [n for n in range(1, extent + 1) if extent % n == 0]
        first = int(rng.choice(factors))
        return b.emit(OP.reshape(x, [*shape[:axis], first, extent // first, *shape[axis + 1 :]]))
    if kind == 3 and len(shape) > 1:
        axis = min(axis, len(shape) - 2)
        together = shape[axis] * shape[axis + 1]
        return b.emit(OP.reshape(x, [*shape[:axis], together, *shape[axis + 2 :]]))
    if kind == 4 and len(shape) > 2:
        place = int(rng.integers(-extent, extent))
        return b.emit(OP.take(x, relax.const(np.int64(place)), axis=axis))
    if kind == 5:
        begin = int(rng.integers(extent))
        end, step = int(rng.integers(begin, extent)) + 1, int(rng.integers(1, 3))
        return b.emit(OP.strided_slice(x, [axis], [begin], [end], [step]))
    if kind == 6 and extent % 2 == 0:
        return b.emit(relax.TupleGetItem(b.emit(OP.split(x, 2, axis)), int(rng.integers(2))))
    return b.emit(OP.expand_dims(x, axis))


@pytest.mark.parametrize("seed", range(150))
def test_chains_of_moves_give_what_they_gave(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 9, size=rng.integers(2, 5)))

    def network(b: relax.BlockBuilder, x: Any) -> Any:
        moved = [b.emit(OP.negative(x))]
        for _ in range(int(rng.integers(2, 8))):
            moved.append(random_move(b, moved[int(rng.integers(len(moved)))], rng))
        return [b.emit(OP.negative(m)) for m in moved[1:]]

    module, _ = module_of(network, shape)
    given = image(*shape)
    before, after = (run_by_numpy(m["main"], given) for m in (module, join_moves(module)))
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_three_read_of_a_turned_tensor_is_turned_once_for_each() -> None:
    """As queries, keys and values of one product are taken from a tensor that is turned first."""

    def network(b: relax.BlockBuilder, x: Any) -> Any:
        made = b.emit(OP.negative(x))
        whole = b.emit(OP.permute_dims(b.emit(OP.reshape(made, (6, 2, 3, 8))), (2, 0, 1, 3)))
        parts = []
        for part in range(3):
            taken = b.emit(OP.take(whole, relax.const(np.int64(part)), axis=0))
            turned = b.emit(OP.permute_dims(b.emit(OP.reshape(taken, (6, 4, 4))), (1, 0, 2)))
            parts.append(b.emit(OP.exp(turned)))
        return parts

    module, _ = module_of(network, (6, 2, 24))
    joined = join_moves(module)
    assert (turns(module), turns(joined)) == (4, 3)
    for turn in calls_of(joined, "relax.permute_dims"):
        assert operator_of(turn.args[0]) == ""  # of a name: what it stands for is below
    kernels = prepare(module, target=Target(GPU, host="llvm")).kernels
    assert len(kernels) == 4  # one that makes the tensor, one for each part


@pytest.mark.parametrize("first", ["turned", "split"])
def test_parts_of_a_split_are_moves_of_what_was_split(first: str) -> None:
    """Turned before, as of [rows, 3, heads, depth], or each turned after it. A part that nobody
    reads is not made."""

    def network(b: relax.BlockBuilder, x: Any) -> Any:
        made = b.emit(OP.negative(x))
        if first == "turned":
            whole = b.emit(OP.permute_dims(b.emit(OP.reshape(made, (6, 3, 4, 8))), (1, 2, 0, 3)))
            parts = [b.emit(p) for p in map(b.emit(OP.split(whole, 3, 0)).__getitem__, (0, 2))]
            return [b.emit(OP.exp(b.emit(OP.reshape(part, (4, 6, 8))))) for part in parts]
        parts = [b.emit(p) for p in map(b.emit(OP.split(made, 3, 1)).__getitem__, (0, 2))]
        heads = [b.emit(OP.reshape(part, (6, 4, 8))) for part in parts]
        return [b.emit(OP.exp(b.emit(OP.permute_dims(part, (1, 0, 2))))) for part in heads]

    module, _ = module_of(network, (6, 96))
    joined = join_moves(module)
    given = image(6, 96)
    before, after = (run_by_numpy(each["main"], given) for each in (module, joined))
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)
    assert not calls_of(joined, "relax.split")
    kernels = prepare(module, target=Target(GPU, host="llvm")).kernels
    assert len(kernels) == 3  # one that makes the tensor, one for each part that is read


def test_a_split_without_turns_stays() -> None:
    """Parts that lie in one piece are read where they are."""

    def network(b: relax.BlockBuilder, x: Any) -> Any:
        parts = b.emit(OP.split(b.emit(OP.negative(x)), 2, 0))
        return [b.emit(OP.negative(b.emit(OP.reshape(b.emit(parts[n]), (12, 3))))) for n in (0, 1)]

    module, _ = module_of(network, (12, 6))
    assert len(calls_of(join_moves(module), "relax.split")) == 1


def test_turns_that_take_each_other_back_across_reshapes_go() -> None:
    def network(b: relax.BlockBuilder, x: Any) -> Any:
        turned = b.emit(OP.permute_dims(b.emit(OP.negative(x)), (1, 0, 2)))
        split = b.emit(OP.reshape(turned, (5, 4, 2, 3)))
        return b.emit(OP.negative(b.emit(OP.permute_dims(split, (1, 0, 2, 3)))))

    module, _ = module_of(network, (4, 5, 6))
    assert turns(join_moves(module)) == 0


# Rows in order.

BATCH, LENGTH, HEADS, WIDTH = 3, 5, 2, 8
INNER = WIDTH // HEADS
(IN, _), (IN_BIAS, _) = constant(0, WIDTH, 3 * WIDTH), constant(1, 3 * WIDTH)
(OUT, _), (OUT_BIAS, _) = constant(2, WIDTH, WIDTH), constant(3, WIDTH)


def torch_attention(b: relax.BlockBuilder, x: Any) -> Any:
    """As torch exports MultiheadAttention(batch_first=True), with a residual."""

    def emit(call: Any) -> Any:
        return b.emit(call)

    first = emit(OP.permute_dims(x, (1, 0, 2)))
    product = emit(OP.add(emit(OP.matmul(first, IN)), IN_BIAS))
    parts = emit(OP.expand_dims(emit(OP.reshape(product, (LENGTH, BATCH, 3, WIDTH))), 0))
    parts = emit(OP.squeeze(emit(OP.permute_dims(parts, (3, 1, 2, 0, 4))), 3))
    found = []
    for part in range(3):
        taken = emit(OP.take(parts, relax.const(np.int64(part)), axis=0))
        heads = emit(OP.reshape(taken, (LENGTH, BATCH * HEADS, INNER)))
        turned = emit(OP.permute_dims(heads, (1, 0, 2)))
        found.append(emit(OP.reshape(turned, (BATCH, HEADS, LENGTH, INNER))))
    root = relax.const(np.float32(INNER**-0.25))
    q = emit(OP.multiply(found[0], root))
    k = emit(OP.multiply(emit(OP.permute_dims(found[1], (0, 1, 3, 2))), root))
    shares = emit(OP.nn.softmax(emit(OP.matmul(q, k))))
    values = emit(OP.permute_dims(emit(OP.matmul(shares, found[2])), (2, 0, 1, 3)))
    flat = emit(OP.reshape(values, (LENGTH * BATCH, WIDTH)))
    out = emit(OP.add(emit(OP.matmul(flat, OUT)), OUT_BIAS))
    back = emit(OP.permute_dims(emit(OP.reshape(out, (LENGTH, BATCH, WIDTH))), (1, 0, 2)))
    return emit(OP.add(back, x))


def test_attention_of_torch_gives_what_it_gave() -> None:
    module, _ = module_of(torch_attention, (BATCH, LENGTH, WIDTH))
    given = image(BATCH, LENGTH, WIDTH)
    expected = run_by_numpy(module["main"], given)
    for change in (rows_in_order, scale_products, join_moves):
        module = change(module)
        found = run_by_numpy(module["main"], given)
        np.testing.assert_allclose(found, expected, atol=1e-5, err_msg=change.__name__)


def test_no_rows_of_attention_are_turned() -> None:
    """One turn each of queries, keys (and for the product), values and shares: no other."""
    module, _ = module_of(torch_attention, (BATCH, LENGTH, WIDTH))
    joined = join_moves(scale_products(rows_in_order(module)))
    assert (turns(module), turns(joined)) == (8, 4)


@pytest.mark.usefixtures("device_info")
def test_attention_of_torch_on_the_device() -> None:
    module, signature = module_of(torch_attention, (BATCH, LENGTH, WIDTH))
    given = image(BATCH, LENGTH, WIDTH)
    expected = run_by_numpy(module["main"], given)
    kernels = {}
    for on in (True, False):
        options = {"join_moves": on}
        made = compile_model(module, signature, target="vulkan", options=options)
        kernels[on] = len(prepare(module, target=Target(GPU, host="llvm"), options=options).kernels)
        executor = executor_of(made)
        executor.run(**{signature.inputs[0].name: given})
        (found,) = executor.outputs().values()
        np.testing.assert_allclose(found, expected, atol=1e-5)
    assert kernels[True] < kernels[False]


@pytest.mark.parametrize("seed", range(60))
def test_products_of_turned_rows_give_what_they_gave(seed: int) -> None:
    """Axes of equal extents and of one, several that count rows or columns, sums between."""
    rng = np.random.default_rng(seed)
    extents = [int(n) for n in rng.integers(1, 4, size=4)]
    axes = [int(a) for a in rng.permutation(4)]
    rows = int(rng.integers(1, 4))
    turned = [extents[a] for a in axes]
    depth, columns = math.prod(turned[rows:]), int(rng.integers(1, 5))
    weights = constant(seed, depth, columns)[0]
    by = [constant(seed + 1, columns)[0], constant(seed + 2, 1, columns)[0], relax.const(2.0)]
    back = [int(a) for a in rng.permutation(rows + 1)]
    flat, elementwise = bool(rng.integers(2)), [OP.add, OP.multiply, OP.divide, OP.subtract]

    def network(b: relax.BlockBuilder, x: Any) -> Any:
        moved = b.emit(OP.permute_dims(b.emit(OP.negative(x)), axes))
        shape = (math.prod(turned[:rows]),) if flat else turned[:rows]
        made = b.emit(OP.matmul(b.emit(OP.reshape(moved, (*shape, depth))), weights))
        for operator in elementwise[: int(rng.integers(5))]:
            pair = [made, by[int(rng.integers(3))]]
            made = b.emit(operator(*(pair if rng.integers(2) else pair[::-1])))
        split = b.emit(OP.reshape(made, (*turned[:rows], columns)))
        found = [b.emit(OP.negative(b.emit(OP.permute_dims(split, back))))]
        if rng.integers(4) == 0:  # another reader, by which rows have to be turned
            found.append(b.emit(OP.negative(split)))
        return found

    module, _ = module_of(network, tuple(extents))
    given = image(*extents)
    before, after = (run_by_numpy(m["main"], given) for m in (module, rows_in_order(module)))
    for one, other in zip(before, after, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


# Products scaled behind.


@pytest.mark.parametrize(
    ("number", "divided", "behind"),
    list(itertools.product((0.125, 0.0, np.inf, 1e-30), (True, False), (True, False))),
)
def test_a_moved_factor_is_scaled_behind_its_product(
    number: float, divided: bool, behind: bool
) -> None:
    """But by 0 and what is no number, and where the factor is used elsewhere."""
    scale = OP.divide if divided else OP.multiply

    def network(b: relax.BlockBuilder, x: Any) -> Any:
        q = b.emit(OP.permute_dims(b.emit(OP.negative(x)), (1, 0)))
        scaled = b.emit(scale(q, relax.const(np.float32(number))))
        product = b.emit(OP.matmul(b.emit(OP.permute_dims(scaled, (1, 0))), q))
        return product if behind else [product, b.emit(OP.negative(scaled))]

    module, _ = module_of(network, (4, 4))
    changed = scale_products(module)
    (by,) = calls_of(changed, "relax.multiply") + calls_of(changed, "relax.divide")
    finite = number not in (0.0, np.inf)
    assert (fixed_shape(by) == (4, 4) and _reads_a_product(changed, by)) == (behind and finite)
    given = np.abs(image(4, 4)) + 1
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        before, after = (run_by_numpy(m["main"], given) for m in (module, changed))
    np.testing.assert_allclose(after[0], before[0], rtol=1e-5)


def _reads_a_product(module: Any, call: Any) -> bool:
    from tvm_vision.compiler.relax.kernel_calls import bindings_of

    made = dict(bindings_of(module["main"]))
    return operator_of(made.get(call.args[0])) == "relax.matmul"


def test_a_factor_that_a_sum_scales_is_left() -> None:
    """There the number is a part of the sum's kernel already; so is one of a product by weights."""
    weights = constant(0, 4, 4)[0]

    def network(b: relax.BlockBuilder, x: Any) -> Any:
        scaled = b.emit(OP.multiply(b.emit(OP.matmul(x, weights)), relax.const(np.float32(3))))
        turned = b.emit(OP.multiply(b.emit(OP.permute_dims(x)), relax.const(np.float32(2))))
        return [b.emit(OP.matmul(scaled, x)), b.emit(OP.matmul(turned, weights))]

    module, _ = module_of(network, (4, 4))
    changed = scale_products(module)
    assert [operator_of(call) for call in calls_of(changed, "relax.multiply")]
    made = calls_of(changed, "relax.multiply")
    assert not any(_reads_a_product(changed, call) for call in made[1:])
    assert len(made) == 2
