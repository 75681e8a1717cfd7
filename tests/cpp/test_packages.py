"""Python and C++ take and refuse the same packages, in the same words: damaged ones, and those that
somebody changed on purpose, with and without a signature being asked for."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from onnx import helper

import tvm_vision
from support.keys import make_keys
from support.onnx_models import make_model
from support.packages import with_checksum
from support.runner import ROOT
from tvm_vision.errors import TvmVisionError
from tvm_vision.package import PrivateKey, read_package, sign_package, unpack_package, write_fleet
from tvm_vision.package.container import list_tar, write_tar
from tvm_vision.package.info import canonical

BLOCK = 512
Content = dict[str, bytes]


def write_network(path: Path, seed: int) -> Path:
    """A package of a small network that has weights."""
    weights = np.random.default_rng(seed).random((4, 4), np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Exp", ["product"], ["y"]),
    ]
    model = make_model(nodes, [("x", (1, 4))], [("y", (1, 4))], [("w", weights)])
    return Path(tvm_vision.compile(model, path, target="llvm"))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with signed packages, one.tar and fleet.tar, and others beside; ours.pub."""
    folder = tmp_path_factory.mktemp("world")
    for name in ("ours", "theirs"):
        make_keys(folder, name)
    write_network(folder / "one.tar", 1)
    write_network(folder / "other.tar", 2)
    with read_package(folder / "one.tar") as one, read_package(folder / "other.tar") as other:
        write_fleet(folder / "fleet.tar", [("a", one), ("b", other)])
    shutil.copy(folder / "one.tar", folder / "unsigned.tar")
    shutil.copy(folder / "one.tar", folder / "stranger.tar")
    for name, key in (
        ("one", "ours"),
        ("fleet", "ours"),
        ("other", "ours"),
        ("stranger", "theirs"),
    ):
        sign_package(folder / f"{name}.tar", PrivateKey.read(folder / f"{key}.pem"))
    return folder


def in_python(path: str, keys: Path | None) -> str:
    try:
        tvm_vision.load(path, verify=keys)
    except TvmVisionError as error:
        return f"{type(error).__name__}: {error}"
    return "loaded"


def in_cpp(built: Path, paths: list[str], keys: Path | None) -> list[str]:
    words = [built / "verdicts", *(["--verify", keys] if keys is not None else [])]
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
    done = subprocess.run(
        [str(word) for word in words], input="\n".join(paths), text=True, capture_output=True,
        env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    if "signatures need OpenSSL's libcrypto" in done.stdout:
        pytest.skip("OpenSSL's headers are needed: apt install libssl-dev")
    lines = done.stdout.splitlines()
    assert len(lines) == len(paths), done.stdout
    return ["loaded" if line.startswith("loaded") else line for line in lines]


def assert_same(built: Path, paths: list[Path], keys: Path | None) -> list[str]:
    """Says what came of each package, in both alike."""
    words = [str(path) for path in paths]
    needed = [in_python(path, keys) for path in words]
    for path, one, other in zip(words, needed, in_cpp(built, words, keys), strict=True):
        # Of text Python knows what it is.
        if one == f"PackageError: a package is needed, and '{path}' is text: check the path":
            assert other.startswith(f"PackageError: '{path}': it cannot be read: "), path
        else:
            assert other == one, path
    return needed


def members(path: Path) -> Content:
    with tarfile.open(path) as tar:
        return {m.name: tar.extractfile(m).read() for m in tar.getmembers()}  # type: ignore[union-attr]


def as_read(path: Path) -> Content:
    """Members as they lie in a tar, or in a folder."""
    if path.is_dir():
        return {each.name: each.read_bytes() for each in path.iterdir() if each.name != "more"}
    content = path.read_bytes()
    with path.open("rb") as stream:
        return {name: content[at.offset :][: at.size] for name, at in list_tar(stream).items()}


def written(path: Path, content: Content) -> Path:
    with path.open("wb") as stream:
        write_tar(stream, content)
    return path


def entry(name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, **more: Any) -> bytes:
    """A member of a tar, by its header and its content."""
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, len(content)
    for field, value in more.items():
        setattr(info, field, value)
    head = info.tobuf(tarfile.USTAR_FORMAT, "utf-8", "surrogateescape")
    return head + content + bytes(-len(content) % BLOCK)


def with_header(tar: bytes, at: int, field: int, value: bytes) -> bytes:
    """With other bytes in a header, whose sum fits."""
    header = bytearray(tar[at : at + BLOCK])
    header[field : field + len(value)] = value
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return tar[:at] + bytes(header) + tar[at + BLOCK :]


def tars(whole: bytes) -> Iterator[bytes]:
    """Tars that are none, or of members that no package has."""
    first = whole[: whole.index(b"ustar") + 255]
    for name in ("other", "x" * 90, "mod.json/", "../mod.so", "a\nb", "ä" * 40, "\u202e", ""):
        yield entry(name) + whole
    for kind in (b"1", b"2", b"3", b"5", b"6", b"x", b"g", b"L", b"S", b"Z", b"'", b"\\", b"\xff"):
        yield with_header(entry("mod.sig") + whole, 0, 156, kind)
    yield entry(".", kind=tarfile.DIRTYPE) + whole
    yield entry("./", kind=tarfile.DIRTYPE) + whole
    yield entry("mod.sig", b"{}") + whole
    yield first + whole
    for field, value in (
        (0, b"./mod.json\0"), (0, b"\xff\xfe\0"), (0, b"mod.jsoN"), (124, b"7" * 12), (124, b"9"),
        (124, b"00000 00012\0"), (124, b" " * 12), (257, b"Ustar"), (345, b"folder\0"), (156, b"2"),
    ):  # fmt: skip
        yield with_header(whole, 0, field, value)
    for begin in (b"\x1f\x8bx", b"\xfd7zzz", b"BZX", b"(\xb5x"):
        yield begin + whole[len(begin) :]
    for size in (0, 1, 511, 512, 513, 1024, len(whole) // 2, len(whole) - 1024):
        yield whole[:size]
    yield whole + b"x"
    yield b"\0" * 4096
    for begin in (
        b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"RIFF1234WEBP", b"II*\0", b"MM\0*", b"1234ftyp",
        b"RIFF1234AVI ", b"\x1aE\xdf\xa3", b"\x89MCAP", b"SQLite format 3\0", b"\x7fELF",
        b"1234TFL3", 0xF7E58D4F05049CB7.to_bytes(8, "little"), b"\x80\x02", b"\x89HDF\r\n",
        b"1234ORTM", b"1234ftypavif", b"1234ftypheic", b"1234ftypmif1", b"\0\0\0\x0cjP  ",
    ):  # fmt: skip
        yield begin + whole[len(begin) : 4096]
        yield begin + b"\0"
    scale = make_model([helper.make_node("Exp", ["x"], ["y"])], [("x", (1, 4))], [("y", (1, 4))])
    model = scale.SerializeToString()
    yield from (model, model[:-1], model + b"\0", model[:9], b"\x3a\0", b"\x3a\xff" * 9, b"\x3b\0")
    yield b"\x08\1" * 65536 + model
    yield b"\x08\1" * 65000 + model
    for length in (2, 99):  # of safetensors
        yield length.to_bytes(8, "little") + b'{"a":{}}' + bytes(40)


def contents(good: Content, others: Content) -> Iterator[Content]:
    """Members that somebody changed who knows how: every checksum fits that can be made to."""
    for name in good:
        yield {**good, name: b""}
        yield {k: v for k, v in good.items() if k != name}
        if name in others:
            yield {**good, name: others[name]}
            yield {**others, name: good[name]}
    text = json.loads(good["mod.json"])
    text.pop("checksum")
    for change in (
        lambda d: d["model"].update(name="evil"),
        lambda d: d.update(format_version=3),
        lambda d: d.update(format_version=7),
    ):
        document = json.loads(json.dumps(text))
        change(document)
        yield {**good, "mod.json": with_checksum(canonical(document)) + b"\n"}
    yield {**good, "mod.json": json.dumps(json.loads(good["mod.json"]), indent=1).encode()}
    yield {**good, "mod.json": b"[" * 200_000}
    for levels in (64, 100, 200_000):
        nested = b'{"a": ' + b"[" * levels + b"]" * levels + b"}"
        yield {**good, "mod.json": with_checksum(nested)}


def signatures(good: bytes) -> Iterator[bytes]:
    """Others of the same, and none."""
    document = json.loads(good)
    for name in document:
        yield canonical({**document, name: "x"}) + b"\n"
        yield canonical({k: v for k, v in document.items() if k != name}) + b"\n"
    changes: tuple[dict[str, Any], ...] = (
        {"ed25519": document["ed25519"].upper()}, {"ed25519": "00" * 64}, {"info": "00" * 32},
        {"key": "00" * 32}, {"format_version": True}, {"format_version": 2}, {"more": 1},
        {"variants": {"c": "00" * 32}}, {"variants": {"\n": "00" * 32}}, {"variants": []},
        {"variants": {"a": "0"}}, {"variants": {"\U0001f916": "00" * 32}},
    )  # fmt: skip
    for more in changes:
        yield canonical({**document, **more}) + b"\n"
    yield from (
        good[:-1], good + b"\n", b" " + good, b"\xef\xbb\xbf" + good, good.replace(b", ", b","),
        good[: len(good) // 2], json.dumps(document, indent=1).encode(), b"", b"null", b"\xff",
        good.replace(b'"info"', b'"inf\\u006f"'), b"[" * 200_000,
        good.replace(b"{", b'{"x\xff": 1,', 1),
        good.replace(b'{}', b'{"\xff": "' + b"0" * 64 + b'"}'),
        good.replace(b'"variants"', b'"key": "' + b"0" * 64 + b'", "variants"'),
    )  # fmt: skip


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("kind", ["one", "fleet"])
def test_changed_bytes(world, built, tmp_path, kind, signed):
    """All over a package, in its headers too."""
    whole = (world / f"{kind}.tar").read_bytes()
    with (world / f"{kind}.tar").open("rb") as stream:
        extents = list_tar(stream)
    rng = np.random.default_rng(7)
    places = rng.integers(0, len(whole) - 1024, 30).tolist()
    for name, extent in extents.items():
        within = rng.integers(0, extent.size, 12 if name == "mod.sig" else 5)
        places += [extent.offset + int(place) for place in within]
        places += [extent.offset - BLOCK + at for at in (0, 99, 124, 130, 148, 156, 257, 263, 345)]
    paths = []
    for number, place in enumerate(places):
        changed = bytearray(whole)
        changed[place] ^= 1 << number % 8
        paths.append(tmp_path / f"{number}.tar")
        paths[-1].write_bytes(changed)
    keys = world / "ours.pub" if signed else None
    found = assert_same(built, [world / f"{kind}.tar", *paths], keys)
    assert found[0] == "loaded" and sum(one == "loaded" for one in found) < len(found) / 2


@pytest.mark.parametrize("kind", ["one", "fleet"])
def test_packages_made_on_purpose(world, built, tmp_path, kind):
    good, others = members(world / f"{kind}.tar"), members(world / "other.tar")
    paths = [world / f"{name}.tar" for name in ("one", "fleet", "unsigned", "stranger")]
    for number, tar in enumerate(tars((world / f"{kind}.tar").read_bytes())):
        paths.append(tmp_path / f"tar-{number}.tar")
        paths[-1].write_bytes(tar)
    for number, content in enumerate(contents(good, others)):
        paths.append(written(tmp_path / f"content-{number}.tar", content))
    for number, signature in enumerate(signatures(good["mod.sig"])):
        content = {**good, "mod.sig": signature}
        paths.append(written(tmp_path / f"signature-{number}.tar", content))
    found = assert_same(built, paths, world / "ours.pub")
    # What was signed, and nothing else.
    signed = [members(world / f"{name}.tar") for name in ("one", "fleet", "other")]
    taken = [path for path, verdict in zip(paths, found, strict=True) if verdict == "loaded"]
    assert len(taken) > 4 and all(as_read(path) in signed for path in taken)
    assert_same(built, paths, None)


def test_folders(world, built, tmp_path):
    """Members that are links, folders and pipes, too many and too few."""
    unpack_package(world / "one.tar", tmp_path / "good")
    unpack_package(world / "other.tar", tmp_path / "evil")
    paths = [tmp_path / "good"]

    def another(name: str, make: Callable[[Path], object]) -> None:
        """With something else of that name."""
        path = tmp_path / str(len(paths))
        shutil.copytree(tmp_path / "good", path)
        (path / name).unlink(missing_ok=True)
        make(path / name)
        paths.append(path)

    for name in ("mod.json", "mod.params", "mod.so", "mod.sig"):
        evil = tmp_path / "evil" / name
        for change in (
            lambda at: None,
            lambda at: at.touch(),
            lambda at, evil=evil: shutil.copy(evil, at),
            lambda at, evil=evil: at.symlink_to(evil),
            lambda at: at.symlink_to("nowhere"),
            lambda at: at.mkdir(),
            os.mkfifo,
        ):
            another(name, change)
    another("more", Path.touch)
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe.tar")
    (tmp_path / "linked.tar").symlink_to(world / "one.tar")
    (tmp_path / "linked").symlink_to(tmp_path / "good")
    names = ("empty", "pipe.tar", "linked.tar", "linked", "nowhere.tar")
    paths += [tmp_path / name for name in names]
    found = assert_same(built, paths, world / "ours.pub")
    taken = [path for path, verdict in zip(paths, found, strict=True) if verdict == "loaded"]
    good = as_read(tmp_path / "good")
    assert len(taken) > 3 and all(as_read(path) == good for path in taken)
    assert_same(built, paths, None)


def test_a_variant_is_held_to_what_was_signed(world, built, tmp_path):
    """The pool beneath the index is another, sound in itself."""
    good = members(world / "fleet.tar")
    paths = []
    for size in (1, 3, 9):
        pool = bytearray(good["mod.params"])
        for begin in (i for i in range(len(pool)) if pool.startswith(b'{"checksum"', i)):
            text = bytes(pool[begin : pool.index(b"}\n", begin)])
            place = text.index(b'"name": "') + 9
            pool[begin + place] ^= 1
            text = bytes(pool[begin : pool.index(b"}\n", begin) + 1])
            fitting = with_checksum(b"{" + text[len(b'{"checksum": "", ') + 64 :])
            pool[begin : begin + len(fitting)] = fitting
        paths.append(written(tmp_path / f"{size}.tar", {**good, "mod.params": bytes(pool)}))
        cut = good["mod.params"][: len(good["mod.params"]) - size * 16]
        paths.append(written(tmp_path / f"cut-{size}.tar", {**good, "mod.params": cut}))
    found = assert_same(built, paths, world / "ours.pub")
    assert "the mod.json of 'a' is needed as it was signed" in found[0]
    assert_same(built, paths, None)


def test_keys(world, built, tmp_path):
    """Files of keys, and what is none."""
    ours, theirs = ((world / f"{name}.pub").read_bytes() for name in ("ours", "theirs"))
    rsa = generate_private_key(65537, 2048).public_key()
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    other = rsa.public_bytes(serialization.Encoding.PEM, form)
    lines = ours.split(b"\n")
    files = {
        "ours": ours, "theirs": theirs, "both": theirs + ours, "twice": ours + ours, "empty": b"",
        "text": b"no key", "rsa": other, "ours and rsa": ours + other, "cut": ours[:-8],
        "words before": b"Key of the team\n" + ours, "words behind": ours + b"that is it\n",
        "carriage returns": ours.replace(b"\n", b"\r\n"), "without an end": ours.rstrip(),
        "short": b"\n".join([lines[0], lines[1][:20], *lines[2:]]),
        "changed": b"\n".join([lines[0], b"A" + lines[1][1:], *lines[2:]]),
        "encrypted": b"\n".join([lines[0], b"Proc-Type: 4,ENCRYPTED", b"", *lines[1:]]),
        "private": (world / "ours.pem").read_bytes(), "long": ours + b"\n" * 70_000,
        "one and a half": ours + b"-----BEGIN PUBLIC KEY-----\n",
    }  # fmt: skip
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    paths = [world / "one.tar", world / "stranger.tar"]
    found = {}
    for name in (*files, "folder", "pipe", "nowhere"):
        found[name] = assert_same(built, paths, tmp_path / name)
    assert found["ours"][0] == found["both"][0] == "loaded" != found["theirs"][0]
    assert all(one.startswith("InputError") for one in found["private"])


# Stands before the C library: at a read of a number it writes one file over another, in place.
SWAP = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
static void swap(void) {
  static int count = 0;
  static char bytes[1 << 20];
  if (++count != atoi(getenv("SWAP_AT"))) return;
  int from = open(getenv("SWAP_FROM"), O_RDONLY), to = open(getenv("SWAP_TO"), O_WRONLY | O_TRUNC);
  ssize_t size = read(from, bytes, sizeof(bytes));
  if (write(to, bytes, size) != size) abort();
  close(from), close(to);
}
ssize_t pread(int file, void* memory, size_t size, off_t at) {
  ssize_t (*real)(int, void*, size_t, off_t) = dlsym(RTLD_NEXT, "pread");
  swap();
  return real(file, memory, size, at);
}
ssize_t pread64(int file, void* memory, size_t size, off64_t at) {
  return pread(file, memory, size, at);
}
"""


@pytest.mark.parametrize("kind", ["one", "fleet"])
def test_what_is_loaded_is_what_was_checked(world, built, tmp_path, kind):
    """Another package is written over the one that is being loaded, in place, before each of its
    reads; or it becomes shorter."""
    (tmp_path / "swap.c").write_text(SWAP)
    shim = tmp_path / "swap.so"
    subprocess.run(["gcc", "-shared", "-fPIC", tmp_path / "swap.c", "-o", shim, "-ldl"], check=True)
    path, other = tmp_path / "loaded.tar", tmp_path / "other.tar"
    good = members(world / f"{kind}.tar")
    evil = {**good, **members(world / "other.tar")} if kind == "one" else dict(good)
    if kind == "fleet":
        evil["mod.params"] = bytes(byte ^ 1 for byte in good["mod.params"])
    assert all(len(evil[name]) == len(good[name]) for name in good), "each read finds the other's"
    environment = {
        **os.environ, "SWAP_TO": str(path), "SWAP_FROM": str(other), "LD_PRELOAD": str(shim),
        "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0",
    }  # fmt: skip

    def load(number: int) -> str:
        shutil.copy(world / f"{kind}.tar", path)
        done = subprocess.run(
            [built / "verdicts", "--verify", world / "ours.pub"], input=str(path), text=True,
            capture_output=True, env={**environment, "SWAP_AT": str(number)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    for content in (evil, None):
        written(other, content) if content else other.write_bytes(b"short")
        if content and kind == "one":
            sign_package(other, PrivateKey.read(world / "theirs.pem"))
        undisturbed, found = load(0), []
        for number in range(1, 100):
            found.append(load(number))
            if path.read_bytes() != other.read_bytes():
                break  # so many reads there were not
        refused = [one for one in found if one != undisturbed]
        assert all(one.startswith("PackageError: ") for one in refused)
        assert len(refused) >= 4 and undisturbed.startswith("loaded")


@pytest.mark.slow
def test_without_the_library_nothing_is_taken_unchecked(tmp_path):
    """Built without OpenSSL, it says so before it reads anything."""
    sources = [ROOT / "cpp" / "src" / f"{name}.cc" for name in ("signature", "container", "text")]
    sources += [ROOT / "cpp" / "src" / f"{name}.cc" for name in ("sha256", "file_kinds")]
    (tmp_path / "main.cc").write_text(
        '#include "signature.h"\n#include <cstdio>\n#include <tvm_vision/tvm_vision.hpp>\n'
        'int main() try { tvm_vision::PublicKeys::Read("keys"); return 1; }\n'
        "catch (const tvm_vision::Error& e) {\n"
        '  std::printf("%s: %s", e.kind().c_str(), e.what());\n}\n'
    )
    compiler = [os.environ.get("CXX") or "g++", "-std=c++17", "-Wall", "-Wextra", "-Werror"]
    includes = [f"-I{ROOT / 'cpp' / folder}" for folder in ("include", "src")]
    program = tmp_path / "main"
    command = [*compiler, *includes, tmp_path / "main.cc", *sources, "-o", program]
    subprocess.run(list(map(str, command)), check=True)
    said = subprocess.check_output([program], text=True)
    assert said.startswith(
        "InputError: signatures need OpenSSL's libcrypto, which this library was"
    )
