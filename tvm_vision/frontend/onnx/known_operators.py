"""Whether a model's operators are ONNX's, and those of its operator set."""

from __future__ import annotations

import functools

import onnx

from ..refusals import CUT, NodesRefused, Refusal, Remedy
from .graph import nodes_in, opset_of
from .parts import with_possible_cuts
from .rewrites import PREVIEW

# What to do about domains that somebody knows more of.
FOREIGN = {
    "com.microsoft.nchwc": Remedy(
        "these are for one processor: save the model from onnxruntime with the optimization level "
        "ORT_ENABLE_EXTENDED instead of ORT_ENABLE_ALL, or take the one it was made from"
    )
}


def check_domains(proto: onnx.ModelProto) -> None:
    """Raise UnsupportedModelError unless the operators are those of a known operator set."""
    foreign = [
        Refusal(
            f"{node.domain}.{node.op_type}",
            node.name or node.output[0],
            "not a standard ONNX operator",
            FOREIGN.get(node.domain, CUT),
        )
        for node in nodes_in(proto.graph)
        if node.domain not in ("", PREVIEW)
    ]
    if foreign:
        raise NodesRefused(with_possible_cuts(proto, foreign))


def check_names(proto: onnx.ModelProto) -> None:
    """Raise NodesRefused unless ONNX has the operators, in the model's operator set: exporters
    write those that they cannot convert as they are."""
    version = opset_of(proto)
    since = _first_versions()
    refusals = [
        _unknown(node, since.get(node.op_type, 0), version)
        for node in nodes_in(proto.graph)
        if not node.domain and not 0 < since.get(node.op_type, 0) <= version
    ]
    if refusals:
        raise NodesRefused(with_possible_cuts(proto, refusals, engine=False))


@functools.cache
def _first_versions() -> dict[str, int]:
    """The operator set that had each of ONNX's operators first."""
    found: dict[str, int] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.domain:
            found[schema.name] = min(schema.since_version, found.get(schema.name, 1 << 30))
    return found


def _unknown(node: onnx.NodeProto, since: int, version: int) -> Refusal:
    name = node.name or node.output[0]
    if since:
        reason = f"ONNX has it from operator set {since} on, and the model is of {version}"
        way = Remedy(f"export the model in operator set {since}", CUT)
    else:
        reason, way = "ONNX has no such operator, and the exporter did not convert it", CUT
    return Refusal(node.op_type, name, reason, way)
