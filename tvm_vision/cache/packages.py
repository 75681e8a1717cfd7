"""Packages that were made before: what ``compile`` was asked for, as a key, and what came of it.

Kept in files beside kernels (``files``), for all processes of this user. A hit needs neither
TVM nor a model that is parsed: files are told apart by their content. KEYED below is the one place
that says what a package depends on; a test holds it to the parameters of ``compile``.

Two steps, since a model is not parsed: by what was asked for there is a note of the files that it
keeps its weights in, which it says itself; by these, and by what this machine's devices report
where the target asks them, there is the package. So devices are asked only where there may be one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import logging
import os
import shutil
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from .. import environment
from ..errors import PackageError, TvmVisionError
from ..options import CompileOptions, variable_of
from ..plain_files import open_plain
from ..processors import CPU_INFO
from ..whole_files import ScratchFolder, whole
from . import devices_here
from .files import KeptFiles
from .makers import installation

LOG = "tvm_vision"
# As large as half of all: one network that is tuned does not put out all others.
PACKAGES = KeptFiles("packages", ".package", most_bytes=512 << 20, most_total=1 << 30, few=True)
# Of some 40 bytes, each of which takes a block of the disk.
NOTES = KeptFiles("packages", ".note", most_bytes=64 << 10, most_total=64 << 10, few=True)
# Variables of TVM and of ours may change anything; but not where caches are, and options of the
# compiler are in its key as they were resolved.
NOT_OF_PACKAGES = (
    "TVM_VISION_CACHE_DIR",
    *(variable_of(field.name) for field in dataclasses.fields(CompileOptions)),
)
# Of /proc/cpuinfo: what differs between cores, and from one moment to the next.
_CHANGING = ("cpu MHz", "bogomips", "BogoMIPS", "processor", "apicid", "initial apicid", "core id")
_PIECE = 1 << 20
_LENGTH = 8  # bytes of the length of what is said, in front of it


@dataclasses.dataclass(frozen=True)
class CompileReport:
    """What is to be told of a compilation beside its package.

    Attributes:
        known, kernels: how many different kernels were made before, and how many there are.
        gpu: whether they are a GPU's.
        target: a line about what "auto" stands for; "" where a target was named.
        kind: a line about the network's kind, of a description that has one.
        dequantized: whether the file is of a quantized network that is computed in float32.
        logged: warnings: loggers, levels and messages.
    """

    known: int = 0
    kernels: int = 0
    gpu: bool = False
    target: str = ""
    kind: str = ""
    dequantized: bool = False
    logged: tuple[tuple[str, int, str], ...] = ()


class Described(Protocol):
    """What makes what a package says of a model of its inputs and outputs, and then has a line
    about the network's kind."""

    line: str

    def __call__(self, signature: Any) -> Any: ...


class Description(Protocol):
    """How to describe a model, as a value that a package can be kept by."""

    def asked(self, file: Callable[[Any], Any]) -> Any:
        """What it depends on beside the model, as JSON has it. file: makes a value of the name of a
        file, or of what is named in its place, or None."""

    def begin(self) -> Described | Any:
        """A ``Described``, or a finished ModelInfo, after a look at all that can be checked before
        the model is read."""


class _NotKeptError(Exception):
    """Of a call whose result is not kept."""


class _Files:
    """Files that were read for a key, as they were then."""

    def __init__(self) -> None:
        self._seen: dict[Path, tuple[int, ...]] = {}

    def digest(self, path: str | os.PathLike[str]) -> str:
        """Of the content. Raises _NotKeptError for what is no plain file."""
        digest = hashlib.sha256()
        try:
            with open_plain(path) as stream:
                self._seen[Path(path)] = _state(os.fstat(stream.fileno()))
                while piece := stream.read(_PIECE):
                    digest.update(piece)
        except (OSError, ValueError):
            raise _NotKeptError from None
        return digest.hexdigest()

    def unchanged(self) -> bool:
        """Whether all are as they were: a package may be of what they became."""
        try:
            return all(_state(path.stat()) == state for path, state in self._seen.items())
        except OSError:
            return False


def _state(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _model(value: Any, files: _Files) -> Any:
    """A file's content; its name may be the network's, and says of which kind it is."""
    if not isinstance(value, (str, os.PathLike)):
        raise _NotKeptError
    return os.fspath(Path(value).name), files.digest(value)


def plain(value: Any) -> Any:
    """A value as JSON has it. Raises _NotKeptError for what JSON has no form for."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return [[plain(name), plain(item)] for name, item in value.items()]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
        return [type(value).__qualname__, plain(dict(pairs))]
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [plain(item) for item in value]
    if hasattr(value, "dtype") and hasattr(value, "tolist"):
        return [str(value.dtype), plain(value.tolist())]
    raise _NotKeptError


def _plain(value: Any, files: _Files) -> Any:
    return plain(value)


def named_file(value: str | os.PathLike[str] | None, files: _Files) -> Any:
    """A word, or a file that is named in its place, by its content."""
    if value is None:
        return None
    name = os.fspath(value)
    if not os.path.exists(name):
        return name
    return name, files.digest(value)


def _files(values: Any, files: _Files) -> Any:
    return [named_file(value, files) for value in values]


def _target(value: Any, files: _Files) -> Any:
    """What it is written as: what that stands for is told by the rest of the key."""
    if isinstance(value, (str, os.PathLike)):
        return named_file(value, files)
    return plain(value) if isinstance(value, Mapping) else [type(value).__name__, str(value)]


def _described(value: Any, files: _Files) -> Any:
    """A description that says itself what it depends on, or a plain value."""
    if hasattr(value, "asked"):
        return value.asked(lambda path: named_file(path, files))
    if callable(value):
        raise _NotKeptError
    return plain(value)


def _samples(values: Any, files: _Files) -> Any:
    if not values:
        return []
    from ..models.samples import sample_paths

    try:
        return [(path.suffix, files.digest(path)) for path in sample_paths(values)]
    except TvmVisionError:
        raise _NotKeptError from None


# Parameter of ``compile`` -> what the package depends on of its value. ``options`` has those that
# are options of the compiler, resolved.
KEYED: dict[str, Callable[[Any, _Files], Any]] = {
    "model": _model,
    "target": _target,
    "host": _plain,
    "input_shapes": _plain,
    "input_values": _plain,
    "raw_io": _plain,
    "options": _plain,
    "name": _plain,
    "model_info": _described,
    "tuning_records": _files,
    "shipped_records": _plain,
    "sample_images": _samples,
    "max_error": _plain,
}
# Those by which something else is made than a package, or a package of what no file has.
NOT_KEPT = ("example_inputs", "dump_ir", "dump_shaders")
# Parameters that are fields of ``options``.
OF_OPTIONS = ("opt_level", "precision", "layout")
# Parameters that a package does not depend on.
SILENT = ("output", "progress", "on_target", "on_compiled")


class Asked:
    """What ``compile`` was asked for, where its package is kept.

    key: of all that KEYED has, the environment, the installation and the machine but its devices.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        """given: a value for each of KEYED. Raises _NotKeptError."""
        self._files = _Files()
        asked = {name: of(given[name], self._files) for name, of in KEYED.items()}
        self._model = Path(given["model"])
        self._asks_devices = _asks_devices(given["target"])
        variables = {
            name: value
            for name, value in environment.all_of_tvm().items()
            if name not in NOT_OF_PACKAGES
        }
        # Of who wants to hear nothing, nobody knows what there was to hear.
        hears = logging.getLogger(LOG).isEnabledFor(logging.WARNING)
        self.key = _digest([asked, variables, installation(), _machine(), hears])

    def found(self) -> tuple[CompileReport, BinaryIO] | None:
        """What is to be told of the package that was made of the same before, and a stream of its
        tar; None where there is none."""
        note = NOTES.load(self.key)
        try:
            stream = None if note is None else PACKAGES.open(self._whole_key(json.loads(note)))
        except (_NotKeptError, ValueError, TypeError):
            return None
        if stream is None:
            return None
        try:
            length = int.from_bytes(stream.read(_LENGTH), "little")
            told = json.loads(stream.read(min(length, _PIECE)))
            logged = [(str(name), int(level), str(words)) for name, level, words in told["logged"]]
            report = CompileReport(**{**told, "logged": tuple(logged)})
        except (OSError, ValueError, KeyError, TypeError):
            stream.close()
            return None
        return report, stream

    def keep(self, package: Path, info: bytes, report: CompileReport) -> None:
        """Keep a package that was written, as a tar, unless what it was made of has changed
        meanwhile, or another one lies there by now. info: its mod.json, which has the checksums of
        all else."""
        report = dataclasses.replace(report, known=report.kernels)
        said = json.dumps(dataclasses.asdict(report)).encode()
        try:
            weights = _weights_of(self._model)
            key = self._whole_key(weights)
        except _NotKeptError:
            return
        head = len(said).to_bytes(_LENGTH, "little") + said
        with contextlib.suppress(OSError, TvmVisionError), _tar_of(package) as tar:
            if self._files.unchanged() and _is_of(tar, info):
                tar.seek(0)
                PACKAGES.store_file(key, head, tar)
                NOTES.store(self.key, json.dumps(weights).encode())

    def _whole_key(self, weights: Sequence[str]) -> str:
        """With what is in the files of weights, and what devices there are, where the target asks
        them. Raises _NotKeptError."""
        content = [self._files.digest(self._model.parent / name) for name in weights]
        devices = devices_here.facts() if self._asks_devices else []
        if devices is None:
            raise _NotKeptError
        return _digest([self.key, content, devices])


def asked_for(how: CompileOptions, given: Mapping[str, Any]) -> Asked | None:
    """What ``compile`` is asked for; None where its result is not kept.

    how: its options, resolved. given: the values of all its parameters.
    """
    kept = how.package_cache and how.kernel_cache and environment.cache_folder()
    if not kept or given["output"] is None:
        return None
    aside = any(given[name] not in (None, ()) for name in NOT_KEPT)
    if aside or environment.dumps_shaders():
        return None
    try:
        return Asked({**given, "options": how})
    except _NotKeptError:
        return None


def put(package: BinaryIO, output: Path) -> None:
    """Write a package, kept as a tar, as ``write_package`` would. Raises PackageError."""
    if output.suffix == ".tar":
        _copy(package, output)
        return
    from ..package import unpack_package

    with ScratchFolder() as scratch:
        _copy(package, scratch / "package.tar")
        unpack_package(scratch / "package.tar", output)


def _copy(package: BinaryIO, path: Path) -> None:
    with whole(path, PackageError) as fresh, fresh.open("wb") as stream:
        shutil.copyfileobj(package, stream, _PIECE)


@contextmanager
def _tar_of(package: Path) -> Iterator[BinaryIO]:
    """A package that was written, as a tar. Raises OSError and PackageError."""
    from ..package import repack_package

    if not package.is_dir():
        with open_plain(package) as stream:
            yield stream
        return
    with ScratchFolder() as scratch:
        repack_package(package, scratch / "package.tar")
        with open_plain(scratch / "package.tar") as stream:
            yield stream


def _is_of(package: BinaryIO, info: bytes) -> bool:
    """Whether a tar has this mod.json."""
    try:
        with tarfile.open(fileobj=package, mode="r:") as tar:
            found = tar.extractfile("mod.json")
            return found is not None and found.read() == info
    except (KeyError, tarfile.TarError):
        return False


class _Heard(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.logged: list[tuple[str, int, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        """As logging has it."""
        self.logged.append((record.name, record.levelno, record.getMessage()))


@contextmanager
def heard() -> Iterator[list[tuple[str, int, str]]]:
    """What is logged in the block for people to read: loggers, levels and messages."""
    handler, logger = _Heard(), logging.getLogger(LOG)
    logger.addHandler(handler)
    try:
        yield handler.logged
    finally:
        logger.removeHandler(handler)


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _asks_devices(target: Any) -> bool:
    """Whether a target may stand for what a device of this machine is."""
    if isinstance(target, Mapping):
        return str(target.get("kind")) == "vulkan"
    if not isinstance(target, (str, os.PathLike)):  # TVM's own has been filled in
        return False
    words = os.fspath(target)
    return words == "auto" or ("vulkan" in words and not os.path.exists(words))


def _machine() -> list[Any]:
    """What a target may stand for beside devices: the processor, the cores of it that this process
    may use, whose number decides which records hold, and what was measured of devices."""
    try:
        text = CPU_INFO.read_text("utf-8", "replace").partition("\n\n")[0]
    except OSError:
        text = ""
    lines = [line for line in text.splitlines() if not line.startswith(_CHANGING)]
    folder, files = Path(environment.cache_folder(), "devices"), _Files()
    measured = [(path.name, files.digest(path)) for path in sorted(folder.glob("*.json"))]
    return [lines, sorted(os.sched_getaffinity(0)), measured]


def _weights_of(model: Path) -> list[str]:
    """The files that an ONNX model keeps its weights in, from its folder."""
    from ..file_kinds import ONNX, kind_of

    if kind_of(model) is not ONNX:
        return []
    from ..frontend.onnx.storage import weight_files

    return weight_files(model)
