"""What is divided after it was moved, which TVM's maps of iterators get wrong."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from onnx import TensorProto, helper
from tvm import ir, s_tir, sym, te, tirx
from tvm.ir import Range
from tvm.ir.prim import expr as prim
from tvm.target import Target

from support.compiled import executor_of
from support.lowering import HOST
from tvm_vision.compiler import compile_model
from tvm_vision.evaluate import Reference
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.schedules.iter_maps import transform_block_layout, with_true_maps

DIVISORS = (2, 3, 4, 5, 6, 8, 10, 12, 20, 24)
SIZES = (8, 12, 20, 24, 40, 60)
FIRST = 1000  # no place is before the tensor


def divided(rng, axes, depth):
    """A random sum, quotient or remainder of the axes, some of them moved."""
    if depth == 0:
        return rng.choice(axes)
    one = divided(rng, axes, depth - 1) + rng.choice((0, 0, 1, 2, 3, 5, -1, -2, -3, 10))
    number = rng.choice(DIVISORS)
    kind = rng.randrange(4)
    if kind == 3:
        return one * number + divided(rng, axes, depth - 1)
    return one // number if kind == 0 else one % number


def value_of(node, values):
    """A node of integers by NumPy."""
    if isinstance(node, prim.IntImm):
        return int(node.value)
    if isinstance(node, ir.Var):
        return values[node.name]
    a, b = value_of(node.a, values), value_of(node.b, values)
    operator = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}
    operator |= {"FloorDiv": np.floor_divide, "FloorMod": np.mod}
    return operator[type(node).__name__](a, b)


def reading(x, first, rng, kept):
    """What reads ``x`` at a random place, where the first axis is ``first`` at least."""

    def element(i, j):
        kept.append(divided(rng, (i, j), 3) + FIRST)
        return tirx.if_then_else(first <= i, x[kept[0]], 0.0) if first else x[kept[0]]

    return element


def wrong_of(step, seed, count):
    """How many of random indices are other places after ``step`` than before."""
    rng = random.Random(seed)
    wrong = 0
    for _ in range(count):
        size = rng.choice(SIZES), rng.choice(SIZES)
        first = rng.choice((0, 0, 3, 5, 7))
        x = te.placeholder((100_000,), "float32", "x")
        kept: list[Any] = []
        y = te.compute(size, reading(x, first, rng, kept), "y")
        function = te.create_prim_func([x, y])
        lowered = tvm.transform.Sequential(
            [
                s_tir.transform.ConvertBlocksToOpaque(),
                s_tir.transform.LowerOpaqueBlock(),
                step,
            ]
        )(tvm.IRModule({"main": function}))["main"]
        loads: list[Any] = []
        loops: list[Any] = []
        tvm_ffi.structural_walk(
            lowered.body, [(ir.TensorLoad, loads.append), (tirx.For, loops.append)]
        )
        grid = np.meshgrid(*map(np.arange, size), indexing="ij")
        # Loops are met from within, and have other names than the axes that they took the place of.
        before = value_of(kept[0], dict(zip(("i", "j"), grid, strict=True)))
        names = [loop.loop_var.name for loop in reversed(loops)]
        after = value_of(loads[0].indices[0], dict(zip(names, grid, strict=True)))
        seen = np.broadcast_to(grid[0] >= first, size)
        one, other = (np.broadcast_to(v, size)[seen] for v in (before, after))
        wrong += not np.array_equal(one, other)
    return wrong


def test_indices_stay_the_same_places():
    assert wrong_of(with_true_maps(tirx.transform.FlattenBuffer()), seed=1, count=150) == 0


def test_tvm_still_moves_indices():
    """Where this fails, TVM has been mended and iter_maps can go."""
    assert wrong_of(tirx.transform.FlattenBuffer(), seed=1, count=150) > 3
    t = tirx.Var("t", "int32")
    (region,) = sym.estimate_region_upper_bound(
        [Range.from_min_extent((t % 8 - 1) // 4, 1)], {t: Range(0, 10)}, tirx.IntImm("bool", 1)
    )
    assert int(region.max_value) < (7 - 1) // 4


def test_a_block_of_other_variables_reads_the_same():
    x = te.placeholder((2, 2, 5), "float32", "x")
    y = te.compute((20,), lambda t: x[t // 10, t % 10 // 5, (t % 10 + 3) % 5], "y")
    schedule = s_tir.Schedule(te.create_prim_func([x, y]))
    transform_block_layout(schedule, schedule.get_sblock("y"), lambda t: [t // 2, t % 2])
    built = tvm.compile(tvm.IRModule({"main": schedule.mod["main"]}), target=Target(HOST))
    data = np.random.default_rng(1).random((2, 2, 5), dtype=np.float32)
    found = tvm.runtime.tensor(np.zeros(20, np.float32))
    built["main"](tvm.runtime.tensor(data), found)
    t = np.arange(20)
    np.testing.assert_array_equal(found.numpy(), data[t // 10, t % 10 // 5, (t % 10 + 3) % 5])


def node_of(kind, inputs, output, **attributes):
    return helper.make_node(kind, inputs, [output], **attributes)


def model_of(nodes, shape, numbers):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [helper.make_tensor(k, TensorProto.INT64, [len(v)], v) for k, v in numbers.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def padded_pixels(size, pads):
    """DepthToSpace of 16 channels, then a Pad of the last two axes: top, left, bottom, right."""
    return model_of(
        [
            node_of("DepthToSpace", ["x"], "d", blocksize=2, mode="DCR"),
            node_of("Pad", ["d", "pads"], "y"),
        ],
        [1, 16, *size],
        {"pads": [0, 0, *pads[:2], 0, 0, *pads[2:]]},
    )


def padded_twice():
    """Reshapes around Pads: what is moved is divided, moved and divided again."""
    return model_of(
        [
            node_of("Pad", ["x", "one"], "a"),
            node_of("Reshape", ["a", "rows"], "b"),
            node_of("Pad", ["b", "two"], "c"),
            node_of("Reshape", ["c", "flat"], "d"),
            node_of("Relu", ["d"], "y"),
        ],
        [4, 5, 6],
        {
            "one": [0, 1, 3, 0, 2, 1], "rows": [16, 5, 4], "two": [1, 0, 2, 1, 3, 0],
            "flat": [8, 9, 12],
        },
    )  # fmt: skip


@pytest.mark.parametrize("target", ["vulkan", "llvm"])
@pytest.mark.parametrize(
    "model",
    [padded_pixels((4, 4), (1, 1, 1, 1)), padded_pixels((6, 4), (3, 1, 0, 2)), padded_twice()],
    ids=["pixels", "more", "twice"],
)
def test_what_is_padded_is_what_was_read(model, target):
    compiled = compile_model(*import_onnx(model), target=target)
    executor = executor_of(compiled, tvm.device("vulkan" if target == "vulkan" else "cpu"))
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    image = np.random.default_rng(1).random(shape, dtype=np.float32)
    executor.run(x=image)
    (wanted,) = Reference(model).run({"x": image}).values()
    np.testing.assert_array_equal(executor.get_output(0).numpy(), wanted)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(lambda v: v + 1.0, id="sum"),
        pytest.param(lambda v: tirx.Select(v > 0.0, v, v * 0.1), id="activation"),
        pytest.param(
            lambda v: tirx.Select(0 < tirx.Cast("int32", v > 0.0), v, v * 0.1), id="Where"
        ),
    ],
)
def test_a_condition_counts_where_it_decides(value):
    """A buffer is as large as what is used of it, where a value that goes there is chosen by the
    divided index; what is chosen stays the same place. What asks for a value, as activations do,
    says nothing of places."""
    x = te.placeholder((16, 16), "float32", "x")
    staged = te.compute(
        (16, 16), lambda i, j: tirx.if_then_else(1 <= i, x[i - 1, j], 0.0), "staged"
    )
    y = te.compute((16, 16), lambda i, j: value(staged[i, j]), "y")
    schedule = s_tir.Schedule(te.create_prim_func([x, y]))
    i, j = schedule.get_loops(schedule.get_sblock("y"))
    tile, row = schedule.split(i, [4, 4])
    block = schedule.get_sblock("staged")
    schedule.compute_at(block, tile)
    # Four rows, in turns of one and a half: the last is cut short by a condition of the block's.
    for loops in (schedule.get_loops(block)[1:], (row, j)):
        _, thread = schedule.split(schedule.fuse(*loops), [None, 24])
        schedule.bind(thread, "threadIdx.x")
    lowered = tvm.transform.Sequential(
        [
            s_tir.transform.PlanAndUpdateBufferAllocationLocation(),
            s_tir.transform.ConvertBlocksToOpaque(),
            s_tir.transform.LiftThreadBinding(),
            with_true_maps(s_tir.transform.CompactBufferAllocation(), bounds=True),
        ]
    )(schedule.mod)["main"]
    shapes: list[list[int]] = []
    tvm_ffi.structural_walk(
        lowered.body,
        (s_tir.SBlock, lambda b: shapes.extend([list(map(int, a.shape)) for a in b.alloc_buffers])),
    )
    assert shapes == [[4, 16]]
