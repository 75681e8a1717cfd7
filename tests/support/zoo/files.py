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
    """A file to try. package and version: what it was found in; name: its path within that."""

    package: str
    version: str
    name: str
    path: Path

    @property
    def key(self) -> str:
        """What results are kept under."""
        return f"{self.package} {self.version} {self.name}".replace("  ", " ")


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
        for path in sorted(source.rglob("*")):
            if path.suffix in NETWORKS:
                yield Network(source.name, "", str(path.relative_to(source)), path)
            elif path.suffix in ARCHIVES:
                yield from _in(path, unpacked)
    elif source.suffix in ARCHIVES:
        package, version = package_of(source.name)
        folder = unpacked / source.name
        for name in _unpack(source.read_bytes(), folder):
            yield Network(package, version, name, folder / name)
    else:
        yield Network("", "", source.name, source)


def package_of(file: str) -> tuple[str, str]:
    """Name and version in the name of a wheel or zip."""
    found = re.match(r"([\w.]+?)-(\d[\w.+!]*?)(?:-|\.(?:whl|zip|task)$)", file)
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
