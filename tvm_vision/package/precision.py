"""What an fp16 package says about its precision, where that was measured on sample images."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from .fields import Fields, number, text, wrong


@dataclass(frozen=True)
class Fp32Layer:
    """A layer that keeps float32 in memory.

    nodes: the network's nodes in its kernel. weights, result: which of them are float32. error: of
        the outputs, on the worst of some samples, where these alone are fp16; None where that was
        not measured. largest: the largest absolute value of the result on the samples, where that
        is why; else None.
    """

    nodes: tuple[str, ...]
    weights: bool
    result: bool
    error: float | None = None
    largest: float | None = None

    @classmethod
    def from_json(cls, value: Any, where: str) -> Fp32Layer:
        fields = Fields(value, where)
        layer = cls(
            nodes=fields.items("nodes", text),
            weights=fields.boolean("weights"),
            result=fields.boolean("result"),
            error=fields.optional("error", _positive),
            largest=fields.optional("largest", _positive),
        )
        if not layer.nodes or not (layer.weights or layer.result):
            wrong(
                where, "a layer with nodes, whose weights or result are float32", list(layer.nodes)
            )
        fields.done()
        return layer


@dataclass(frozen=True)
class MeasuredPrecision:
    """How the layers were chosen that keep float32, and what came of it.

    samples: how many were measured. limit: largest error that was allowed. error_before: with
        fp16 everywhere; None where outputs were no numbers. error: with ``kept`` in float32. Each
        is the worst of all samples and outputs: the largest difference from float32, relative to
        the output's largest value; for integers the share that differs. layers: how many there are
        that could be fp16. kept: those that are not, or only in part.
    """

    samples: int
    limit: float
    error_before: float | None
    error: float
    layers: int
    kept: tuple[Fp32Layer, ...] = ()

    @classmethod
    def from_json(cls, value: Any, where: str) -> MeasuredPrecision:
        fields = Fields(value, where)
        measured = cls(
            samples=fields.integer("samples", 1),
            limit=fields.number("limit"),
            error_before=fields.optional("error_before", _positive),
            error=_positive(fields.take("error"), fields.path("error")),
            layers=fields.integer("layers"),
            kept=fields.items("kept", Fp32Layer.from_json),
        )
        if measured.limit <= 0:
            wrong(fields.path("limit"), "above 0", measured.limit)
        if len(measured.kept) > measured.layers:
            wrong(fields.path("kept"), f"at most {measured.layers} layers", len(measured.kept))
        fields.done()
        return measured

    def __str__(self) -> str:
        before = "no numbers" if self.error_before is None else f"{self.error_before:.1e}"
        images = "1 sample" if self.samples == 1 else f"{self.samples} samples"
        return (
            f"{len(self.kept)} of {self.layers} layers keep float32; error on {images} "
            f"{self.error:.1e}, with fp16 everywhere {before}, allowed {self.limit:g}"
        )


def finite(value: float) -> float | None:
    """``value``, or None where it is no number that JSON has."""
    return value if math.isfinite(value) else None


def _positive(value: Any, where: str) -> float:
    found = number(value, where)
    return found if found >= 0 else wrong(where, "0 or more", found)
