"""Brings the labelled photographs here: python training/fetch_photographs.py build/photographs

Those of public repositories by git, those of Debian's packages by apt-get, each at the version that
photographs.json says, and checked by its SHA-256. What is there already stays. Those that come in
Python packages are found where these are installed. Their licences are in photographs.json.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import tarfile
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from photographs import read_labels

from tvm_vision.errors import InputError

HOST = "https://github.com"
Label = dict[str, Any]
Content = tuple[Label, bytes]


def from_repository(labels: list[Label], scratch: Path, host: str = HOST) -> Iterator[Content]:
    """Files of one commit of one repository, of which nothing else is downloaded."""
    commit, git = labels[0]["commit"], ["git", "-C", str(scratch)]
    command([*git, "init", "--quiet"])
    command([*git, "remote", "add", "origin", f"{host}/{labels[0]['repository']}"])
    command([*git, "fetch", "--quiet", "--depth=1", "--filter=blob:none", "origin", commit])
    for label in labels:
        yield label, command([*git, "show", f"{commit}:{label['file']}"])


def from_debian(labels: list[Label], scratch: Path) -> Iterator[Content]:
    """Files of one of Debian's packages, which is not installed."""
    command(["apt-get", "download", f"{labels[0]['debian']}={labels[0]['version']}"], scratch)
    (package,) = scratch.glob("*.deb")
    wanted = {f"./{label['file']}": label for label in labels}
    archive = scratch / "files.tar"
    archive.write_bytes(command(["dpkg-deb", "--fsys-tarfile", str(package)]))
    with tarfile.open(archive) as files:
        for name, label in wanted.items():
            member = files.extractfile(name) if name in files.getnames() else None
            if member is None:
                raise InputError(f"{package.name} with '{name}' is needed, found no such file")
            yield label, member.read()


def command(words: list[str], folder: Path | None = None) -> bytes:
    """What a command prints. Raises InputError with its last line where it fails."""
    try:
        done = subprocess.run(words, cwd=folder, capture_output=True, check=False)
    except FileNotFoundError:
        raise InputError(f"the command '{words[0]}' is needed, found none; install it") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["nothing said"]
        raise InputError(f"'{' '.join(words)}' must succeed, found '{lines[-1]}'")
    return done.stdout


def keep(key: str, content: bytes, path: Path) -> None:
    """Writes a photograph whose SHA-256 is `key`, in hexadecimal; raises InputError for others."""
    found = hashlib.sha256(content).hexdigest()
    if found != key:
        raise InputError(f"'{path.name}' with the SHA-256 {key} is needed, found {found}")
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(content)
    os.replace(partial, path)


def missing(labels: dict[str, Label], folder: Path) -> dict[str, Label]:
    """Files, by SHA-256, that are neither in the folder nor in Python packages."""
    here = {
        hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*") if path.is_file()
    }
    return {key: label for key, label in files(labels) if "module" not in label and key not in here}


def files(labels: dict[str, Label]) -> Iterator[tuple[str, Label]]:
    """Each photograph, by SHA-256, and each image of its pixels' classes."""
    for key, label in labels.items():
        yield key, label
        if "pixels" in label:
            beside = f"{Path(label['name']).stem}.classes.png"
            yield label["pixels"]["sha256"], {**label, **label["pixels"], "name": beside}


def fetch(labels: dict[str, Label], folder: Path, host: str = HOST) -> None:
    """Writes what is missing into the folder, by name, and says what it does.

    Raises InputError where a source cannot be had or has another file; what came before stays."""
    sources: dict[tuple[str, str], list[Label]] = defaultdict(list)
    keys: dict[int, str] = {}
    for key, label in missing(labels, folder).items():
        source = label.get("debian") or label["repository"]
        sources[source, label.get("version") or label["commit"]].append(label)
        keys[id(label)] = key
    folder.mkdir(parents=True, exist_ok=True)
    for (source, version), wanted in sources.items():
        print(f"{source} {version[:12]}: {len(wanted)} files", flush=True)
        with tempfile.TemporaryDirectory(prefix="photographs-") as scratch:
            contents = (
                from_debian(wanted, Path(scratch))
                if "debian" in wanted[0]
                else from_repository(wanted, Path(scratch), host)
            )
            for label, content in contents:
                keep(keys[id(label)], content, folder / label["name"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="where they go, such as build/photographs")
    folder = parser.parse_args().folder
    try:
        fetch(read_labels(), folder)
    except InputError as error:
        raise SystemExit(str(error)) from None
    print(f"{folder}: all that photographs.json knows of")


if __name__ == "__main__":
    main()
