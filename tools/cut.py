"""``compile --cut``: the part of a model that can be compiled, and words about the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

    from tvm_vision.frontend.onnx.cut import CutModel

# Operators that a line names; the others are counted.
MOST_OPERATORS = 8


def cut_model(
    model: Path, input_shapes: Mapping[str, tuple[int, ...]], tell: Callable[[str], object]
) -> CutModel:
    """As much of an ONNX file as can be compiled."""
    from tvm_vision.file_kinds import ONNX, need
    from tvm_vision.frontend.onnx.cut import cut_onnx

    need(model, "an ONNX file to cut", ONNX)
    tell("looking for what can be compiled")
    return cut_onnx(model, input_shapes=input_shapes)


def write_rest(parts: CutModel, path: Path) -> None:
    """The nodes that are left, as an ONNX file; nothing where none are."""
    from tvm_vision.whole_files import write_whole

    if parts.rest is not None:
        write_whole(path, parts.rest.SerializeToString())


def cut_lines(parts: CutModel, rest: Path | None) -> Iterator[str]:
    """What was left out and why, which results the package has, and what the caller does next."""
    if parts.rest is None:
        yield "nothing had to be cut: the whole network is in the package"
        if rest is not None:
            yield f"nothing is left, and {rest} is not written"
        return
    for reason in parts.reasons:
        yield f"cut: {reason}"
    yield "outputs of the package: " + ", ".join(map(str, parts.imported[1].outputs))
    yield f"left to the caller: {_described(parts.rest, parts.nodes)}"
    if rest is not None:
        yield f"wrote {rest}: run it with onnxruntime on the package's outputs"


def _described(rest: onnx.ModelProto, nodes: int) -> str:
    graph = rest.graph
    counts = Counter(node.op_type for node in graph.node).most_common()
    named = [f"{count} {name}" if count > 1 else name for name, count in counts[:MOST_OPERATORS]]
    if len(counts) > MOST_OPERATORS:
        named.append("others")
    inputs, outputs = (", ".join(v.name for v in values) for values in (graph.input, graph.output))
    return f"{len(graph.node)} of {nodes} nodes ({', '.join(named)}), {outputs} from {inputs}"
