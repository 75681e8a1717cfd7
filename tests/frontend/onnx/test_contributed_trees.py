"""Ensembles of trees of ai.onnx.ml, beside onnxruntime, on trees and rows that nobody chose."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from support.covering import covering
from support.onnx_models import of_opset, run_on_cpu, undeclared
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.frontend.refusals import NodesRefused

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
# In the order of their numbers in TreeEnsemble.
NUMBERED = (*MODES, "BRANCH_MEMBER")
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


def with_leaves_apart(trees, random, dtype, targets=1, members=()):
    """The attributes of a TreeEnsemble from those of trees of one weight a leaf, each of which gets
    a target. members: sets of values, which nodes of BRANCH_MEMBER take in turns."""
    keys = list(zip(trees["nodes_treeids"], trees["nodes_nodeids"], strict=True))
    modes = trees["nodes_modes"]
    inner = [place for place, mode in enumerate(modes) if mode != "LEAF"]
    leaves = [place for place, mode in enumerate(modes) if mode == "LEAF"]
    weight_of = dict(zip(zip(trees["target_treeids"], trees["target_nodeids"], strict=True),
                         trees["target_weights"], strict=True))  # fmt: skip

    def tensor(name, values, kind=None):
        return numpy_helper.from_array(np.array(values, kind or dtype), name)

    def of(name):
        return [trees[name][place] for place in inner]

    found = {
        "nodes_featureids": of("nodes_featureids"),
        "nodes_splits": tensor("splits", of("nodes_values")),
        "nodes_modes": tensor("modes", [NUMBERED.index(modes[p]) for p in inner], np.uint8),
        "nodes_missing_value_tracks_true": of("nodes_missing_value_tracks_true"),
        "leaf_targetids": [int(random.integers(targets)) for _ in leaves],
        "leaf_weights": tensor("weights", [weight_of[keys[place]] for place in leaves]),
        "tree_roots": [inner.index(p) for p in inner if keys[p][1] == 0],
        "n_targets": targets,
    }
    for way in ("true", "false"):
        to = [keys.index((keys[p][0], trees[f"nodes_{way}nodeids"][p])) for p in inner]
        found[f"nodes_{way}leafs"] = [int(place in leaves) for place in to]
        found[f"nodes_{way}nodeids"] = [
            leaves.index(place) if place in leaves else inner.index(place) for place in to
        ]
    asking = [p for p in inner if modes[p] == "BRANCH_MEMBER"]
    if asking:
        sets = [[*members[index % len(members)], np.nan] for index in range(len(asking))]
        found["membership_values"] = tensor("members", [value for each in sets for value in each])
    return found


def compare(operator, rows, outputs, **attributes):
    """outputs: name -> type."""
    node = helper.make_node(operator, ["x"], list(outputs), domain="ai.onnx.ml", **attributes)
    x = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(rows.dtype), rows.shape)
    values = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(kind)), None)
        for name, kind in outputs.items()
    ]
    version = 5 if operator == "TreeEnsemble" else 3
    opsets = [helper.make_opsetid("ai.onnx.ml", version), helper.make_opsetid("", 17)]
    graph = helper.make_graph([node], "g", [x], values)
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": rows})
    module, signature = import_onnx(model)
    assert import_onnx(undeclared(model))[1].outputs == signature.outputs
    for opset in (8, 9):  # as the converters of LightGBM and XGBoost write them
        assert import_onnx(of_opset(model, opset))[1].outputs == signature.outputs
    found = run_on_cpu(module, rows)
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


@pytest.mark.parametrize(("dtype", "missing"), [(np.float32, True), (np.float64, False)])
@pytest.mark.parametrize("modes", [(mode,) for mode in NUMBERED] + [NUMBERED], ids=str)
def test_leaves_that_are_a_list_of_their_own(modes, missing, dtype):
    """TreeEnsemble of the domain's fifth version."""
    random = np.random.default_rng(11)
    trees = grown(random, "target", 1, modes=modes)
    # onnxruntime has whole numbers alone.
    members = [[0.0, 2.0], [1.0], [3.0, 1.0, 2.0]]
    attributes = with_leaves_apart(trees, random, dtype, 1, members)
    compare("TreeEnsemble", rows_of(random, dtype, missing), {"y": dtype}, **attributes)


@pytest.mark.parametrize("mean", [0, 1])
def test_leaves_of_several_targets(mean):
    random = np.random.default_rng(13)
    attributes = with_leaves_apart(grown(random, "target", 1), random, np.float32, 3)
    compare("TreeEnsemble", rows_of(random), {"y": np.float32}, aggregate_function=mean,
            **attributes)  # fmt: skip


@pytest.mark.parametrize(
    ("mode", "changed", "message"),
    [
        (MODES[0], {"aggregate_function": 2}, "aggregate_function is MIN.*: use SUM or AVERAGE"),
        (MODES[0], {"post_transform": 1}, "number otherwise.*: let it be 0 .*, and a Sigmoid"),
        (MODES[0], {"nodes_truenodeids": [999]}, "are no trees.*: let each lead to two that"),
        ("BRANCH_MEMBER", {}, "nodes of BRANCH_MEMBER and 0 sets of values.*: give one for each"),
    ],
)
def test_a_list_of_leaves_that_is_refused_says_what_to_do(mode, changed, message):
    random = np.random.default_rng(17)
    trees = grown(random, "target", 1, modes=(mode,))
    attributes = with_leaves_apart(trees, random, np.float32, 1, [[1.0]])
    attributes.pop("membership_values", None)
    with pytest.raises(NodesRefused, match=message):
        compare_refused("TreeEnsemble", attributes | changed)


@pytest.mark.parametrize(
    ("labels", "kind", "dtype"),
    covering([[3, 1, 2], [7, 8, 9, 5]], ["NONE", "LOGISTIC", "SOFTMAX"], [np.float32, np.int64]),
)
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
    outputs = ["label", "y"] if operator.endswith("Classifier") else ["y"]
    node = helper.make_node(operator, ["x"], outputs, domain="ai.onnx.ml", **attributes)
    x = helper.make_tensor_value_info("x", 1, (2, FEATURES))
    values = [helper.make_tensor_value_info(outputs[-1], 1, None)]
    version = 5 if operator == "TreeEnsemble" else 3
    opsets = [helper.make_opsetid("ai.onnx.ml", version), helper.make_opsetid("", 17)]
    graph = helper.make_graph([node], "g", [x], values)
    import_onnx(helper.make_model(graph, opset_imports=opsets, ir_version=8))
