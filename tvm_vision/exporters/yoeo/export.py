"""A YOEO network as an ONNX file that can be deployed: constants for grid and anchors, no dynamic
shape, the arg max inside; and checked before it is written."""

from __future__ import annotations

import copy
import importlib.util
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import helper

from ...errors import InputError, UnsupportedModelError
from ...package import ClassGroup
from ...whole_files import write_whole
from .config import YoeoConfig
from .names import ClassNames, check_groups
from .onnx_graph import DETECTIONS, INPUT, RAW_HEAD, SEGMENTATIONS, YoeoGraph
from .parameters import PREFIX, State, check_state

if TYPE_CHECKING:
    from ...evaluate import OutputError
    from .network import Yoeo

METADATA_KEY = "tvm_vision.yoeo"
# YOEO's own; 21 is the latest that was tried.
DEFAULT_OPSET, LATEST_OPSET = 11, 21
SEED = 0


@dataclass(frozen=True)
class ExportOptions:
    """What the file is to be.

    size: height and width of the input; None: the configuration's. names: of the classes; None:
    class0, class1, ... groups: classes that suppress each other. raw_heads: without decoding, which
    is left to who runs it. opset: of ONNX. fp16_storage: weights as float16, half the file; they
    are computed with as float32.
    """

    size: tuple[int, int] | None = None
    names: ClassNames | None = None
    groups: Sequence[ClassGroup] = ()
    raw_heads: bool = False
    opset: int = DEFAULT_OPSET
    fp16_storage: bool = False


def onnx_model(
    config: YoeoConfig, state: State, options: ExportOptions | None = None
) -> onnx.ModelProto:
    """The network as a model that onnx.checker accepts.

    Input "InputLayer" float32 [1, channels, height, width]. Outputs "Detections" float32 [1, boxes,
    5 + classes], or with raw heads "Head0", "Head1", ... float32 [1, anchors * (5 + classes), rows,
    columns]; and "Segmentations" uint8 [1, height, width]. Names, groups, strides and anchors are
    JSON in its metadata, under METADATA_KEY.

    Raises InputError for weights, names, groups or a size that do not fit the network.
    """
    options = options or ExportOptions()
    if not DEFAULT_OPSET <= options.opset <= LATEST_OPSET:
        raise InputError(
            f"an opset from {DEFAULT_OPSET} to {LATEST_OPSET} is needed, found {options.opset}"
        )
    check_state(config, state)
    names = options.names or ClassNames.default(config)
    names.check(config)
    check_groups(options.groups, names)
    size = options.size or (config.height, config.width)
    graph = YoeoGraph(
        config,
        state,
        size=size,
        raw_heads=options.raw_heads,
        opset=options.opset,
        fp16_storage=options.fp16_storage,
    ).graph()
    opset = helper.make_opsetid("", options.opset)
    model = helper.make_model(
        graph,
        opset_imports=[opset],
        ir_version=helper.find_min_ir_version_for([opset]),
        producer_name="tvm_vision",
    )
    document = _metadata(config, state, size, names, options)
    helper.set_model_props(model, {METADATA_KEY: json.dumps(document, ensure_ascii=False)})
    onnx.checker.check_model(model, full_check=True)
    return model


def export_onnx(
    model: Yoeo,
    path: str | os.PathLike[str],
    *,
    names: ClassNames | None = None,
    groups: Sequence[ClassGroup] = (),
    size: tuple[int, int] | None = None,
    raw_heads: bool = False,
    opset: int = DEFAULT_OPSET,
    fp16_storage: bool = False,
) -> list[OutputError] | None:
    """Write a network in PyTorch as ONNX, after comparing the two on an image of noise.

    The options are those of ExportOptions. Returns the error of each output, relative to PyTorch;
    None where onnxruntime, which runs the ONNX file, is not installed. The model stays as it is, in
    its mode and on its device.

    Raises InputError as ``onnx_model`` does, UnsupportedModelError where the two disagree: then no
    file is written.
    """
    from .weights import state_of

    options = ExportOptions(size, names, groups, raw_heads, opset, fp16_storage)
    exported = onnx_model(model.config, state_of(model), options)
    errors = _compare(model, exported, options)
    write_whole(Path(path), exported.SerializeToString())
    return errors


def export_weights(
    config: YoeoConfig,
    state: State,
    path: str | os.PathLike[str],
    options: ExportOptions,
) -> list[OutputError] | None:
    """The same for weights as ``read_weights`` gives them, without PyTorch: where it is installed
    the two are compared, else None is returned."""
    exported = onnx_model(config, state, options)
    errors = None
    if importlib.util.find_spec("torch") is not None:
        from .network import Yoeo
        from .weights import set_state

        model = Yoeo(config)
        set_state(model, state)
        errors = _compare(model, exported, options)
    write_whole(Path(path), exported.SerializeToString())
    return errors


def _metadata(
    config: YoeoConfig,
    state: State,
    size: tuple[int, int],
    names: ClassNames,
    options: ExportOptions,
) -> dict[str, object]:
    """What the outputs mean, for who runs the network."""
    anchors = [
        state[f"{PREFIX}{index}.yolo_{index}.anchor_grid"].reshape(-1, 2).tolist()
        for index, layer in enumerate(config.layers)
        if layer in config.heads
    ]
    return {
        "input_size": list(size),
        "detection": list(names.detection),
        "segmentation": list(names.segmentation),
        "groups": [
            {"surrogate": group.surrogate, "classes": list(group.classes)}
            for group in options.groups
        ],
        "raw_heads": options.raw_heads,
        "heads": [
            {"stride": stride, "anchors": table}
            for stride, table in zip(config.strides(size), anchors, strict=True)
        ],
    }


def _compare(
    model: Yoeo, exported: onnx.ModelProto, options: ExportOptions
) -> list[OutputError] | None:
    """Errors of the ONNX model relative to PyTorch, which must be within the tolerance."""
    if importlib.util.find_spec("onnxruntime") is None:
        return None
    from ...evaluate import Reference, compare_outputs, tolerance_for

    height, width = options.size or (model.config.height, model.config.width)
    shape = (1, model.config.channels, height, width)
    image = np.random.default_rng(SEED).random(shape, np.float32)
    expected = _torch_outputs(model, image, options.raw_heads)
    found = Reference(exported).run({INPUT: image})
    errors = compare_outputs(_judged(found), _judged(expected))
    tolerance = tolerance_for("fp16" if options.fp16_storage else "fp32")
    for error in errors:
        if not error.within(tolerance):
            raise UnsupportedModelError(
                f"the exported network must be within {tolerance:g} of PyTorch's, and "
                f"'{error.name}' is off by {error.max_rel:.2g} of its largest value "
                f"({100 * error.equal:.1f} % equal): are the weights trained?"
            )
    return errors


def _judged(outputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs, with the boxes' pixels apart from the scores: errors are relative to the largest
    value, and beside hundreds of pixels a wrong score would be small."""
    judged: dict[str, np.ndarray] = {}
    for name, array in outputs.items():
        if name == DETECTIONS:
            judged[f"{name} (pixels)"] = array[..., :4]
            judged[f"{name} (scores)"] = array[..., 4:]
        else:
            judged[name] = array
    return judged


def _torch_outputs(model: Yoeo, image: np.ndarray, raw_heads: bool) -> dict[str, np.ndarray]:
    import torch

    # A copy, since the model may be training on a GPU.
    network = copy.deepcopy(model).cpu().float().eval()
    with torch.no_grad():
        tensor = torch.from_numpy(image)
        detections, segmentation = network(tensor)
        heads = network.raw(tensor)[0] if raw_heads else []
    outputs = {RAW_HEAD.format(index): head.numpy() for index, head in enumerate(heads)}
    if detections is not None and not raw_heads:
        outputs[DETECTIONS] = detections.numpy()
    if segmentation is not None:
        outputs[SEGMENTATIONS] = segmentation.numpy()
    return outputs
