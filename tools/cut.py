"""``compile --cut``: the part of a model that can be compiled, and words about the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tvm_vision.frontend.onnx.cut import CutModel

# Operators that a line names; the others are counted.
MOST_OPERATORS = 8


def cut_model(
    model: Path,
    input_shapes: Mapping[str, tuple[int, ...]],
    input_values: Mapping[str, Any],
    tell: Callable[[str], object],
    *,
    raw_io: bool = False,
    with_rest: bool = False,
) -> CutModel:
    """As much of an ONNX or TFLite file as can be compiled. Raises InputError for what is neither,
    and for a TFLite file whose rest is wanted."""
    from tvm_vision.errors import InputError
    from tvm_vision.file_kinds import ONNX, TFLITE, kind_of, need
    from tvm_vision.frontend.onnx.cut import cut_onnx
    from tvm_vision.frontend.tflite.cut import cut_tflite

    need(model, "an ONNX or TFLite file to cut", ONNX, TFLITE)
    tell("looking for what can be compiled")
    if kind_of(model) is not TFLITE:
        return cut_onnx(model, input_shapes=input_shapes, input_values=input_values)
    if with_rest:
        raise InputError(
            f"an ONNX file is needed for --rest, and '{model}' is a TFLite file, whose operators "
            "have no other form: leave --rest out"
        )
    return cut_tflite(model, input_shapes=input_shapes, input_values=input_values, raw_io=raw_io)


def write_rest(parts: CutModel, path: Path) -> None:
    """The nodes that are left, as an ONNX file; nothing where none are."""
    from tvm_vision.whole_files import write_whole

    if parts.rest is not None:
        write_whole(path, parts.rest.SerializeToString())


def cut_lines(parts: CutModel, rest: Path | None) -> Iterator[str]:
    """What was left out and why, which results the package has, and what the caller does next."""
    if not parts.left:
        yield "nothing had to be cut: the whole network is in the package"
        if rest is not None:
            yield f"nothing is left, and {rest} is not written"
        return
    for reason in parts.reasons:
        yield f"cut: {reason}"
    yield "outputs of the package: " + ", ".join(map(str, parts.imported[1].outputs))
    yield f"left to the caller: {_described(parts)}"
    if rest is not None:
        yield f"wrote {rest}: run it with onnxruntime on the package's outputs"


def _described(parts: CutModel) -> str:
    counts = Counter(parts.left).most_common()
    named = [f"{count} {name}" if count > 1 else name for name, count in counts[:MOST_OPERATORS]]
    if len(counts) > MOST_OPERATORS:
        named.append("others")
    inputs, outputs = (", ".join(names) for names in (parts.reads, parts.imported[1].cut))
    return f"{len(parts.left)} of {parts.nodes} nodes ({', '.join(named)}), {outputs} from {inputs}"
