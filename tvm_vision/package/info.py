"""mod.json: everything about a package that is no weight and no code, as dataclasses."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field
from typing import Any

from ..drivers import spelled_out
from ..errors import PackageError
from .container import LIBRARY, PARAMS
from .fields import REMEDY, Fields, number, parse_object, shown, text, wrong
from .graph import PlannedGraph
from .precision import MeasuredPrecision
from .tensors import TensorInfo
from .yoeo import YoeoInfo

FORMAT = "tvm_vision"
FORMAT_VERSION = 4
KINDS = ("network", "classifier", "yoeo")
PRECISIONS = ("fp32", "fp16")
COLOR_ORDERS = ("rgb", "bgr")
INTERPOLATIONS = ("area", "cubic", "linear", "nearest")
# How a network was compiled, by name, see ``CompileOptions``.
Option = bool | int | str


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
    """From an image to the network's input, as numbers.

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

    labels: one a class, or none. yoeo: for networks of that kind, which are not run without it.
    """

    name: str
    kind: str = "network"
    labels: tuple[str, ...] = ()
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
            preprocessing=None
            if preprocessing is None
            else Preprocessing.from_json(preprocessing, fields.path("preprocessing")),
            yoeo=fields.optional("yoeo", YoeoInfo.from_json),
        )
        if info.yoeo is not None and (info.kind != "yoeo" or info.preprocessing is None):
            wrong(fields.path("yoeo"), "in networks of kind yoeo with preprocessing", info.kind)
        fields.done()
        return info


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

    precision: what is stored; options: all that decided how it was compiled, that too.
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
            target=_target(fields.take("target")),
            device=None if device is None else PackageDevice.from_json(device),
            versions=fields.mapping("versions", text),
            precision=fields.text("precision", among=PRECISIONS),
            options=fields.mapping("options", _option),
            memory=MemoryUse.from_json(fields.take("memory")),
            members=fields.mapping("members", _sha256),
            records=None if records is None else text(records, "records"),
            measured_precision=None
            if measured is None
            else MeasuredPrecision.from_json(measured, "measured_precision"),
        )
        if set(info.members) != {LIBRARY, PARAMS}:
            wrong("members", f"the checksums of {LIBRARY} and {PARAMS}", sorted(info.members))
        fields.done()
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
        document: dict[str, Any] = plain(asdict(self))
        return document

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


def _option(value: Any, where: str) -> Option:
    if not isinstance(value, (bool, int, str)):
        wrong(where, "a text, a number or true or false", value)
    return value


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
