"""What a package says about any network: from its signature, its file's metadata and options."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from ..error_lines import manifest_reason
from ..errors import InputError, PackageError
from ..models.classifier.presets import preset
from ..models.kinds.facts import Facts, Reading, Spec
from ..models.kinds.preparation import STRETCHED
from ..models.kinds.recognise import KINDS, Recognised, read_as, recognise
from ..package import ModelInfo, Preprocessing
from ..package.info import plain
from ..plain_files import stem_of
from .classifier.metadata import read_metadata
from .file_facts import file_facts, onnx_metadata, onnx_model
from .yoeo.describe import is_yoeo, yoeo_model_info

# The part of ModelInfo that says how outputs are read.
PARTS = ("detection", "segmentation", "depth")


@dataclass(frozen=True)
class Wishes:
    """What is asked for, instead of what is found. name, kind: "" for what is found. labels,
    preprocess: None likewise; preprocess is a name or file as ``preset`` takes it. options: fields
    of the part of mod.json that says how outputs are read, as texts.
    """

    name: str = ""
    kind: str = ""
    labels: tuple[str, ...] | None = None
    preprocess: str | None = None
    options: Mapping[str, str] | None = None


def describe(
    model: Any,
    inputs: Sequence[Spec],
    outputs: Sequence[Spec],
    wishes: Wishes,
) -> tuple[ModelInfo, tuple[str, ...]]:
    """What a package is to say, and the kinds that a network may be of whose kind is not clear.

    model: a file, or what is none, of which nothing more is known.

    Raises InputError where it is not of the kind that is asked for, or a wish cannot be.
    """
    path = Path(model) if isinstance(model, (str, os.PathLike)) else None
    name = wishes.name or (stem_of(path) if path else "") or "network"
    if path is not None and not wishes.kind and is_yoeo(path):
        with suppress(InputError):  # of grey images, say, which no detector takes
            return yoeo_model_info(path, name=name, size=_sides(inputs)), ()
    written = None if path is None or wishes.kind == "network" else read_metadata(path)
    facts = file_facts(path, inputs, outputs, wishes.labels or ())
    if wishes.kind in ("network", "classifier") or written is not None:
        return _plain(name, written, wishes, facts), ()
    if wishes.kind:
        found = Recognised(read_as(wishes.kind, facts))
    else:
        found = recognise(facts)
    if found.reading is None:
        return _plain(name, None, wishes, facts), found.candidates
    return _read(name, found.reading, wishes, facts), ()


def kind_line(info: ModelInfo, candidates: Sequence[str] = ()) -> str:
    """In a line, the kind of a network and what its package says of it."""
    words = [f"kind: {info.kind}"]
    if candidates:
        words[0] += f" (it may be a {' or '.join(candidates)}: --kind says which)"
    if info.labels:
        words.append(f"{len(info.labels)} classes")
    if info.yoeo is not None and info.yoeo.segmentation:
        words.append(f"a mask of {len(info.yoeo.segmentation_labels)}")
    if (detection := info.detection) is not None:
        parts = [
            f"{detection.keypoints} keypoints" if detection.keypoints else "",
            "masks" if detection.prototypes else "",
            "oriented" if detection.oriented else "",
            "" if detection.suppress else "suppressed within",
            f"anchors {','.join(f'{side:g}' for side in detection.anchors)}"
            if detection.anchors
            else "",
        ]
        said = ", ".join(filter(None, parts))
        words.append(f"boxes in {' '.join(detection.boxes)}{f' ({said})' if said else ''}")
    for part in (info.segmentation, info.depth):
        if part is not None:
            words.append(f"in {part.output}")
    if (made := info.preprocessing) is not None:
        how = "stretched" if made.stretch else "letterbox" if made.letterbox else "cropped"
        words.append(f"images {how}, {made.color_order}")
    elif info.kind == "classifier":
        words.append("no images before --preprocess says how they are prepared")
    return ", ".join(words)


def open_shapes(model: Any) -> dict[str, tuple[int, ...]]:
    """Shapes for inputs that an ONNX file leaves open, where it says for which images it was made,
    as Ultralytics' files do; empty where it does not."""
    if not isinstance(model, (str, os.PathLike)) or (found := onnx_model(Path(model))) is None:
        return {}
    said = Facts((), (), metadata=onnx_metadata(found))
    size = said.literal("imgsz")
    weights = {tensor.name for tensor in found.graph.initializer}
    inputs = [value for value in found.graph.input if value.name not in weights]
    if not (isinstance(size, list) and len(size) == 2 and len(inputs) == 1):
        return {}
    sides = inputs[0].type.tensor_type.shape.dim
    is_open = len(sides) == 4 and not all(side.dim_value > 0 for side in sides)
    if not is_open or not all(type(side) is int and side > 0 for side in size):
        return {}
    channels = sides[1].dim_value or (1 if said.literal("channels") == 1 else 3)
    return {inputs[0].name: (1, channels, *size)}


def _plain(
    name: str,
    written: tuple[Preprocessing, tuple[str, ...]] | None,
    wishes: Wishes,
    facts: Facts,
) -> ModelInfo:
    """A classifier, or a network of which no more is known; what a file of classifier-to-onnx says
    about itself counts where nothing else is asked for, or what another says of its pixels and
    classes."""
    if wishes.options:
        raise InputError(
            f"--kind-option is for networks of kind {', '.join(KINDS)}: say the kind, too"
        )
    kind = wishes.kind or ("classifier" if written else "network")
    preparation, labels = written or (None, ())
    if written is None and wishes.kind != "network" and facts.pixels and facts.size:
        preparation = facts.prepared(STRETCHED)
    if kind == "classifier" and not labels and len(facts.written) in facts.outputs[0].shape[-1:]:
        labels = facts.written
    return ModelInfo(
        name=name,
        kind=kind,
        labels=labels if wishes.labels is None else wishes.labels,
        preprocessing=preparation if wishes.preprocess is None else preset(wishes.preprocess),
    )


def _read(name: str, reading: Reading, wishes: Wishes, facts: Facts) -> ModelInfo:
    info = ModelInfo(
        name=name,
        kind=reading.kind,
        labels=reading.labels,
        preprocessing=_prepared(reading.kind, facts.prepared(reading.preprocessing), wishes),
        detection=reading.detection,
        segmentation=reading.segmentation,
        depth=reading.depth,
    )
    if not wishes.options:
        return info
    for part in PARTS:
        if (found := getattr(info, part)) is not None:
            return replace(info, **{part: with_options(found, wishes.options)})
    raise InputError(f"a network of kind {info.kind} has no --kind-option")


def _prepared(kind: str, usual: Preprocessing, wishes: Wishes) -> Preprocessing:
    """As the file or the family has it, with mean and deviation of a preset by name; what a file
    that is asked for says counts over all of it."""
    wanted = wishes.preprocess
    if wanted is None:
        return usual
    found = preset(wanted, usual=usual)
    if kind == "classifier" or wanted.endswith(".json"):
        return found
    return replace(usual, mean=found.mean, std=found.std, color_order=found.color_order)


def with_options(info: Any, options: Mapping[str, str]) -> Any:
    """A part of mod.json with some of its fields changed; their values as texts, lists with commas.

    Raises InputError for a field that is not there, or a value that it cannot have.
    """
    known = {field.name: getattr(info, field.name) for field in fields(info)}
    changed: dict[str, Any] = {}
    for name, text in options.items():
        if name not in known:
            raise InputError(
                f"--kind-option {name}: one of {', '.join(known)} is needed: see mod.json in the "
                "documentation"
            )
        try:
            changed[name] = _value(text, known[name])
        except ValueError:
            needed = type(known[name]).__name__
            raise InputError(
                f"--kind-option {name}: a value as {known[name]!r} ({needed}) is needed, found "
                f"'{text}'"
            ) from None
    made = replace(info, **changed)
    # Checked as when it is read; that it fits the network is checked when the package is written.
    try:
        return type(info).from_json(plain(asdict(made)), "--kind-option")
    except PackageError as error:
        raise InputError(f"{manifest_reason(error)}: choose another value") from None


def _value(text: str, like: Any) -> Any:
    """A text as a value of the type of another. Raises ValueError."""
    if isinstance(like, bool):
        return ("off", "on").index({"false": "off", "true": "on"}.get(text, text)) == 1
    if isinstance(like, tuple):
        items = [item for item in text.split(",") if item]
        if like and all(isinstance(item, float) for item in like):
            return tuple(map(float, items))
        return tuple(int(item) if item.isdigit() else item for item in items)
    return type(like)(text)


def _sides(inputs: Sequence[Spec]) -> tuple[int, int] | None:
    """Height and width of the image that a network takes."""
    shape = inputs[0].shape if len(inputs) == 1 else ()
    return (shape[2], shape[3]) if len(shape) == 4 else None
