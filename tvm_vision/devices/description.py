"""A device as a small JSON file: all that the compiler asks of one, read back strictly."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..drivers import driver_of
from ..errors import InputError
from ..file_kinds import DEVICE, INFO, JSON, TEXT, need
from ..hosts import HOSTS, host_config
from ..package.fields import Fields, integer, naming, parse_object, text, wrong
from ..plain_files import read_plain
from ..target_keys import is_key, number_key, numbers_in
from ..whole_files import write_whole
from .measured import Measured

if TYPE_CHECKING:
    from ..vulkan import DeviceInfo

FORMAT = "tvm_vision device"
FORMAT_VERSION = 1
MOST_BYTES = 1 << 20
REMEDY = "write it again with 'tvm-vision devices --export'"
# Where the numbers are from: the device's own driver, which was asked, or what is published of it.
DRIVER, PUBLISHED = "driver", "published"
ORIGINS = {DRIVER: "from its driver", PUBLISHED: "from published limits"}
TYPES = ("discrete", "integrated", "virtual", "cpu", "other")
# Attributes of TVM's Vulkan target, as the backend answers them (vulkan/csrc/device_info.cc).
FLAGS = (
    "supports_float16", "supports_float32", "supports_float64", "supports_int8", "supports_int16",
    "supports_int32", "supports_int64", "supports_8bit_buffer", "supports_16bit_buffer",
    "supports_storage_buffer_storage_class", "supports_dedicated_allocation",
    "supports_push_descriptor", "supports_integer_dot_product", "supports_cooperative_matrix",
)  # fmt: skip
# The least that Vulkan allows (or a schedule can do with), and what can be no mistake.
NUMBERS = {
    "max_num_threads": (128, 1 << 16),
    "max_threads_per_block": (128, 1 << 16),
    "thread_warp_size": (1, 128),
    "max_block_size_x": (128, 1 << 31),
    "max_block_size_y": (128, 1 << 31),
    "max_block_size_z": (64, 1 << 31),
    "max_push_constants_size": (128, 1 << 20),
    "max_uniform_buffer_range": (1 << 14, 1 << 40),
    "max_storage_buffer_range": (1 << 27, 1 << 40),
    "max_per_stage_descriptor_storage_buffer": (4, 1 << 32),
    "max_shared_memory_per_block": (1 << 14, 1 << 24),
    "supported_subgroup_operations": (0, (1 << 32) - 1),
    "driver_version": (0, (1 << 32) - 1),
    "vulkan_api_version": (1 << 22 | 2 << 12, (1 << 32) - 1),
    "max_spirv_version": (0x10000, 0x1FFFF),
}
TEXTS = ("device_type", "device_name", "driver_name")
ATTRIBUTES = (*FLAGS, *NUMBERS, *TEXTS)


@dataclass(frozen=True)
class DeviceDescription:
    """What the compiler asks of a Vulkan device.

    Attributes:
        title: for people.
        origin: DRIVER or PUBLISHED.
        source: of the numbers, in words: the driver and its version, or what was read.
        machine: processor of the device's host, as platform.machine() names it; "" for any.
        attributes: of TVM's Vulkan target, all of ATTRIBUTES.
        keys: of that target beside "vulkan" and "gpu", see ``tvm_vision.target_keys``.
        measured: by ``tvm-vision calibrate``; None where it was not.
    """

    title: str
    origin: str
    source: str
    machine: str
    attributes: dict[str, bool | int | str] = field(hash=False)
    keys: tuple[str, ...] = ()
    measured: Measured | None = None

    @property
    def name(self) -> str:
        """Of the device, as its driver has it."""
        return str(self.attributes["device_name"])

    @property
    def driver(self) -> str:
        """Name and version, as packages and records have them."""
        return driver_of(self.attributes)

    @classmethod
    def of(cls, device: DeviceInfo) -> DeviceDescription:
        """The description of a device of this machine."""
        attributes = {name: device.properties[name] for name in ATTRIBUTES}
        return cls.from_json(
            {
                "format": FORMAT,
                "format_version": FORMAT_VERSION,
                "title": device.name,
                "origin": DRIVER,
                "source": " ".join(filter(None, (device.driver_name, device.driver_info))),
                "machine": platform.machine() if platform.machine() in HOSTS else "",
                "attributes": attributes,
                "keys": list(device.target_keys),
            }
        )

    def all_keys(self) -> list[str]:
        """Keys of the device, and of what was measured on it where its driver does not tell."""
        known = numbers_in(self.keys)
        measured = {} if self.measured is None else self.measured.numbers()
        more = [number_key(name, n) for name, n in measured.items() if name not in known]
        return [*self.keys, *more]

    def target_config(self) -> dict[str, Any]:
        """What ``tvm.target.Target`` takes: the device, and a host of its processor."""
        here = self.machine in ("", platform.machine())
        host = {"kind": "llvm"} if here else host_config(self.machine)
        return {
            "kind": "vulkan", "host": host, "keys": ["vulkan", "gpu", *self.all_keys()],
            **self.attributes,
        }  # fmt: skip

    @classmethod
    def from_json(cls, value: Any) -> DeviceDescription:
        """Raises PackageError for anything else than what ``to_json`` gives."""
        fields = Fields(value, "")
        if (found := fields.take("format")) != FORMAT:
            wrong("format", f"'{FORMAT}'", found)
        version = fields.take("format_version")
        if version != FORMAT_VERSION or isinstance(version, bool):
            wrong("format_version", f"{FORMAT_VERSION}, as this tvm_vision reads it", version)
        result = cls(
            title=_line(fields.take("title"), "title"),
            origin=fields.text("origin", among=ORIGINS),
            source=_line(fields.take("source"), "source"),
            machine=fields.text("machine", among=("", *HOSTS)),
            attributes=_attributes(Fields(fields.take("attributes"), "attributes")),
            keys=fields.items("keys", _key),
            measured=fields.optional("measured", Measured.from_json),
        )
        fields.done()
        return result

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        document = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "title": self.title,
            "origin": self.origin,
            "source": self.source,
            "machine": self.machine,
            "attributes": {name: self.attributes[name] for name in sorted(self.attributes)},
            "keys": list(self.keys),
        }
        if self.measured is not None:
            document["measured"] = self.measured.to_json()
        return document

    def to_bytes(self) -> bytes:
        """The text of the file, the same for the same content."""
        return json.dumps(self.to_json(), indent=2, ensure_ascii=False).encode() + b"\n"

    def write(self, path: str | os.PathLike[str]) -> None:
        """Raises InputError where the file cannot be written; it is whole or not there."""
        write_whole(Path(path), self.to_bytes(), InputError)


def read_description(path: str | os.PathLike[str]) -> DeviceDescription:
    """A description from its file. Raises InputError for anything else."""
    need(path, "a description of a device", DEVICE, INFO, JSON, TEXT)
    try:
        with naming(path, REMEDY):
            return DeviceDescription.from_json(parse_object(read_plain(path, MOST_BYTES)))
    except OSError as error:
        raise InputError(f"'{path}' cannot be read ({error.strerror}): check the path") from None


def _attributes(fields: Fields) -> dict[str, bool | int | str]:
    found: dict[str, bool | int | str] = {name: fields.boolean(name) for name in FLAGS}
    for name, (low, high) in NUMBERS.items():
        found[name] = integer(fields.take(name), fields.path(name), low, high)
    for name in TEXTS:
        found[name] = _line(fields.take(name), fields.path(name))
    text(found["device_type"], fields.path("device_type"), among=TYPES)
    lanes = found["thread_warp_size"]
    if lanes & (lanes - 1):  # type: ignore[operator]
        wrong(fields.path("thread_warp_size"), "a power of two", lanes)
    fields.done()
    return found


def _line(value: Any, where: str) -> str:
    """A text of one line, such as goes into messages."""
    found = text(value, where)
    if len(found) > 256 or not found.isprintable():
        wrong(where, "a line of at most 256 characters", value)
    return found


def _key(value: Any, where: str) -> str:
    if not isinstance(value, str) or not is_key(value):
        wrong(where, "a key such as compute_units_8", value)
    return value
