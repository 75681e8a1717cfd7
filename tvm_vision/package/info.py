"""mod.json: everything about a package that is no weight and no code, as dataclasses."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field
from typing import Any

from ..errors import PackageError
from .container import LIBRARY, PARAMS
from .fields import REMEDY, Fields, number, parse_object, shown, text, wrong
from .graph import ITEM_BYTES, Graph, read_shape
from .precision import MeasuredPrecision
from .yoeo import YoeoInfo

FORMAT = "tvm_vision"
# Written is the oldest that has what a package uses: 2 brought model.yoeo, 3 measured_precision.
FORMAT_VERSIONS = (1, 2, 3)
KINDS = ("network", "classifier", "yoeo")
LAYOUTS = ("", "NCHW", "NHWC")
PRECISIONS = ("fp32", "fp16")
COLOR_ORDERS = ("rgb", "bgr")
INTERPOLATIONS = ("area", "cubic", "linear", "nearest")
MAX_OPT_LEVEL = 3


def _size(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 65536:
        wrong(where, "a whole number of pixels from 1 to 65536", value)
    return value


def _sha256(value: Any, where: str) -> str:
    if not isinstance(value, str) or not re.fullmatch("[0-9a-f]{64}", value):
        wrong(where, "a SHA-256 of 64 hexadecimal digits", value)
    return value


@dataclass(frozen=True)
class Preprocessing:
    """From a picture to the network's input, as numbers.

    size: height and width of the tensor, in pixels; (0, 0) becomes that of the network's first
        input when a package is written.
    letterbox: pad to the tensor's aspect first, centred, with zeros, instead of cropping.
    crop: side of the centre crop, as a share of the largest crop of that aspect that fits.
    interpolation: "area", "cubic", "linear" or "nearest".
    color_order: order of the tensor's channels, "rgb" or "bgr".
    mean, std: for each channel; value = (pixel - mean) / std, pixel in 0..255.
    """

    size: tuple[int, int] = (0, 0)
    letterbox: bool = False
    crop: float = 1.0
    interpolation: str = "area"
    color_order: str = "rgb"
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)

    @classmethod
    def from_json(cls, value: Any, where: str = "model.preprocessing") -> Preprocessing:
        fields = Fields(value, where)
        height, width = fields.items("size", _size, count=2)
        result = cls(
            size=(height, width),
            letterbox=fields.boolean("letterbox"),
            crop=fields.number("crop"),
            interpolation=fields.text("interpolation", among=INTERPOLATIONS),
            color_order=fields.text("color_order", among=COLOR_ORDERS),
            mean=fields.items("mean", number, count=3),
            std=fields.items("std", number, count=3),
        )
        if not 0.0 < result.crop <= 1.0:
            wrong(fields.path("crop"), "above 0 and up to 1", result.crop)
        if min(result.std) <= 0.0:
            wrong(fields.path("std"), "positive", result.std)
        fields.done()
        return result


@dataclass(frozen=True)
class ModelInfo:
    """What the network is for.

    labels: one a class, or none. anchors: of no use, kept for packages that were written with them.
    yoeo: for networks of that kind, which are not run without it.
    """

    name: str
    kind: str = "network"
    labels: tuple[str, ...] = ()
    anchors: tuple[tuple[float, float], ...] = ()
    preprocessing: Preprocessing | None = None
    yoeo: YoeoInfo | None = None

    @classmethod
    def from_json(cls, value: Any, where: str = "model") -> ModelInfo:
        fields = Fields(value, where)
        preprocessing = fields.take("preprocessing")
        info = cls(
            name=fields.text("name"),
            kind=fields.text("kind", among=KINDS),
            labels=fields.items("labels", lambda item, at: text(item, at, empty=True)),
            anchors=fields.items("anchors", _anchor),
            preprocessing=None
            if preprocessing is None
            else Preprocessing.from_json(preprocessing, fields.path("preprocessing")),
            yoeo=fields.optional("yoeo", YoeoInfo.from_json),
        )
        if info.yoeo is not None and (info.kind != "yoeo" or info.preprocessing is None):
            wrong(fields.path("yoeo"), "in networks of kind yoeo with preprocessing", info.kind)
        fields.done()
        return info


def _anchor(value: Any, where: str) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2:
        wrong(where, "a width and a height", value)
    width, height = (number(item, where) for item in value)
    return (width, height)


@dataclass(frozen=True)
class TensorInfo:
    """One input or output. layout: "NCHW" for pictures, else ""; units: words for people."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    layout: str = ""
    units: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"

    @classmethod
    def from_json(cls, value: Any, where: str) -> TensorInfo:
        fields = Fields(value, where)
        info = cls(
            name=fields.text("name"),
            shape=read_shape(fields.take("shape"), fields.path("shape")),
            dtype=fields.text("dtype", among=ITEM_BYTES),
            layout=fields.text("layout", among=LAYOUTS),
            units=fields.text("units", empty=True),
        )
        if info.layout and len(info.shape) != len(info.layout):
            wrong(fields.path("layout"), f"one for {len(info.shape)} axes", info.layout)
        fields.done()
        return info


@dataclass(frozen=True)
class DeviceInfo:
    """The device that the kernels were built for."""

    name: str
    driver: str

    @classmethod
    def from_json(cls, value: Any, where: str = "device") -> DeviceInfo:
        fields = Fields(value, where)
        info = cls(name=fields.text("name"), driver=fields.text("driver", empty=True))
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
    """The whole of mod.json, in the order in which it is written."""

    model: ModelInfo
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    graph: Graph
    target: dict[str, Any]
    device: DeviceInfo | None
    versions: dict[str, str]
    precision: str
    opt_level: int
    memory: MemoryUse
    members: dict[str, str]
    records: str | None = None
    measured_precision: MeasuredPrecision | None = None
    format: str = field(default=FORMAT, init=False)

    @property
    def format_version(self) -> int:
        """The oldest version of the format that has all that this package uses."""
        if self.measured_precision is not None:
            return 3
        return 1 if self.model.yoeo is None else 2

    @property
    def device_kind(self) -> str:
        """ "vulkan" or "cpu": where the kernels run."""
        return "vulkan" if self.target.get("kind") == "vulkan" else "cpu"

    @classmethod
    def from_bytes(cls, data: bytes, *, edited: bool = False) -> PackageInfo:
        """Read and check mod.json, its checksum too unless it is known to be edited.

        Raises PackageError saying what was needed and found.
        """
        value = parse_object(data)
        info = cls.from_json(value)
        found = value.get("checksum")
        if not edited and found != info.checksum:
            raise PackageError(
                f"mod.json must have the checksum {info.checksum[:12]}..., found "
                f"{str(found)[:12]}...: it was changed or damaged; compile the model again, or, "
                "where it was edited on purpose, use 'tvm-vision package repack'"
            )
        return info

    @classmethod
    def from_json(cls, value: Any) -> PackageInfo:
        """The same from parsed JSON; format and version first, for the rest depends on them.

        A "checksum" may be there and is left to ``from_bytes``.
        """
        fields = Fields(value, "")
        version = _version(fields)
        fields.optional("checksum", _sha256)
        device = fields.take("device")
        records = fields.take("records")
        info = cls(
            model=ModelInfo.from_json(fields.take("model")),
            inputs=_tensors(fields, "inputs"),
            outputs=_tensors(fields, "outputs"),
            graph=Graph.from_json(fields.take("graph")),
            target=_target(fields.take("target")),
            device=None if device is None else DeviceInfo.from_json(device),
            versions=fields.mapping("versions", text),
            precision=fields.text("precision", among=PRECISIONS),
            opt_level=fields.integer("opt_level", 0, MAX_OPT_LEVEL),
            memory=MemoryUse.from_json(fields.take("memory")),
            members=fields.mapping("members", _sha256),
            records=None if records is None else text(records, "records"),
            measured_precision=fields.optional("measured_precision", MeasuredPrecision.from_json),
        )
        if set(info.members) != {LIBRARY, PARAMS}:
            wrong("members", f"the checksums of {LIBRARY} and {PARAMS}", sorted(info.members))
        fields.done()
        if version != info.format_version:
            wrong("format_version", f"{info.format_version} for what is in it", version)
        if info.measured_precision is not None and info.precision != "fp16":
            wrong("measured_precision", "in packages of precision fp16", info.precision)
        info.graph.check(info.inputs, info.outputs)
        info.check_yoeo()
        return info

    def check_yoeo(self) -> None:
        """Raise PackageError unless what is said about a YOEO network fits its outputs."""
        if self.model.yoeo is None:
            return
        assert self.model.preprocessing is not None
        shapes = {tensor.name: tensor.shape for tensor in self.outputs}
        self.model.yoeo.check(self.model.labels, self.model.preprocessing.size, shapes.get)

    @property
    def checksum(self) -> str:
        """SHA-256 of the canonical text of everything else in mod.json."""
        return hashlib.sha256(_canonical(self._document())).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """The same as plain JSON values, with the checksum; ``from_json`` gives it back."""
        return {**self._document(), "checksum": self.checksum}

    def _document(self) -> dict[str, Any]:
        document = plain(asdict(self))
        if self.model.yoeo is None:
            del document["model"]["yoeo"]
        if self.measured_precision is None:
            del document["measured_precision"]
        return {**document, "format_version": self.format_version}

    def to_bytes(self) -> bytes:
        """The text of mod.json, the same for the same content."""
        return _canonical(self.to_json()) + b"\n"


def _canonical(document: dict[str, Any]) -> bytes:
    document_text = json.dumps(document, sort_keys=True, ensure_ascii=False, allow_nan=False)
    try:
        return document_text.encode("utf-8")
    except UnicodeEncodeError:
        raise PackageError(f"mod.json: a text in it is no Unicode: {REMEDY}") from None


def plain(value: Any) -> Any:
    """Tuples as lists, all the way down: what JSON gives back."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _version(fields: Fields) -> int:
    found = fields.take("format")
    if found != FORMAT:
        wrong("format", f"'{FORMAT}'", found)
    version = fields.take("format_version")
    if version not in FORMAT_VERSIONS or isinstance(version, bool):
        raise PackageError(
            "mod.json: this tvm_vision reads packages of format version "
            f"{FORMAT_VERSIONS[0]} to {FORMAT_VERSIONS[-1]}, found "
            f"{shown(version)}: compile the model again, or install the tvm_vision that made it"
        )
    return version


def _tensors(fields: Fields, name: str) -> tuple[TensorInfo, ...]:
    tensors = fields.items(name, TensorInfo.from_json)
    names = [tensor.name for tensor in tensors]
    if len(set(names)) < len(names):
        wrong(name, "tensors of different names", names)
    return tensors


def _target(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
        wrong("target", "an object with a kind", value)
    return value
