"""Why a node test does not pass, in three classes: it cannot be static, not yet, wrong."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

CANNOT, NOT_YET, WRONG = "cannot be static", "not yet", "wrong"
CLASSES = {
    CANNOT: "no network of fixed tensors and of the same results for the same inputs can have it",
    NOT_YET: "could be had; the remedy says what to do until then",
    WRONG: "runs, with results that differ by more than the bound",
}


@dataclass(frozen=True)
class Rule:
    """kind: the class. operator, message: patterns of both. reason: in the page's words."""

    kind: str
    reason: str
    operator: str = ""
    message: str = ""


TRAINING = "changes weights: a step of training, not of a network"
RULES = (
    Rule(CANNOT, "a result without elements: there is nothing to compute", message="no elements"),
    Rule(CANNOT, "random numbers", "Bernoulli|Random|Multinomial"),
    Rule(CANNOT, "drops values at random, in training", "Dropout"),
    Rule(CANNOT, TRAINING, "Adagrad|Adam|Momentum"),
    Rule(CANNOT, "decodes files, whose sizes are in their bytes", "ImageDecoder"),
    Rule(CANNOT, "data decides how many steps there are", message="number of its steps depends"),
    Rule(CANNOT, "data decides about a shape", message="depends on the data|open shape"),
    Rule(
        CANNOT,
        "an output_shape that ONNX and onnxruntime read in different ways",
        "MaxUnpool",
        "output_shape",
    ),
    Rule(NOT_YET, "counts words of a vocabulary", "TfIdfVectorizer"),
    Rule(NOT_YET, "whole numbers to the power of real ones at run time", "Pow"),
    Rule(
        WRONG,
        "align_corners of a size before it is rounded down: onnxruntime and PyTorch take the size "
        "that there is, and so do we",
        "Resize",
        "values",
    ),
)


def classified(result: dict[str, Any]) -> tuple[str, str]:
    """Class and reason of a result that is not "passed" nor "skipped"."""
    wrong = result["outcome"] == "wrong"
    for rule in RULES:
        if (
            (rule.kind == WRONG) == wrong
            and re.search(rule.operator, result["operator"])
            and re.search(rule.message, result["message"])
        ):
            return rule.kind, rule.reason
    if wrong:
        return WRONG, "not explained"
    return NOT_YET, "not known to any rule"
