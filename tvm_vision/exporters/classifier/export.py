"""A classifier in PyTorch as ONNX that knows how its images are prepared and what it says."""

from __future__ import annotations

import importlib.util
import io
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import helper

from ...error_lines import first_line
from ...errors import InputError, UnsupportedModelError
from ...package import Preprocessing
from ...whole_files import write_whole
from .metadata import METADATA_KEY, metadata_text

if TYPE_CHECKING:
    from ...evaluate import OutputError

INPUT, OUTPUT = "image", "logits"
DEFAULT_OPSET = 17
SEED = 0


def export_classifier(
    network: Any,
    path: Path,
    *,
    preprocessing: Preprocessing,
    labels: Sequence[str] = (),
    opset: int = DEFAULT_OPSET,
) -> OutputError | None:
    """Write a torch.nn.Module, after comparing the two on an image of noise.

    The file: image float32 [1, 3, *preprocessing.size] -> logits float32 [1, classes], and in its
    metadata, under METADATA_KEY, what ``read_metadata`` reads. labels: one a class, or none.

    Returns the error relative to PyTorch; None where onnxruntime is not installed.
    Raises InputError where the labels do not fit, UnsupportedModelError for a network that cannot
    be exported, is no classifier, or gives other results as ONNX: then no file is written.
    """
    import torch

    shape = (1, 3, *preprocessing.size)
    image = np.random.default_rng(SEED).random(shape, np.float32)
    buffer = io.BytesIO()
    try:
        with torch.no_grad(), warnings.catch_warnings():
            # The TorchScript exporter is deprecated; its successor needs three more packages.
            warnings.simplefilter("ignore")
            expected = network(torch.from_numpy(image))
            torch.onnx.export(
                network,
                (torch.from_numpy(image),),
                buffer,
                input_names=[INPUT],
                output_names=[OUTPUT],
                opset_version=opset,
                dynamo=False,
            )
    except Exception as error:  # the network's own code runs here
        raise UnsupportedModelError(
            f"the network cannot be exported for an image {list(shape)}: "
            f"{type(error).__name__}: {first_line(error)}"
        ) from None
    _check_result(expected, labels)
    model = onnx.load_from_string(buffer.getvalue())
    helper.set_model_props(model, {METADATA_KEY: metadata_text(preprocessing, labels)})
    onnx.checker.check_model(model, full_check=True)
    difference = _compare(model, image, expected.numpy())
    write_whole(path, model.SerializeToString())
    return difference


def with_size(preprocessing: Preprocessing, size: tuple[int, int] | None) -> Preprocessing:
    """The same for images of another size; of 224 where it has none and none is given."""
    known = preprocessing.size if min(preprocessing.size) > 0 else (224, 224)
    return replace(preprocessing, size=size or known)


def _check_result(result: Any, labels: Sequence[str]) -> None:
    shape = tuple(getattr(result, "shape", ()))
    if len(shape) != 2 or shape[0] != 1 or not result.is_floating_point():
        found = f"{result.dtype} {list(shape)}" if shape else type(result).__name__
        raise UnsupportedModelError(
            f"a classifier gives one tensor of floats [1, classes], and this network {found}"
        )
    if labels and len(labels) != shape[1]:
        raise InputError(f"{shape[1]} labels are needed, one a class, found {len(labels)}")


def _compare(model: onnx.ModelProto, image: np.ndarray, expected: np.ndarray) -> Any:
    if importlib.util.find_spec("onnxruntime") is None:
        return None
    from ...evaluate import Reference, compare_outputs, tolerance_for

    found = Reference(model).run({INPUT: image})
    (error,) = compare_outputs(found, {OUTPUT: expected})
    tolerance = tolerance_for("fp32")
    if not error.within(tolerance):
        raise UnsupportedModelError(
            f"the exported network must be within {tolerance:g} of PyTorch's, and is off by "
            f"{error.max_rel:.2g} of the largest value: does it use random numbers?"
        )
    return error
