"""Ensembles of trees of ai.onnx.ml, beside onnxruntime, on trees and rows that nobody chose."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from support.onnx_models import run_on_cpu
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.frontend.refusals import NodesRefused

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
FEATURES, ROWS = 4, 37


def grown(random, kind, targets, trees=5, depth=4, modes=MODES[:1], positive=False):
    """Attributes of random trees with a weight for each target in each leaf; of a "class" ensemble
    of one target, the classes of the trees take turns."""
    nodes: dict[str, list[Any]] = {f"nodes_{name}": [] for name in (
        "treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids",
        "missing_value_tracks_true",
    )}  # fmt: skip
    weights: dict[str, list[Any]] = {
        f"{kind}_{name}": [] for name in ("treeids", "nodeids", "ids", "weights")
    }

    def node(tree, number, *values):
        for name, value in zip(nodes, (tree, number, *values), strict=True):
            nodes[name].append(value)

    for tree in range(trees):
        waiting, free = [(0, 0)], 1
        while waiting:
            number, level = waiting.pop()
            if level == depth or (level and random.random() < 0.2):
                node(tree, number, 0, "LEAF", 0.0, 0, 0, 0)
                for target in range(targets):
                    scores = random.random() if positive else random.standard_normal()
                    each = (tree, number, target, float(scores))
                    for name, value in zip(weights, each, strict=True):
                        weights[name].append(value)
                continue
            # Of few values, so that rows meet them.
            value = float(random.integers(-2, 3)) / 2
            node(tree, number, int(random.integers(FEATURES)), str(random.choice(modes)), value,
                 free, free + 1, int(random.integers(2)))  # fmt: skip
            waiting += [(free, level + 1), (free + 1, level + 1)]
            free += 2
    return nodes | weights


def rows_of(random, dtype=np.float32, missing=False):
    rows = np.round(random.standard_normal((ROWS, FEATURES)) * 2) / 2
    rows = rows.astype(dtype)
    if missing:
        rows[random.random(rows.shape) < 0.2] = np.nan
    return rows


def compare(operator, rows, outputs, **attributes):
    """outputs: name -> type."""
    node = helper.make_node(operator, ["x"], list(outputs), domain="ai.onnx.ml", **attributes)
    x = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(rows.dtype), rows.shape)
    values = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(kind)), None)
        for name, kind in outputs.items()
    ]
    opsets = [helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("", 17)]
    graph = helper.make_graph([node], "g", [x], values)
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": rows})
    found = run_on_cpu(import_onnx(model)[0], rows)
    for ours, exact in zip(found, expected, strict=True):
        assert ours.dtype == exact.dtype and ours.shape == exact.shape
        np.testing.assert_allclose(ours, exact, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("modes", [(mode,) for mode in MODES] + [MODES], ids=str)
@pytest.mark.parametrize("missing", [False, True])
def test_a_regressor_of_each_mode(modes, missing):
    random = np.random.default_rng(len(modes[0]))
    trees = grown(random, "target", 1, modes=modes)
    compare("TreeEnsembleRegressor", rows_of(random, missing=missing), {"y": np.float32},
            n_targets=1, **trees)  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["SUM", "AVERAGE"])
def test_several_targets(kind, dtype):
    random = np.random.default_rng(3)
    compare("TreeEnsembleRegressor", rows_of(random, dtype), {"y": np.float32}, n_targets=3,
            aggregate_function=kind, base_values=[0.5, -1.0, 2.0],
            **grown(random, "target", 3))  # fmt: skip


@pytest.mark.parametrize("kind", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("labels", [[3, 1, 2], [7, 8, 9, 5]])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_a_classifier(labels, kind, dtype):
    random = np.random.default_rng(5)
    compare("TreeEnsembleClassifier", rows_of(random, dtype), {"label": np.int64, "y": np.float32},
            classlabels_int64s=labels, post_transform=kind,
            **grown(random, "class", len(labels)))  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "positive"), [("NONE", True), ("NONE", False), ("LOGISTIC", False)]
)
@pytest.mark.parametrize("base", [[], [-0.5]])
def test_two_classes_with_one_score(kind, positive, base):
    random = np.random.default_rng(7)
    more = {"base_values": base} if base else {}
    trees = grown(random, "class", 1, trees=1 if positive else 5, positive=positive)
    compare("TreeEnsembleClassifier", rows_of(random), {"label": np.int64, "y": np.float32},
            classlabels_int64s=[4, 2], post_transform=kind, **trees, **more)  # fmt: skip


@pytest.mark.parametrize(
    ("operator", "changed", "message"),
    [
        ("TreeEnsembleRegressor", {"aggregate_function": "MAX"}, "use SUM or AVERAGE"),
        ("TreeEnsembleRegressor", {"post_transform": "PROBIT"}, "is PROBIT.*use NONE, LOGISTIC"),
        ("TreeEnsembleClassifier", {"classlabels_strings": ["a", "b"]}, "its labels are text"),
        ("TreeEnsembleClassifier", {"classlabels_int64s": [1]}, "let it have scores for one of"),
    ],
)  # fmt: skip
def test_what_is_refused_says_what_to_do(operator, changed, message):
    kind = "class" if "Classifier" in operator else "target"
    trees = grown(np.random.default_rng(0), kind, 1)
    with pytest.raises(NodesRefused, match=message):
        compare_refused(operator, trees | changed)


def compare_refused(operator, attributes):
    outputs = ["y"] if operator.endswith("Regressor") else ["label", "y"]
    node = helper.make_node(operator, ["x"], outputs, domain="ai.onnx.ml", **attributes)
    x = helper.make_tensor_value_info("x", 1, (2, FEATURES))
    values = [helper.make_tensor_value_info(outputs[-1], 1, None)]
    opsets = [helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("", 17)]
    graph = helper.make_graph([node], "g", [x], values)
    import_onnx(helper.make_model(graph, opset_imports=opsets, ir_version=8))
