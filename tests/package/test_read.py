"""Packages that are damaged, altered or wrong: one line that says what, and nothing left behind."""

import json
import os
import re
import socket
import struct
import tempfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support import packages
from support.packages import (
    sample_info,
    sample_members,
    sealed,
    tensor,
    with_checksum,
    write_sample,
)
from tvm_vision.errors import PackageError
from tvm_vision.package import PackageInfo, read_package
from tvm_vision.package.container import list_tar


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """The folder that packages are extracted into."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture(scope="module")
def tar_bytes(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("tar") / "good.tar").read_bytes()


def refused(path, scratch=None):
    with pytest.raises(PackageError) as caught:
        read_package(path)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 400
    assert scratch is None or not list(scratch.iterdir())
    return message


@pytest.mark.parametrize("name", ["good.tar", "folder"])
def test_a_good_package(tmp_path, scratch, name):
    with read_package(write_sample(tmp_path / name)) as package:
        assert package.library_path.read_bytes() == packages.LIBRARY
        assert package.params[:] == packages.params_bytes()
        assert package.info.model.labels == ("cat", "dog", "fish")
        assert str(package.info.inputs[0]) == "x: float32[4]"
        assert package.info.device_kind == "cpu"
        # Not the file that others may write over while it is loaded.
        assert package.library_path.parent.parent == scratch
        assert package.library_path.parent.stat().st_mode & 0o077 == 0
    assert list(scratch.iterdir()) == []


def test_a_package_that_nobody_holds_takes_its_folder_along(tmp_path, scratch):
    read_package(write_sample(tmp_path / "good.tar"))
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(
    "counted", [{}, {"operations": 27}, {"operations": 27, "matrices": "float16"}]
)
def test_mod_json_comes_back_as_it_was_written(counted):
    """Also where its kernels say nothing of operations: checksums of older packages hold."""
    document = sample_info()
    document["graph"]["kernels"][0].update(counted)
    info = PackageInfo.from_json(document)
    assert info.to_json() == {**document, "checksum": info.checksum}
    assert PackageInfo.from_bytes(info.to_bytes()) == info


def test_a_tar_cut_anywhere_is_refused(tmp_path, tar_bytes, scratch):
    extents = list_tar(open_bytes(tmp_path, tar_bytes))
    end = max(extent.offset + extent.size for extent in extents.values())
    lengths = {0, 1, 511, 512, 513, *range(0, end, 97), end - 1}
    for length in sorted(lengths):
        path = tmp_path / "cut.tar"
        path.write_bytes(tar_bytes[:length])
        assert re.search("cannot be read|is text", refused(path, scratch))


def open_bytes(tmp_path, data):
    path = tmp_path / "bytes"
    path.write_bytes(data)
    return path.open("rb")


def test_any_altered_byte_of_a_member_is_found(tmp_path, tar_bytes, scratch):
    extents = list_tar(open_bytes(tmp_path, tar_bytes))
    path = tmp_path / "altered.tar"
    for extent in extents.values():
        for position in range(extent.offset, extent.offset + extent.size, 7):
            altered = bytearray(tar_bytes)
            altered[position] ^= 1 << position % 8
            path.write_bytes(altered)
            refused(path, scratch)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_altered_headers_are_refused_or_mean_the_same(tmp_path, tar_bytes, data):
    altered = bytearray(tar_bytes)
    for _ in range(data.draw(st.integers(1, 3))):
        altered[data.draw(st.integers(0, 511))] = data.draw(st.integers(0, 255))
    path = tmp_path / "header.tar"
    path.write_bytes(altered)
    try:
        read_package(path).close()
    except PackageError:
        pass


def header(name, size=0, kind=b"0", link=b""):
    """One ustar header with the right checksum, whatever is in it."""
    fields = bytearray(512)
    fields[0 : len(name)] = name
    fields[100:108] = b"0000644\0"
    fields[124:136] = b"%011o\0" % size
    fields[156:157] = kind
    fields[157 : 157 + len(link)] = link
    fields[257:265] = b"ustar\x0000"
    fields[148:156] = b" " * 8
    fields[148:156] = b"%06o\0 " % sum(fields)
    return bytes(fields)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            header(b"../mod.so"),
            r"'\.\./mod\.so' is in it, and only mod\.json, mod\.params, mod\.so",
        ),
        (header(b"/etc/passwd"), "'/etc/passwd' is in it"),
        (header(b"a/mod.so"), "'a/mod.so' is in it"),
        (header(b"mod.so", kind=b"2", link=b"/etc/passwd"), "'mod.so' is a symbolic link"),
        (header(b"mod.so", kind=b"1", link=b"mod.json"), "'mod.so' is a hard link"),
        (header(b"mod.so", kind=b"3"), "'mod.so' is a character device"),
        (header(b"mod.so", kind=b"6"), "'mod.so' is a pipe"),
        (header(b"more", kind=b"5"), "'more' is a folder"),
        (header(b"x", kind=b"x"), "an extended header"),
        (header(b"x", kind=b"L"), "a long name"),
        (header(b"x", kind=b"Z"), "an entry of type b'Z'"),
        (header(b"mod.so", 8**11 - 1), "has 8589934591 bytes, and .* are left"),
        (header(b"mod.json") + header(b"mod.json"), r"'mod\.json' is in it twice"),
    ],
)
def test_other_members_are_refused(tmp_path, tar_bytes, scratch, entry, message):
    path = tmp_path / "other.tar"
    path.write_bytes(entry + tar_bytes)
    with pytest.raises(PackageError, match=message):
        read_package(path)
    assert not list(scratch.iterdir())


def test_a_size_in_binary_is_refused(tmp_path, tar_bytes):
    fields = bytearray(header(b"mod.so"))
    fields[124:136] = b"\x80" + b"\xff" * 11
    fields[148:156] = b" " * 8
    fields[148:156] = b"%06o\0 " % sum(fields)
    path = tmp_path / "huge.tar"
    path.write_bytes(bytes(fields) + tar_bytes)
    assert "a size in a header is no octal number" in refused(path)


@pytest.mark.parametrize("name", ["mod.json", "mod.params", "mod.so"])
def test_a_missing_member(tmp_path, name):
    members = sample_members()
    del members[name]
    assert f"{name} missing" in refused(write_sample(tmp_path / "less.tar", members))
    assert f"a package needs {name}" in refused(write_sample(tmp_path / "less", members))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is empty"),
        (b"no tar at all" * 100, "is text"),
        (b"no tar at all\0" * 100, "it is no tar"),
        (b"\x1f\x8b" + bytes(600), "it looks like gzip: decompress it first"),
        (bytes(10240), "mod.json, mod.params, mod.so missing"),
    ],
)
def test_other_files(tmp_path, content, message):
    path = tmp_path / "other.tar"
    path.write_bytes(content)
    assert message in refused(path)


def test_no_file_and_no_plain_file(tmp_path):
    assert "cannot be opened (No such file or directory)" in refused(tmp_path / "none.tar")
    os.mkfifo(tmp_path / "pipe.tar")
    assert "is neither" in refused(tmp_path / "pipe.tar")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s.tar"))
        assert "cannot be opened" in refused(tmp_path / "s.tar")


def test_links_in_a_folder_are_refused(tmp_path):
    folder = write_sample(tmp_path / "folder")
    (folder / "mod.so").rename(tmp_path / "elsewhere.so")
    (folder / "mod.so").symlink_to(tmp_path / "elsewhere.so")
    assert "must be a plain file, and is a link" in refused(folder)


@pytest.mark.parametrize("name", ["mod.params", "mod.so"])
@pytest.mark.parametrize("kind", ["p.tar", "folder"])
def test_a_member_of_another_checksum(tmp_path, name, kind):
    members = sample_members()
    members[name] += b"!"
    assert f"{name} must have the SHA-256" in refused(write_sample(tmp_path / kind, members))


def test_a_tar_by_another_program_is_read(tmp_path):
    import subprocess

    folder = write_sample(tmp_path / "folder")
    subprocess.run(["tar", "cf", str(tmp_path / "gnu.tar"), "-C", str(folder), "."], check=True)
    with read_package(tmp_path / "gnu.tar") as package:
        assert package.info.model.name == "tiny"


def altered(change):
    """The sample's mod.json after ``change(document)``, in a package of otherwise good members."""
    document = sample_info()
    change(document)
    return {**sample_members(), "mod.json": sealed(document)}


def put(path, value):
    """A change that sets document[...][...] = value; path as in the messages."""
    keys = [int(key) if key.isdigit() else key for key in path.split(".")]

    def change(document):
        for key in keys[:-1]:
            document = document[key]
        document[keys[-1]] = value

    return change


DEEP = {"size": [224, 224], "letterbox": False, "crop": 0.875, "interpolation": "area"}
DEEP |= {"color_order": "rgb", "mean": [0, 0, 0], "std": [1, 1, 1]}


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("format", "onnx", "format must be 'tvm_vision', found \"onnx\""),
        ("format_version", 5, "reads packages of format version 4, found 5"),
        ("format_version", "4", 'format version 4, found "4"'),
        ("surprise", 1, "the field surprise is not known"),
        ("model.colour", 1, "the field model.colour is not known"),
        ("model.kind", "poet", "model.kind must be one of 'network', 'classifier', 'yoeo'"),
        ("model.name", "", "model.name must be a text that is not empty"),
        ("model.labels", "cat", "model.labels must be a list"),
        ("model.labels.1", 7, "model.labels[1] must be a text, found 7"),
        ("model.preprocessing", {}, "the field model.preprocessing.size is missing"),
        ("model.preprocessing", DEEP | {"size": [0, 1]}, "size[0] must be a whole number of pix"),
        ("model.preprocessing", DEEP | {"std": [1, 0, 1]}, "std must be positive"),
        ("model.preprocessing", DEEP | {"crop": 1.5}, "crop must be above 0 and up to 1"),
        ("model.preprocessing", DEEP | {"mean": [1]}, "mean must be a list of 3, found [1]"),
        ("inputs.0.dtype", "quaternion", "inputs[0].dtype must be one of"),
        ("inputs.0.shape", [5], "graph.inputs[0] must be float32 [5], as 'x' is"),
        ("inputs.0.layout", "NCHW", "inputs[0].layout must be one for 1 axes"),
        ("inputs", [], "graph.inputs must be a list of 0, as many as 'inputs', found 1"),
        ("outputs.0.shape", [-1, 3], "outputs[0].shape[0] must be a whole number from 0"),
        ("graph.storages.0", 15, "graph.storages[0] must be at least 16 bytes, for tensor 0"),
        ("graph.storages.0", 2**40, "graph.storages[0] must be 16 bytes, as its tensors need"),
        ("graph.storages.0", 2**41, "graph.storages[0] must be a whole number from 0 to"),
        ("graph.storages.0", True, "graph.storages[0] must be a whole number"),
        ("graph.tensors.0.storage", 5, "graph.tensors[0].storage must be below 5, found 5"),
        ("graph.tensors.0.offset", 128, "graph.tensors[0].offset must be a multiple of 256"),
        ("graph.tensors.0.shape", [2**20] * 3, "a shape of at most"),
        ("graph.tensors.0.shape", [1] * 17, "a list of at most 16 sizes"),
        ("graph.params.p1", 6, "graph.params must be ids below 6"),
        ("graph.params.p1", 1, "in a storage other than that of graph.params.p0"),
        ("graph.inputs.0", 1, "graph.inputs[0] must be float32 [4], as 'x' is"),
        ("graph.outputs.0", 9, "graph.outputs must be ids below 6"),
        ("graph.kernels.0.args", [1, 0, 2, 6], "graph.kernels[0].args must be ids below 6"),
        ("graph.kernels.0.args", [], "graph.kernels[0].args must be a list of at least one"),
        ("graph.kernels.0.args", [1, 0, 4, 3], "tensors that an earlier kernel wrote, found 4"),
        ("graph.kernels.0.args", [1, 0, 2, 2], "without a write to graph.params.p1"),
        ("graph.kernels.1.args", [4, 5], "tensors that an earlier kernel wrote, found 4"),
        ("graph.kernels.1.num_outputs", 3, "num_outputs must be a whole number from 1 to 2"),
        ("graph.kernels.1.function", "", "function must be a text that is not empty"),
        ("graph.kernels", [], "graph.outputs[0] must be written by a kernel"),
        ("target", {}, "target must be an object with a kind"),
        ("device", {"name": "GPU"}, "the field device.driver is missing"),
        ("precision", "fp8", "precision must be one of 'fp32', 'fp16'"),
        ("options", [3], "options must be an object"),
        ("options.opt_level", [3], "options.opt_level must be a text, a number or true or false"),
        ("memory.peak", -1, "memory.peak must be a whole number"),
        ("members", {}, "members must be the checksums of mod.so and mod.params"),
        ("members", {"mod.so": "abc"}, "a SHA-256 of 64 hexadecimal digits"),
    ],
)
def test_mod_json_of_another_form(tmp_path, path, value, message):
    assert message in refused(write_sample(tmp_path / "p.tar", altered(put(path, value))))


@pytest.mark.parametrize("field", sorted(sample_info()))
def test_each_field_is_needed(tmp_path, field):
    members = altered(lambda document: document.pop(field))
    assert f"the field {field} is missing" in refused(write_sample(tmp_path / "p.tar", members))


def test_a_kernel_may_not_write_over_its_own_argument(tmp_path):
    def change(document):
        document["graph"]["tensors"].append(tensor([3], 3))
        document["graph"]["kernels"].insert(
            1, {"function": "f", "args": [3, 6], "num_outputs": 1, "nodes": []}
        )

    message = refused(write_sample(tmp_path / "p.tar", altered(change)))
    assert "graph.kernels[1] writes tensor 6 over its own argument 3" in message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{", "must be JSON"),
        (b"{\xff\xfe", "must be JSON in UTF-8"),
        (b'{"a": ' + b"[" * 100_000, "it is nested too deeply"),
        (b'{"format": NaN}', "numbers must be finite, found NaN"),
        (b'{"format": 1, "format": 1}', 'the field "format" is there twice'),
        (b'{"format": ' + b"9" * 5000 + b"}", "must be"),
        (b'{"format": "tvm_vision", "format_version": 10000000000}', "found 10000000000"),
    ],
)
def test_mod_json_that_is_something_else(tmp_path, text, message):
    members = {**sample_members(), "mod.json": with_checksum(text)}
    assert message in refused(write_sample(tmp_path / "p.tar", members))


@pytest.mark.parametrize("text", [b"", b"[]", b"null", b'{"format": "tvm_vision"}'])
def test_mod_json_that_does_not_begin_as_one(tmp_path, text):
    members = {**sample_members(), "mod.json": text}
    message = refused(write_sample(tmp_path / "p.tar", members))
    assert "mod.json must begin with its checksum, and does not: it was changed" in message


def test_mod_json_is_read_as_it_was_written_and_not_otherwise(tmp_path):
    """The same content in another form is another text, for readers in other languages too."""
    text = sample_members()["mod.json"]
    for other in (json.dumps(json.loads(text), indent=1).encode(), text.replace(b": ", b":", 9)):
        members = {**sample_members(), "mod.json": other}
        message = refused(write_sample(tmp_path / "p.tar", members))
        assert "it was changed or damaged" in message and "package repack" in message


def test_a_text_that_is_no_unicode(tmp_path):
    document = sample_info()
    document["model"]["name"] = "\ud800"
    members = {**sample_members(), "mod.json": sealed(document)}
    assert "no Unicode" in refused(write_sample(tmp_path / "p.tar", members))


def with_params(data):
    import hashlib

    def change(document):
        document["members"]["mod.params"] = hashlib.sha256(data).hexdigest()

    return {**altered(change), "mod.params": data}


PARAMS = packages.params_bytes()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "'mod.params' is empty"),
        (PARAMS[:7], "it ends in the middle"),
        (PARAMS[:-1], "weight 'p1' has 12 bytes, which fits neither"),
        (PARAMS + b"\0", "1 bytes follow the last weight"),
        (b"\0" + PARAMS[1:], "it does not begin as TVM's parameters do"),
        (PARAMS[:16] + struct.pack("<Q", 2**60) + PARAMS[24:], "weights do not fit into"),
        (PARAMS[:24] + struct.pack("<Q", 2**60) + PARAMS[32:], "a name of 1152921504606846976"),
        (packages.params_bytes({"p0": packages.WEIGHTS["p0"]}), "a weight 'p1' is needed"),
        (
            packages.params_bytes({**packages.WEIGHTS, "p1": np.zeros(4, np.float32)}),
            r"weight 'p1' must be float32 [3], found float32 [4]",
        ),
        (
            packages.params_bytes({**packages.WEIGHTS, "p1": np.zeros(3, np.float16)}),
            r"weight 'p1' must be float32 [3], found float16 [3]",
        ),
    ],
)
def test_weights_that_do_not_fit(tmp_path, data, message):
    assert message in refused(write_sample(tmp_path / "p.tar", with_params(data)))


def test_another_processor_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    with read_package(write_sample(tmp_path / "folder")) as package:
        package.check_machine()
        foreign = packages.LIBRARY.replace(b"\x3e\0", b"\xb7\0")
        package.library_path.write_bytes(foreign)
        with pytest.raises(PackageError, match="mod.so is made for aarch64, and this machine is x"):
            package.check_machine()


def test_weights_are_those_that_were_checked(tmp_path, scratch):
    """Whoever writes over the file while a network is loaded does not change what is loaded."""
    for name in ("good.tar", "folder"):
        path = write_sample(tmp_path / name)
        with read_package(path) as package:
            file = path if path.is_file() else path / "mod.params"
            file.write_bytes(b"\0" * file.stat().st_size)
            assert package.params[:] == packages.params_bytes()
            os.truncate(file, 0)
            assert package.params[:] == packages.params_bytes()


def test_weights_that_do_not_fit_into_memory(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(12, "Cannot allocate memory")

    path = write_sample(tmp_path / "good.tar")
    monkeypatch.setattr("tvm_vision.package.container.mmap.mmap", full)
    assert "bytes of memory are needed for 'mod.params'" in refused(path)
