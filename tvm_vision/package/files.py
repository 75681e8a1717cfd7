"""Packages on disk: write one, read and check one, unpack and repack."""

from __future__ import annotations

import contextlib
import mmap
import os
import platform
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ..errors import PackageError
from ..file_kinds import COMPRESSED, EMPTY, FOLDER, PACKAGES, TAR, need
from ..linking.machines import machine_of
from ..whole_files import ScratchFolder, clear_leftovers, whole
from . import container
from .build import package_info, write_library
from .container import INFO, LIBRARY, MAX_INFO_BYTES, MEMBERS, PARAMS, Extent, Loading, Pieces
from .fields import parse_object
from .fleet import Fleet, Variant, check_inside, is_fleet, join
from .info import ModelInfo, PackageDevice, PackageInfo
from .params import check_params, list_params, write_params

if TYPE_CHECKING:
    from .build import Compiled

PathLike = str | os.PathLike[str]
REMEDY = "compile the model again, or copy the package again"


class Package:
    """A checked package: ``info`` (mod.json), where mod.so lies, and mod.params in memory.

    A package read from a tar owns a private temporary folder, which goes with it: keep it until
    the library is loaded, or use it in a ``with``.

    Attributes:
        params: the content of mod.params, as it was checked, whatever becomes of the file.
    """

    def __init__(
        self,
        info: PackageInfo,
        folder: Path,
        params: mmap.mmap,
        *,
        scratch: ScratchFolder | None = None,
    ) -> None:
        """scratch: of ``folder``, where that is to go with the package."""
        self.info = info
        self.folder = folder
        self.library_path = folder / LIBRARY
        self.params = params
        self._scratch = scratch

    def __enter__(self) -> Package:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the temporary folder; a second call does nothing."""
        if self._scratch is not None:
            self._scratch.close()

    def sizes(self) -> dict[str, int]:
        """Bytes of mod.so and mod.params."""
        return {LIBRARY: self.library_path.stat().st_size, PARAMS: len(self.params)}

    def check_machine(self) -> None:
        """Raise PackageError where mod.so is made for another processor than this one."""
        found = self.machine()
        if found != platform.machine():
            raise PackageError(
                f"{LIBRARY} is made for {found or 'an unknown processor'}, and this machine is "
                f"{platform.machine()}: compile the model for this machine"
            )

    def machine(self) -> str | None:
        """The processor that mod.so is for, as platform.machine() says it; None for another."""
        with self.library_path.open("rb") as stream:
            return machine_of(stream.read(20))


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


def read_package(path: PathLike, params: Loading | None = None, *, variant: str = "") -> Package:
    """Check a package, tar or folder, and make its members ready to be loaded.

    params: its mod.params, if it is being read already (``peek``). variant: of a package for
    several devices the one to read, by its name, without reading the others;
    ``tvm_vision.runtime.loader.open_package`` chooses the one for this machine.

    Nothing of it is executed. Raises PackageError for whatever is damaged, inconsistent or of
    another version, where there is none, and for a package for several devices without
    ``variant``.
    """
    path = Path(path)
    if not path.exists():
        # Where names cannot be exchanged, who was killed while replacing a folder left it aside.
        clear_leftovers(path.parent)
    with _opened(path) as members, _naming(path):
        document = members.document()
        if is_fleet(document):
            return _read_variant(members, Fleet.from_document(document).variant(variant))
    if path.is_dir():
        return _read_folder(path, params)
    with container.open_file(path) as stream:
        extents = _list_tar(stream, path)
        with _naming(path):
            info = PackageInfo.from_document(document)
            return _extract(stream, extents, info, params)


def read_fleet(path: PathLike) -> Fleet | None:
    """What a package for several devices has; None for one for one device, and what is no package,
    of which ``read_package`` says what is wrong. Raises PackageError where it is not sound."""
    path = Path(path)
    try:
        with _opened(path) as members:
            document = members.document()
    except PackageError:
        return None
    with _naming(path):
        return Fleet.from_document(document) if is_fleet(document) else None


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


@dataclass(frozen=True)
class _Members:
    """The members of a package that is open, each in a file, at a place."""

    files: Mapping[str, tuple[BinaryIO, Extent]]

    def document(self) -> Any:
        """mod.json, parsed."""
        stream, extent = self.files[INFO]
        return parse_object(container.read_extent(stream, INFO, extent))

    def pieces(self, name: str, pieces: Pieces) -> tuple[BinaryIO, Pieces]:
        """Where pieces of a member lie in its file. Raises PackageError for one beyond its end."""
        stream, extent = self.files[name]
        check_inside(pieces, extent.size, name)
        return stream, tuple(Extent(extent.offset + p.offset, p.size) for p in pieces)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[_Members]:
    if path.is_dir():
        need(path, "a package", *PACKAGES, FOLDER, error=PackageError)
        sizes = {name: _plain_size(path, name) for name in MEMBERS}
        with contextlib.ExitStack() as held:
            yield _Members(
                {
                    name: (held.enter_context(container.open_file(path / name)), Extent(0, size))
                    for name, size in sizes.items()
                }
            )
        return
    with container.open_file(path) as stream:
        extents = _list_tar(stream, path)
        yield _Members({name: (stream, extent) for name, extent in extents.items()})


def _read_variant(members: _Members, variant: Variant) -> Package:
    """One variant alone, as if it were a package of its own."""
    stream, pieces = members.pieces(PARAMS, variant.info)
    with memoryview(container.load_pieces(stream, INFO, pieces)[0]) as text:
        info = PackageInfo.from_bytes(bytes(text))
    stream, pieces = members.pieces(PARAMS, variant.params)
    params, checksum = container.load_pieces(stream, PARAMS, pieces)
    stream, (lies,) = members.pieces(LIBRARY, (variant.library,))
    return _checked(info, params, {PARAMS: checksum}, stream, lies)


def _list_tar(stream: BinaryIO, path: Path) -> dict[str, Extent]:
    """Where each member lies. Raises PackageError, which says what a file is that is no tar."""
    try:
        with _naming(path):
            return container.list_tar(stream)
    except PackageError:
        need(path, "a package", *PACKAGES, EMPTY, TAR, COMPRESSED, error=PackageError)
        raise


def _extract(
    stream: BinaryIO, extents: Mapping[str, Extent], info: PackageInfo, loading: Loading | None
) -> Package:
    """The members checked, mod.so in a folder that goes with the package."""
    params, checksum = _load_params(stream, extents[PARAMS], loading)
    return _checked(info, params, {PARAMS: checksum}, stream, extents[LIBRARY])


def _checked(
    info: PackageInfo,
    params: mmap.mmap,
    found: Mapping[str, str],
    stream: BinaryIO,
    library: Extent,
) -> Package:
    """A package, its mod.so out of a file, in a folder that goes with it. found: checksums."""
    with _scratch_errors():
        scratch = ScratchFolder()
        package = Package(info, scratch.path, params, scratch=scratch)
        try:
            copied = container.copy_extent(stream, library, package.library_path)
            _check_members({**found, LIBRARY: copied}, info)
            _check_params(package)
        except BaseException:
            package.close()
            raise
    return package


def _load_params(
    stream: BinaryIO, extent: Extent, loading: Loading | None
) -> tuple[mmap.mmap, str]:
    """mod.params and its SHA-256, out of what is being read where that is the same."""
    if loading is not None and loading.extent == extent:
        return loading.result()
    return container.load_extent(stream, PARAMS, extent)


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
    package = _read_folder(source, edited=True) if edited else read_package(source, variant=variant)
    with package, _scratch_folder() as folder:
        shutil.copyfile(package.library_path, folder / LIBRARY)
        (folder / PARAMS).write_bytes(package.params)
        (folder / INFO).write_bytes(package.info.to_bytes())
        _store(folder, target)
        return package.info


@contextlib.contextmanager
def _scratch_folder() -> Iterator[Path]:
    """A temporary folder that goes with the block."""
    with _scratch_errors(), ScratchFolder() as folder:
        yield folder


@contextlib.contextmanager
def _scratch_errors() -> Iterator[None]:
    """Where the block cannot write its temporary files, a PackageError says so."""
    try:
        yield
    except OSError as error:
        raise PackageError(
            f"room for temporary files is needed, and there is none ({error.strerror or error}): "
            "free some, or name another folder in TMPDIR"
        ) from None


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Messages of the block begin with the package's path."""
    try:
        yield
    except PackageError as error:
        raise PackageError(f"'{path}': {error}") from None


def _read_folder(folder: Path, loading: Loading | None = None, *, edited: bool = False) -> Package:
    """Check a package in a folder; one that was ``edited`` gets the checksums it has now."""
    need(folder, "a package", *PACKAGES, FOLDER, error=PackageError)
    sizes = {name: _plain_size(folder, name) for name in MEMBERS}
    with container.open_file(folder / INFO) as stream, _naming(folder):
        if sizes[INFO] > MAX_INFO_BYTES:
            raise PackageError(f"{INFO} has {sizes[INFO]} bytes, {MAX_INFO_BYTES} are allowed")
        info = PackageInfo.from_bytes(stream.read(sizes[INFO]), edited=edited)
        with container.open_file(folder / PARAMS) as weights:
            params, checksum = _load_params(weights, Extent(0, sizes[PARAMS]), loading)
        found = {PARAMS: checksum, LIBRARY: _checksum(folder / LIBRARY)}
        if edited:
            info = replace(info, members=found)
        _check_members(found, info)
        package = Package(info, folder, params)
        _check_params(package)
    return package


def _plain_size(folder: Path, name: str) -> int:
    """Bytes of a member. Raises PackageError where it is missing, a link or a device."""
    try:
        status = (folder / name).lstat()
    except OSError as error:
        raise PackageError(
            f"a package needs {name}, and '{folder}' has none that can be read "
            f"({error.strerror}): {REMEDY}"
        ) from None
    if not stat.S_ISREG(status.st_mode):
        raise PackageError(f"'{folder / name}' must be a plain file, and is a link or device")
    return status.st_size


def _check_members(found: Mapping[str, str], info: PackageInfo) -> None:
    for name, checksum in found.items():
        needed = info.members[name]
        if checksum != needed:
            raise PackageError(
                f"{name} must have the SHA-256 {needed[:12]}... of mod.json, found "
                f"{checksum[:12]}...: it was changed or damaged; {REMEDY}"
            )


def _check_params(package: Package) -> None:
    graph = package.info.graph
    check_params(list_params(package.params), graph.params, graph.tensors)


def _checksum(path: Path) -> str:
    with container.open_file(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        return container.copy_extent(stream, Extent(0, size), None)


def _store(folder: Path, path: Path) -> None:
    """Put the members where they belong, all or none."""
    others = [] if path.suffix == ".tar" else _other_files(path)
    if others:
        raise PackageError(f"'{path}' has other files ('{others[0]}'): choose a new folder")
    with whole(path, PackageError) as fresh:
        if path.suffix == ".tar":
            with fresh.open("wb") as stream:
                container.write_tar(stream, {name: folder / name for name in MEMBERS})
        else:
            fresh.mkdir()
            for name in MEMBERS:
                shutil.copyfile(folder / name, fresh / name)


def _other_files(folder: Path) -> list[str]:
    """What is in a folder that no package has."""
    try:
        return sorted({entry.name for entry in folder.iterdir()} - set(MEMBERS))
    except OSError:  # there is none, or ``whole`` says what is wrong with it
        return []
