"""Suppression, places and conditions: results whose number data decides, against onnxruntime."""

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper

from support.bounded_models import (
    assert_rules_right,
    assert_same,
    by_numpy,
    by_onnxruntime,
    fixed,
    model_of,
    suppressed,
)
from support.compiled import executor_of, outputs_for
from support.onnx_models import run_on_cpu
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.relax.kernel_calls import bindings_of
from tvm_vision.errors import UnsupportedModelError
from tvm_vision.frontend.onnx.load import import_onnx

node = helper.make_node
TARGETS = {"llvm": lambda: tvm.cpu(0), "vulkan": lambda: tvm.vulkan(0)}


def some_boxes(rng, images, count, size=100):
    """Boxes that overlap, some of them twice, as two corners."""
    center, sides = (
        rng.uniform(low, high, (images, count, 2)) for low, high in ((0, size), (5, 40))
    )
    boxes = np.concatenate([center - sides / 2, center + sides / 2], -1).astype(np.float32)
    boxes[:, 1::7] = boxes[:, ::7][:, : boxes[:, 1::7].shape[1]]
    return boxes


def suppression_model(images, classes, count, most, *, iou=0.5, least=None, centers=0):
    weights = {"most": np.array([most]), "iou": np.array([iou], np.float32)}
    names = ["boxes", "scores", "most", "iou"]
    if least is not None:
        weights["least"] = np.array([least], np.float32)
        names.append("least")
    return model_of(
        [node("NonMaxSuppression", names, ["y"], center_point_box=centers)],
        [("boxes", "f4", (images, count, 4)), ("scores", "f4", (images, classes, count))],
        [("y", "i8", ("n", 3))],
        weights,
    )


def suppression_feeds(images=2, classes=3, count=50, seed=0):
    """None, a few, some and all of the scores above 0.4; many scores are equal."""
    rng = np.random.default_rng(seed)
    boxes = some_boxes(rng, images, count)
    scores = rng.integers(0, 20, (images, classes, count)).astype(np.float32) / 20
    return [{"boxes": boxes, "scores": scores * top} for top in (0.4, 0.45, 1)] + [
        {"boxes": boxes, "scores": scores + 0.5}
    ]


@pytest.mark.parametrize("target", TARGETS)
def test_suppression_on_a_device(target):
    """Ties, several images and classes, fewer boxes than are left; more boxes than threads."""
    feeds = suppression_feeds(count=300)
    model = suppression_model(2, 3, 300, 20, least=0.4)
    made = compile_model(*import_onnx(model), target=target)
    execute = executor_of(made, TARGETS[target]())
    found = outputs_for(execute, feeds)
    assert_same(found, by_onnxruntime(model, feeds))
    counts = [int(outputs["y_count"]) for outputs in found]
    assert counts[0] == 0 and counts[-1] == 2 * 3 * 20


@pytest.mark.parametrize(
    ("images", "classes", "count", "most", "iou", "levels"),
    [
        (1, 1, 1000, 1000, 0.7, 5),  # many are kept, of few different scores
        (2, 5, 700, 100, 0.45, 10**6),  # more than there is room for
        (1, 1, 65, 65, 0.3, 3),  # one more than a block
        (1, 2, 64, 64, 0.3, 1),  # of a score that is none
    ],
)
def test_suppression_in_blocks(images, classes, count, most, iou, levels):
    """Blocks of candidates, within which chains of boxes overlap, and across which they do."""
    rng = np.random.default_rng(count)
    model = suppression_model(images, classes, count, most, iou=iou, least=0.0)
    shape = (images, classes, count)
    feeds = [
        {
            "boxes": some_boxes(rng, images, count, size),
            "scores": (rng.integers(0, levels, shape) / levels).astype("f4"),
        }
        for size in (30, 400)
    ]
    made = compile_model(*import_onnx(model), target="vulkan")
    found = outputs_for(executor_of(made, tvm.vulkan(0)), feeds)
    assert_same(found, by_onnxruntime(model, feeds))


def first_of(ends, *, classes=1, branch=False, again=False, result=False):
    """The scores of the first boxes that are kept, by way of what keeps rows, as torchvision's."""
    inner = [
        node("NonMaxSuppression", ["boxes", "scores", "most", "iou"], ["kept"]),
        node("Gather", ["kept", "two"], ["column"], axis=1),
        node("Squeeze", ["column", "one"], ["places"]),
    ]
    nodes = inner
    if branch:
        kind = helper.make_tensor_value_info("places", onnx.TensorProto.INT64, ("n",))
        other = [node("Slice", ["zero", "one", "one"], ["none"])]
        nones = helper.make_tensor_value_info("none", onnx.TensorProto.INT64, ("n",))
        nodes = [
            node("ReduceMax", ["scores"], ["top"], keepdims=0),
            node("Greater", ["top", "half"], ["some"]),
            node(
                "If",
                ["some"],
                ["places"],
                then_branch=helper.make_graph(inner, "then", [], [kind]),
                else_branch=helper.make_graph(other, "else", [], [nones]),
            ),
        ]
    names: list[tuple[str, str, tuple[str | int, ...]]] = []
    for number in range(len(ends)):
        nodes += [
            node("Slice", ["places", "zero", f"end{number}", "zero"], [f"first{number}"]),
            node("Cast", [f"first{number}"], [f"y{number}"], to=onnx.TensorProto.FLOAT),
        ]
        names.append((f"y{number}", "f4", ("m",)))
    if again:
        nodes += [
            node("Shape", ["places"], ["size"]),
            node("Cast", ["size"], ["sizes"], to=onnx.TensorProto.FLOAT),
        ]
        names.append(("sizes", "f4", (1,)))
    if result:
        names.append(("places", "i8", ("n",)))
    weights = {
        "most": np.array([np.iinfo(np.int64).max]),
        "iou": np.array([0.5], np.float32),
        "half": np.array(0.5, np.float32),
        "zero": np.array([0]),
        "one": np.array([1]),
        "two": np.array([2]),
        **{f"end{number}": np.array([end]) for number, end in enumerate(ends)},
    }
    given = [("boxes", "f4", (1, 90, 4)), ("scores", "f4", (1, classes, 90))]
    return model_of(nodes, given, names, weights)


@pytest.mark.parametrize(
    ("model", "most"),
    [
        (first_of([7]), 7),
        (first_of([7], branch=True), 7),
        (first_of([7, 12]), 12),
        (first_of([7, 1000]), 90),
        (first_of([7, -1]), 90),  # all but the last
        (first_of([7], again=True), 90),
        (first_of([7], result=True), 90),
        (first_of([7], classes=2), 90),  # those of the second follow all of the first
    ],
)
def test_no_more_boxes_are_looked_for_than_are_read(model, most):
    rng = np.random.default_rng(3)
    feeds = [
        {
            "boxes": some_boxes(rng, 1, 90, size),
            "scores": rng.uniform(0, top, scores_of(model)).astype("f4"),
        }
        for size, top in ((30, 1), (300, 1), (300, 0.4))
    ]
    module, _ = made = import_onnx(model)
    (found,) = [
        value.ty.fields[0].shape for _, value in bindings_of(module["main"])
        if getattr(value, "args", None) and "suppression" in str(value.args[0])
    ]  # fmt: skip
    assert int(found[1]) == most
    for target, device in TARGETS.items():
        execute = executor_of(compile_model(*made, target=target), device())
        assert_same(outputs_for(execute, feeds), by_onnxruntime(model, feeds))


def scores_of(model):
    return [size.dim_value for size in model.graph.input[1].type.tensor_type.shape.dim]


def test_suppression_of_few_boxes_on_a_processor():
    """Few boxes, whose scores are mostly equal, turned, and without area."""
    model = suppression_model(2, 3, 3, 20, least=0.4)
    execute = executor_of(compile_model(*import_onnx(model), target="llvm"), tvm.cpu(0))
    feeds = []
    for seed in range(20):
        feeds += suppression_feeds(count=3, seed=seed)
        feeds[-1]["boxes"][:, ::2] = feeds[-1]["boxes"][:, ::2, [2, 3, 0, 1]]
        feeds[-2]["boxes"][:, ::3, 2] = feeds[-2]["boxes"][:, ::3, 0]
    assert_same(outputs_for(execute, feeds), by_onnxruntime(model, feeds))


def test_suppression_is_that_of_its_definition():
    feeds = suppression_feeds()
    results = by_onnxruntime(suppression_model(2, 3, 50, 7, least=0.4), feeds)
    for feed, outputs in zip(feeds, results, strict=True):
        expected = [
            (image, group, box)
            for image in range(2)
            for group in range(3)
            for box in suppressed(feed["boxes"][image], feed["scores"][image, group], 0.5, 0.4)[:7]
        ]
        np.testing.assert_array_equal(outputs["y"], np.array(expected).reshape(-1, 3))


@pytest.mark.parametrize(
    ("options", "classes", "images"),
    [
        ({"iou": 0.0}, 3, 2),
        ({"iou": 1.0, "least": 0.4}, 1, 1),
        ({"least": 0.4, "centers": 1}, 2, 1),
        ({"least": -1.0}, 1, 2),
    ],
)
def test_suppression(options, classes, images):
    feeds = suppression_feeds(images, classes)
    model = suppression_model(images, classes, 50, np.iinfo(np.int64).max, **options)
    assert_rules_right(model, feeds)


def test_more_boxes_than_there_can_be_are_refused_with_a_remedy():
    model = suppression_model(1, 80, 250000, np.iinfo(np.int64).max)
    with pytest.raises(
        UnsupportedModelError,
        match="NonMaxSuppression .up to 20000000 boxes .* at 'NonMaxSuppression_0': "
        "export the model with a smaller max_output_boxes_per_class, or use onnxruntime",
    ):
        import_onnx(model)


def test_more_places_than_there_can_be_are_refused_with_a_remedy():
    model = model_of(
        [node("NonZero", ["x"], ["y"])], [("x", "f4", (20000000,))], [("y", "i8", (1, "n"))], {}
    )
    with pytest.raises(
        UnsupportedModelError,
        match="NonZero .up to 20000000 rows, .* at 'NonZero_0': use a smaller input, or use ",
    ):
        import_onnx(model)


def test_what_has_no_rule_is_refused_by_name():
    model = model_of(
        [
            node("NonZero", ["x"], ["p"]),
            node("Cast", ["p"], ["c"], to=1),
            node("EyeLike", ["c"], ["y"]),
        ],
        [("x", "f4", (4,))],
        [("y", "f4", (1, "n"))],
        {},
    )
    with pytest.raises(
        UnsupportedModelError,
        match="EyeLike .the number of its rows depends on the data. at 'EyeLike_2': "
        "use onnxruntime for this model",
    ):
        import_onnx(model)


@pytest.mark.parametrize("shape", [(7,), (3, 5, 4)])
@pytest.mark.parametrize("dtype", ["f4", "i4", "u1", "?"])
def test_places(shape, dtype):
    rng = np.random.default_rng(1)
    rank = len(shape)
    model = model_of(
        [node("NonZero", ["x"], ["y"])], [("x", dtype, shape)], [("y", "i8", (rank, "n"))], {}
    )
    feeds = [{"x": (rng.uniform(0, 1, shape) > least).astype(dtype)} for least in (-1, 0.5, 0.9, 2)]
    assert_rules_right(model, feeds)


def test_one_mask_counts_once():
    """Boxes and scores that one mask chooses are known to be as many, found twice or not."""
    nodes = [
        node("Greater", ["s", "zero"], ["m"]),
        node("Greater", ["s", "zero"], ["m2"]),
        node("Compress", ["s", "m"], ["a"]),
        node("Compress", ["s", "m2"], ["b"]),
        node("Add", ["a", "b"], ["y"]),
    ]
    outputs = [("y", "f4", ("n",)), ("m", "?", (9,)), ("m2", "?", (9,))]
    model = model_of(nodes, [("s", "f4", (9,))], outputs, {"zero": np.float32(0)})
    rng = np.random.default_rng(2)
    feeds = [{"s": rng.standard_normal(9).astype(np.float32)}]
    assert_rules_right(model, feeds)
    assert [value.name for value in fixed(model).graph.output] == [
        "y",
        "y_count",
        "m",
        "m2",
    ]
    assert by_numpy(fixed(model), feeds)[0]["y_count"] == (feeds[0]["s"] > 0).sum()


# What a mask (3, 4) becomes before its places are taken; how often it then has each element.
LAID_OUT = {
    "as it is": ([node("Identity", ["m"], ["l"])], 1),
    "other sizes": ([node("Reshape", ["m", "flat"], ["l"])], 1),
    "other order": ([node("Transpose", ["m"], ["l"], perm=[1, 0])], 1),
    "new axis": ([node("Unsqueeze", ["m", "last"], ["l"])], 1),
    "for a row of results": (
        [node("Unsqueeze", ["m", "last"], ["u"]), node("Expand", ["u", "rows"], ["l"])],
        2,
    ),
    "copies": ([node("Tile", ["m", "times"], ["l"])], 6),
    "numbers": ([node("Cast", ["m"], ["l"], to=onnx.TensorProto.UINT8)], 1),
}


def summed_mask(before, factor, axes=(), summed="m", opset=17):
    """y has 1 more than there stands at each place of a mask; as many ones as the mask's sum."""
    nodes = [
        node("Greater", ["s", "zero"], ["m"]),
        *before,
        node("NonZero", ["l"], ["p"]),
        node("Transpose", ["p"], ["q"], perm=[1, 0]),
        node("Gather", ["q", "first"], ["v"], axis=1),
        node("Cast", [summed], ["c"], to=onnx.TensorProto.INT64),
        node("ReduceSum", ["c", *(["axes"] if axes else [])], ["n"], keepdims=1),
        node("Reshape", ["n", "flat"], ["o"]),
        node("Mul", ["o", "factor"], ["k"]),
        node("Expand", ["one", "k"], ["e"]),
        node("Add", ["v", "e"], ["y"]),
    ]
    weights = {
        "zero": np.float32(0),
        "one": np.array([1]),
        "first": np.array(0),
        "flat": np.array([-1]),
        "last": np.array([-1]),
        "rows": np.array([3, 4, 2]),
        "times": np.array([2, 3]),
        "factor": np.array([factor]),
        "axes": np.array(axes, np.int64),
        "shifted": np.array([True, False, True, False]),
    }
    outputs = [("y", "i8", ("n",)), ("o", "i8", (1,))]
    return model_of(nodes, [("s", "f4", (3, 4))], outputs, weights, opset)


@pytest.mark.parametrize("axes", [(), (0, -1)])
@pytest.mark.parametrize("layout", LAID_OUT)
def test_a_mask_that_is_summed_counts_its_places(layout, axes):
    """PyTorch's exporter writes x[mask] = 1 so: as many ones as the sum of the mask says."""
    rng = np.random.default_rng(2)
    feeds = [{"s": s.astype(np.float32)} for s in (rng.normal(size=(3, 4)), -np.ones((3, 4)))]
    assert_rules_right(summed_mask(*LAID_OUT[layout], axes=axes), feeds)


@pytest.mark.parametrize(
    ("more", "changes"),
    [
        ([node("Not", ["m"], ["other"])], {"summed": "other"}),
        ([node("And", ["m", "shifted"], ["other"])], {"summed": "other"}),
        ([], {"factor": 2}),
    ],
)
def test_the_sum_of_another_mask_counts_other_places(more, changes):
    before = [*more, node("Identity", ["m"], ["l"])]
    model = summed_mask(before, **{"factor": 1, **changes})
    with pytest.raises(UnsupportedModelError, match="numbers of rows that are not known to be equ"):
        import_onnx(model)


def test_an_axis_of_a_mask_is_summed_as_numbers():
    nodes = [
        node("Greater", ["s", "zero"], ["m"]),
        node("NonZero", ["m"], ["p"]),
        node("Cast", ["m"], ["c"], to=onnx.TensorProto.INT64),
        node("ReduceSum", ["c", "axis"], ["y"], keepdims=0),
    ]
    outputs = [("p", "i8", (2, "n")), ("y", "i8", (3,))]
    weights = {"zero": np.float32(0), "axis": np.array([1])}
    model = model_of(nodes, [("s", "f4", (3, 4))], outputs, weights)
    rng = np.random.default_rng(2)
    assert_rules_right(model, [{"s": rng.standard_normal((3, 4)).astype(np.float32)}])


@pytest.mark.parametrize("axis", [None, 1, -2])
def test_a_condition_that_is_known_counts_nothing(axis):
    """The rows it chooses are as many for all data: there is no output beside the model's own."""
    options = {} if axis is None else {"axis": axis}
    shape, made = {None: ((7,), (2,)), 1: ((3, 4), (3, 2)), -2: ((3, 4), (2, 4))}[axis]
    weights = {"m": np.array([True, False, True])}
    model = model_of(
        [node("Compress", ["x", "m"], ["y"], **options)],
        [("x", "f4", shape)], [("y", "f4", made)], weights,
    )  # fmt: skip
    feeds = {"x": np.arange(np.prod(shape), dtype=np.float32).reshape(shape)}
    module, signature = import_onnx(model)
    assert [spec.name for spec in signature.outputs] == ["y"]
    (wanted,) = by_onnxruntime(model, [feeds])
    np.testing.assert_array_equal(run_on_cpu(module, feeds["x"])[0], wanted["y"])


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("condition", [(2,), (9,), (2, 2), (3, 4), (7, 3)])
@pytest.mark.parametrize("known", [False, True])
def test_conditions_of_any_shape(axis, condition, known):
    """Their elements in their order, as Paddle's exporter writes a masked_select."""
    rng = np.random.default_rng(3)
    options = {} if axis is None else {"axis": axis}
    made = {None: ("n",), 0: ("n", 4), 1: (3, "n")}[axis]
    feeds = [{"x": rng.standard_normal((3, 4)).astype(np.float32)} for _ in range(3)]
    masks = [rng.random(condition) > 0.5 for _ in feeds]
    nodes = [node("Compress", ["x", "m"], ["y"], **options)]
    if known:
        model = model_of(nodes, [("x", "f4", (3, 4))], [("y", "f4", made)], {"m": masks[0]})
        (wanted,) = by_onnxruntime(model, feeds[:1])
        (found,) = run_on_cpu(import_onnx(model)[0], feeds[0]["x"])
        np.testing.assert_array_equal(found, wanted["y"])
        return
    inputs = [("x", "f4", (3, 4)), ("m", "?", condition)]
    model = model_of(nodes, inputs, [("y", "f4", made)], {})
    pairs = zip(feeds, masks, strict=True)
    assert_rules_right(model, [{**feed, "m": mask} for feed, mask in pairs])


def test_sizes_that_an_exporter_met_are_no_sizes():
    """Declared of a value within and of an output: what follows from them is not folded.

    onnxruntime 1.23 does fold it, and says that two rows are three.
    """
    nodes = [
        node("NonZero", ["x"], ["p"]),
        node("Transpose", ["p"], ["q"], perm=[1, 0]),
        node("Shape", ["q"], ["y"]),
        node("Neg", ["q"], ["z"]),
    ]
    outputs = [("y", "i8", (2,)), ("z", "i8", (3, 1))]
    model = model_of(nodes, [("x", "f4", (5,))], outputs, {})
    model.graph.value_info.append(helper.make_tensor_value_info("q", 7, (3, 1)))
    (found,) = by_numpy(fixed(model), [{"x": np.array([1, 0, 0, 2, 0], np.float32)}])
    np.testing.assert_array_equal(found["y"], [2, 1])
    np.testing.assert_array_equal(found["z"][: found["z_count"]], [[0], [-3]])
    assert [str(spec) for spec in import_onnx(model)[1].outputs] == [
        "y: int64[2]",
        "z: int64[5, 1]",
        "z_count: int64[]",
    ]


@pytest.mark.slow
def test_places_in_more_than_a_million():
    """A mask of a large image: the kernels' grids are beyond 65,535 workgroups an axis."""
    shape = (1100, 1024)
    model = model_of(
        [node("NonZero", ["x"], ["y"])], [("x", "i4", shape)], [("y", "i8", (2, "n"))], {}
    )
    x = np.random.default_rng(1).integers(0, 2, shape).astype(np.int32)
    wanted = by_onnxruntime(model, [{"x": x}])
    for target, device in TARGETS.items():
        made = compile_model(*import_onnx(model), target=target)
        found = outputs_for(executor_of(made, device()), [{"x": x}])
        assert_same(found, wanted)
