"""Attention of onnxruntime's own domain: former keys, groups of heads, products of bytes."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from packaging.version import Version

from support.conformance.conformance_worker import executor
from support.onnx_models import undeclared
from tvm_vision.frontend.onnx.contributed import DOMAIN
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.frontend.refusals import NodesRefused

# Queries of a call, and keys of those before it.
NEW, PAST, HEADS = 3, 4, 2
RANDOM = np.random.default_rng(5)


def real(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def model_of(operator, names, inputs, weights, outputs, **attributes):
    """A model of one node; ``inputs`` and ``weights`` are arrays by name, ``outputs`` shapes."""
    node = helper.make_node(operator, names, list(outputs), domain=DOMAIN, **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in inputs.items()
        ],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in outputs.items()
        ],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def multi_head(mask=None, **attributes):
    three = {name: real(2, NEW, 8) for name in "qkv"}
    inputs = {**three, "pk": real(2, HEADS, PAST, 4), "pv": real(2, HEADS, PAST, 4)}
    both = (2, HEADS, PAST + NEW, 4)
    names = ["q", "k", "v", "", "" if mask is None else "m", "", "pk", "pv"]
    weights = {} if mask is None else {"m": np.array(mask, np.int32)}
    outputs = {"y": (2, NEW, 8), "k1": both, "v1": both}
    made = model_of(
        "MultiHeadAttention", names, inputs, weights, outputs, num_heads=HEADS, **attributes
    )
    return made, inputs


def with_bias(keys, late=False):
    """Keys as given, values like them; ``late``: whether the bias is an input."""
    inputs = {"q": real(2, NEW, 8), "k": keys, "v": keys * 2}
    bias = {"b": real(24)}
    outputs = {"y": (2, NEW, 8)}
    weights = {} if late else bias
    inputs |= bias if late else {}
    names = ["q", "k", "v", "b"]
    return model_of("MultiHeadAttention", names, inputs, weights, outputs, num_heads=HEADS), inputs


def embedded(past=True, **attributes):
    inputs = {"x": real(2, NEW, 8)}
    if past:
        inputs["p"] = real(2, 2, HEADS, PAST, 4)
    outputs = {"y": (2, NEW, 8), "p1": (2, 2, HEADS, NEW + (PAST if past else 0), 4)}
    names = ["x", "w", "b", "", "p" if past else ""]
    weights = {"w": real(8, 24), "b": real(24)}
    made = model_of("Attention", names, inputs, weights, outputs, num_heads=HEADS, **attributes)
    return made, inputs


def of_bytes(zeros=True, mask=False, past=False):
    inputs = {"x": RANDOM.integers(0, 256, (2, NEW, 8), np.uint8)}
    weights = {
        # Of seven bits: processors without VNNI add two products of bytes in 16.
        "w": RANDOM.integers(-64, 64, (8, 24), np.int8),
        "b": real(24),
        "s": np.float32(0.02),
        "t": np.float32(0.01),
    }
    weights |= {"z": np.uint8(120), "u": np.int8(3)} if zeros else {}
    weights |= {"m": np.array([2, 3], np.int32)} if mask else {}
    names = [name if name in weights else "" for name in "wbstmzu"]
    outputs: dict[str, tuple[int, ...]] = {"y": (2, NEW, 8)}
    if past:
        inputs["p"] = real(2, 2, HEADS, PAST, 4)
        outputs["p1"] = (2, 2, HEADS, PAST + NEW, 4)
    names = ["x", *names, *(["p"] if past else [])]
    options = {"num_heads": HEADS, "unidirectional": int(past)}
    return model_of("QAttention", names, inputs, weights, outputs, **options), inputs


def grouped(
    past=0,
    new=NEW,
    groups=2,
    turned=None,
    batch=2,
    keys=None,
    total=None,
    fixed=True,
    packed=False,
    further=(),
    **attributes,
):
    """``turned``: whether pairs that are turned lie side by side; None for none. ``keys``: how many
    count, of each batch or of all. ``total``: how many go out. ``packed``: whether queries, keys
    and values are one tensor. ``further``: weights of inputs 9, 10 and 11, None for none."""
    heads, width, total = 4, 16, total or past + new
    inputs = {"q": real(batch, new, (heads + 2 * groups * packed) * width)}
    if not packed:
        inputs |= {name: real(batch, new, groups * width) for name in "kv"}
    if past:
        inputs |= {name: real(batch, groups, past, width) for name in ("pk", "pv")}
    weights = {
        "last": np.full(batch, np.array(keys or total) - 1, np.int32),
        "total": np.int32(total),
    }
    names = ["q", *(["", ""] if packed else "kv"), *(["pk", "pv"] if past else ["", ""])]
    names += ["last", "total"]
    if turned is not None:
        angles = np.outer(np.arange(16), 0.3 ** np.arange(width // 2))
        weights |= {"cos": np.cos(angles, dtype="f"), "sin": np.sin(angles, dtype="f")}
        attributes |= {"do_rotary": 1, "rotary_interleaved": int(turned)}
    if turned is not None or further:
        names += ["", ""] if turned is None else ["cos", "sin"]
    for place, value in enumerate(further):
        names.append("" if value is None else f"further{place}")
        weights |= {} if value is None else {f"further{place}": value}
    if not fixed:
        inputs["last"] = weights.pop("last")
    kept = (batch, groups, max(total, past), width)
    outputs = {"y": (batch, new, heads * width), "k1": kept, "v1": kept}
    options = {"num_heads": heads, "kv_num_heads": groups, **attributes}
    return model_of("GroupQueryAttention", names, inputs, weights, outputs, **options), inputs


FORMS = {
    "heads behind former ones": multi_head,
    "heads that look back": lambda: multi_head(unidirectional=1),
    "heads with a mask": lambda: multi_head(mask=[[1, 1, 0, 1, 1, 1, 1], [1] * 7]),
    "a product behind former ones": embedded,
    "a product that looks back": lambda: embedded(unidirectional=1),
    "a product that is kept": lambda: embedded(past=False),
    "bytes": of_bytes,
    "bytes without zero points": lambda: of_bytes(zeros=False),
    "bytes with lengths": lambda: of_bytes(mask=True),
    "bytes behind former keys": lambda: of_bytes(past=True),
    "groups": grouped,
    "one group for all": lambda: grouped(groups=1),
    "a group each": lambda: grouped(groups=4, scale=0.3),
    "groups behind former ones": lambda: grouped(past=PAST, batch=1),
    "groups, one word": lambda: grouped(past=PAST, new=1),
    "groups, turned": lambda: grouped(turned=False),
    "groups, turned in pairs": lambda: grouped(turned=True),
    "groups, turned behind former ones": lambda: grouped(past=PAST, new=1, turned=False),
    "groups in a window": lambda: grouped(new=6, local_window_size=2),
    "groups, few of the former keys": lambda: grouped(past=PAST, new=1, keys=(3, 2)),
    "groups, as many as are said at run time": lambda: grouped(
        past=PAST, new=1, keys=(PAST + 1, 2), fixed=False, turned=False
    ),
    "groups, several words behind few keys": lambda: grouped(
        past=PAST, new=3, batch=1, keys=(5,), fixed=False, turned=True
    ),
    "groups in a buffer that is full at last": lambda: grouped(
        past=PAST, new=1, total=PAST, keys=(PAST, 1), fixed=False
    ),
    "groups, few keys in a window": lambda: grouped(
        past=6, new=1, keys=(5, 3), fixed=False, local_window_size=2
    ),
    "groups, first words": lambda: grouped(keys=NEW, fixed=False, turned=False),
    "groups that are packed": lambda: grouped(packed=True),
    "groups that are packed, turned behind former ones": lambda: grouped(
        past=PAST, new=1, turned=False, packed=True
    ),
    "groups, scores kept below a number": lambda: grouped(softcap=0.7),
    "groups, a key of score 0 and of no value": lambda: grouped(smooth_softmax=1),
    "groups, a key of no value, and what is added to scores": lambda: grouped(
        past=PAST, new=1, softcap=2.0, further=(None, real(2, 1, 1, PAST + 1), real(4))
    ),
    "heads, a bias that is an input": lambda: with_bias(real(2, 6, 8), late=True),
    "heads, a bias of queries whose keys are in heads": lambda: with_bias(real(2, HEADS, 6, 4)),
    "groups, one word in a window": lambda: grouped(past=PAST, new=1, local_window_size=3),
}


def reference(model):
    """A model as onnxruntime has to be given it: before 1.24 a window had one key more."""
    given = onnx.ModelProto()
    given.CopyFrom(model)
    for held in given.graph.node[0].attribute:
        if held.name == "local_window_size" and Version(onnxruntime.__version__) < Version("1.24"):
            held.i -= 1
    return onnxruntime.InferenceSession(given.SerializeToString())


def assert_as_onnxruntime_has_it(form, target):
    model, inputs = FORMS[form]()
    wanted = reference(model).run(None, inputs)
    found = executor(import_onnx(model), target)(*inputs.values())
    for result, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_attention_and_what_it_keeps(form):
    assert_as_onnxruntime_has_it(form, "llvm")


@pytest.mark.parametrize("form", FORMS)
def test_types_that_no_file_declares_follow_from_the_inputs(form):
    model, _ = FORMS[form]()
    _, within = import_onnx(undeclared(model))
    assert within.outputs == import_onnx(model)[1].outputs


def test_one_behind_another_of_undeclared_types():
    """Whose types follow only once the first is put as ONNX's operators. The reference runs one
    after the other: of both in one model onnxruntime mixes up the former keys, which they share."""
    model, inputs = multi_head()
    alone = onnxruntime.InferenceSession(model.SerializeToString())
    (between,) = alone.run(["y"], inputs)
    (wanted,) = alone.run(["y"], inputs | {"q": between})
    first, second = model.graph.node[0], onnx.NodeProto()
    second.CopyFrom(first)
    second.input[0], second.output[0] = first.output[0], "again"
    del second.output[1:]
    model.graph.node.append(second)
    model.graph.output[0].name = "again"
    found = executor(import_onnx(undeclared(model)), "llvm")(*inputs.values())
    np.testing.assert_allclose(found[0], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "form",
    [
        "groups, turned behind former ones",
        "groups, as many as are said at run time",
        "bytes behind former keys",
    ],
)
def test_on_vulkan(form):
    assert_as_onnxruntime_has_it(form, "vulkan")


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (
            {"turned": False, "further": (np.arange(2 * NEW, dtype=np.int64).reshape(2, NEW),)},
            r"\(its places are given\) at .*: leave out its position_ids",
        ),
    ],
)
def test_what_is_refused(options, line):
    with pytest.raises(NodesRefused, match=f"GroupQueryAttention {line}"):
        import_onnx(grouped(**options)[0])
