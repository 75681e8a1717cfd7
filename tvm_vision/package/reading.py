"""Packages read: opened once, checked, and ready to be loaded; who signed them, where that counts.

Nothing of a package is opened twice, so that what was checked is what is loaded, whatever becomes
of its files meanwhile; but for the mod.so of a folder that nobody asked a signature of, which is
loaded where it lies.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import platform
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import PackageError
from ..file_kinds import COMPRESSED, EMPTY, FOLDER, PACKAGES, TAR, need
from ..linking.machines import machine_of
from ..plain_files import remedy_of
from ..processors import lacking_here
from ..whole_files import ScratchFolder, clear_leftovers
from . import container
from .container import INFO, LIBRARY, MEMBERS, PARAMS, SIGNATURE, Extent, Loading, Pieces
from .fields import parse_object
from .fleet import Fleet, Variant, check_inside, is_fleet
from .info import PackageInfo, check_written
from .params import check_params, list_params
from .signature import PublicKeys, Statement, check_signature

PathLike = str | os.PathLike[str]
# Which variant to read of a package for several devices, by its name.
Choose = Callable[[Fleet], str]
REMEDY = "compile the model again, or copy the package again"


@dataclass(frozen=True)
class Origin:
    """Where a package was read from. variant: of a package for several devices, else "". verify:
    the keys that were asked for, None where anybody's signature was good enough."""

    path: Path
    variant: str = ""
    verify: PublicKeys | None = None

    def read(self) -> Package:
        """What is there now. Raises PackageError as ``read_package`` does."""
        return read_package(self.path, variant=self.variant, verify=self.verify)


class Package:
    """A checked package: ``info`` (mod.json), where mod.so lies, and mod.params in memory.

    It owns a private temporary folder with its mod.so, which goes with it: keep it until the
    library is loaded, or use it in a ``with``. Of a package that is a folder mod.so is copied, too:
    who writes over a library that is loaded ends the process that has it.

    Attributes:
        params: the content of mod.params, as it was checked, whatever becomes of the file.
        signature: the content of mod.sig, of which nothing is checked unless it was asked for;
            None where there is none.
        origin: the file or folder it was read from, None for what was not.
    """

    def __init__(self, info: PackageInfo, params: mmap.mmap, scratch: ScratchFolder) -> None:
        """scratch: where its mod.so lies, or will."""
        self.info = info
        self.library_path = scratch.path / LIBRARY
        self.params = params
        self.signature: bytes | None = None
        self.origin: Origin | None = None
        self._scratch = scratch

    def __enter__(self) -> Package:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the temporary folder; a second call does nothing."""
        self._scratch.close()

    def sizes(self) -> dict[str, int]:
        """Bytes of mod.so and mod.params."""
        return {LIBRARY: self.library_path.stat().st_size, PARAMS: len(self.params)}

    def check_machine(self) -> None:
        """Raise PackageError where mod.so is made for another processor than this one, or for one
        that can do more."""
        found = self.machine()
        if found != platform.machine():
            raise PackageError(
                f"{LIBRARY} is made for {found or 'an unknown processor'}, and this machine is "
                f"{platform.machine()}: compile the model for this machine"
            )
        if lacking := lacking_here(self.info.processor):
            raise PackageError(
                f"{LIBRARY} needs a processor with {', '.join(lacking)}, which this one lacks: "
                "compile the model on this machine, or name its processor, as --target 'llvm "
                "-mcpu=NAME' does"
            )

    def machine(self) -> str | None:
        """The processor that mod.so is for, as platform.machine() says it; None for another."""
        with self.library_path.open("rb") as stream:
            return machine_of(stream.read(20))


def read_package(
    path: PathLike,
    params: Loading | None = None,
    *,
    variant: str | Choose = "",
    verify: PublicKeys | None = None,
) -> Package:
    """Check a package, tar or folder, and make its members ready to be loaded.

    params: its mod.params, if it is being read already (``peek``). variant: of a package for
    several devices the one to read, by its name, or what chooses one, without reading the others;
    ``tvm_vision.runtime.loader.open_package`` chooses the one for this machine. verify: keys, one
    of which it has to be signed by.

    Nothing of it is executed. Raises PackageError for whatever is damaged, inconsistent, of another
    version or not signed as it has to be, where there is none, and for a package for several
    devices without ``variant``.
    """
    path = Path(path)
    if not path.exists():
        # Where names cannot be exchanged, who was killed while replacing a folder left it aside.
        clear_leftovers(path.parent)
    with _opened(path) as members, naming(path):
        text = members.text(INFO)
        signed = None
        if verify is not None:
            signed = check_signature(members.signature(), text, verify)
        document = _document(text)
        if is_fleet(document):
            fleet = Fleet.from_document(document)
            name = variant if isinstance(variant, str) else variant(fleet)
            found = _read_variant(members, fleet.variant(name), signed)
            found.origin = Origin(path, name, verify)
            return found
        info = PackageInfo.from_json(document)
        loaded = _load_params(*members.files[PARAMS], params)
        found = _ready(info, loaded, *members.files[LIBRARY])
        found.signature = members.signature()
        found.origin = Origin(path, "", verify)
        return found


def read_edited(folder: Path) -> Package:
    """A package in a folder whose members may have been changed on purpose: its mod.json gets the
    checksums that they have now. Raises PackageError for what is not sound."""
    with _opened(folder) as members, naming(folder):
        info = PackageInfo.from_bytes(members.text(INFO), edited=True)
        loaded = _load_params(*members.files[PARAMS], None)
        now = {PARAMS: loaded[1], LIBRARY: container.copy_extent(*members.files[LIBRARY], None)}
        info = replace(info, members=now)
        return _ready(info, loaded, *members.files[LIBRARY])


def read_fleet(path: PathLike) -> Fleet | None:
    """What a package for several devices has; None for one for one device, and what is no package,
    of which ``read_package`` says what is wrong. Raises PackageError where it is not sound."""
    path = Path(path)
    try:
        with _opened(path) as members:
            text = members.text(INFO)
            document = parse_object(text)
    except PackageError:
        return None
    if not is_fleet(document):
        return None
    with naming(path):
        check_written(text)
        return Fleet.from_document(document)


def verify_package(path: PathLike, keys: PublicKeys) -> Statement:
    """Read and check all of a package, every variant of one for several devices too, and who signed
    it; returns what was signed, and by which of the keys.

    Raises PackageError for what is not sound, or not signed by one of them.
    """
    path = Path(path)
    with _opened(path) as members, naming(path):
        text = members.text(INFO)
        signed = check_signature(members.signature(), text, keys)
        _check_all(members, text, signed)
        return signed


def statement_of(folder: Path, *, named: Path) -> Statement:
    """What a signature of the package in a folder says. All of it is read and checked.

    named: what it is called in messages. Raises PackageError for what is not sound.
    """
    with naming(named), _opened(folder) as members:
        return _check_all(members, members.text(INFO), None)


def _check_all(members: _Members, text: bytes, signed: Statement | None) -> Statement:
    document, texts = _document(text), {}
    if is_fleet(document):
        for variant in Fleet.from_document(document).variants:
            texts[variant.name] = members.variant_text(variant)
            _read_variant(members, variant, signed).close()
    else:
        loaded = _load_params(*members.files[PARAMS], None)
        _ready(PackageInfo.from_json(document), loaded, *members.files[LIBRARY]).close()
    return Statement.of(text, texts)


def copy_members(path: Path, folder: Path) -> None:
    """Copy the members of a package, of which only the tar is checked, but for its signature.

    Raises PackageError for what is no package, OSError where ``folder`` takes no more.
    """
    with _opened(path) as members, naming(path):
        for name in MEMBERS:
            container.copy_extent(*members.files[name], folder / name)


@dataclass(frozen=True)
class _Members:
    """The members of a package that is open, each in a file, at a place."""

    files: Mapping[str, tuple[BinaryIO, Extent]]

    def text(self, name: str) -> bytes:
        """A member whose size is bounded."""
        stream, extent = self.files[name]
        return container.read_extent(stream, name, extent)

    def signature(self) -> bytes | None:
        """mod.sig, None where there is none."""
        return self.text(SIGNATURE) if SIGNATURE in self.files else None

    def variant_text(self, variant: Variant) -> bytes:
        """The mod.json of a variant. Raises PackageError for pieces beyond the pool's end."""
        stream, pieces = self.pieces(PARAMS, variant.info)
        with memoryview(container.load_pieces(stream, INFO, pieces)[0]) as text:
            return bytes(text)

    def pieces(self, name: str, pieces: Pieces) -> tuple[BinaryIO, Pieces]:
        """Where pieces of a member lie in its file. Raises PackageError for one beyond its end."""
        stream, extent = self.files[name]
        check_inside(pieces, extent.size, name)
        return stream, tuple(Extent(extent.offset + p.offset, p.size) for p in pieces)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[_Members]:
    # Which is no for a name that is too long, too: opening it says so.
    if os.path.isdir(path):
        need(path, "a package", *PACKAGES, FOLDER, error=PackageError)
        names = [*MEMBERS, *([SIGNATURE] if os.path.lexists(path / SIGNATURE) else [])]
        with contextlib.ExitStack() as held:
            files = {}
            for name in names:
                _need_plain(path, name)
                stream = held.enter_context(container.open_file(path / name))
                files[name] = stream, Extent(0, os.fstat(stream.fileno()).st_size)
            yield _Members(files)
        return
    with container.open_file(path) as stream:
        extents = _list_tar(stream, path)
        yield _Members({name: (stream, extent) for name, extent in extents.items()})


def _document(text: bytes) -> Any:
    """What a mod.json says, which is to the byte as it was written."""
    check_written(text)
    return parse_object(text)


def _read_variant(members: _Members, variant: Variant, signed: Statement | None) -> Package:
    """One variant alone, as if it were a package of its own."""
    text = members.variant_text(variant)
    if signed is not None:
        signed.check_variant(variant.name, text)
    info = PackageInfo.from_bytes(text)
    stream, pieces = members.pieces(PARAMS, variant.params)
    loaded = container.load_pieces(stream, PARAMS, pieces)
    stream, (lies,) = members.pieces(LIBRARY, (variant.library,))
    return _ready(info, loaded, stream, lies)


def _list_tar(stream: BinaryIO, path: Path) -> dict[str, Extent]:
    """Where each member lies. Raises PackageError, which says what a file is that is no tar."""
    try:
        with naming(path):
            return container.list_tar(stream)
    except PackageError:
        need(path, "a package", *PACKAGES, EMPTY, TAR, COMPRESSED, error=PackageError)
        raise


def _ready(
    info: PackageInfo, loaded: tuple[mmap.mmap, str], stream: BinaryIO, library: Extent
) -> Package:
    """A package, its members checked. loaded: mod.params and its SHA-256."""
    params, checksum = loaded
    with scratch_errors():
        scratch = ScratchFolder()
        package = Package(info, params, scratch)
        try:
            copied = container.copy_extent(stream, library, package.library_path)
            _check_members({PARAMS: checksum, LIBRARY: copied}, info)
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


@contextlib.contextmanager
def scratch_errors() -> Iterator[None]:
    """Where the block cannot write its temporary files, a PackageError says so."""
    try:
        yield
    except OSError as error:
        raise PackageError(
            f"room for temporary files is needed, and there is none ({error.strerror or error}): "
            + remedy_of(error, "free some, or name another folder in TMPDIR")
        ) from None


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Messages of the block begin with the package's path."""
    try:
        yield
    except PackageError as error:
        raise PackageError(f"'{path}': {error}") from None


def _need_plain(folder: Path, name: str) -> None:
    """Raise PackageError where a member is missing, a link or a device."""
    try:
        status = (folder / name).lstat()
    except OSError as error:
        raise PackageError(
            f"a package needs {name}, and '{folder}' has none that can be read "
            f"({error.strerror}): {REMEDY}"
        ) from None
    if not stat.S_ISREG(status.st_mode):
        raise PackageError(
            f"'{folder / name}' must be a plain file, and is a link or device: copy the package "
            "with its files"
        )


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
