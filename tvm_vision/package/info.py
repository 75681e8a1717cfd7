"""mod.json: everything about a package that is no weight and no code, as dataclasses."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ..drivers import spelled_out
from ..errors import PackageError
from .class_thresholds import check_class_thresholds, read_class_thresholds
from .container import LIBRARY, PARAMS
from .detection import DetectionInfo
from .fields import REMEDY, Fields, boolean, number, parse_object, shown, text, wrong
from .graph import PlannedGraph
from .pixels import DepthInfo, SegmentationInfo
from .precision import MeasuredPrecision
from .tensors import TensorInfo
from .yoeo import YoeoInfo

FORMAT = "tvm_vision"
FORMAT_VERSION = 4
# Kind -> the part of ModelInfo that says how its outputs are read; "" where none is needed.
KINDS = {
    "network": "",
    "classifier": "",
    "yoeo": "yoeo",
    "yolo": "detection",
    "detr": "detection",
    "ssd": "detection",
    "segmenter": "segmentation",
    "depth": "depth",
}
PARTS = ("yoeo", "detection", "segmentation", "depth")
# Fields that came after others, with what is meant where they are not there.
LATER: dict[str, dict[str, Any]] = {
    "model": {
        "detection": None,
        "segmentation": None,
        "depth": None,
        "cut": [],
        "input_values": {},
        "class_thresholds": {},
    },
    "preprocessing": {"stretch": False, "pad_value": 0.0, "pad_corner": False},
    "tensor": {"quantization": None},
    "kernel": {"operations": None, "matrices": None},
    "package": {"processor": []},
    "variant": {"processor": []},
}
PRECISIONS = ("fp32", "fp16")
COLOR_ORDERS = ("rgb", "bgr", "gray")
INTERPOLATIONS = ("area", "cubic", "linear", "nearest")
# The first field of a mod.json, in the order in which they are written.
_CHECKSUM = re.compile(rb'\{"checksum": "([0-9a-f]{64})", ')
# How a network was compiled, by name, see ``CompileOptions``.
Option = bool | int | str


def _size(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 65536:
        wrong(where, "a whole number of pixels from 1 to 65536", value)
    return value


def _values(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(map(_is_numeric, value.values())):
        wrong(where, "an object of numbers, or lists of them, by name", value)
    return value


def _is_numeric(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_numeric, value))
    return isinstance(value, (bool, int, float))


def read_names(value: Any, where: str) -> tuple[str, ...]:
    """A list of texts out of JSON."""
    if not isinstance(value, list):
        wrong(where, "a list of names", value)
    return tuple(text(item, f"{where}[{index}]") for index, item in enumerate(value))


def _sha256(value: Any, where: str) -> str:
    if not isinstance(value, str) or not re.fullmatch("[0-9a-f]{64}", value):
        wrong(where, "a SHA-256 of 64 hexadecimal digits", value)
    return value


@dataclass(frozen=True)
class Preprocessing:
    """From an image to the network's input, as numbers.

    size: height and width of the tensor, in pixels; (0, 0) becomes that of the network's first
        input when a package is written.
    letterbox: pad to the tensor's aspect first, centred, with zeros, instead of cropping.
    stretch: resize to the tensor's size whatever the image's aspect is, instead of both.
    crop: side of the centre crop, as a share of the largest crop of that aspect that fits.
    interpolation: "area", "cubic", "linear" or "nearest".
    color_order: order of the tensor's channels, "rgb" or "bgr"; "gray" for its only one, the luma
        of ITU-R BT.601, 0.299 R + 0.587 G + 0.114 B, as OpenCV and Pillow have it.
    mean, std: for each channel, three or one; value = (pixel - mean) / std, pixel in 0..255.
    pad_value, pad_corner: of a letterbox: what its border is filled with, a grey of 0..255, and
        whether the image lies in the upper left corner instead of the middle.
    """

    size: tuple[int, int] = (0, 0)
    letterbox: bool = False
    crop: float = 1.0
    interpolation: str = "area"
    color_order: str = "rgb"
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)
    stretch: bool = False
    pad_value: float = 0.0
    pad_corner: bool = False

    @property
    def channels(self) -> int:
        """Of the tensor."""
        return 1 if self.color_order == "gray" else 3

    def in_gray(self) -> Preprocessing:
        """The same for a tensor of one channel, with the average of the channels' numbers."""
        mean, std = ((sum(values) / len(values),) for values in (self.mean, self.std))
        return replace(self, color_order="gray", mean=mean, std=std)

    @classmethod
    def from_json(cls, value: Any, where: str = "model.preprocessing") -> Preprocessing:
        fields = Fields(value, where)
        height, width = fields.items("size", _size, count=2)
        color_order = fields.text("color_order", among=COLOR_ORDERS)
        channels = 1 if color_order == "gray" else 3
        result = cls(
            size=(height, width),
            letterbox=fields.boolean("letterbox"),
            crop=fields.number("crop"),
            interpolation=fields.text("interpolation", among=INTERPOLATIONS),
            color_order=color_order,
            mean=fields.items("mean", number, count=channels),
            std=fields.items("std", number, count=channels),
            # Packages from before these were there have none of them.
            stretch=fields.optional("stretch", boolean) or False,
            pad_value=fields.optional("pad_value", number) or 0.0,
            pad_corner=fields.optional("pad_corner", boolean) or False,
        )
        if not 0.0 < result.crop <= 1.0:
            wrong(fields.path("crop"), "above 0 and up to 1", result.crop)
        if min(result.std) <= 0.0:
            wrong(fields.path("std"), "positive", result.std)
        if result.stretch and (result.letterbox or result.crop != 1.0):
            wrong(fields.path("stretch"), "without letterbox and crop", True)
        if not 0.0 <= result.pad_value <= 255.0:
            wrong(fields.path("pad_value"), "a grey from 0 to 255", result.pad_value)
        fields.done()
        return result


@dataclass(frozen=True)
class ModelInfo:
    """What the network is for.

    kind: one of KINDS. labels: one a class, or none. yoeo, detection, segmentation, depth: how its
    outputs are read, of which a kind has the one that it needs, or none, and is not run as such.
    cut: of a model that was cut, its outputs that the package has not: a caller makes them of those
    that it has. input_values: of inputs of the model that are constants here, name -> number, bool,
    or lists of them. class_thresholds: of networks with boxes, name of a class -> the confidence in
    0..1 above which its boxes count where nothing else is asked for; the general one for others.
    """

    name: str
    kind: str = "network"
    labels: tuple[str, ...] = ()
    preprocessing: Preprocessing | None = None
    yoeo: YoeoInfo | None = None
    detection: DetectionInfo | None = None
    segmentation: SegmentationInfo | None = None
    depth: DepthInfo | None = None
    cut: tuple[str, ...] = ()
    input_values: dict[str, Any] = field(default_factory=dict)
    class_thresholds: dict[str, float] = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: Any, where: str = "model") -> ModelInfo:
        fields = Fields(value, where)
        preprocessing = fields.take("preprocessing")
        info = cls(
            name=fields.text("name"),
            kind=fields.text("kind", among=KINDS),
            labels=fields.items("labels", lambda item, at: text(item, at, empty=True)),
            preprocessing=None
            if preprocessing is None
            else Preprocessing.from_json(preprocessing, fields.path("preprocessing")),
            yoeo=fields.optional("yoeo", YoeoInfo.from_json),
            detection=fields.optional("detection", DetectionInfo.from_json),
            segmentation=fields.optional("segmentation", SegmentationInfo.from_json),
            depth=fields.optional("depth", DepthInfo.from_json),
            cut=fields.optional("cut", read_names) or (),
            input_values=fields.optional("input_values", _values) or {},
            class_thresholds=fields.optional("class_thresholds", read_class_thresholds) or {},
        )
        for part in PARTS:
            if getattr(info, part) is None:
                continue
            if KINDS[info.kind] != part or info.preprocessing is None:
                fitting = " or ".join(kind for kind, needed in KINDS.items() if needed == part)
                needed = f"in networks of kind {fitting} with preprocessing"
                wrong(fields.path(part), needed, info.kind)
        fields.done()
        return info

    @property
    def produces(self) -> tuple[str, ...]:
        """What its results have: detections, with masks, keypoints and oriented boxes;
        segmentation, classification, depth. Empty for a network that looks at no frames."""
        yoeo, boxes = self.yoeo, self.detection
        there = {
            "classification": self.kind == "classifier",
            "detections": boxes or (yoeo and (yoeo.detections or yoeo.heads)),
            "masks": boxes and boxes.prototypes,
            "keypoints": boxes and boxes.keypoints,
            "oriented": boxes and boxes.oriented,
            "segmentation": self.segmentation or (yoeo and yoeo.segmentation),
            "depth": self.depth,
        }
        return tuple(name for name, found in there.items() if found)

    def check(self, outputs: Sequence[TensorInfo]) -> None:
        """Raise PackageError unless what is said about the outputs fits them."""
        had = [tensor.name for tensor in outputs if tensor.name in self.cut]
        if had:
            wrong("model.cut", "names of what the package does not give", had[0])
        if self.class_thresholds:
            check_class_thresholds(self.class_thresholds, self.kind, self.labels)
        if self.preprocessing is None:
            return
        size = self.preprocessing.size
        if self.yoeo is not None:
            self.yoeo.check(self.labels, size, {t.name: t.shape for t in outputs}.get)
        if self.detection is not None:
            self.detection.check(self.labels, size, outputs)
        if self.segmentation is not None:
            self.segmentation.check(self.labels, outputs)
        if self.depth is not None:
            self.depth.check(outputs)


@dataclass(frozen=True)
class PackageDevice:
    """The device that the kernels were built for."""

    name: str
    driver: str

    @classmethod
    def from_json(cls, value: Any, where: str = "device") -> PackageDevice:
        fields = Fields(value, where)
        driver = spelled_out(fields.text("driver", empty=True))
        info = cls(name=fields.text("name"), driver=driver)
        fields.done()
        return info


@dataclass(frozen=True)
class MemoryUse:
    """Device memory in bytes: constants, planned activations, and the largest sum of both."""

    weights: int
    activations: int
    peak: int

    @classmethod
    def from_json(cls, value: Any, where: str = "memory") -> MemoryUse:
        fields = Fields(value, where)
        use = cls(*(fields.integer(name) for name in ("weights", "activations", "peak")))
        fields.done()
        return use


@dataclass(frozen=True)
class PackageInfo:
    """The whole of mod.json, in the order in which it is written.

    precision: what is stored; options: all that decided how it was compiled, that too. processor:
    what mod.so needs beyond what every processor of its kind has, as /proc/cpuinfo names it.
    """

    model: ModelInfo
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    graph: PlannedGraph
    target: dict[str, Any]
    device: PackageDevice | None
    versions: dict[str, str]
    precision: str
    options: dict[str, Option]
    memory: MemoryUse
    members: dict[str, str]
    records: str | None = None
    measured_precision: MeasuredPrecision | None = None
    processor: tuple[str, ...] = ()
    format: str = field(default=FORMAT, init=False)
    format_version: int = field(default=FORMAT_VERSION, init=False)

    @property
    def device_kind(self) -> str:
        """ "vulkan" or "cpu": where the kernels run."""
        return "vulkan" if self.target.get("kind") == "vulkan" else "cpu"

    @classmethod
    def from_bytes(cls, data: bytes, *, edited: bool = False) -> PackageInfo:
        """Read and check mod.json, its checksum too unless it is known to be edited.

        Raises PackageError saying what was needed and found.
        """
        if not edited:
            check_written(data)
        return cls.from_json(parse_object(data))

    @classmethod
    def from_json(cls, value: Any) -> PackageInfo:
        """The same from parsed JSON; format and version first, for the rest depends on them.

        A "checksum" may be there and is left to ``check_written``.
        """
        fields = Fields(value, "")
        _check_version(fields)
        fields.optional("checksum", _sha256)
        device = fields.take("device")
        records = fields.take("records")
        measured = fields.take("measured_precision")
        info = cls(
            model=ModelInfo.from_json(fields.take("model")),
            inputs=_tensors(fields, "inputs"),
            outputs=_tensors(fields, "outputs"),
            graph=PlannedGraph.from_json(fields.take("graph")),
            target=read_target(fields.take("target")),
            device=None if device is None else PackageDevice.from_json(device),
            versions=fields.mapping("versions", text),
            precision=fields.text("precision", among=PRECISIONS),
            options=fields.mapping("options", read_option),
            memory=MemoryUse.from_json(fields.take("memory")),
            members=fields.mapping("members", _sha256),
            records=None if records is None else text(records, "records"),
            measured_precision=None
            if measured is None
            else MeasuredPrecision.from_json(measured, "measured_precision"),
            processor=fields.optional("processor", read_names) or (),
        )
        if set(info.members) != {LIBRARY, PARAMS}:
            wrong("members", f"the checksums of {LIBRARY} and {PARAMS}", sorted(info.members))
        fields.done()
        if info.measured_precision is not None and info.precision != "fp16":
            wrong("measured_precision", "in packages of precision fp16", info.precision)
        info.graph.check(info.inputs, info.outputs)
        info.model.check(info.outputs)
        return info

    @property
    def checksum(self) -> str:
        """SHA-256 of the canonical text of everything else in mod.json."""
        return hashlib.sha256(canonical(self._document())).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """The same as plain JSON values, with the checksum; ``from_json`` gives it back."""
        return {**self._document(), "checksum": self.checksum}

    def _document(self) -> dict[str, Any]:
        document: dict[str, Any] = plain(asdict(self))
        leave_out(document, LATER["package"])
        model = document["model"]
        leave_out(model, LATER["model"])
        if model["preprocessing"] is not None:
            leave_out(model["preprocessing"], LATER["preprocessing"])
        for tensor in (*document["inputs"], *document["outputs"]):
            leave_out(tensor, LATER["tensor"])
        for kernel in document["graph"]["kernels"]:
            leave_out(kernel, LATER["kernel"])
        return document

    def to_bytes(self) -> bytes:
        """The text of mod.json, the same for the same content."""
        return canonical(self.to_json()) + b"\n"


def check_written(text: bytes) -> None:
    """Raise PackageError unless a mod.json is to the byte as it was written, by its checksum.

    It is asked of the text, before anything is made of it: who reads it in another way, or in
    another language, refuses the same.
    """
    changed = (
        "it was changed or damaged; compile the model again, or, where it was edited on purpose, "
        "use 'tvm-vision package repack'"
    )
    begin = _CHECKSUM.match(text)
    if begin is None:
        raise PackageError(f"mod.json must begin with its checksum, and does not: {changed}")
    found = begin[1].decode()
    needed = hashlib.sha256(b"{" + text[begin.end() :].rstrip(b"\n")).hexdigest()
    if found != needed:
        raise PackageError(
            f"mod.json must have the checksum {needed[:12]}..., found {found[:12]}...: {changed}"
        )


def canonical(document: dict[str, Any]) -> bytes:
    """The text of a mod.json, the same for the same content."""
    document_text = json.dumps(document, sort_keys=True, ensure_ascii=False, allow_nan=False)
    try:
        return document_text.encode("utf-8")
    except UnicodeEncodeError:
        raise PackageError(f"mod.json: a text in it is no Unicode: {REMEDY}") from None


def leave_out(fields: dict[str, Any], usual: dict[str, Any]) -> None:
    """Drop the fields that say what is usual: packages that need none of them are the same for
    readers that do not know them."""
    for name, value in usual.items():
        if fields[name] == value:
            del fields[name]


def plain(value: Any) -> Any:
    """Tuples as lists, all the way down: what JSON gives back."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _check_version(fields: Fields) -> None:
    found = fields.take("format")
    if found != FORMAT:
        wrong("format", f"'{FORMAT}'", found)
    version = fields.take("format_version")
    if version != FORMAT_VERSION or isinstance(version, bool):
        raise PackageError(
            f"mod.json: this tvm_vision reads packages of format version {FORMAT_VERSION}, found "
            f"{shown(version)}: compile the model again, or install the tvm_vision that made it"
        )


def read_option(value: Any, where: str) -> Option:
    """How a network was compiled: one of ``options``."""
    if not isinstance(value, (bool, int, str)):
        wrong(where, "a text, a number or true or false", value)
    return value


def _tensors(fields: Fields, name: str) -> tuple[TensorInfo, ...]:
    tensors = fields.items(name, TensorInfo.from_json)
    names = [tensor.name for tensor in tensors]
    if len(set(names)) < len(names):
        wrong(name, "tensors of different names", names)
    return tensors


def read_target(value: Any) -> dict[str, Any]:
    """TVM's target as an object."""
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
        wrong("target", "an object with a kind", value)
    return value
