"""Every command with every kind of file that it does not take: one line that says what was found,
and which command serves that."""

from __future__ import annotations

import io
import json
import re
import sqlite3
import zipfile
from pathlib import Path

import cv2
import numpy as np
import pytest

from support import handmade, packages, yoeo_networks
from support.packages import sealed
from tvm_vision.devices import known_devices
from tvm_vision.file_kinds import kind_of
from tvm_vision.package import repack_package
from tvm_vision.tuning.records import Record, TuningKey


def package_of(kind: str, path: Path) -> Path:
    """A package that says that it is of a kind."""
    folder = path if path.suffix != ".tar" else path.with_suffix("")
    handmade.write_package_file(folder)
    document = json.loads((folder / "mod.json").read_text())
    document["model"]["kind"] = kind
    (folder / "mod.json").write_bytes(
        sealed({k: v for k, v in document.items() if k != "checksum"})
    )
    if folder != path:
        repack_package(folder, path)
    return path


def checkpoint() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02}.")
    return stream.getvalue()


def program() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("m/archive_format", b"pt2")
        archive.writestr("m/models/model.json", b"{}")
    return stream.getvalue()


# What stands for each kind of file in the line that refuses it.
FOUND = {
    "missing": "not there|does not exist|No such file",
    "folder": "a folder|is a directory|Is a directory|has none|has no |not a bag",
    "empty": "empty|it is no|no section|no label|not an image|neither an image|has no outputs",
    "onnx": "an ONNX model: 'tvm-vision compile' makes a package of it",
    "package": "a package: 'tvm-vision inspect' says what is in it",
    "classifier": "(the package of|is) a classifier: 'tvm-vision classify' runs it",
    "yoeo": "the package of a YOEO network: 'tvm-vision detect' runs it",
    "package folder": "a package: 'tvm-vision inspect' says what is in it|has none",
    "tar": "a tar that is no package|only mod.json",
    "text": "text|must be JSON|first section|not an image|neither|not an .npz|record a line",
    "json": "JSON|is not known|format is missing|the keys|text|first section|not an image|neither"
    "|record a line",
    "image": "an image",
    "video": "a video",
    "bag": "a recorded bag: 'tvm-vision bag' and 'replay' take it",
    "npz": "an .npz file of arrays: 'tvm-vision run' takes it by --inputs",
    "checkpoint": "a PyTorch checkpoint: export it to ONNX where it was trained, as 'yolo export",
    "program": "an exported PyTorch program: 'tvm-vision compile' makes a package of it",
    "records": "a file of tuning records: 'tvm-vision compile' takes it by --tuning-records",
    "device": "the description of a device: 'tvm-vision compile' takes it by --target",
    "cfg": "a .cfg of a YOEO network: 'yoeo-to-onnx' makes an ONNX model of it",
    "library": "a shared library|mod.so",
    "params": "mod.params of a package",
    "gzip": "compressed|gzip",
    "ort": r"in onnxruntime's own format \(\.ort\): take the \.onnx file|.ort: not a",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    where = tmp_path_factory.mktemp("files")
    content = {
        "empty": b"",
        "text": b"hello\nworld\n",
        "json": b'{"a": 1}\n',
        "image": cv2.imencode(".png", np.zeros((8, 8, 3), np.uint8))[1].tobytes(),
        "video": b"\0\0\0\x18ftypmp42" + bytes(64),
        "checkpoint": checkpoint(),
        "program": program(),
        "records": Record("k", "n", TuningKey("d", "r", "fp32"), {"x": 1}, (0.5,))
        .to_json()
        .encode()
        + b"\n",
        "device": known_devices()["renoir"].to_bytes(),
        "cfg": yoeo_networks.CFG.encode(),
        "library": packages.LIBRARY,
        "params": packages.params_bytes(),
        "gzip": b"\x1f\x8b" + bytes(40),
        "ort": b"\x18\0\0\0ORTM" + bytes(40),
    }
    found = {name: where / f"{name}.file" for name in (*content, "npz", "bag", "onnx", "tar")}
    for name, data in content.items():
        found[name].write_bytes(data)
    with found["npz"].open("wb") as stream:
        np.savez(stream, q=np.zeros(3))
    with zipfile.ZipFile(where / "x.zip", "w"), sqlite3.connect(found["bag"]) as bag:
        bag.execute("create table topics (id int)")
    handmade.write_model(found["onnx"])
    import tarfile

    with tarfile.open(found["tar"], "w", format=tarfile.USTAR_FORMAT) as archive:
        archive.add(found["text"], "notes.txt")
    found["folder"] = where / "folder"
    found["folder"].mkdir()
    found["missing"] = where / "missing.file"
    for kind, name in (("network", "package"), ("classifier", "classifier"), ("yoeo", "yoeo")):
        found[name] = package_of(kind, where / f"{name}.tar")
    found["package folder"] = package_of("network", where / "package_folder")
    assert set(found) == set(FOUND)
    return found


PACKAGES = {"package", "classifier", "yoeo", "package folder"}
# Words of a command with FILE for the file, GOOD for a package and MODEL for an ONNX file that are
# sound; then the kinds that it takes, or refuses for another reason than their kind.
COMMANDS: dict[str, tuple[list[str], set[str]]] = {
    "compile": (["compile", "FILE", "-o", "OUT"], {"onnx"}),
    "compile --labels": (
        ["compile", "MODEL", "-o", "OUT", "--kind", "classifier", "--labels", "FILE"],
        {"text", "json", "records", "cfg", "device"},  # lines of text, but not as many as classes
    ),
    "compile --target": (
        ["compile", "MODEL", "-o", "OUT", "--target", "FILE.json"],
        {"device", "package folder"},
    ),
    "compile --preprocess": (
        ["compile", "MODEL", "-o", "OUT", "--preprocess", "FILE.json"],
        {"package folder"},
    ),
    "compile --names": (
        ["compile", "MODEL", "-o", "OUT", "--kind", "yoeo", "--names", "FILE"],
        set(),
    ),
    "compile --tuning-records": (
        ["compile", "MODEL", "-o", "OUT", "--target", "llvm", "--tuning-records", "FILE"],
        {"records", "empty"},
    ),
    "yoeo-onnx-to-tvm": (["yoeo-onnx-to-tvm", "FILE", "-o", "OUT"], {"onnx"}),
    "quantize": (["quantize", "FILE", "-o", "OUT.onnx", "--sample-images", "IMAGE"], {"onnx"}),
    "quantize --sample-images": (
        ["quantize", "MODEL", "-o", "OUT.onnx", "--sample-images", "FILE"],
        {"image"},
    ),
    "tune": (["tune", "FILE", "-r", "OUT"], {"onnx"}),
    "tune --records": (["tune", "MODEL", "-r", "FILE"], {"records", "empty", "missing"}),
    "inspect": (["inspect", "FILE"], PACKAGES),
    "run": (["run", "FILE"], PACKAGES),
    "run --inputs": (["run", "GOOD", "--inputs", "FILE"], {"npz"}),
    "run --image": (["run", "GOOD", "--image", "FILE"], {"image"}),
    "benchmark": (["benchmark", "FILE"], PACKAGES),
    "profile": (["profile", "FILE"], PACKAGES),
    "profile --per-layer-error": (
        ["profile", "GOOD", "--repeat", "1", "--per-layer-error", "FILE"],
        {"onnx"},
    ),
    "profile --compare": (["profile", "GOOD", "--repeat", "1", "--compare", "FILE"], PACKAGES),
    "show": (["show", "FILE", "-o", "OUT.html"], PACKAGES | {"onnx"}),
    "show --model": (["show", "GOOD", "--model", "FILE", "-o", "OUT.html"], {"onnx"}),
    "show --layer": (["show", "FILE", "--model", "MODEL", "--layer", "Relu_2"], PACKAGES),
    "evaluate": (["evaluate", "FILE", "IMAGE"], {"onnx"}),
    "evaluate DATA": (["evaluate", "MODEL", "FILE"], {"folder"}),
    "check": (["check", "FILE", "MODEL"], PACKAGES),
    "check MODEL": (["check", "GOOD", "FILE"], {"onnx"}),
    "classify": (["classify", "FILE", "IMAGE"], PACKAGES),
    "detect": (["detect", "FILE", "IMAGE"], PACKAGES),
    "package unpack": (["package", "unpack", "FILE", "OUT"], PACKAGES),
    "package repack": (["package", "repack", "FILE", "OUT.tar"], PACKAGES),
    "records list": (["records", "list", "FILE"], {"records", "empty"}),
    "records merge": (["records", "merge", "FILE", "-o", "OUT"], {"records", "empty"}),
    "yoeo-to-onnx": (["yoeo-to-onnx", "FILE", "WEIGHTS", "-o", "OUT.onnx"], {"cfg"}),
    "yoeo-to-onnx WEIGHTS": (["yoeo-to-onnx", "CFG", "FILE", "-o", "OUT.onnx"], {"checkpoint"}),
    "demo --model": (["demo", "--model", "FILE", "--device", "cpu", "--output", "OUT"], {"onnx"}),
    "bag": (["bag", "FILE", "OUT.mcap", "--model", "GOOD"], {"bag", "folder"}),
    "bag --model": (["bag", "BAG", "OUT.mcap", "--model", "FILE"], PACKAGES | {"folder"}),
}
CASES = [
    (name, kind) for name, (_, taken) in COMMANDS.items() for kind in FOUND if kind not in taken
]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_what_was_found_is_said_in_one_line(
    name: str, kind: str, files: dict[str, Path], tiny_package: Path, model: Path, tmp_path: Path,
    command, refuses, monkeypatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    stands = {
        "FILE": files[kind], "GOOD": tiny_package, "MODEL": model, "OUT": tmp_path / "out",
        "OUT.tar": tmp_path / "out.tar", "OUT.mcap": tmp_path / "out.mcap", "BAG": files["bag"],
        "OUT.html": tmp_path / "out.html", "OUT.onnx": tmp_path / "out.onnx",
        "IMAGE": files["image"], "CFG": files["cfg"], "WEIGHTS": files["checkpoint"],
    }  # fmt: skip
    before = {path: path.read_bytes() for path in files.values() if path.is_file()}
    words, _ = COMMANDS[name]
    if "FILE.json" in words:
        stands["FILE.json"] = renamed(files[kind], tmp_path / "file.json")
    line = refuses(*(stands.get(word, word) for word in words))
    assert line.startswith("Error: ") and len(line) < 500
    assert re.search(FOUND[kind], line), line
    # Nothing was written, and nothing that was given was changed.
    assert not (tmp_path / "out").exists() or not any((tmp_path / "out").iterdir())
    assert not any(path.exists() for word, path in stands.items() if word.startswith("OUT."))
    assert {path: path.read_bytes() for path in before} == before


def renamed(source: Path, path: Path) -> Path:
    """The same file under a name that ends in .json."""
    if source.is_dir():
        path.mkdir()
    elif source.exists():
        path.write_bytes(source.read_bytes())
    return path


@pytest.mark.parametrize(
    ("command_name", "kind", "says"),
    [
        (
            "classify",
            "yoeo",
            "a classifier is needed, and 'tiny' is a network of kind yoeo: '",
        ),
        ("detect", "classifier", "'tiny' is none: compile it with --kind classifier"),
        ("detect", "network", "or depth is needed, and 'tiny' is of kind network: compile it"),
    ],
)
def test_a_package_of_another_kind(
    command_name: str, kind: str, says: str, files, refuses, monkeypatch
) -> None:
    name = "package" if kind == "network" else kind
    line = refuses(command_name, files[name], files["image"])
    assert re.search(says, line), line


def test_a_labels_file_of_another_length_is_refused_before_compiling(
    model, tiny_package, refuses, tmp_path, monkeypatch
) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("a\nb\n")
    output = tmp_path / "x.tar"
    monkeypatch.setattr("tvm_vision.compiler.compile_model", None)
    for kind in (["--kind", "classifier"], []):
        line = refuses(
            "compile", model, "-o", output, "--target", "llvm", *kind, "--labels", labels
        )
        assert "3 labels are needed, one for each class of 'tiny', found 2" in line
    assert not output.exists()


def test_kinds_of_damaged_files(tmp_path: Path, files: dict[str, Path]) -> None:
    """Whatever is in a file, asking what it is raises nothing."""
    path = tmp_path / "file"
    for source in files.values():
        for cut in range(0, 600, 37):
            path.write_bytes(source.read_bytes()[:cut] if source.is_file() else b"")
            kind_of(path)
    path.write_bytes(json.dumps({"mod": "json"}).encode())
    kind_of(path)


@pytest.mark.parametrize(
    ("words", "exit_code"), [("compile FILE -o x.tar", 1), ("tune FILE -r x.jsonl --list-tasks", 0)]
)
def test_auto_says_its_target_before_it_compiles_and_only_of_a_model(
    words: str, exit_code: int, files, model, command, monkeypatch, tmp_path
) -> None:
    """Without a driver too, where it is the processor."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tvm_vision.vulkan.devices", lambda: [])
    monkeypatch.setattr("tvm_vision.vulkan.status", lambda: "no driver; install one")
    monkeypatch.setattr("tvm_vision.compiler.compile_model", lambda *_, **__: 1 / 0)
    result = command(*words.replace("FILE", str(files["text"])).split())
    assert result.exit_code == 1 and "target: " not in result.stderr
    result = command(*words.replace("FILE", str(model)).split())
    (said,) = (line for line in result.stderr.splitlines() if line.startswith("target: "))
    assert re.match(r"target: auto is this machine's processor \(llvm .*: no driver; install", said)
    assert result.exit_code == exit_code


def test_a_place_that_cannot_be_written_is_said_before_anything_is_done(
    refuses, tiny_package, tmp_path, monkeypatch
):
    """The inputs of these commands are none, which would be found later."""
    monkeypatch.setattr("tvm_vision.frontend.model.import_model", None)
    taken, none = tmp_path / "file", tmp_path / "none.npz"
    for path in (taken, none):
        path.touch()
    model = handmade.write_model(tmp_path / "tiny.onnx")
    for words in (
        ("compile", model, "--target", "llvm", "-o", taken / "m.tar"),
        ("compile", model, "--target", "llvm,renoir", "-o", taken / "m.tar"),
        ("profile", tiny_package, "--inputs", none, "--html", taken / "p.html"),
        ("profile", tiny_package, "--inputs", none, "--trace", taken / "t.json"),
        ("benchmark", tiny_package, "--inputs", none, "--plot", taken / "b.png"),
    ):
        line = refuses(*words)
        assert f"'{words[-1]}' cannot be written (Not a directory): name a folder" in line, words


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"a/code/n.py": b"", "a/data.pkl": b"", "a/constants.pkl": b""}, "a TorchScript program"),
        ({"config.json": b"{}", "model.weights.h5": b""}, "a Keras network: tf2onnx"),
        (b"\x89HDF\r\n\x1a\n" + bytes(64), "a Keras network: tf2onnx"),
        (b"\x10\0\0\0\0\0\0\0" + b'{"a":{}}' + bytes(40), "weights without a network: export"),
        ("saved_model.pb", "a TensorFlow SavedModel: tf2onnx"),
    ],
)
def test_networks_of_other_forms_are_told_by_name(
    content: dict[str, bytes] | bytes | str, says: str, tmp_path: Path, refuses
) -> None:
    path = tmp_path / "network"
    if isinstance(content, dict):
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in content.items():
                archive.writestr(name, data)
    elif isinstance(content, str):
        path.mkdir()
        (path / content).write_bytes(b"")
    else:
        path.write_bytes(content)
    assert says in refuses("compile", path, "-o", tmp_path / "out.tar")
