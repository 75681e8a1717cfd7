"""Einsum as products of matrices, which all that comes later knows: tiles, matrices, attention.

TVM's own is one sum over everything, in the order of its letters. Here two operands at a time are
multiplied, in the order that NumPy finds cheapest: what one of them alone has and nobody reads
again is summed up first, axes of both that stay are a product's batch, and the others its rows,
columns and terms. Axes are moved where the order of letters is not a product's, and something is
gained by it.
"""

from __future__ import annotations

import math
import string
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from .graph import GraphEditor, NodeBuilder, Unsupported, attribute
from .rewrites_types import half_in_single

# What ONNX's MatMul multiplies.
_MULTIPLIED = frozenset({"float16", "float32", "float64", "int32", "int64", "uint32", "uint64"})
# Operands whose orders can all be tried; they grow as the factorial.
_ALL_ORDERS = 5
# What stands between scores and their softmax, or shares and their product, and how many of it.
_BETWEEN = frozenset("Add Cast Clip Div Dropout Identity Mul Reshape Sub Transpose Where".split())
_FAR = 6
Labels = tuple[str, ...]


@dataclass(frozen=True)
class Equation:
    """Which axes are the same.

    Attributes:
        operands: a label for each axis of each operand.
        result: those of the result, in its order.
    """

    operands: tuple[Labels, ...]
    result: Labels


@dataclass(frozen=True)
class Matrices:
    """How two operands are a product.

    Attributes:
        left, right: the operands' own labels, as they lie; what only one of them has, and nobody
            wants, is summed up before.
        swapped: whether the second is the left one.
        batch: labels of the leading axes, of both operands or of one for all of the other's.
        rows: of the left one alone.
        columns: of the right one alone.
        terms: that are summed up.
    """

    left: Labels
    right: Labels
    swapped: bool
    batch: Labels
    rows: Labels
    columns: Labels
    terms: Labels

    @property
    def result(self) -> Labels:
        """Labels of the product's axes, in order."""
        return (*self.batch, *self.rows, *self.columns)

    def turns(self, result: Labels) -> bool:
        """Whether an operand's axes, or for ``result`` the product's, have to change places."""
        orders = (
            (self.left, (*self.batch, *self.rows, *self.terms)),
            (self.right, (*self.batch, *self.terms, *self.columns)),
            (self.result, result),
        )
        return any(own != tuple(label for label in order if label in own) for own, order in orders)


def einsum(node: onnx.NodeProto, graph: GraphEditor) -> Sequence[onnx.NodeProto] | None:
    """The rewrite. Diagonals, other numbers, and sizes that are not known stay TVM's, whose sums
    are of its tensors' type: those of halves are float32's then.

    So do two operands whose axes would have to be moved, for nothing but their product: a GPU's
    tiles fetch them as they lie. Attention is found by its products.

    Raises Unsupported for a result that cannot be had: TVM ends the process for one.
    """
    _check_result(str(attribute(node, "equation", "")))
    try:
        shapes = [graph.shape(name) for name in node.input]
    except Unsupported:
        return half_in_single(node, graph)
    equation = read_equation(str(attribute(node, "equation", "")), [len(s) for s in shapes])
    if equation is None or graph.dtype(node.input[0]).name not in _MULTIPLIED:
        return half_in_single(node, graph)
    products = _Products(NodeBuilder(graph, node), equation, shapes)
    if products.turns() and not _of_attention(node, graph):
        return half_in_single(node, graph)
    return products.nodes()


def _check_result(text: str) -> None:
    """Raise Unsupported unless each axis of the result is one of an operand, and there once; and
    the axes of an ellipsis, which are not summed up, are there where an operand has them."""
    terms, arrow, right = text.replace(" ", "").partition("->")
    if not arrow:
        return
    wanted = Counter(right.replace("...", ""))
    reason = ""
    if missing := sorted(wanted.keys() - set(terms)):
        reason = f"no input has {', '.join(missing)}"
    elif twice := sorted(label for label, n in wanted.items() if n > 1):
        reason = f"the result has {', '.join(twice)} more than once"
    elif "..." in terms and "..." not in right:
        reason = "the result lacks the axes of '...'"
    if reason:
        raise Unsupported(f"{reason} in the equation '{text}'", "correct the equation")


def _of_attention(node: onnx.NodeProto, graph: GraphEditor) -> bool:
    """Whether a softmax reads the result, or gives an operand, but for what stands between."""
    for ahead in (True, False):
        near = [node]
        for _ in range(_FAR):
            near = [each for one in near for each in graph.beside(one, ahead)]
            if any(each.op_type == "Softmax" for each in near):
                return True
            near = [each for each in near if each.op_type in _BETWEEN]
    return False


def read_equation(text: str, ranks: Sequence[int]) -> Equation | None:
    """An equation of ONNX's Einsum-12 for operands of these numbers of axes.

    Axes of an ellipsis are labelled "...1" for the last one, "...2" for the one before it. None
    for diagonals (a label twice in a term), and for what does not fit the operands.
    """
    terms, arrow, right = text.replace(" ", "").partition("->")
    lists = terms.split(",")
    if len(lists) != len(ranks):
        return None
    operands = tuple(
        _labels(term, rank - len(term.replace("...", "")))
        for term, rank in zip(lists, ranks, strict=True)
    )
    if any(len(t) != n or len(set(t)) != n for t, n in zip(operands, ranks, strict=True)):
        return None
    known = Counter(label for term in operands for label in term)
    wide = sorted(filter(_is_wide, known), key=_place, reverse=True)
    if arrow:
        result = _labels(right, len(wide) if "..." in right else 0)
    else:
        result = (*wide, *sorted(each for each, n in known.items() if n == 1 and each not in wide))
    if not known.keys() >= set(result) or len(set(result)) != len(result):
        return None
    return Equation(operands, result)


def _labels(term: str, wide: int) -> Labels:
    """A term's labels, of which its ellipsis has ``wide``."""
    before, dots, behind = term.partition("...")
    return (*before, *(f"...{n}" for n in range(wide if dots else 0, 0, -1)), *behind)


def _is_wide(label: str) -> bool:
    """Whether it is of an ellipsis."""
    return label.startswith("...")


def _place(label: str) -> int:
    return int(label[3:])


def as_matrices(first: Labels, second: Labels, result: Labels) -> Matrices:
    """Two operands as a product whose result comes as near to ``result`` as it can.

    Where rows and columns end the result side by side, nothing of it has to be moved, and what
    stands before them is batch, an operand's own axes as well. Elsewhere all own axes are rows and
    columns.
    """
    left = tuple(label for label in first if label in result or label in second)
    right = tuple(label for label in second if label in result or label in first)
    swapped = bool(result) and result[-1] in left and result[-1] not in right
    if swapped:
        left, right = right, left
    own = [label for label in result if label in left and label not in right]
    others = [label for label in result if label in right and label not in left]
    columns = _run(result, others)
    rows = _run(result[: len(result) - len(columns)], own)
    if bool(rows) != bool(own) or bool(columns) != bool(others):
        rows, columns = tuple(own), tuple(others)
    batch = tuple(label for label in result if label not in {*rows, *columns})
    terms = tuple(label for label in left if label in right and label not in result)
    return Matrices(left, right, swapped, batch, rows, columns, terms)


def _run(labels: Labels, wanted: Collection[str]) -> Labels:
    """The labels at the end that are all wanted."""
    start = len(labels)
    while start and labels[start - 1] in wanted:
        start -= 1
    return labels[start:]


@dataclass
class _Operand:
    value: str
    labels: Labels


class _Products:
    def __init__(
        self, build: NodeBuilder, equation: Equation, shapes: Sequence[Sequence[int]]
    ) -> None:
        self.build, self.equation, self.sizes = build, equation, dict[str, int]()
        self.shapes = shapes
        for pair in self._terms():
            for label, size in zip(*pair, strict=True):
                self.sizes[label] = max(size, self.sizes.get(label, 1))
        self.operands: list[_Operand] = []

    def turns(self) -> bool:
        """Whether there are two operands of letters alone, and they or their product have to be
        turned."""
        known = {(label, size) for pair in self._terms() for label, size in zip(*pair, strict=True)}
        plain = len(known) == len(self.sizes) and not any(map(_is_wide, self.sizes))
        if len(self.shapes) != 2 or not plain or not all(self.equation.operands):
            return False
        first, second = self.equation.operands
        result = self.equation.result
        return as_matrices(first, second, result).turns(result)

    def _terms(self) -> Iterable[tuple[Labels, Sequence[int]]]:
        """Of each operand its labels and their sizes."""
        return zip(self.equation.operands, self.shapes, strict=True)

    def _without_ones(self, value: str, labels: Labels, shape: Sequence[int]) -> _Operand:
        """An operand without the axes that it has one element of for all of another's."""
        alone = [at for at, label in enumerate(labels) if shape[at] < self.sizes[label]]
        if alone:
            value = self.build.axes("Squeeze", value, alone)
        return _Operand(value, tuple(each for at, each in enumerate(labels) if at not in alone))

    def nodes(self) -> list[onnx.NodeProto]:
        inputs = zip(self.build.node.input, self._terms(), strict=True)
        self.operands = [self._without_ones(value, *term) for value, term in inputs]
        for group in self._order():
            found, *others = [self.operands[at] for at in sorted(group)]
            self.operands = [each for at, each in enumerate(self.operands) if at not in group]
            while others:
                second = others.pop(0)
                found = self._product(found, second, [*self.operands, *others])
            self.operands.append(found)
        found = self._summed(self.operands[0], self.equation.result)
        value = self._moved(found, self.equation.result)
        return self.build.finish(value if self.build.nodes else self.build("Identity", value))

    def _order(self) -> Sequence[Sequence[int]]:
        """Which operands are multiplied, step after step: positions among those that are left, as
        NumPy's ``einsum_path`` gives them, behind which the step's result comes."""
        if len(self.operands) < 3 or len(self.sizes) > len(string.ascii_letters):
            return [range(len(self.operands))]
        letters = dict(zip(self.sizes, string.ascii_letters, strict=False))
        terms = [each.labels for each in self.operands]
        written = ["".join(letters[each] for each in t) for t in (*terms, self.equation.result)]
        shapes = (np.broadcast_to(np.empty(()), self._shape(term)) for term in terms)
        how = "optimal" if len(terms) <= _ALL_ORDERS else "greedy"
        path, _ = np.einsum_path(f"{','.join(written[:-1])}->{written[-1]}", *shapes, optimize=how)
        return list(path[1:])

    def _shape(self, labels: Sequence[str]) -> list[int]:
        return [self.sizes[label] for label in labels]

    def _summed(self, operand: _Operand, wanted: Collection[str]) -> _Operand:
        """An operand without the axes that nobody wants."""
        gone = [at for at, label in enumerate(operand.labels) if label not in wanted]
        if not gone:
            return operand
        kept = tuple(label for label in operand.labels if label in wanted)
        return _Operand(self.build.axes("ReduceSum", operand.value, gone, keepdims=0), kept)

    def _moved(self, operand: _Operand, labels: Labels) -> str:
        """The value of an operand with its axes in another order."""
        order = [operand.labels.index(label) for label in labels]
        if order == sorted(order):
            return operand.value
        return self.build("Transpose", operand.value, perm=order)

    def _product(self, first: _Operand, second: _Operand, others: Sequence[_Operand]) -> _Operand:
        """Two operands multiplied and summed over what the others and the result have not; the
        axes of what comes of it may stand in another order."""
        wanted = {*self.equation.result}.union(*(each.labels for each in others))
        order = (*first.labels, *second.labels) if others else self.equation.result
        result = tuple(dict.fromkeys(label for label in order if label in wanted))
        how = as_matrices(first.labels, second.labels, result)
        left, right = (second, first) if how.swapped else (first, second)
        left, right = self._summed(left, how.left), self._summed(right, how.right)
        if not how.terms or not (how.rows or how.columns):
            labels = (*how.result, *how.terms)
            factors = [self._beside(each, labels) for each in (left, right)]
            return self._summed(_Operand(self.build("Mul", *factors), labels), result)
        # Rows stay the axes that they are where all share a matrix.
        apart = not how.batch and len(how.columns) == len(how.terms) == 1
        rows = [(label,) for label in how.rows] if apart else [how.rows]
        batch = [(label,) for label in how.batch]
        found = self.build(
            "MatMul",
            self._merged(left, [*batch, *rows, how.terms]),
            self._merged(right, [*batch, how.terms, how.columns]),
        )
        axes = [*batch, *rows, how.columns]
        if any(len(axis) != 1 for axis in axes):
            found = self.build.reshape(found, self._shape(how.result))
        return _Operand(found, how.result)

    def _beside(self, operand: _Operand, labels: Labels) -> str:
        """An operand's value with one element along the labels that it has not."""
        kept = tuple(label for label in labels if label in operand.labels)
        value = self._moved(operand, kept)
        missing = [at for at, label in enumerate(labels) if label not in kept]
        return self.build.axes("Unsqueeze", value, missing) if missing else value

    def _merged(self, operand: _Operand, axes: Sequence[Labels]) -> str:
        """An operand's value with an axis for each of these, of as many labels: one element for
        those that it has not."""
        kept = [tuple(label for label in axis if label in operand.labels) for axis in axes]
        value = self._moved(operand, tuple(label for axis in kept for label in axis))
        if all(len(axis) == 1 for axis in kept):
            return value
        return self.build.reshape(value, [math.prod(self._shape(axis)) for axis in kept])
