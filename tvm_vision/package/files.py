"""Packages written: new ones, those taken apart and put together again, and signed ones."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import PackageError
from ..file_kinds import PACKAGES, need, need_folder_name
from ..whole_files import ScratchFolder, need_place, whole
from . import container
from .build import package_info, write_library
from .container import INFO, LIBRARY, MEMBERS, PARAMS, SIGNATURE, Extent
from .fields import parse_object
from .fleet import Fleet, join
from .info import ModelInfo, PackageDevice, PackageInfo
from .params import check_params, list_params, write_params
from .reading import (
    Package,
    PathLike,
    copy_members,
    read_edited,
    read_package,
    scratch_errors,
    statement_of,
)
from .signature import PrivateKey, Statement, fits

if TYPE_CHECKING:
    from .build import Compiled


def write_package(
    path: PathLike,
    compiled: Compiled,
    model_info: ModelInfo,
    *,
    device: PackageDevice | None = None,
) -> PackageInfo:
    """Write a package: a tar where ``path`` ends in .tar, else a folder; the whole or nothing.

    compiled: what the compiler returns. device: whose kernels they are, None for the CPU.

    The same input gives the same bytes. Raises PackageError where it cannot be written or linked,
    or where the graph is not consistent (then nothing is written).
    """
    with _scratch_folder() as folder:
        with (folder / PARAMS).open("wb") as stream:
            write_params(stream, compiled.params)
        write_library(compiled.library, folder / LIBRARY)
        members = {name: _checksum(folder / name) for name in (LIBRARY, PARAMS)}
        info = package_info(compiled, model_info, device=device, members=members)
        with (folder / PARAMS).open("rb") as stream:
            check_params(list_params(stream), info.graph.params, info.graph.tensors)
        (folder / INFO).write_bytes(info.to_bytes())
        _store(folder, Path(path))
    return info


def write_fleet(path: PathLike, packages: Sequence[tuple[str, Package]]) -> Fleet:
    """Write packages of one network, each with a name, as one for several devices; a tar where
    ``path`` ends in .tar, else a folder; the whole or nothing.

    What is the same in several is stored once. Raises PackageError where names are not different,
    where the packages are not of one network, or where it cannot be written.
    """
    with _scratch_folder() as folder:
        with (folder / PARAMS).open("wb") as params, (folder / LIBRARY).open("wb") as library:
            fleet = join(packages, params, library)
        (folder / INFO).write_bytes(fleet.to_bytes())
        Fleet.from_document(parse_object((folder / INFO).read_bytes()))
        _store(folder, Path(path))
    return fleet


def unpack_package(path: PathLike, folder: PathLike, *, variant: str = "") -> PackageInfo:
    """Write a package's members, or those of a variant, into a new folder. Raises PackageError
    where it is not sound."""
    if Path(folder).suffix == ".tar":
        raise PackageError(f"a folder is needed to unpack into, found '{folder}': drop the .tar")
    return _copy(Path(path), Path(folder), variant=variant)


def repack_package(folder: PathLike, path: PathLike) -> PackageInfo:
    """Write a folder's package as a tar, with the checksums that its members have now.

    So that a mod.json may be edited (labels, preprocessing); it is checked like any other.
    """
    folder, path = Path(folder), Path(path)
    if not folder.is_dir():
        need(folder, "the folder of a package", *PACKAGES, error=PackageError)
        raise PackageError(f"a folder is needed to repack, and '{folder}' is none: unpack first")
    if path.suffix != ".tar":
        raise PackageError(f"a name that ends in .tar is needed to repack into, found '{path}'")
    return _copy(folder, path, edited=True)


def _copy(source: Path, target: Path, *, edited: bool = False, variant: str = "") -> PackageInfo:
    package = read_edited(source) if edited else read_package(source, variant=variant)
    with package, _scratch_folder() as folder:
        shutil.copyfile(package.library_path, folder / LIBRARY)
        (folder / PARAMS).write_bytes(package.params)
        text = package.info.to_bytes()
        (folder / INFO).write_bytes(text)
        # A signature is of mod.json as it is: that of several devices is none of one's.
        if package.signature is not None and fits(package.signature, text):
            (folder / SIGNATURE).write_bytes(package.signature)
        _store(folder, target)
        return package.info


def sign_package(path: PathLike, key: PrivateKey) -> Statement:
    """Sign a package, tar or folder, in place; a signature that it has goes.

    All of it, every variant of one for several devices too, is read and checked first. Raises
    PackageError where it is not sound or cannot be written; then it stays as it was.
    """
    path = Path(path)
    with _scratch_folder() as folder:
        # Read once: what is checked here, signed, and written again is the same.
        copy_members(path, folder)
        statement = statement_of(folder, named=path)
        (folder / SIGNATURE).write_bytes(statement.signed_by(key))
        _store(folder, path, tar=not path.is_dir())
    return statement


def need_package_place(path: Path) -> None:
    """Raise PackageError where no package can be written at ``path`` as far as is known: before
    work that takes long."""
    if path.suffix != ".tar":
        if path.is_file():
            raise PackageError(
                f"a name that ends in .tar is needed, or a folder for the package, and '{path}' is "
                "a file: name another place"
            )
        name = _as_tar(path)
        need_folder_name(
            path, "a name that ends in .tar, or a folder's,", f"name it '{name}'", PackageError
        )
        if others := _other_files(path):
            raise PackageError(f"'{path}' has other files ('{others[0]}'): choose a new folder")
    need_place(path, PackageError)


@contextlib.contextmanager
def _scratch_folder() -> Iterator[Path]:
    """A temporary folder that goes with the block."""
    with scratch_errors(), ScratchFolder() as folder:
        yield folder


def _checksum(path: Path) -> str:
    with container.open_file(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        return container.copy_extent(stream, Extent(0, size), None)


def _store(folder: Path, path: Path, *, tar: bool | None = None) -> None:
    """Put the members where they belong, all or none; as a tar where ``path`` is so called."""
    tar = path.suffix == ".tar" if tar is None else tar
    if not tar:
        need_package_place(path)
    names = [name for name in (*MEMBERS, SIGNATURE) if (folder / name).exists()]
    with whole(path, PackageError) as fresh:
        if tar:
            with fresh.open("wb") as stream:
                container.write_tar(stream, {name: folder / name for name in names})
        else:
            fresh.mkdir()
            for name in names:
                shutil.copyfile(folder / name, fresh / name)


def _as_tar(path: Path) -> str:
    """The name that a package has in place of that of another file."""
    ending = "".join(path.suffixes[-2:]) if path.stem.endswith(".tar") else path.suffix
    return f"{path.name.removesuffix(ending)}.tar"


def _other_files(folder: Path) -> list[str]:
    """What is in a folder that no package has."""
    try:
        return sorted({entry.name for entry in folder.iterdir()} - {*MEMBERS, SIGNATURE})
    except OSError:  # there is none, or ``whole`` says what is wrong with it
        return []
