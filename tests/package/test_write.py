"""Writing: the same bytes each time, the whole or nothing, and TVM reads what was written."""

import os
import signal
import subprocess
import sys
import tarfile

import ml_dtypes
import numpy as np
import onnx
import pytest
import tvm
from onnx import helper

import tvm_vision
from support import handmade, packages
from support.handmade import MODEL, Compiled
from support.onnx_models import make_model
from support.packages import sample_graph, write_sample
from tvm_vision.errors import PackageError
from tvm_vision.package import (
    ModelInfo,
    PackageDevice,
    Preprocessing,
    read_package,
    repack_package,
    unpack_package,
    write_package,
)
from tvm_vision.package.files import need_package_place as place
from tvm_vision.package.params import list_params, write_params


@pytest.fixture(scope="module")
def library():
    return handmade.library()


def write(path, library, **changes):
    return write_package(path, Compiled(library, **changes), MODEL)


def test_what_is_written_is_read_and_runs(tmp_path, library):
    path = tmp_path / "deeper" / "out.tar"
    info = write_package(path, Compiled(library), MODEL, device=PackageDevice("GPU", "driver 1.2"))
    with read_package(path) as package:
        assert package.info == info
        assert info.device == PackageDevice("GPU", "driver 1.2")
        package.check_machine()
        loaded = tvm.runtime.load_module(str(package.library_path))
        weights = tvm.runtime.load_param_dict(package.params[:])
    x, y = (tvm.runtime.tensor(np.array(values, np.float32)) for values in ([-1, 0, 2], [9, 9, 9]))
    loaded["relu"](x, y)
    assert y.numpy().tolist() == [0, 0, 2]
    assert {name: array.numpy().tolist() for name, array in weights.items()} == {
        name: array.tolist() for name, array in packages.WEIGHTS.items()
    }


def test_a_network_of_constants_alone_is_written_and_runs(tmp_path):
    node = helper.make_node("Neg", ["w"], ["y"])
    model = make_model([node], [], [("y", (3,))], [("w", np.array([1, 2, 3], np.float32))])
    onnx.save(model, tmp_path / "m.onnx")
    path = tvm_vision.compile(tmp_path / "m.onnx", tmp_path / "m.tar", target="llvm")
    network = tvm_vision.load(path)
    network.run()
    assert network.outputs()["y"].tolist() == [-1, -2, -3]


def test_the_same_input_gives_the_same_bytes(tmp_path, library):
    write(tmp_path / "first.tar", library)
    code = (
        "import sys; from support import handmade as h\n"
        "from tvm_vision.package import write_package\n"
        "write_package(sys.argv[1], h.Compiled(h.library()), h.MODEL)"
    )
    second = tmp_path / "second.tar"
    subprocess.run([sys.executable, "-c", code, second], check=True, cwd=tmp_path)
    assert second.read_bytes() == (tmp_path / "first.tar").read_bytes()
    with tarfile.open(second) as archive:
        entries = archive.getmembers()
    assert [entry.name for entry in entries] == ["mod.json", "mod.params", "mod.so"]
    assert {(entry.mtime, entry.uid, entry.gid, entry.mode) for entry in entries} == {
        (0, 0, 0, 0o644)
    }


def test_folder_and_tar_are_the_same_package(tmp_path, library):
    write(tmp_path / "out.tar", library)
    write(tmp_path / "out", library)
    unpack_package(tmp_path / "out.tar", tmp_path / "unpacked")
    for name in ("mod.json", "mod.params", "mod.so"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "unpacked" / name).read_bytes()
    repack_package(tmp_path / "unpacked", tmp_path / "again.tar")
    assert (tmp_path / "again.tar").read_bytes() == (tmp_path / "out.tar").read_bytes()
    write(tmp_path / "out", library)
    assert {path.name for path in tmp_path.iterdir()} == {"out", "out.tar", "unpacked", "again.tar"}


def test_an_edited_folder_is_refused_until_it_is_repacked(tmp_path):
    folder = write_sample(tmp_path / "folder")
    text = (folder / "mod.json").read_text()
    (folder / "mod.json").write_text(text.replace('"dog"', '"wolf"'))
    with pytest.raises(PackageError, match=r"mod\.json must have the checksum .* package repack"):
        read_package(folder)
    repack_package(folder, tmp_path / "new.tar")
    with read_package(tmp_path / "new.tar") as package:
        assert package.info.model.labels == ("cat", "wolf", "fish")


def test_repacking_checks_like_reading(tmp_path):
    folder = write_sample(tmp_path / "folder")
    (folder / "mod.params").write_bytes(b"nothing")
    with pytest.raises(PackageError, match=r"mod\.params cannot be read"):
        repack_package(folder, tmp_path / "new.tar")
    assert not (tmp_path / "new.tar").exists()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: unpack_package(p / "a.tar", p / "b.tar"), "a folder is needed to unpack into"),
        (lambda p: repack_package(p / "folder", p / "b"), r"a name that ends in \.tar is needed"),
        (lambda p: repack_package(p / "a.tar", p / "b.tar"), "a folder is needed to repack"),
        (lambda p: place(p / "a.onnx"), r"'a.onnx' is that of another file: name it 'a.tar'"),
        (lambda p: place(p / "a.tar.gz"), r"'a.tar.gz' is .*: name it 'a.tar'"),
        (lambda p: place(p / "a.TAR"), r"'a.TAR' is .*: name it 'a.tar'"),
        (lambda p: place(p / "v1.2.PNG"), r"'v1.2.PNG' is .*: name it 'v1.2.tar'"),
        (lambda p: unpack_package(p / "a.tar", p / "full"), r"has other files \('mine'\)"),
        (lambda p: unpack_package(p / "a.tar", p / "a.tar" / "x"), "cannot be written"),
        (lambda p: unpack_package(p / "a.tar", p / "full" / "mine"), r"ends in \.tar .*is a file"),
    ],
)
def test_the_wrong_way_round(tmp_path, call, message):
    write_sample(tmp_path / "a.tar")
    write_sample(tmp_path / "folder")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(PackageError, match=message):
        call(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


def test_nothing_is_written_when_the_graph_is_not_sound(tmp_path, library):
    graph = sample_graph()
    graph["kernels"][0]["args"][-1] = 99
    with pytest.raises(PackageError, match="must be ids below 6"):
        write(tmp_path / "out.tar", library, graph=graph)
    with pytest.raises(PackageError, match=r"weight 'p1' must be float32 \[3\], found float32 \[2"):
        weights = {**packages.WEIGHTS, "p1": np.zeros(2, np.float32)}
        write(tmp_path / "out.tar", library, params=weights)
    with pytest.raises(PackageError, match="'p1' is complex64"):
        weights = {**packages.WEIGHTS, "p1": np.zeros(3, np.complex64)}
        write(tmp_path / "out.tar", library, params=weights)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing(tmp_path, library, monkeypatch):
    from tvm_vision.package import container

    def full(stream, members):
        stream.write(b"some")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(container, "write_tar", full)
    with pytest.raises(PackageError, match=r"cannot be written \(No space left on device\)"):
        write(tmp_path / "out.tar", library)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("action", ["write", "read", "unpack"])
def test_no_room_for_temporary_files(tmp_path, library, monkeypatch, action):
    write_sample(tmp_path / "a.tar")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "not there"))
    with pytest.raises(PackageError, match=r"temporary files .*No such file.* TMPDIR$"):
        if action == "write":
            write(tmp_path / "out.tar", library)
        elif action == "read":
            read_package(tmp_path / "a.tar")
        else:
            unpack_package(tmp_path / "a.tar", tmp_path / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["a.tar"]


def test_a_full_temporary_folder_leaves_nothing(tmp_path, monkeypatch):
    from tvm_vision.package import container

    def full(stream, extent, target):
        target.write_bytes(b"some")
        raise OSError(28, "No space left on device")

    write_sample(tmp_path / "a.tar")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(container, "copy_extent", full)
    with pytest.raises(PackageError, match=r"temporary files .*No space left on device"):
        read_package(tmp_path / "a.tar")
    assert [path.name for path in tmp_path.iterdir()] == ["a.tar"]


def test_no_compiler_is_needed(tmp_path, library, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    write(tmp_path / "out.tar", library)
    with read_package(tmp_path / "out.tar") as package:
        package.check_machine()


def test_preprocessing_is_kept(tmp_path, library):
    model = ModelInfo("tiny", preprocessing=Preprocessing((224, 192), crop=0.875, std=(58.4,) * 3))
    write_package(tmp_path / "out.tar", Compiled(library), model)
    with read_package(tmp_path / "out.tar") as package:
        assert package.info.model == model


def test_tvm_reads_weights_of_every_type(tmp_path):
    rng = np.random.default_rng(5)
    arrays = {
        name: rng.integers(0, 2, (2, 3)).astype(name)
        for name in ("bool", "int8", "uint8", "int64", "float16", "float32", "float64")
    }
    arrays |= {
        "b": np.zeros(2, ml_dtypes.bfloat16),
        "scalar": np.array(3, np.float32),
        "none": np.zeros((0, 2)),
    }
    arrays["turned"] = rng.random((3, 4)).T
    path = tmp_path / "mod.params"
    with path.open("wb") as stream:
        write_params(stream, arrays)
    loaded = tvm.runtime.load_param_dict(path.read_bytes())
    for name, array in arrays.items():
        assert loaded[name].dtype == str(np.asarray(array).dtype)
        np.testing.assert_array_equal(loaded[name].numpy(), array)
    ours = {name: tvm.runtime.tensor(np.asarray(arrays[name])) for name in sorted(arrays)}
    assert path.read_bytes() == bytes(tvm.runtime.save_param_dict(ours))
    with path.open("rb") as stream:
        stored = list_params(stream)
    assert stored["turned"].shape == (4, 3)


@pytest.mark.parametrize(
    "step",
    [
        "tvm_vision.package.build.link_library",
        "tvm_vision.package.container.write_tar",
        "shutil.copyfile",
    ],
)
def test_what_a_killed_compilation_leaves_goes_with_the_next(tmp_path, library, monkeypatch, step):
    """Beside the package and in $TMPDIR, objects that TVM writes to link them included."""
    code = (
        "import os, sys; from support import handmade as h\n"
        "from tvm_vision.package import write_package\n"
        "from importlib import import_module\n"
        "module, _, name = sys.argv[2].rpartition('.'); module = import_module(module)\n"
        "setattr(module, name, lambda *_, **__: os.kill(os.getpid(), 9))\n"
        "write_package(sys.argv[1], h.Compiled(h.library()), h.MODEL)"
    )
    (tmp_path / "tmp").mkdir()
    path = tmp_path / ("out" if step == "shutil.copyfile" else "out.tar")
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    command = [sys.executable, "-c", code, path, step]
    assert subprocess.run(command, env=environment).returncode == -signal.SIGKILL
    assert list((tmp_path / "tmp").iterdir()) and not path.exists()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr("tvm_vision.whole_files._visited", set())
    write(path, library)
    assert sorted(tmp_path.rglob("*")) == sorted(
        {tmp_path / "tmp", path, *(path.iterdir() if path.is_dir() else ())}
    )


def test_a_folder_that_was_being_replaced_without_an_exchange_is_read_again(tmp_path):
    folder = write_sample(tmp_path / "folder")
    scratch = tmp_path / ".tvm_vision-abcdefgh.part" / "displaced"
    scratch.mkdir(parents=True)
    folder.rename(scratch / "folder")
    with read_package(folder) as package:
        assert package.info.model.labels == ("cat", "dog", "fish")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
