"""A package for several devices: one network, compiled for each, what is the same stored once.

The members are those of every package. mod.json names the variants and says where the members of
each lie: mod.so is one library after the other, mod.params a pool of pieces (a weight with its
header, the mod.json of a variant), each once, whichever variants it is of. Put together again, in
order, the pieces are a variant's own members, checked as those of any package; nothing of the
others is read.
"""

from __future__ import annotations

import hashlib
import itertools
import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from ..errors import PackageError
from .container import Extent, Pieces
from .fields import LARGEST, REMEDY, Fields, integer, shown, wrong
from .info import (
    FORMAT,
    KINDS,
    LATER,
    Option,
    PackageDevice,
    PackageInfo,
    canonical,
    leave_out,
    read_names,
    read_option,
    read_target,
)
from .params import list_params

# Above FORMAT_VERSION: what reads only packages for one device refuses it by its version.
FLEET_VERSION = 100
VARIANTS = "variants"
MOST_VARIANTS = 256


class Source(Protocol):
    """What ``join`` needs of a package (``Package`` has it): its mod.json, mod.params in memory,
    where its mod.so lies, and the processor of that."""

    info: PackageInfo
    params: mmap.mmap
    library_path: Path

    def machine(self) -> str | None: ...


@dataclass(frozen=True)
class Variant:
    """One network for one device, and where it lies.

    name: what it is asked for by. host: the processor of its mod.so, as platform.machine() says it.
    target, device, precision, options, processor: of its own mod.json. info, params: pieces of the
    pool. library: of mod.so.
    """

    name: str
    host: str
    target: dict[str, Any]
    device: PackageDevice | None
    precision: str
    options: dict[str, Option]
    info: Pieces
    params: Pieces
    library: Extent
    processor: tuple[str, ...] = ()

    @property
    def is_vulkan(self) -> bool:
        """Whether its kernels run on a Vulkan device."""
        return self.target.get("kind") == "vulkan"

    def describe(self) -> str:
        """A few words for people: "renoir (AMD Radeon Graphics, x86_64, fp16)"."""
        place = self.device.name if self.device else str(self.target.get("mcpu", "a processor"))
        return f"{self.name} ({place}, {self.host}, {self.precision})"

    @classmethod
    def from_json(cls, value: Any, where: str) -> Variant:
        fields = Fields(value, where)
        device = fields.take("device")
        variant = cls(
            name=fields.text("name"),
            host=fields.text("host"),
            target=read_target(fields.take("target")),
            device=None if device is None else PackageDevice.from_json(device),
            precision=fields.text("precision"),
            options=fields.mapping("options", read_option),
            info=fields.items("info", _extent),
            params=fields.items("params", _extent),
            library=_extent(fields.take("library"), fields.path("library")),
            processor=fields.optional("processor", read_names) or (),
        )
        fields.done()
        return variant

    def to_json(self) -> dict[str, Any]:
        """As mod.json has it."""
        device = self.device
        document = {
            "name": self.name,
            "host": self.host,
            "target": self.target,
            "device": None if device is None else {"name": device.name, "driver": device.driver},
            "precision": self.precision,
            "options": self.options,
            "info": [[piece.offset, piece.size] for piece in self.info],
            "params": [[piece.offset, piece.size] for piece in self.params],
            "library": [self.library.offset, self.library.size],
            "processor": list(self.processor),
        }
        leave_out(document, LATER["variant"])
        return document


@dataclass(frozen=True)
class Fleet:
    """The mod.json of a package for several devices. name, kind: of the network."""

    name: str
    kind: str
    variants: tuple[Variant, ...]

    @classmethod
    def from_document(cls, value: Any) -> Fleet:
        """Of parsed JSON that has VARIANTS. Raises PackageError for what is not as it must be."""
        fields = Fields(value, "")
        if (found := fields.take("format")) != FORMAT:
            wrong("format", f"'{FORMAT}'", found)
        if (version := fields.take("format_version")) != FLEET_VERSION:
            raise PackageError(
                f"mod.json: this tvm_vision reads packages for several devices of format version "
                f"{FLEET_VERSION}, found {shown(version)}: compile the model again, or install the "
                "tvm_vision that made it"
            )
        fields.text("checksum")  # of the text, which who reads it has
        model = Fields(fields.take("model"), "model")
        fleet = cls(
            model.text("name"),
            model.text("kind", among=KINDS),
            fields.items(VARIANTS, Variant.from_json),
        )
        model.done()
        fields.done()
        names = [variant.name for variant in fleet.variants]
        if not names or len(set(names)) < len(names) or len(names) > MOST_VARIANTS:
            wrong(VARIANTS, f"1 to {MOST_VARIANTS} of different names", names)
        return fleet

    @property
    def checksum(self) -> str:
        """SHA-256 of everything else in mod.json."""
        return hashlib.sha256(canonical(self._document())).hexdigest()

    def variant(self, name: str) -> Variant:
        """That of a name. Raises PackageError where there is none."""
        for variant in self.variants:
            if variant.name == name:
                return variant
        named = f"found '{name}'" if name else "found a package for several devices"
        raise PackageError(f"a target of {', '.join(self.names)} is needed, {named}: name it")

    @property
    def names(self) -> tuple[str, ...]:
        """Of the variants, in order."""
        return tuple(variant.name for variant in self.variants)

    def to_bytes(self) -> bytes:
        """The text of mod.json, the same for the same content."""
        return canonical({**self._document(), "checksum": self.checksum}) + b"\n"

    def _document(self) -> dict[str, Any]:
        variants = [variant.to_json() for variant in self.variants]
        return {
            "format": FORMAT,
            "format_version": FLEET_VERSION,
            # Where what asks for the kind of any package looks for it.
            "model": {"name": self.name, "kind": self.kind},
            VARIANTS: variants,
        }


def is_fleet(document: Any) -> bool:
    """Whether a parsed mod.json is that of a package for several devices."""
    return isinstance(document, dict) and VARIANTS in document


def check_inside(pieces: Pieces, size: int, member: str) -> None:
    """Raise PackageError where a piece lies beyond the end of its member."""
    for piece in pieces:
        if piece.offset + piece.size > size:
            raise PackageError(
                f"{member} must have {piece.offset + piece.size} bytes, found {size}: it was "
                f"changed or damaged; {REMEDY}"
            )


def join(packages: Sequence[tuple[str, Source]], params: BinaryIO, library: BinaryIO) -> Fleet:
    """Write mod.params and mod.so for some packages by name; returns the mod.json.

    Raises PackageError where they are not of one network.
    """
    pool, variants = _Pool(params), []
    libraries = _Pool(library)
    first = packages[0][1].info
    for name, package in packages:
        _check_same(first, package.info, packages[0][0], name)
        (lies,) = libraries.store([package.library_path.read_bytes()])
        with memoryview(package.params) as content:
            weights = pool.store([content[start:end] for start, end in _pieces_of(package)])
        variants.append(
            Variant(
                name,
                package.machine() or "unknown",
                package.info.target,
                package.info.device,
                package.info.precision,
                package.info.options,
                pool.store([package.info.to_bytes()]),
                weights,
                lies,
                package.info.processor,
            )
        )
    return Fleet(first.model.name, first.model.kind, tuple(variants))


class _Pool:
    """A file of pieces, each written once."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._size = 0
        self._known: dict[tuple[int, bytes], Extent] = {}

    def store(self, contents: Sequence[bytes | memoryview]) -> Pieces:
        """Where these lie; neighbours as one."""
        found: list[Extent] = []
        for content in contents:
            key = (len(content), hashlib.sha256(content).digest())
            if key not in self._known:
                self._known[key] = Extent(self._size, len(content))
                self._stream.write(content)
                self._size += len(content)
            piece = self._known[key]
            if found and found[-1].offset + found[-1].size == piece.offset:
                piece = Extent(found[-1].offset, found.pop().size + piece.size)
            found.append(piece)
        return tuple(found)


def _pieces_of(package: Source) -> list[tuple[int, int]]:
    """Beginnings and ends in a mod.params: the names, then each weight with its header."""
    stored = list_params(package.params).values()
    begins = sorted(tensor.begin for tensor in stored)
    cuts = [0, *begins, len(package.params)]
    return list(itertools.pairwise(cuts))


def _check_same(first: PackageInfo, other: PackageInfo, its_name: str, name: str) -> None:
    """Raise PackageError unless both take and give the same, and say the same of it."""
    for what in ("model", "inputs", "outputs"):
        if getattr(first, what) != getattr(other, what):
            raise PackageError(
                f"variants of one network are needed, and '{its_name}' and '{name}' differ in "
                f"their {what}: compile both from one file"
            )


def _extent(value: Any, where: str) -> Extent:
    if not isinstance(value, list) or len(value) != 2:
        wrong(where, "an offset and a size", value)
    offset, size = (integer(item, where, 0, LARGEST) for item in value)
    return Extent(offset, size)
