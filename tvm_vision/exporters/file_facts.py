"""What a model's file says of its network beside shapes: metadata, and what makes its outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import TvmVisionError
from ..file_kinds import TFLITE, kind_of
from ..models.kinds.facts import Facts, Spec
from .extents import extents

# Values pass through these as they are; integers stand for them in between.
MOVES = frozenset(
    ("Cast", "Concat", "DequantizeLinear", "Flatten", "Identity", "QuantizeLinear", "Reshape",
     "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze")
)  # fmt: skip
# TFLite's operators that matter here -> ONNX's, and where their values are among the inputs.
TFLITE_OPERATORS = {
    "CAST": ("Cast", 0), "CONCATENATION": ("Concat", 0), "CONV_2D": ("Conv", 0),
    "DEPTHWISE_CONV_2D": ("Conv", 0), "DEQUANTIZE": ("DequantizeLinear", 0),
    "EXPAND_DIMS": ("Unsqueeze", 0), "LOGISTIC": ("Sigmoid", 0), "PACK": ("Concat", 0),
    "QUANTIZE": ("QuantizeLinear", 0), "RESHAPE": ("Reshape", 0), "SLICE": ("Slice", 0),
    "SPLIT": ("Split", 1), "SPLIT_V": ("Split", 0), "SQUEEZE": ("Squeeze", 0),
    "STRIDED_SLICE": ("Slice", 0), "TRANSPOSE": ("Transpose", 0), "UNPACK": ("Split", 0),
}  # fmt: skip
# Value -> the operator that makes it, as ONNX calls it, and the values that it makes it of.
Makers = Mapping[Any, tuple[str, Sequence[Any]]]


def file_facts(
    path: Path | None, inputs: Iterable[Spec], outputs: Iterable[Spec], labels: tuple[str, ...] = ()
) -> Facts:
    """All that is known of a network before its kind is. path: None for what is no file; labels:
    those that were given."""
    known = tuple(inputs), tuple(outputs), labels
    if path is not None and kind_of(path) is TFLITE:
        return _of_tflite(path, *known)
    model = None if path is None else onnx_model(path)
    if path is None or model is None:
        return Facts(*known)
    makers = {
        # Behind the first input of others are shapes and places.
        name: (node.op_type, list(node.input if node.op_type == "Concat" else node.input[:1]))
        for node in model.graph.node
        for name in node.output
    }
    ends = {value.name: value.name for value in model.graph.output}
    found = _made_by(ends, makers)
    return Facts(*known, onnx_metadata(model), *found, extent=extents(path, known[0]))


def onnx_model(path: Path) -> Any:
    """The ONNX model of a file, without the values of large weights; None for what is none: who
    compiles it says what is wrong."""
    from ..frontend.onnx.light import load_light

    try:
        return load_light(path)
    except Exception:  # protobuf raises every kind there is
        return None


def onnx_metadata(model: Any) -> dict[str, str]:
    return {entry.key: entry.value for entry in model.metadata_props}


def _of_tflite(
    path: Path, inputs: tuple[Spec, ...], outputs: tuple[Spec, ...], labels: tuple[str, ...]
) -> Facts:
    from ..frontend.tflite.metadata import read_metadata
    from ..frontend.tflite.read import read_tflite

    try:
        file = read_tflite(path)
    except TvmVisionError:  # who compiles it says what is wrong
        return Facts(inputs, outputs, labels)
    said = read_metadata(path)
    metadata = dict(said.entries)
    if said.labels:
        metadata["labels"] = "\n".join(said.labels)
    makers = {
        index: (kind, operator.inputs if kind == "Concat" else operator.inputs[at : at + 1])
        for operator in file.operators
        for kind, at in [_as_onnx(operator)]
        for index in operator.outputs
    }
    ends = {tensor.name: tensor.index for tensor in file.outputs}
    raw, sigmoid = _made_by(ends, makers)
    return Facts(
        inputs, outputs, labels, metadata, raw, sigmoid, tflite=True, pixels=_pixels(file, said),
        extent=extents(path, inputs),
    )  # fmt: skip


def _as_onnx(operator: Any) -> tuple[str, int]:
    """An operator as ONNX calls it, "" for what does not matter here, and where its values are."""
    activation = getattr(operator.options, "FusedActivationFunction", None)
    if activation is not None and activation():
        return "", 0
    return TFLITE_OPERATORS.get(operator.kind, ("", 0))


def _pixels(file: Any, said: Any) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """Mean and deviation of the image's pixels: a byte without sign is the pixel itself."""
    image = file.inputs[0] if len(file.inputs) == 1 else None
    if image is None:
        return None
    steps = image.quantization
    if image.dtype == "uint8" and steps is not None and steps.per_tensor:
        return (float(steps.zero_point[0]),), (float(1 / steps.scale[0]),)
    if {len(said.mean), len(said.std)} <= {1, 3}:
        return said.mean, said.std
    return None


def _made_by(ends: Mapping[str, Any], makers: Makers) -> tuple[frozenset[str], frozenset[str]]:
    """Names of outputs in whose way from convolutions values are only moved, scores perhaps by a
    sigmoid; and of those that are sigmoids."""
    found = {name: list(_sources(end, makers, MOVES)) for name, end in ends.items()}
    behind = {name: list(_sources(end, makers, MOVES | {"Sigmoid"})) for name, end in ends.items()}
    return (
        frozenset(name for name, kinds in behind.items() if set(kinds) == {"Conv"}),
        frozenset(name for name, kinds in found.items() if set(kinds) == {"Sigmoid"}),
    )


def _sources(end: Any, makers: Makers, moves: frozenset[str]) -> Iterator[str]:
    """The operators from which values come to an end by ``moves`` alone; "" for an input."""
    waiting, seen = [end], set()
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        kind, inputs = makers.get(value, ("", ()))
        if kind in moves:
            waiting += inputs
        else:
            yield kind
