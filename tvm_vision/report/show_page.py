"""A network to look at: a model's nodes, or a package's kernels with the nodes fused into each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..errors import InputError
from ..frontend.node_names import STEP
from ..package import PackageInfo
from .drawing import Box, Drawing
from .model_graph import model_drawing, node_words
from .network_graph import kernel_drawing, kernel_words, tensor_words
from .page import Cell, Section, page, panned, sortable
from .svg import svg_of

if TYPE_CHECKING:
    import onnx

MOST_NODES = 6  # lines of a kernel's box
_GRAPH = "Ctrl and the wheel zoom; a click tells more."


def operators_of(info: PackageInfo, model: onnx.ModelProto, path: str) -> dict[str, str]:
    """The operators of the model that a package was made from, by the package's names of its nodes.

    A node that stands in another's place has the other's operator. path: of the model, for the
    message. Raises InputError where the package knows none of them.
    """
    operators = {node.name: node.op_type for node in model.graph.node}
    found = {}
    for node in {node for kernel in info.graph.kernels for node in kernel.nodes}:
        origin = node
        while origin not in operators and (step := STEP.fullmatch(origin)):
            origin = step[1]
        if origin in operators:
            found[node] = operators[origin]
    if not found:
        raise InputError(
            f"the model that the package was made from is needed, and no node of '{path}' is in "
            f"{info.model.name}: name that one, or leave --model out"
        )
    return found


def package_drawing(info: PackageInfo, operators: Mapping[str, str] | None = None) -> Drawing:
    """The kernels of a package. operators: of the model's nodes, by their names, where known."""
    named = operators or {}

    def box(index: int) -> Box:
        kernel = info.graph.kernels[index]
        lines = [
            f"{named[node]} {node}" if node in named else node for node in kernel.nodes[:MOST_NODES]
        ]
        if len(kernel.nodes) > MOST_NODES:
            lines.append(f"and {len(kernel.nodes) - MOST_NODES} more")
        lines.append(tensor_words(info.graph.tensors[kernel.writes[-1]]))
        shade = f"h{min(4, max(0, len(kernel.nodes) - 1))}"
        words = kernel_words(info.graph, index)
        return Box(f"#{index} {kernel.function}", tuple(lines), words, (shade,), str(index))

    inputs, outputs = ([tensor.name for tensor in of] for of in (info.inputs, info.outputs))
    return kernel_drawing(info.graph, inputs, outputs, box)


def package_page(info: PackageInfo, operators: Mapping[str, str] | None = None) -> str:
    """The page of a package."""
    kernels, tensors = info.graph.kernels, info.graph.tensors
    drawing = package_drawing(info, operators)
    rows = []
    for index, kernel in enumerate(kernels):
        nodes = " ".join(kernel.nodes)
        read = sum(tensors[t].nbytes for t in dict.fromkeys(kernel.reads))
        written = sum(tensors[t].nbytes for t in kernel.writes)
        cells = [
            Cell(str(index), index),
            Cell(kernel.function, marks="name", hover=kernel.function),
            Cell(nodes, marks="name", hover=nodes),
            Cell(str(len(kernel.nodes)), len(kernel.nodes)),
            Cell(f"{read / 1e6:.3f}", read),
            Cell(f"{written / 1e6:.3f}", written),
        ]
        rows.append((str(index), cells))
    header = ["#", "kernel", "nodes", "fused", "reads MB", "writes MB"]
    fused = sum(len(kernel.nodes) for kernel in kernels)
    facts = [
        f"{len(kernels)} kernels of {fused} nodes for {info.target['kind']}, {info.precision}",
        "The stronger its colour, the more nodes are in a kernel; weights are not drawn.",
    ]
    sections = [
        Section("network", "The network", _GRAPH, panned(svg_of(drawing))),
        Section("table", "Kernels", "A click on a head sorts.", sortable("kernels", header, rows)),
    ]
    return page(f"Package {info.model.name}", facts, sections, {"graph": info.graph.to_json()})


def model_page(proto: onnx.ModelProto, name: str) -> str:
    """The page of a model."""
    nodes = proto.graph.node
    rows = [
        (
            str(index),
            [
                Cell(str(index), index),
                Cell(node.op_type, marks="name"),
                Cell(node.name, marks="name", hover=node_words(node, {})),
            ],
        )
        for index, node in enumerate(nodes)
    ]
    kinds = {node.op_type for node in nodes}
    facts = [
        f"{len(nodes)} nodes of {len(kinds)} operators, as the file has them",
        "Weights are not drawn, nor what follows from them alone.",
    ]
    drawn = panned(svg_of(model_drawing(proto)))
    sections = [
        Section("network", "The network", _GRAPH, drawn),
        Section(
            "table",
            "Nodes",
            "A click on a head sorts.",
            sortable("nodes", ["#", "operator", "name"], rows),
        ),
    ]
    data = {"nodes": [{"name": node.name, "operator": node.op_type} for node in nodes]}
    return page(f"Model {name}", facts, sections, {"model": data})
