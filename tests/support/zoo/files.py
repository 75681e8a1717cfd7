"""The networks in files, folders, wheels and zips, and in zips within these."""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

NETWORKS = (".onnx", ".tflite", ".lite")
ARCHIVES = (".whl", ".zip", ".task")
# Weights that an .onnx file keeps beside it.
_BESIDE = (".data", ".onnx_data", ".bin", ".weights")


@dataclass(frozen=True)
class Network:
    """A file to try. package and version: what it was found in; name: its path within that, or the
    shortest end of it that no other network there has."""

    package: str
    version: str
    name: str
    path: Path


def find(sources: Iterable[Path], unpacked: Path) -> Iterator[Network]:
    """The networks of files, folders and archives, each content once, in the order of names.

    unpacked: a folder for what is in archives.
    """
    seen: set[bytes] = set()
    for source in sources:
        for network in _in(source, unpacked):
            digest = hashlib.sha256(network.path.read_bytes()).digest()
            if digest not in seen:
                seen.add(digest)
                yield network


def _in(source: Path, unpacked: Path) -> Iterator[Network]:
    if source.is_dir():
        paths = sorted(source.rglob("*"))
        networks = [str(p.relative_to(source)) for p in paths if p.suffix in NETWORKS]
        yield from _named(source.name, source, networks)
        for path in paths:
            if path.suffix in ARCHIVES:
                yield from _in(path, unpacked)
    elif source.suffix in ARCHIVES:
        folder = unpacked / source.name
        yield from _named(source.name, folder, _unpack(source.read_bytes(), folder))
    else:
        yield Network("", "", source.name, source)


def _named(file: str, folder: Path, paths: list[str]) -> Iterator[Network]:
    """The networks of a package, of paths within a folder."""
    package, version = package_of(file)
    for path in paths:
        parts = Path(path).parts
        ends = ("/".join(parts[-count:]) for count in range(1, len(parts) + 1))
        alone = (end for end in ends if sum(f"/{p}".endswith(f"/{end}") for p in paths) == 1)
        yield Network(package, version, next(alone, path), folder / path)


def package_of(file: str) -> tuple[str, str]:
    """Name and version in the name of a wheel, zip or folder."""
    found = re.match(r"([\w.-]+?)-(\d[\w.+!]*?)(?:-|$|\.(?:whl|zip|task)$)", file)
    return (found[1].replace("_", "-"), found[2]) if found else (Path(file).stem, "")


def _unpack(archive: bytes, folder: Path) -> list[str]:
    """Write the networks of an archive; their names, in order."""
    names = []
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        for name in sorted(opened.namelist()):
            path = folder / name
            if not path.resolve().is_relative_to(folder.resolve()):
                continue
            if path.suffix in (*NETWORKS, *_BESIDE):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(opened.read(name))
                names += [name] if path.suffix in NETWORKS else []
            elif path.suffix in ARCHIVES:
                names += [f"{name}/{inner}" for inner in _unpack(opened.read(name), path)]
    return names
