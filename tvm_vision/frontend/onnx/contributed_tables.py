"""Operators of ai.onnx.ml, classical machine learning, that are arithmetic of rows, put as ONNX's.

What each computes is said by ONNX's specification of the domain; results are float32, whatever the
rows are.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import numpy_helper

from .contributed_trees import LABELS, classifier, ensemble, regressor
from .graph import GraphEditor, NodeBuilder, Unsupported, attribute

Nodes = list[onnx.NodeProto]
DOMAIN = "ai.onnx.ml"


def _scaler(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """(x - offset) · scale, of each column its own or one of all."""
    build = NodeBuilder(graph, node)
    offset, scale = (np.array(attribute(node, name), np.float32) for name in ("offset", "scale"))
    moved = build("Sub", build.cast(node.input[0], np.float32), offset)
    return build.finish(build("Mul", moved, scale))


def _normalizer(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """Each row by its norm; a row whose norm is 0 as it is."""
    build, kind = NodeBuilder(graph, node), attribute(node, "norm", "MAX")
    x = build.cast(node.input[0], np.float32)
    if kind == "L1":
        norm = build.axes("ReduceSum", build("Abs", x), [-1], keepdims=1)
    elif kind == "L2":
        norm = build("Sqrt", build.axes("ReduceSum", build("Mul", x, x), [-1], keepdims=1))
    elif kind == "MAX":
        norm = build.axes("ReduceMax", x, [-1], keepdims=1)
    else:
        raise Unsupported(f"its norm is {kind}", "use MAX, L1 or L2")
    nothing = build("Equal", norm, np.zeros((), np.float32))
    return build.finish(build("Div", x, build("Where", nothing, np.ones((), np.float32), norm)))


def _linear(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """x · coefficientsᵀ + intercepts, a column for each target."""
    build, count = NodeBuilder(graph, node), attribute(node, "targets", 1)
    _need_no_transform(node)
    weight = np.array(attribute(node, "coefficients"), np.float32)
    x = build.cast(node.input[0], np.float32)
    found = build("MatMul", x, _turned(weight, count))
    bias = np.array(attribute(node, "intercepts", []), np.float32)
    return build.finish(build("Add", found, bias) if bias.size else found)


def _binarizer(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """1 where x is above the threshold, else 0."""
    build, threshold = NodeBuilder(graph, node), np.array(attribute(node, "threshold", 0.0))
    x = build.cast(node.input[0], np.float32)
    return build.finish(build.cast(build("Greater", x, threshold.astype(np.float32)), np.float32))


def _imputer(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """Another number in place of the one that stands for what is missing, of each column its own or
    one of all. NaN is such a number."""
    build, x = NodeBuilder(graph, node), node.input[0]
    if attribute(node, "imputed_value_int64s") is not None:
        put = np.array(attribute(node, "imputed_value_int64s"), np.int64)
        lost = np.array(attribute(node, "replaced_value_int64", 0), np.int64)
    else:
        put = np.array(attribute(node, "imputed_value_floats"), np.float32)
        lost = np.array(attribute(node, "replaced_value_float", 0.0), np.float32)
    gone = build("IsNaN", x) if lost != lost else build("Equal", x, lost)
    return build.finish(build("Where", gone, put, x))


def _columns(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """The columns of these numbers, of rows or of one row, which comes out as a table."""
    build = NodeBuilder(graph, node)
    places = build.cast(build.reshape(node.input[1], (-1,)), np.int64)
    found = build("Gather", node.input[0], places, axis=-1)
    return build.finish(build("Flatten", found, axis=-1))


def _joined(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """The columns of several tables side by side, as float32."""
    build = NodeBuilder(graph, node)
    rows = [build.cast(name, np.float32) for name in node.input]
    return build.finish(build("Concat", *rows, axis=1))


def _classes(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """The label with the largest score, and all scores: those of a linear layer."""
    build = NodeBuilder(graph, node)
    labels = _labels(node)
    bias = np.array(attribute(node, "intercepts", []), np.float32)
    weight = np.array(attribute(node, "coefficients"), np.float32)
    count = bias.size or len(labels)
    found = build("MatMul", build.cast(node.input[0], np.float32), _turned(weight, count))
    found = build("Add", found, bias) if bias.size else found
    kind = attribute(node, "post_transform", "NONE")
    if count < 2 or kind not in ("NONE", "SOFTMAX", "LOGISTIC"):
        raise Unsupported(
            f"{count} scores for {len(labels)} labels, and post_transform {kind}",
            "give it a score for each label, and NONE, SOFTMAX or LOGISTIC",
        )
    places = build("ArgMax", found, axis=1, keepdims=0)
    build.finish(build("Gather", labels, places))
    if kind == "SOFTMAX":
        return build.finish(build("Softmax", found, axis=1), 1)
    return build.finish(build("Sigmoid" if kind == "LOGISTIC" else "Identity", found), 1)


def _support_vectors(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """x by a sum over support vectors, or by a linear layer; the sign of that for one class."""
    build = NodeBuilder(graph, node)
    _need_no_transform(node)
    weight = np.array(attribute(node, "coefficients"), np.float32)
    count = attribute(node, "n_supports", 0)
    x = _as_rows(build)
    found = _kernels(build, x, count) if count else x
    found = build("Add", build("MatMul", found, weight[:, None]), _rho(node)[:1])
    if not attribute(node, "one_class", 0):
        return build.finish(found)
    inside = build.cast(build("Greater", found, np.zeros((), np.float32)), np.float32)
    double = build("Mul", inside, np.full((), 2, np.float32))
    return build.finish(build("Sub", double, np.ones((), np.float32)))


def _votes(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """A score for each pair of classes by their support vectors, and the class that wins most of
    them, the first of equals; or a score for each class by a linear layer."""
    build = NodeBuilder(graph, node)
    labels = _labels(node)
    _need_no_transform(node)
    if attribute(node, "prob_a"):
        raise Unsupported(
            "its probabilities are found by iteration",
            "let it have none (in scikit-learn, SVC without probability=True)",
        )
    weight = np.array(attribute(node, "coefficients"), np.float32)
    sizes = attribute(node, "vectors_per_class", [])
    x = _as_rows(build)
    if not sum(sizes):
        return _linear_votes(build, x, weight.reshape(len(labels), -1), labels)
    pairs = [(i, j) for i in range(len(labels)) for j in range(i + 1, len(labels))]
    weight = weight.reshape(-1, sum(sizes))
    owner = np.repeat(np.arange(len(labels)), sizes)
    # Of each pair the vectors of both: the weights against the other class.
    each = [np.where(owner == i, weight[j - 1], (owner == j) * weight[i]) for i, j in pairs]
    sums = build("MatMul", _kernels(build, x, sum(sizes)), np.stack(each, axis=1))
    scores = build("Add", sums, _rho(node)[: len(pairs)])
    won = build.cast(build("Greater", scores, np.zeros((), np.float32)), np.float32)
    lost = build("Sub", np.ones((), np.float32), won)
    ones = np.eye(len(labels), dtype=np.float32)
    firsts, seconds = (ones[[pair[place] for pair in pairs]] for place in (0, 1))
    votes = build("Add", build("MatMul", won, firsts), build("MatMul", lost, seconds))
    build.finish(build("Gather", labels, build("ArgMax", votes, axis=1, keepdims=0)))
    if len(pairs) == 1:  # a score for each of two classes, the first one's the other way round
        scores = build("Concat", build("Neg", scores), scores, axis=1)
    return build.finish(build("Identity", scores), 1)


def _linear_votes(build: NodeBuilder, x: str, weight: np.ndarray, labels: np.ndarray) -> Nodes:
    scores = build("Add", build("MatMul", x, weight.T.copy()), _rho(build.node)[:1])
    places = build("ArgMax", scores, axis=1, keepdims=0)
    if len(labels) == 2:
        # onnxruntime takes the second class wherever a score is large enough.
        below = np.nextafter(np.float32(0.5), np.float32(0))
        least = np.array(below if weight.min() >= 0 else 0, np.float32)
        most = build.axes("ReduceMax", scores, [1], keepdims=0)
        places = build("Where", build("Greater", most, least), np.array(1), places)
    build.finish(build("Gather", labels, places))
    return build.finish(build("Identity", scores), 1)


def _kernels(build: NodeBuilder, x: str, count: int) -> str:
    """How alike each row and each of the support vectors are, [rows, count]."""
    node = build.node
    kind = attribute(node, "kernel_type", "LINEAR")
    params = np.array(attribute(node, "kernel_params", [0.0, 0.0, 3.0]), np.float32)
    gamma, offset, degree = params.reshape(3, 1)
    vectors = np.array(attribute(node, "support_vectors"), np.float32).reshape(count, -1)
    if kind == "RBF":
        apart = build("Sub", build.axes("Unsqueeze", x, [1]), vectors[None])
        far = build.axes("ReduceSum", build("Mul", apart, apart), [2], keepdims=0)
        return build("Exp", build("Mul", far, -gamma))
    found = build("MatMul", x, vectors.T.copy())
    if kind == "LINEAR":
        return found
    found = build("Add", build("Mul", found, gamma), offset)
    if kind == "POLY":
        return build("Pow", found, degree)
    if kind != "SIGMOID":
        raise Unsupported(f"its kernel is {kind}", "use LINEAR, POLY, RBF or SIGMOID")
    return build("Tanh", found)


def _one_hot(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """1 in the place of a number's category, the last of equal ones, along an axis behind the
    others; 0 elsewhere."""
    build, categories = NodeBuilder(graph, node), attribute(node, "cats_int64s")
    if categories is None:
        raise Unsupported("its categories are text", "let them be numbers")
    x = build.axes("Unsqueeze", build.cast(node.input[0], np.int64), [-1])
    alike = build("Equal", x, np.array(categories, np.int64))
    last = np.array([c not in categories[i + 1 :] for i, c in enumerate(categories)])
    alike = alike if last.all() else build("And", alike, last)
    return build.finish(build.cast(alike, np.float32))


def _looked_up(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """The value of each number's key, of the first of equal keys, or another one without a key."""
    build, x = NodeBuilder(graph, node), node.input[0]
    keys, values = (_list_of(node, name) for name in ("keys", "values"))
    if keys.size != values.size:
        raise Unsupported(f"it has {keys.size} keys and {values.size} values", "give each a value")
    default = _default(node, values.dtype)
    alike = build("Equal", build.axes("Unsqueeze", x, [-1]), keys)
    if keys.dtype.kind == "f" and np.isnan(keys).any():  # which is a key like others
        nothing = build.axes("Unsqueeze", build("IsNaN", x), [-1])
        alike = build("Or", alike, build("And", nothing, np.isnan(keys)))
    alike = build.cast(alike, np.int32)
    found = build("Gather", values, build("ArgMax", alike, axis=-1, keepdims=0))
    known = build.cast(build.axes("ReduceMax", alike, [-1], keepdims=0), np.bool_)
    return build.finish(build("Where", known, found, default))


def _maps(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    raise Unsupported(
        "it makes a map of each row", "export it without (in skl2onnx, options={'zipmap': False})"
    )


def _list_of(node: onnx.NodeProto, name: str) -> np.ndarray:
    """Keys or values of a LabelEncoder, whichever attribute has them."""
    for kind, dtype in (("int64s", np.int64), ("floats", np.float32)):
        if (numbers := attribute(node, f"{name}_{kind}")) is not None:
            return np.array(numbers, dtype)
    tensor = attribute(node, f"{name}_tensor")
    if tensor is None or tensor.data_type == onnx.TensorProto.STRING:
        raise Unsupported(f"its {name} are no numbers", "let keys and values be numbers")
    return numpy_helper.to_array(tensor).reshape(-1)


def _default(node: onnx.NodeProto, dtype: np.dtype) -> np.ndarray:
    """What a LabelEncoder gives for a number that is no key."""
    if (tensor := attribute(node, "default_tensor")) is not None:
        return numpy_helper.to_array(tensor).reshape(()).astype(dtype)
    if dtype.kind == "f":
        return np.array(attribute(node, "default_float", -0.0), dtype)
    return np.array(attribute(node, "default_int64", -1), dtype)


def _labels(node: onnx.NodeProto) -> np.ndarray:
    labels = attribute(node, "classlabels_ints")
    if labels is None:
        raise Unsupported("its labels are text", LABELS)
    return np.array(labels, np.int64)


def _need_no_transform(node: onnx.NodeProto) -> None:
    if attribute(node, "post_transform", "NONE") != "NONE":
        raise Unsupported("its results are transformed", "use no post_transform, but a node")


def _as_rows(build: NodeBuilder) -> str:
    """The input as float32 rows."""
    x = build.cast(build.node.input[0], np.float32)
    one = len(build.graph.shape(build.node.input[0])) == 1
    return build.axes("Unsqueeze", x, [0]) if one else x


def _rho(node: onnx.NodeProto) -> np.ndarray:
    return np.array(attribute(node, "rho"), np.float32)


def _turned(weight: np.ndarray, rows: int) -> np.ndarray:
    return np.ascontiguousarray(weight.reshape(rows, -1).T)


TABLES: dict[str, Callable[[onnx.NodeProto, GraphEditor], Nodes]] = {
    "ArrayFeatureExtractor": _columns,
    "Binarizer": _binarizer,
    "FeatureVectorizer": _joined,
    "Imputer": _imputer,
    "LabelEncoder": _looked_up,
    "LinearClassifier": _classes,
    "LinearRegressor": _linear,
    "Normalizer": _normalizer,
    "OneHotEncoder": _one_hot,
    "SVMClassifier": _votes,
    "SVMRegressor": _support_vectors,
    "Scaler": _scaler,
    "TreeEnsemble": ensemble,
    "TreeEnsembleClassifier": classifier,
    "TreeEnsembleRegressor": regressor,
    "ZipMap": _maps,
}
