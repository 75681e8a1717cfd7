"""Loops, scans and sequences of tensors, against onnxruntime."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from support.conformance.conformance_worker import executor
from tvm_vision.errors import UnsupportedModelError
from tvm_vision.evaluate.reference import Reference
from tvm_vision.frontend.onnx.load import import_onnx

F, I64, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node, info = helper.make_node, helper.make_tensor_value_info
IMAGE = np.random.default_rng(2).standard_normal((4, 3)).astype(np.float32)


def model_of(nodes, outputs, constants=(), inputs=(("x", F, (4, 3)),), opset=17):
    graph = helper.make_graph(
        nodes,
        "whole",
        [info(*one) for one in inputs],
        [one if isinstance(one, onnx.ValueInfoProto) else info(one, F, None) for one in outputs],
        [numpy_helper.from_array(np.array(value), name) for name, value in constants],
    )
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def check(model, *arrays):
    wanted = Reference(model).run(dict(zip(Reference(model).inputs, arrays, strict=True)))
    imported = import_onnx(model)
    assert [spec.name for spec in imported[1].outputs] == list(wanted)
    for ours, reference in zip(executor(imported, "llvm")(*arrays), wanted.values(), strict=True):
        np.testing.assert_allclose(ours, reference, rtol=1e-5, atol=1e-6)


def loop_body(until=None):
    """sum + x * step, stacked as well; it goes on while the step is less than ``until``."""
    go_on = [node("Identity", ["go"], ["on"])]
    if until is not None:
        go_on = [
            node("Constant", [], ["most"], value_int=until),
            node("Less", ["i", "most"], ["on"]),
        ]
    return helper.make_graph(
        [
            *go_on,
            node("Cast", ["i"], ["step"], to=F),
            node("Mul", ["x", "step"], ["part"]),
            node("Add", ["sum", "part"], ["more"]),
            node("ReduceMean", ["more"], ["row"], axes=[1], keepdims=0),
        ],
        "body",
        [info("i", I64, ()), info("go", B, ()), info("sum", F, None)],
        [info("on", B, ()), info("more", F, None), info("row", F, None)],
    )


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("trip", "until"),
    [
        ("five", 2),
        pytest.param("five", None, marks=SLOW),
        pytest.param("", 3, marks=SLOW),
        ("shape", None),
    ],
)
def test_loops_of_known_length(trip, until):
    constants = [("five", np.array(5)), ("true", np.array(True)), ("first", np.array(0))]
    steps = [node("Shape", ["x"], ["all"]), node("Gather", ["all", "first"], ["shape"])]
    loop = node("Loop", [trip, "true", "x"], ["y", "rows"], "turns", body=loop_body(until))
    check(model_of([*steps, loop], ["y", "rows"], constants), IMAGE)


def recurrent_layer(name, given, steps):
    """Keras' LSTM as tf2onnx writes it, but for its gates: a Loop that counts itself, takes a row
    of its input, and stacks its states."""
    body = helper.make_graph(
        [
            node("Add", ["t", "one"], ["next"]),
            node("Gather", [given, "t"], ["row"]),
            node("Add", ["h", "row"], ["sum"]),
            node("Tanh", ["sum"], ["new"]),
            node("Identity", ["new"], ["out"]),
            node("Less", ["next", "n"], ["on"]),
            node("Identity", ["n"], ["same"]),
        ],
        "body",
        [info("i", I64, ()), info("go", B, ()), info("t", I64, ()), info("h", F, None),
         info("n", I64, ())],
        [info("on", B, ()), info("next", I64, None), info("new", F, None), info("same", I64, None),
         info("out", F, None)],
    )  # fmt: skip
    ends = [f"{name}_t", f"{name}_h", f"{name}_n", f"{name}_rows"]
    inputs = ["", "true", "zero", "empty", steps]
    return node("Loop", inputs, ends, name, body=body)


def counted(value, name):
    return [
        node("Shape", [value], [f"{name}_all"]),
        node("Gather", [f"{name}_all", "zero"], [name]),
    ]


def test_layers_that_count_the_steps_of_the_layer_before():
    """The second loop's steps follow once the first one's results are known to be stacked."""
    constants = [("zero", np.array(0)), ("one", np.array(1)), ("true", np.array(True)),
                 ("empty", np.zeros(3, np.float32))]  # fmt: skip
    steps = [
        *counted("x", "n"), recurrent_layer("first", "x", "n"),
        *counted("first_rows", "m"), recurrent_layer("second", "first_rows", "m"),
    ]  # fmt: skip
    check(model_of(steps, ["second_rows", "second_h"], constants), IMAGE)


def test_a_loop_whose_length_the_data_decides_is_refused():
    steps = [
        node("ReduceMax", ["x"], ["top"], keepdims=0),
        node("Cast", ["top"], ["trip"], to=I64),
        node("Loop", ["trip", "", "x"], ["y", "rows"], "turns", body=loop_body()),
    ]
    with pytest.raises(UnsupportedModelError, match=r"Loop \(the number of its steps .*constant"):
        import_onnx(model_of(steps, ["y", "rows"]))


def halving_body(stacked=True):
    """x / 2 and a count of steps, which goes on while the largest number is more than 1."""
    stack = [node("ReduceMean", ["half"], ["row"], axes=[1], keepdims=0)] if stacked else []
    return helper.make_graph(
        [
            node("Constant", [], ["two"], value_float=2.0),
            node("Constant", [], ["unit"], value_float=1.0),
            node("Div", ["v", "two"], ["half"]),
            node("Add", ["n", "one"], ["more"]),
            node("Not", ["odd"], ["even"]),
            node("ReduceMax", ["half"], ["top"], keepdims=0),
            node("Greater", ["top", "unit"], ["large"]),
            node("And", ["go", "large"], ["on"]),
            *stack,
        ],
        "body",
        [info("i", I64, ()), info("go", B, ()), info("v", F, None), info("n", I64, None),
         info("odd", B, None)],
        [info("on", B, ()), info("half", F, None), info("more", I64, None), info("even", B, None)]
        + [info("row", F, (4,))] * stacked,
    )  # fmt: skip


COUNTED = [("six", np.array(6)), ("one", np.array(1)), ("true", np.array(True)),
           ("no", np.array(False)), ("zero", np.array([0]))]  # fmt: skip
STATES = ["y", info("n", I64, None), info("even", B, None)]


def held_to_onnxruntime(model, *feeds):
    """Of the compiled model, with as many rows as its count says, for each of the inputs."""
    imported = import_onnx(model)
    names, run = [spec.name for spec in imported[1].outputs], executor(imported, "llvm")
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for feed in feeds:
        ours = dict(zip(names, run(*feed), strict=True))
        inputs = dict(zip([one.name for one in session.get_inputs()], feed, strict=True))
        results = session.run(None, inputs)
        for one, wanted in zip(session.get_outputs(), results, strict=True):
            found = ours[one.name]
            if (count := ours.get(f"{one.name}_count")) is not None:
                found = found[: int(count)]
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize("before", ["true", "c"])
def test_a_loop_that_data_ends_before_its_limit(before, stacked):
    """Its states are those of the last step there was, and it has a row of each of them: from
    none, where it does not begin, to its limit."""
    loop = node("Loop", ["six", before, "x", "zero", "no"],
                ["y", "n", "even", *["rows"] * stacked], "turns",
                body=halving_body(stacked))  # fmt: skip
    inputs = [("x", F, (4, 3)), *[("c", B, ())] * (before == "c")]
    model = model_of([loop], [*STATES, *["rows"] * stacked], COUNTED, inputs)
    conditions = [(True,), (False,)] if before == "c" else [()]
    feeds = [(IMAGE * scale, *map(np.array, c)) for scale in (0.1, 3, 20, 1e4) for c in conditions]
    held_to_onnxruntime(model, *feeds)


@pytest.mark.slow
def test_a_loop_that_data_ends_in_a_loop_that_data_ends():
    outer = helper.make_graph(
        [
            node("Loop", ["six", "true", "w", "m", "no"], ["less", "n2", "even2"], "inner",
                 body=halving_body(False)),
            node("Mul", ["less", "x"], ["w2"]),
            node("ReduceMax", ["w2"], ["highest"], keepdims=0),
            node("Less", ["highest", "bound"], ["on2"]),
        ],
        "outer",
        [info("j", I64, ()), info("go2", B, ()), info("w", F, None), info("m", I64, None)],
        [info("on2", B, ()), info("w2", F, None), info("n2", I64, None)],
    )  # fmt: skip
    constants = [*COUNTED, ("pair", np.array(2)), ("bound", np.array(3, np.float32))]
    loop = node("Loop", ["pair", "true", "x", "zero"], ["y", "n"], "turns", body=outer)
    model = model_of([loop], STATES[:2], constants)
    held_to_onnxruntime(model, *([IMAGE * scale] for scale in (0.1, 3, 20)))


def test_a_state_that_grows_in_a_loop_that_data_ends():
    body = helper.make_graph(
        [
            node("Concat", ["v", "x"], ["longer"], axis=0),
            node("ReduceSum", ["longer"], ["all"], keepdims=0),
            node("Less", ["all", "bound"], ["on"]),
        ],
        "body",
        [info("i", I64, ()), info("go", B, ()), info("v", F, None)],
        [info("on", B, ()), info("longer", F, None)],
    )
    constants = [("three", np.array(3)), ("bound", np.array(20, np.float32))]
    loop = node("Loop", ["three", "", "x"], ["y"], "turns", body=body)
    held_to_onnxruntime(
        model_of([loop], ["y"], constants), *([np.abs(IMAGE) * scale] for scale in (0.1, 0.8, 9))
    )


@pytest.mark.parametrize(("limit", "advice"), [("", "limit of steps"), ("far", "at most 2222 ")])
def test_a_loop_that_data_ends_needs_a_limit(limit, advice):
    loop = node("Loop", [limit, "true", "x", "zero", "no"], ["y", "n", "even", "rows"], "turns",
                body=halving_body())  # fmt: skip
    model = model_of([loop], STATES, [*COUNTED, ("far", np.array(5000))])
    with pytest.raises(UnsupportedModelError, match=rf"goes on depends on the data.*{advice}"):
        import_onnx(model)


@pytest.mark.parametrize("backwards", [pytest.param(0, marks=SLOW), 1])
def test_scans(backwards):
    body = helper.make_graph(
        [
            node("Add", ["state", "row"], ["next"]),
            node("Mul", ["next", "row"], ["out"]),
        ],
        "body",
        [info("state", F, (4,)), info("row", F, (4,))],
        [info("next", F, (4,)), info("out", F, (4,))],
    )
    scan = node(
        "Scan",
        ["zero", "x"],
        ["last", "y"],
        "scan",
        body=body,
        num_scan_inputs=1,
        scan_input_axes=[1],
        scan_input_directions=[backwards],
        scan_output_axes=[1],
        scan_output_directions=[1 - backwards],
    )
    zero = np.zeros(4, np.float32)
    check(model_of([scan], ["last", "y"], [("zero", zero)]), IMAGE)


def sequence(name):
    return onnx.helper.make_tensor_sequence_value_info(name, F, None)


@pytest.mark.parametrize("keepdims", [0, pytest.param(1, marks=SLOW)])
def test_sequences_are_the_tensors_in_them(keepdims):
    constants = [("one", np.array(1)), ("last", np.array(-1))]
    steps = [
        node("SplitToSequence", ["x"], ["rows"], axis=0, keepdims=keepdims),
        node("SequenceErase", ["rows", "one"], ["fewer"]),
        node("SequenceAt", ["rows", "last"], ["row"]),
        node("Neg", ["row"], ["other"]),
        node("SequenceInsert", ["fewer", "other", "one"], ["more"]),
        node("ConcatFromSequence", ["more"], ["y"], axis=0),
        node("SequenceLength", ["more"], ["count"]),
    ]
    model = model_of(steps, ["y", info("count", I64, ()), sequence("more")], constants)
    check(model, IMAGE)


def test_parts_of_a_size_and_stacks():
    constants = [("three", np.array(3))]
    steps = [
        node("SplitToSequence", ["x", "three"], ["parts"], axis=0),
        node("SequenceConstruct", ["x", "x"], ["pair"]),
        node("ConcatFromSequence", ["pair"], ["y"], axis=1, new_axis=1),
    ]
    check(model_of(steps, ["y", sequence("parts")], constants), IMAGE)


@pytest.mark.parametrize("keepdims", [0, 1])
def test_data_may_decide_which_of_tensors_that_are_alike(keepdims):
    steps = [
        node("SplitToSequence", ["x"], ["rows"], axis=0, keepdims=keepdims),
        node("SequenceAt", ["rows", "place"], ["y"]),
    ]
    model = model_of(steps, ["y"], inputs=[("x", F, (4, 3)), ("place", I64, ())])
    session = onnxruntime.InferenceSession(model.SerializeToString())
    run = executor(import_onnx(model), "llvm")
    for place in (0, 3, -1):
        inputs = {"x": IMAGE, "place": np.array(place)}
        np.testing.assert_array_equal(run(*inputs.values()), session.run(None, inputs))


def test_which_of_tensors_that_differ_data_does_not_decide():
    steps = [
        node("SequenceConstruct", ["x", "s"], ["pair"]),
        node("ReduceSum", ["x"], ["s"]),
        node("SequenceAt", ["pair", "place"], ["y"], "which"),
    ]
    inputs = [("x", F, (4, 3)), ("place", I64, ())]
    with pytest.raises(UnsupportedModelError, match=r"SequenceAt \(its position depends on"):
        import_onnx(model_of([steps[1], steps[0], steps[2]], ["y"], inputs=inputs))


def test_places_are_counted_by_lengths():
    """The last of what is left, and the last but one of what that makes."""
    steps = [
        node("SplitToSequence", ["x", "three"], ["parts"], axis=0),
        node("SequenceLength", ["parts"], ["count"]),
        node("Sub", ["count", "one"], ["last"]),
        node("SequenceAt", ["parts", "last"], ["a"]),
        node("SequenceInsert", ["parts", "a", "last"], ["more"]),
        node("SequenceLength", ["more"], ["count2"]),
        node("Sub", ["count2", "two"], ["last2"]),
        node("SequenceErase", ["more", "last2"], ["fewer"]),
        node("ConcatFromSequence", ["fewer"], ["y"], axis=0),
    ]
    constants = [(name, np.array(n)) for name, n in (("one", 1), ("two", 2), ("three", 3))]
    check(model_of(steps, ["y", "a"], constants), IMAGE)


def test_a_branch_by_data_may_give_a_sequence():
    branches = {
        f"{name}_branch": helper.make_graph(
            [node("SequenceConstruct", values, [name])], name, [], [sequence(name)]
        )
        for name, values in (("then", ["x", "n"]), ("else", ["n", "x"]))
    }
    steps = [
        node("Neg", ["x"], ["n"]),
        node("If", ["c"], ["pair"], "choice", **branches),
    ]
    model = model_of(steps, [sequence("pair")], inputs=[("x", F, (4, 3)), ("c", B, ())])
    for condition in (True, False):
        session = onnxruntime.InferenceSession(model.SerializeToString())
        ((one, other),) = session.run(None, {"x": IMAGE, "c": np.array(condition)})
        found = executor(import_onnx(model), "llvm")(IMAGE, np.array(condition))
        np.testing.assert_array_equal(found, [one, other])


def largest_of_part(shape):
    return helper.make_graph(
        [node("ReduceMax", ["part"], ["top"], axes=[0], keepdims=0)],
        "body",
        [info("part", F, shape)],
        [info("top", F, (3,))],
    )


def test_a_body_for_each_tensor_of_a_sequence():
    """What a SequenceMap gives is counted by another."""
    steps = [
        node("SplitToSequence", ["x", "three"], ["parts"], axis=0),
        node("SequenceMap", ["parts"], ["tops"], "first", body=largest_of_part((None, 3))),
        node("SequenceMap", ["tops"], ["all"], "second", body=largest_of_part((3,))),
        node("ConcatFromSequence", ["tops"], ["y"], axis=0, new_axis=1),
    ]
    steps[2].attribute[0].g.output[0].type.CopyFrom(info("top", F, ()).type)
    check(model_of(steps, ["y", sequence("all")], [("three", np.array(3))]), IMAGE)
