"""Ensembles of decision trees of ai.onnx.ml as steps from node to node, all rows and trees at once.

The place of each row in each tree is a number among the nodes of all trees; as many steps as the
deepest tree has lead from the roots to the leaves, which lead to themselves. Comparisons are those
of ONNX's specification; where it says nothing, of two classes say, onnxruntime's.
"""

from __future__ import annotations

from dataclasses import dataclass, field

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
# Whether the row's feature is among several values of the node.
MEMBER = "BRANCH_MEMBER"
# What TreeEnsemble, which has numbers for them, calls 0, 1, 2 and so on.
_NUMBERED_MODES = (
    "BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", MEMBER
)  # fmt: skip
_NUMBERED_SUMS = ("AVERAGE", "SUM", "MIN", "MAX")
TRANSFORMS = {"NONE": "Identity", "LOGISTIC": "Sigmoid", "SOFTMAX": "Softmax"}
LABELS = "let its labels be numbers (in skl2onnx, y of int)"


@dataclass(frozen=True)
class _Trees:
    """The nodes of all trees, in one list. modes: text; yes, no: places of the nodes behind, a
    leaf's own; tracks: whether NaN goes the way of yes. roots: of each tree. steps: to the deepest
    leaf. members: of nodes that compare with several values these, a row each, NaN behind them.
    """

    features: np.ndarray
    values: np.ndarray
    modes: np.ndarray
    yes: np.ndarray
    no: np.ndarray
    tracks: np.ndarray
    roots: np.ndarray
    steps: int
    members: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))


def regressor(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """TreeEnsembleRegressor: a column for each target, of the sum or mean of all trees."""
    build, trees = NodeBuilder(graph, node), _trees(node)
    count = attribute(node, "n_targets", 1)
    kind = attribute(node, "aggregate_function", "SUM")
    if kind not in ("SUM", "AVERAGE"):
        raise Unsupported(f"its aggregate_function is {kind}", "use SUM or AVERAGE")
    table = _table(trees, *_weights(node, "target"), count)
    scores = _summed(build, trees, table, kind == "AVERAGE")
    return build.finish(_transformed(build, scores, count))


def ensemble(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """TreeEnsemble, in whose place the other two are since the fifth version of the domain: a
    column for each target, which each leaf has one of. Leaves are a list of their own, which are
    nodes here behind the others."""
    build, trees = NodeBuilder(graph, node), _trees_and_leaves(node)
    count = attribute(node, "n_targets", 1)
    kind = _NUMBERED_SUMS[attribute(node, "aggregate_function", 1)]
    if kind not in ("SUM", "AVERAGE"):
        raise Unsupported(f"its aggregate_function is {kind}", "use SUM or AVERAGE")
    if transform := attribute(node, "post_transform", 0):
        raise Unsupported(
            f"its post_transform is {transform}, which ONNX and onnxruntime number otherwise",
            "let it be 0 (NONE), and a Sigmoid or Softmax follow",
        )
    targets = np.array(attribute(node, "leaf_targetids"), np.int64)
    places = len(trees.features) - len(targets) + np.arange(len(targets))
    table = _table(trees, places, _tensor(node, "leaf_weights"), targets, count)
    table = table.astype(graph.dtype(node.input[0]))
    return build.finish(_summed(build, trees, table, kind == "AVERAGE"))


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
    scores = _summed(build, trees, _table(trees, *_weights(node, "class"), len(names)))
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
    score = _summed(build, trees, _table(trees, *_weights(build.node, "class"), 1))
    least = np.array(0.5 if sure else 0, np.float32)
    second = build.axes("Squeeze", build("Greater", score, least), [1])
    build.finish(build("Where", second, names[1:], names[:1]))
    first = build("Sub", np.ones((), np.float32), score) if sure else build("Neg", score)
    both = build("Concat", first, score, axis=1)
    return build.finish(build(TRANSFORMS[kind], both), 1)


def _table(
    trees: _Trees, owners: np.ndarray, weights: np.ndarray, ids: np.ndarray, count: int
) -> np.ndarray:
    """What each node adds to each of ``count`` scores. owners: the nodes that have the weights;
    ids: the scores that these are for."""
    table = np.zeros((len(trees.features), count))
    np.add.at(table, (owners, ids if count > 1 else np.zeros_like(ids)), weights)
    return table.astype(weights.dtype)


def _summed(build: NodeBuilder, trees: _Trees, table: np.ndarray, mean: bool = False) -> str:
    """Scores [rows, count] of the leaves that are reached."""
    count = table.shape[1]
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
            if mode == MEMBER:
                holds = _among(build, row, of(trees.members.astype(kind)))
            else:
                holds = _compared(build, row, limit, mode)
            if len(inner) > 1:
                holds = build("And", holds, of(trees.modes == mode))
            goes = build("Or", goes, holds) if goes else holds
        if trees.tracks.any():
            lost = build("And", build("IsNaN", row), of(trees.tracks))
            goes = build("Or", goes, lost)
        here = build("Where", goes, of(trees.yes), of(trees.no))
    return here if isinstance(here, str) else build("Identity", here)


def _compared(build: NodeBuilder, row: str, limit: str, mode: str) -> str:
    first, *more = MODES[mode]
    holds = build(first, row, limit)
    for operator in more:
        holds = (
            build("Not", holds)
            if operator == "Not"
            else build("Or", holds, build(operator, row, limit))
        )
    return holds


def _among(build: NodeBuilder, row: str, members: str) -> str:
    """Whether values [rows, trees] are among those of [rows, trees, members]."""
    alike = build("Equal", build.axes("Unsqueeze", row, [2]), members)
    found = build.axes("ReduceMax", build.cast(alike, np.int32), [2], keepdims=0)
    return build.cast(found, np.bool_)


def _trees_and_leaves(node: onnx.NodeProto) -> _Trees:
    """The trees of a TreeEnsemble. Raises Unsupported for what are no trees."""
    kinds = _tensor(node, "nodes_modes", np.uint8)
    inner, leaves = len(kinds), len(attribute(node, "leaf_targetids"))
    own = np.arange(inner, inner + leaves)

    def behind(name: str) -> np.ndarray:
        ids, last = (attribute(node, f"nodes_{name}{part}", []) for part in ("nodeids", "leafs"))
        to = np.array([n + inner * leaf for n, leaf in zip(ids, last, strict=False)], np.int64)
        if to.size != inner or to.min(initial=0) < 0 or to.max(initial=0) >= inner + leaves:
            raise Unsupported("its nodes are no trees", "let each lead to two that there are")
        return np.concatenate([to, own])

    yes, no = behind("true"), behind("false")
    roots = np.array(attribute(node, "tree_roots"), np.int64)
    modes = np.array([*(_NUMBERED_MODES[kind] for kind in kinds), *["LEAF"] * leaves])
    tracks = attribute(node, "nodes_missing_value_tracks_true") or [0] * inner
    nothing = np.zeros(leaves)
    return _Trees(
        np.concatenate([attribute(node, "nodes_featureids"), nothing]).astype(np.int64),
        np.concatenate([_tensor(node, "nodes_splits"), nothing]), modes, yes, no,
        np.concatenate([tracks, nothing]).astype(np.bool_),
        roots, _depth(yes, no, roots.tolist()), _members(node, modes),
    )  # fmt: skip


def _members(node: onnx.NodeProto, modes: np.ndarray) -> np.ndarray:
    """The values of nodes that compare with several: those of each up to the next NaN."""
    asking = np.flatnonzero(modes == MEMBER)
    if not asking.size:
        return np.zeros((len(modes), 0))
    values = _tensor(node, "membership_values")
    ends = np.flatnonzero(np.isnan(values))
    sets = [part[~np.isnan(part)] for part in np.split(values, ends + 1)]
    if not sets[-1].size:  # behind the last NaN, or of no values
        sets.pop()
    if len(sets) != asking.size:
        raise Unsupported(
            f"it has {asking.size} nodes of {MEMBER} and {len(sets)} sets of values",
            "give one for each, NaN between them",
        )
    found = np.full((len(modes), max(map(len, sets))), np.nan)
    for place, members in zip(asking, sets, strict=True):
        found[place, : len(members)] = members
    return found


def _tensor(node: onnx.NodeProto, name: str, dtype: type = np.float64) -> np.ndarray:
    tensor = attribute(node, name)
    found = np.zeros(0) if tensor is None else numpy_helper.to_array(tensor)
    return found.reshape(-1).astype(dtype)


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
