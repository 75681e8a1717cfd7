"""Ensembles of decision trees of ai.onnx.ml as steps from node to node, all rows and trees at once.

The place of each row in each tree is a number among the nodes of all trees; as many steps as the
deepest tree has lead from the roots to the leaves, which lead to themselves. Comparisons are those
of ONNX's specification; where it says nothing, of two classes say, onnxruntime's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper

from .graph import GraphEditor, NodeBuilder, Unsupported, attribute

Nodes = list[onnx.NodeProto]
# How a node compares a row's feature with its value: operators of which one has to hold, or not.
MODES = {
    "BRANCH_LEQ": ("Less", "Equal"), "BRANCH_LT": ("Less",), "BRANCH_GTE": ("Greater", "Equal"),
    "BRANCH_GT": ("Greater",), "BRANCH_EQ": ("Equal",), "BRANCH_NEQ": ("Equal", "Not"),
}  # fmt: skip
TRANSFORMS = {"NONE": "Identity", "LOGISTIC": "Sigmoid", "SOFTMAX": "Softmax"}
LABELS = "let its labels be numbers (in skl2onnx, y of int)"


@dataclass(frozen=True)
class _Trees:
    """The nodes of all trees, in one list. modes: text; yes, no: places of the nodes behind, a
    leaf's own; tracks: whether NaN goes the way of yes. roots: of each tree. steps: to the deepest
    leaf."""

    features: np.ndarray
    values: np.ndarray
    modes: np.ndarray
    yes: np.ndarray
    no: np.ndarray
    tracks: np.ndarray
    roots: np.ndarray
    steps: int


def regressor(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """TreeEnsembleRegressor: a column for each target, of the sum or mean of all trees."""
    build, trees = NodeBuilder(graph, node), _trees(node)
    count = attribute(node, "n_targets", 1)
    kind = attribute(node, "aggregate_function", "SUM")
    if kind not in ("SUM", "AVERAGE"):
        raise Unsupported(f"its aggregate_function is {kind}", "use SUM or AVERAGE")
    scores = _summed(build, trees, "target", count, mean=kind == "AVERAGE")
    return build.finish(_transformed(build, scores, count))


def classifier(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """TreeEnsembleClassifier: the label with the largest score, and all scores. Of two classes the
    trees may have scores of one alone: above 0, or above a half where all are probabilities, it is
    the second."""
    labels = attribute(node, "classlabels_int64s")
    if labels is None:
        raise Unsupported("its labels are text", LABELS)
    build, trees, names = NodeBuilder(graph, node), _trees(node), np.array(labels, np.int64)
    weighted = set(attribute(node, "class_ids"))
    if len(names) == 2 and len(weighted) == 1:
        return _of_one_score(build, trees, names)
    if len(names) < 3:
        raise Unsupported(
            f"it has {len(names)} labels and scores for {len(weighted)}",
            "let it have scores for one of two labels, or for three and more",
        )
    scores = _summed(build, trees, "class", len(names))
    build.finish(build("Gather", names, build("ArgMax", scores, axis=1, keepdims=0)))
    return build.finish(_transformed(build, scores, len(names)), 1)


def _of_one_score(build: NodeBuilder, trees: _Trees, names: np.ndarray) -> Nodes:
    kind = attribute(build.node, "post_transform", "NONE")
    sure = min(_weights(build.node, "class")[1]) >= 0
    base = _numbers(build.node, "base_values")
    if base.size > 1 or kind not in ("NONE", "LOGISTIC") or (sure and kind != "NONE"):
        raise Unsupported(
            f"it has scores for one of two labels, {base.size} base_values and post_transform "
            f"{kind}",
            "let it have one of base_values at most and, where scores may be negative, LOGISTIC",
        )
    score = _summed(build, trees, "class", 1)
    least = np.array(0.5 if sure else 0, np.float32)
    second = build.axes("Squeeze", build("Greater", score, least), [1])
    build.finish(build("Where", second, names[1:], names[:1]))
    first = build("Sub", np.ones((), np.float32), score) if sure else build("Neg", score)
    both = build("Concat", first, score, axis=1)
    return build.finish(build(TRANSFORMS[kind], both), 1)


def _summed(build: NodeBuilder, trees: _Trees, kind: str, count: int, *, mean: bool = False) -> str:
    """Scores [rows, count] of the leaves that are reached. kind: of what the weights are."""
    owners, weights, ids = _weights(build.node, kind)
    table = np.zeros((len(trees.features), count), np.float32)
    np.add.at(table, (owners, ids if count > 1 else np.zeros_like(ids)), weights)
    found = build("Gather", table, _leaves(build, trees))
    found = build.axes("ReduceMean" if mean else "ReduceSum", found, [1], keepdims=0)
    base = _numbers(build.node, "base_values")
    if base.size and base.size != count:
        raise Unsupported(f"it has {base.size} base_values for {count}", "give one for each")
    return build("Add", found, base) if base.size else found


def _leaves(build: NodeBuilder, trees: _Trees) -> str:
    """The place [rows, trees] of the leaf that each row reaches in each tree."""
    name = build.node.input[0]
    double = build.graph.dtype(name) == np.float64
    kind = np.float64 if double else np.float32
    x = build.cast(name, kind)
    rows = build.graph.shape(name)[0]
    values = trees.values.astype(kind)
    here: str | np.ndarray = np.tile(trees.roots, (rows, 1))

    def of(table: np.ndarray) -> str:
        return build("Gather", table, here)

    inner = set(trees.modes.tolist()) - {"LEAF"}
    for _ in range(trees.steps):
        row, limit = build("GatherElements", x, of(trees.features), axis=1), of(values)
        goes = ""
        for mode in sorted(inner):
            first, *more = MODES[mode]
            holds = build(first, row, limit)
            for operator in more:
                holds = (
                    build("Not", holds)
                    if operator == "Not"
                    else build("Or", holds, build(operator, row, limit))
                )
            if len(inner) > 1:
                holds = build("And", holds, of(trees.modes == mode))
            goes = build("Or", goes, holds) if goes else holds
        if trees.tracks.any():
            lost = build("And", build("IsNaN", row), of(trees.tracks))
            goes = build("Or", goes, lost)
        here = build("Where", goes, of(trees.yes), of(trees.no))
    return here if isinstance(here, str) else build("Identity", here)


def _trees(node: onnx.NodeProto) -> _Trees:
    """Raises Unsupported for what are no trees."""
    modes = np.array([mode.decode() for mode in attribute(node, "nodes_modes")])
    unknown = set(modes.tolist()) - {"LEAF", *MODES}
    if unknown:
        raise Unsupported(f"it has nodes of {min(unknown)}", f"use LEAF, {', '.join(MODES)}")
    keys = _keys(node, "nodes_treeids", "nodes_nodeids")
    place = {key: at for at, key in enumerate(keys)}
    leaf, own = modes == "LEAF", np.arange(len(modes))

    def behind(name: str) -> np.ndarray:
        children = attribute(node, name)
        to = [
            at if leaf[at] else place[tree, child]
            for at, ((tree, _), child) in enumerate(zip(keys, children, strict=True))
        ]
        return np.array(to, np.int64)

    yes, no = behind("nodes_truenodeids"), behind("nodes_falsenodeids")
    children = set(yes[~leaf]) | set(no[~leaf])
    roots = [at for at in own.tolist() if at not in children]
    if len(roots) != len({tree for tree, _ in keys}):
        raise Unsupported("its nodes are no trees", "give each tree one root")
    tracks = attribute(node, "nodes_missing_value_tracks_true")
    return _Trees(
        np.where(leaf, 0, np.array(attribute(node, "nodes_featureids"), np.int64)),
        _numbers(node, "nodes_values"), modes, yes, no,
        np.zeros(len(modes), np.bool_) if not tracks else np.array(tracks, np.bool_) & ~leaf,
        np.array(roots, np.int64), _depth(yes, no, roots),
    )  # fmt: skip


def _depth(yes: np.ndarray, no: np.ndarray, roots: list[int]) -> int:
    """Steps from the roots until all are at leaves."""
    level, steps = set(roots), 0
    while level := {int(to) for at in level for to in (yes[at], no[at]) if to != at}:
        steps += 1
        if steps > len(yes):
            raise Unsupported("its nodes are no trees", "let none lead back")
    return steps


def _weights(node: onnx.NodeProto, kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of leaves: their place, the weight, and for what it counts."""
    keys = _keys(node, "nodes_treeids", "nodes_nodeids")
    place = {key: at for at, key in enumerate(keys)}
    owners = [place[key] for key in _keys(node, f"{kind}_treeids", f"{kind}_nodeids")]
    ids = np.array(attribute(node, f"{kind}_ids"), np.int64)
    return np.array(owners, np.int64), _numbers(node, f"{kind}_weights"), ids


def _keys(node: onnx.NodeProto, *names: str) -> list[tuple[int, int]]:
    trees, nodes = (attribute(node, name) for name in names)
    return list(zip(trees, nodes, strict=True))


def _numbers(node: onnx.NodeProto, name: str) -> np.ndarray:
    """An attribute of numbers, which of float64 is a tensor."""
    tensor = attribute(node, f"{name}_as_tensor")
    if tensor is not None:
        return numpy_helper.to_array(tensor).reshape(-1).astype(np.float32)
    return np.array(attribute(node, name, []), np.float32)


def _transformed(build: NodeBuilder, scores: str, count: int) -> str:
    kind = attribute(build.node, "post_transform", "NONE")
    if kind not in TRANSFORMS or (kind == "SOFTMAX" and count < 2):
        raise Unsupported(f"its post_transform is {kind}", f"use {', '.join(TRANSFORMS)}")
    if kind == "SOFTMAX":
        return build("Softmax", scores, axis=1)
    return build(TRANSFORMS[kind], scores)
