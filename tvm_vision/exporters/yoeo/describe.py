"""What a package says about a YOEO network, from its ONNX file.

Files of ``yoeo-to-onnx`` carry their names, groups and grids as metadata. Others, as the original
YOEO exports them, have none: their names come from options, and their boxes must be decoded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx

from ...error_lines import manifest_reason
from ...errors import InputError, PackageError
from ...file_kinds import ONNX, need
from ...frontend.onnx.light import load_light
from ...package import ClassGroup, ModelInfo, Preprocessing, YoeoHead, YoeoInfo
from ...package.class_thresholds import check_class_thresholds, read_class_thresholds
from ...package.fields import Fields, parse_object, text
from ...plain_files import stem_of
from ..file_facts import onnx_metadata
from .export import METADATA_KEY
from .names import ClassNames, check_groups
from .onnx_graph import DETECTIONS, RAW_HEAD, SEGMENTATIONS

Shape = tuple[int | None, ...]


def is_yoeo(path: Path) -> bool:
    """Whether an ONNX file says that it is a YOEO network; no for what is no ONNX file."""
    try:
        model = load_light(path)
    except Exception:  # protobuf raises every kind there is; who compiles it says what is wrong
        return False
    return METADATA_KEY in onnx_metadata(model)


def yoeo_model_info(
    path: Path,
    *,
    name: str | None = None,
    names: ClassNames | None = None,
    groups: Sequence[ClassGroup] | None = None,
    size: tuple[int, int] | None = None,
    interpolation: str = "linear",
) -> ModelInfo:
    """The part of mod.json about the network of an ONNX file.

    name: the file's where not given. names, groups: instead of those in the file's metadata. size:
    height and width of the input, needed where the file leaves them open. interpolation: how
    images are resized, see Preprocessing.

    Raises InputError where the file cannot be read, is no YOEO network, or names, groups or size do
    not fit it.
    """
    need(path, "an ONNX file", ONNX)
    try:
        model = load_light(path)
    except Exception as error:  # protobuf raises every kind there is
        reason = getattr(error, "strerror", None) or "it is not ONNX"
        raise InputError(
            f"an ONNX file is needed, and '{path}' cannot be read ({reason}): check the file"
        ) from None
    outputs = {value.name: _shape(value) for value in model.graph.output}
    metadata = _metadata(model, path)
    sides = _size(model, size, path)
    info = _outputs(model, metadata, path)
    found = names or _names(metadata, outputs, info, path)
    _check_names(found, metadata, outputs, info, path)
    if groups is None:
        groups = metadata["groups"] if metadata else ()
    check_groups(groups, found)
    return ModelInfo(
        name=name or stem_of(path) or "yoeo",
        kind="yoeo",
        labels=found.detection,
        preprocessing=Preprocessing(
            size=sides, letterbox=True, interpolation=interpolation, std=(255.0,) * 3
        ),
        yoeo=YoeoInfo(
            detections=info.detections,
            heads=info.heads,
            segmentation=info.segmentation,
            segmentation_labels=found.segmentation,
            groups=tuple(groups),
        ),
        class_thresholds=_thresholds(metadata, found),
    )


def input_shapes(path: Path, info: ModelInfo) -> dict[str, tuple[int, ...]]:
    """The shape of the network's input by its name, as ``tvm_vision.compile`` takes it."""
    assert info.preprocessing is not None
    graph = load_light(path).graph
    return {_input(graph).name: (1, 3, *info.preprocessing.size)}


def write_camera_model(path: Path, target: Path, info: ModelInfo, frame: tuple[int, int]) -> None:
    """Write the network of a file with the preparation of frames (height, width) before it.

    Raises InputError as ``with_camera``.
    """
    from .camera import with_camera  # with OpenCV, which describing does without

    assert info.preprocessing is not None
    model = onnx.load(path)
    name = _input(model.graph).name
    onnx.save(with_camera(model, name, frame, info.preprocessing), target)


def _metadata(model: onnx.ModelProto, path: Path) -> dict[str, Any] | None:
    """What the file says about itself, checked; None where it says nothing."""
    content = onnx_metadata(model).get(METADATA_KEY)
    if content is None:
        return None
    try:
        fields = Fields(parse_object(content.encode()), METADATA_KEY)
        result: dict[str, Any] = {
            "detection": fields.items("detection", text),
            "segmentation": fields.items("segmentation", text),
            "groups": fields.items("groups", ClassGroup.from_json),
            "raw_heads": fields.boolean("raw_heads"),
            "heads": fields.items("heads", _head),
            # Of files whose confidences were calibrated.
            "class_thresholds": fields.optional("class_thresholds", read_class_thresholds) or {},
        }
        check_class_thresholds(result["class_thresholds"], "yoeo", result["detection"])
    except PackageError as error:
        raise InputError(
            f"the metadata '{METADATA_KEY}' of '{path}' must be as yoeo-to-onnx writes it: "
            f"{manifest_reason(error)}: export it again"
        ) from None
    return result


def _thresholds(metadata: Mapping[str, Any] | None, names: ClassNames) -> dict[str, float]:
    """The confidences that the file says, of the classes by the names that they have here."""
    if metadata is None:
        return {}
    by_file = metadata["class_thresholds"]
    pairs = zip(metadata["detection"], names.detection, strict=True)
    return {here: by_file[there] for there, here in pairs if there in by_file}


def _head(value: Any, where: str) -> YoeoHead:
    """A grid; its output is known from its place."""
    return YoeoHead.from_json({**value, "output": "-"} if isinstance(value, dict) else value, where)


def _outputs(model: onnx.ModelProto, metadata: Mapping[str, Any] | None, path: Path) -> YoeoInfo:
    """Which output is what: by their names, else by their form."""
    names = [value.name for value in model.graph.output]
    if metadata is not None and metadata["raw_heads"]:
        heads = tuple(
            YoeoHead(RAW_HEAD.format(index), head.stride, head.anchors)
            for index, head in enumerate(metadata["heads"])
        )
        wanted = [head.output for head in heads]
        missing = [name for name in wanted if name not in names]
        if missing:
            raise InputError(
                f"'{path}' says that it has the outputs {', '.join(wanted)}, found "
                f"{', '.join(names)}: export it again"
            )
        return YoeoInfo(heads=heads, segmentation=SEGMENTATIONS if SEGMENTATIONS in names else "")
    detections = _named(model, DETECTIONS, onnx.TensorProto.FLOAT)
    integers = (onnx.TensorProto.UINT8, onnx.TensorProto.INT32, onnx.TensorProto.INT64)
    segmentation = _named(model, SEGMENTATIONS, *integers)
    if not (detections or segmentation):
        shown = ", ".join(f"{v.name} {_shown(_shape(v))}" for v in model.graph.output)
        raise InputError(
            "a YOEO network has the outputs Detections, float [1, boxes, 5 + classes], and "
            f"Segmentations, integers [1, height, width]; '{path}' has {shown}: export it with "
            "yoeo-to-onnx"
        )
    return YoeoInfo(detections=detections, segmentation=segmentation)


def _named(model: onnx.ModelProto, name: str, *types: int) -> str:
    """The output of a name, else the only one with three axes and one of these types; else ""."""
    values = model.graph.output
    if any(value.name == name for value in values):
        return name
    alike = [
        value.name
        for value in values
        if value.type.tensor_type.elem_type in types and len(_shape(value)) == 3
    ]
    return alike[0] if len(alike) == 1 else ""


def _names(
    metadata: Mapping[str, Any] | None,
    outputs: Mapping[str, Shape],
    info: YoeoInfo,
    path: Path,
) -> ClassNames:
    """The file's own names, or class0, class1, ... where it has none."""
    if metadata is not None:
        return ClassNames(metadata["detection"], metadata["segmentation"])
    boxes = _classes(outputs, info, None)
    if boxes is None or info.segmentation:
        missing = "detection and segmentation" if info.detections else "segmentation"
        raise InputError(
            f"names of the {missing} classes are needed, and '{path}' has none: give a YAML file "
            "of them by --names"
        )
    return ClassNames(tuple(f"class{index}" for index in range(boxes)), ())


def _check_names(
    names: ClassNames,
    metadata: Mapping[str, Any] | None,
    outputs: Mapping[str, Shape],
    info: YoeoInfo,
    path: Path,
) -> None:
    """Raise InputError where there is not one name for each class, as far as that is known."""
    for kind, given, classes in (
        ("detection", names.detection, _classes(outputs, info, metadata)),
        (
            "segmentation",
            names.segmentation,
            (len(metadata["segmentation"]) if metadata else None) if info.segmentation else 0,
        ),
    ):
        if classes is not None and len(given) != classes:
            raise InputError(
                f"{classes} names are needed under '{kind}', one for each class of '{path}', "
                f"found {len(given)} ({', '.join(given) or 'none'})"
            )
        if classes is None and not given:
            raise InputError(f"names are needed under '{kind}', one for each class of '{path}'")


def _classes(
    outputs: Mapping[str, Shape], info: YoeoInfo, metadata: Mapping[str, Any] | None
) -> int | None:
    """Number of classes of the boxes; None where it is not known."""
    if info.heads:
        channels = outputs[info.heads[0].output][1:2]
        anchors = len(info.heads[0].anchors)
        return None if not channels or channels[0] is None else channels[0] // anchors - 5
    if not info.detections:
        return 0
    last = outputs[info.detections][-1:]
    if last and last[0] is not None:
        return last[0] - 5
    return len(metadata["detection"]) if metadata else None


def _size(model: onnx.ModelProto, size: tuple[int, int] | None, path: Path) -> tuple[int, int]:
    """Height and width of the input."""
    shape = _shape(_input(model.graph))
    height, width = shape[2], shape[3]
    if size is None:
        if height is None or width is None:
            raise InputError(f"'{path}' leaves the size of its input open: say it by --input-size")
        return (height, width)
    if height not in (None, size[0]) or width not in (None, size[1]):
        raise InputError(
            f"'{path}' is made for images of {height}x{width}, and not for {size[0]}x{size[1]}: "
            "its grids are constants; export it again with yoeo-to-onnx --input-size"
        )
    return size


def _input(graph: onnx.GraphProto) -> onnx.ValueInfoProto:
    """The network's one input. Raises InputError where it is no image."""
    weights = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in weights]
    shape = _shape(inputs[0]) if len(inputs) == 1 else ()
    if len(shape) != 4 or shape[0] not in (1, None) or shape[1] not in (3, None):
        shown = "; ".join(f"{value.name} {_shown(_shape(value))}" for value in inputs)
        raise InputError(
            f"a YOEO network with one input [1, 3, height, width] is needed, found {shown}"
        )
    return inputs[0]


def _shape(value: onnx.ValueInfoProto) -> Shape:
    """Sizes of a value; None for those that the file leaves open."""
    return tuple(
        size.dim_value if size.HasField("dim_value") and size.dim_value > 0 else None
        for size in value.type.tensor_type.shape.dim
    )


def _shown(shape: Shape) -> str:
    return json.dumps(["?" if size is None else size for size in shape]).replace('"', "")
