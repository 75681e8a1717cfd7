"""What a file is, told by its first bytes, and which command serves that: for who gave another.

It is asked where a file is not what was needed, and says nothing of what it does not know.
"""

from __future__ import annotations

import json
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from .errors import InputError, TvmVisionError


@dataclass(frozen=True)
class Kind:
    """A kind of file: ``words`` to follow "it is", and a remedy for who wanted another."""

    words: str
    remedy: str


_PATH = "check the path"
MISSING = Kind("not there", _PATH)
FOLDER = Kind("a folder", "name a file in it")
SPECIAL = Kind("no plain file", _PATH)
EMPTY = Kind("empty", "make or copy it again")
ONNX = Kind("an ONNX model", "'tvm-vision compile' makes a package of it")
TORCH_PROGRAM = Kind("an exported PyTorch program", "'tvm-vision compile' makes a package of it")
# What torch.export.save writes, by the ending of its name.
TORCH_SUFFIXES = (".pt2",)
PACKAGE = Kind("a package", "'tvm-vision inspect' says what is in it, 'tvm-vision run' runs it")
CLASSIFIER = Kind("the package of a classifier", "'tvm-vision classify' runs it")
YOEO = Kind("the package of a YOEO network", "'tvm-vision detect' runs it")
SEEING = Kind("the package of a network that finds where something is", YOEO.remedy)
PACKAGES = (PACKAGE, CLASSIFIER, YOEO, SEEING)
TAR = Kind("a tar that is no package", "unpack it")
PARAMS = Kind("mod.params of a package", "name the package that it is of")
LIBRARY = Kind("a shared library", "name the package that it is of")
INFO = Kind("mod.json of a package", "name the package that it is of")
IMAGE = Kind("an image", "'tvm-vision detect' and 'classify' take it after a package")
VIDEO = Kind("a video", "'tvm-vision detect' and 'classify' take it after a package")
BAG = Kind("a recorded bag", "'tvm-vision bag' and 'replay' take it")
CHECKPOINT = Kind(
    "a PyTorch checkpoint",
    "export it to ONNX where it was trained, as 'yolo export format=onnx' does; 'yoeo-to-onnx' and "
    "'classifier-to-onnx' take those of YOEO and of classifiers",
)
TORCH_SCRIPT = Kind("a TorchScript program", "export its network to ONNX, by torch.onnx.export")
WEIGHTS = Kind("weights without a network", "export the network with them to ONNX")
KERAS = Kind("a Keras network", "tf2onnx makes an ONNX model of it")
SAVED_MODEL = Kind("a TensorFlow SavedModel", "tf2onnx makes an ONNX model of it")
ARRAYS = Kind("an .npz file of arrays", "'tvm-vision run' takes it by --inputs")
RECORDS = Kind("a file of tuning records", "'tvm-vision compile' takes it by --tuning-records")
DEVICE = Kind("the description of a device", "'tvm-vision compile' takes it by --target")
PROFILE = Kind("a saved profile", "'tvm-vision profile' takes it by --compare")
CFG = Kind("a .cfg of a YOEO network", "'yoeo-to-onnx' makes an ONNX model of it")
JSON = Kind("JSON", _PATH)
TEXT = Kind("text", _PATH)
TEXTS = (TEXT, JSON, CFG, RECORDS, INFO, DEVICE, PROFILE)
TFLITE = Kind("a TFLite model", "'tvm-vision compile' makes a package of it")
ORT_FORMAT = Kind(
    "in onnxruntime's own format (.ort)",
    "take the .onnx file that it was made of, onnxruntime writes none from it",
)
ZIP = Kind("a zip archive", "unpack it")
COMPRESSED = Kind("compressed", "decompress it first")

_HEAD = 4096
_MOST_FIELDS = 65536  # of a model; who writes more of them wants to be looked at for long
_CONTROL = re.compile("[\0-\x08\x0e-\x1a\x1c-\x1f]")  # what no text has
_OF_PROGRAMS = ("archive_format", "serialized_exported_program.json")
# First bytes, and where they stand.
_MAGIC: tuple[tuple[int, bytes, Kind], ...] = (
    (0, b"\x89PNG\r\n", IMAGE),
    (0, b"\xff\xd8\xff", IMAGE),
    (0, b"GIF8", IMAGE),
    (8, b"WEBP", IMAGE),
    (0, b"II*\0", IMAGE),
    (0, b"MM\0*", IMAGE),
    # Brands of images in the container that videos have, too.
    *((4, b"ftyp" + brand, IMAGE) for brand in (b"avi", b"hei", b"hev", b"mif1", b"msf1")),
    (4, b"ftyp", VIDEO),
    (0, b"\0\0\0\x0cjP  ", IMAGE),
    (8, b"AVI ", VIDEO),
    (0, b"\x1aE\xdf\xa3", VIDEO),
    (0, b"\x89MCAP", BAG),
    (0, b"SQLite format 3\0", BAG),
    (0, b"\x7fELF", LIBRARY),
    (4, b"TFL3", TFLITE),
    (4, b"ORTM", ORT_FORMAT),
    (0, (0xF7E58D4F05049CB7).to_bytes(8, "little"), PARAMS),
    (0, b"\x89HDF\r\n", KERAS),
    (0, b"\x1f\x8b", COMPRESSED),
    (0, b"\xfd7zXZ", COMPRESSED),
    (0, b"BZh", COMPRESSED),
    (0, b"(\xb5/\xfd", COMPRESSED),
    (0, b"\x80\x02", CHECKPOINT),
)


def need(
    path: str | os.PathLike[str],
    what: str,
    *wanted: Kind,
    error: type[TvmVisionError] = InputError,
) -> None:
    """Raise ``error`` where a path plainly holds another kind than those ``wanted``.

    what: in words, for the message. Where the kind cannot be told, whoever reads it does.
    """
    found = kind_of(Path(path))
    if found is not None and found not in wanted:
        raise error(f"{what} is needed, and '{path}' is {found.words}: {found.remedy}")


def need_model(path: str | os.PathLike[str]) -> None:
    """Raise InputError where a path plainly holds nothing that a package is made of."""
    program = (TORCH_PROGRAM, ZIP) if Path(path).suffix in TORCH_SUFFIXES else ()
    need(path, "an ONNX, TFLite or .pt2 file", ONNX, TFLITE, *program)


def kind_of(path: Path) -> Kind | None:
    """What lies at a path; None where that cannot be told."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            return _kind_of_folder(path)
        if not stat.S_ISREG(mode):
            return SPECIAL
        with path.open("rb") as stream:
            head = stream.read(_HEAD)
    except FileNotFoundError:
        return MISSING
    except OSError:  # who reads it says why it cannot be
        return None
    if not head:
        return EMPTY
    for at, magic, kind in _MAGIC:
        if head[at : at + len(magic)] == magic:
            return kind
    if head[8:10] == b'{"' and int.from_bytes(head[:8], "little") < path.stat().st_size:
        return WEIGHTS  # of safetensors: the length of its JSON, and that
    if head[257:262] == b"ustar":
        return _kind_of_package(path) or TAR
    if head.startswith(b"PK\x03\x04"):
        return _kind_of_zip(path)
    if _is_onnx(path):
        return ONNX
    return _kind_of_text(head)


def _kind_of_folder(folder: Path) -> Kind:
    if (folder / "mod.json").exists():
        return _kind_of_package(folder) or PACKAGE
    if (folder / "saved_model.pb").exists():
        return SAVED_MODEL
    return BAG if (folder / "metadata.yaml").exists() else FOLDER


def _kind_of_package(path: Path) -> Kind | None:
    """By what its mod.json says, of which nothing is checked; None where it has none."""
    from .package.container import INFO, Extent, list_tar, open_file, read_extent

    in_folder = path.is_dir()
    try:
        with open_file(path / INFO if in_folder else path) as stream:
            size = os.fstat(stream.fileno()).st_size
            extent = Extent(0, size) if in_folder else list_tar(stream)[INFO]
            document = json.loads(read_extent(stream, INFO, extent))
        kind = str(document["model"]["kind"])
    except Exception:  # damaged in whatever way: who reads it says how
        return None
    seeing = dict.fromkeys(("yolo", "detr", "ssd", "segmenter", "depth"), SEEING)
    return {"classifier": CLASSIFIER, "yoeo": YOEO, **seeing}.get(kind, PACKAGE)


def _kind_of_zip(path: Path) -> Kind:
    import zipfile

    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except Exception:  # a damaged one
        return ZIP
    if any(name.endswith(".npy") for name in names):
        return ARRAYS
    if any(name.endswith(_OF_PROGRAMS) or "/models/" in name for name in names):
        return TORCH_PROGRAM
    if any("/code/" in name for name in names):
        return TORCH_SCRIPT
    if "model.weights.h5" in names:
        return KERAS
    return CHECKPOINT if any(name.endswith("data.pkl") for name in names) else ZIP


def _is_onnx(path: Path) -> bool:
    """Whether a file is a sequence of protobuf fields as a ModelProto has them, with a graph."""
    size, graph, at, fields = path.stat().st_size, 7, 0, 0
    seen: set[int] = set()
    with path.open("rb") as stream:
        while at < size:
            fields += 1
            if fields > _MOST_FIELDS:
                return False
            stream.seek(at)
            key, used = _varint(stream.read(10))
            field, wire = key >> 3, key & 7
            if not used or not 1 <= field <= 25 or wire not in (0, 2):
                return False
            stream.seek(at + used)
            value, more = _varint(stream.read(10))
            if not more:
                return False
            at += used + more + (value if wire == 2 else 0)
            seen.add(field)
    return at == size and graph in seen


def _varint(data: bytes) -> tuple[int, int]:
    """A number of protobuf, and of how many bytes it is; 0 where it is none."""
    value = 0
    for index, byte in enumerate(data):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, index + 1
    return 0, 0


def _kind_of_text(head: bytes) -> Kind | None:
    # The last character may be cut.
    text = head.decode("utf-8", "ignore").lstrip("\ufeff \t\r\n")
    if _CONTROL.search(text) or len(text.encode()) < len(head.strip()) - 8:
        return None
    if text.startswith("{"):
        if ('"kernel"' in text and '"place"' in text) or '"decision"' in text:
            return RECORDS
        if '"tvm_vision device"' in text:
            return DEVICE
        if '"tvm_vision profile"' in text:
            return PROFILE
        return INFO if '"format_version"' in text or '"graph"' in text else JSON
    return CFG if text.startswith(("[net]", "[network]")) else TEXT


def need_ending(path: Path, *endings: str) -> Path:
    """The path of a file to write, whose ending says what it will be: one of ``endings``, in small
    letters or large ones. Raises InputError for another."""
    if path.suffix.lower() in endings:
        return path
    known = " or ".join(filter(None, (", ".join(endings[:-1]), endings[-1])))
    raise InputError(f"a file that ends in {known} is needed, found '{path.name}': name it so")


# Endings of files that a folder is not called by. A folder may well end in a number, as in "v1.2".
_OF_FILES = frozenset(
    "onnx ort tflite pt pt2 pth ckpt pkl h5 keras pb safetensors engine trt xml bin png jpg jpeg "
    "bmp gif webp tif tiff svg pdf mp4 avi mkv mov webm mcap db3 bag py ipynb sh c cc cpp h hpp so "
    "o a json jsonl yaml yml toml cfg txt md log csv html htm npy npz tar zip gz tgz bz2 xz txz "
    "zst 7z pem key comp spv".split()
)


def need_folder_name(path: Path, needed: str, remedy: str, error: type[TvmVisionError]) -> None:
    """Raise ``error`` for a folder yet to be made whose name is one of a file, as "net.onnx" is.

    needed: which name, in words; remedy: which one instead.
    """
    if path.suffix[1:].lower() in _OF_FILES and not path.is_dir():
        raise error(f"{needed} is needed, and '{path.name}' is that of another file: {remedy}")
