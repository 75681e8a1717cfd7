"""Signed packages: what is loaded is what was signed, to the last byte, or one line says why."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from support.keys import make_keys
from support.packages import LIBRARY, params_bytes, sample_info, sealed, write_sample
from tvm_vision.errors import InputError, PackageError
from tvm_vision.package import (
    PrivateKey,
    PublicKeys,
    read_package,
    reading,
    repack_package,
    sign_package,
    unpack_package,
    verify_package,
    write_fleet,
)
from tvm_vision.package.container import list_tar
from tvm_vision.package.signature import signer


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ours.pem, ours.pub, theirs.pem, theirs.pub."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("ours", "theirs"):
        make_keys(folder, name)
    return folder


def private(keys: Path, name: str = "ours") -> PrivateKey:
    return PrivateKey.read(keys / f"{name}.pem")


def public(keys: Path, name: str = "ours") -> PublicKeys:
    return PublicKeys.read(keys / f"{name}.pub")


def member(label: str, library: bytes = LIBRARY) -> dict[str, bytes]:
    info = sample_info()
    info["target"] = {"kind": "llvm", "mcpu": label}
    info["members"]["mod.so"] = hashlib.sha256(library).hexdigest()
    return {"mod.json": sealed(info), "mod.params": params_bytes(), "mod.so": library}


def fleet(path: Path) -> Path:
    """A package for two devices."""
    for name, library in (("a", LIBRARY), ("b", LIBRARY + b"b")):
        write_sample(path.parent / f"{name}-alone.tar", member(name, library))
    with (
        read_package(path.parent / "a-alone.tar") as a,
        read_package(path.parent / "b-alone.tar") as b,
    ):
        write_fleet(path, [("a", a), ("b", b)])
    return path


def make(path: Path, kind: str) -> Path:
    return fleet(path) if kind == "fleet" else write_sample(path)


def read(path: Path, keys: PublicKeys, kind: str) -> None:
    read_package(path, variant="b" if kind == "fleet" else "", verify=keys).close()


@pytest.mark.parametrize("kind", ["one", "fleet"])
@pytest.mark.parametrize("name", ["p.tar", "p"])
def test_signed_and_read(tmp_path, keys, name, kind):
    path = make(tmp_path / name, kind)
    with pytest.raises(PackageError, match=r"a signature by ours.pub \(.{12}\) is needed, and the"):
        read(path, public(keys), kind)
    sign_package(path, private(keys))
    read(path, public(keys), kind)
    assert verify_package(path, public(keys)).key == private(keys).fingerprint
    # Also by who does not ask.
    read_package(path, variant="a" if kind == "fleet" else "").close()
    with pytest.raises(PackageError, match="theirs.pub .* is needed, and it is signed by"):
        read(path, public(keys, "theirs"), kind)
    # Anew: the other signature goes.
    sign_package(path, private(keys, "theirs"))
    read(path, public(keys, "theirs"), kind)
    assert path.is_dir() == (name == "p")


@pytest.mark.parametrize("kind", ["one", "fleet"])
def test_no_byte_of_a_signed_package_may_change(tmp_path, keys, kind):
    """Whoever changes it may make every checksum anew: here each member, signature included."""
    path = make(tmp_path / "p.tar", kind)
    sign_package(path, private(keys))
    good = path.read_bytes()
    with path.open("rb") as stream:
        extents = list_tar(stream)
    trusted = public(keys)
    for name, extent in extents.items():
        step = 3 if name == "mod.sig" else 29
        for at in range(extent.offset, extent.offset + extent.size, step):
            bad = bytearray(good)
            bad[at] ^= 1 << at % 7
            path.write_bytes(bad)
            with pytest.raises(PackageError) as met:
                verify_package(path, trusted)
            assert len(str(met.value).splitlines()) == 1, (name, at - extent.offset)


@pytest.mark.parametrize("kind", ["one", "fleet"])
def test_another_package_with_its_checksums_in_order_is_refused(tmp_path, keys, kind):
    """The signature of one beside the members of another: each of them sound."""
    signed = make(tmp_path / "signed", kind)
    sign_package(signed, private(keys))
    for name in ("mod.json", "mod.params", "mod.so"):
        other = tmp_path / f"other-{name}"
        shutil.copytree(signed, other)
        write_sample(tmp_path / f"evil-{name}", member("evil", LIBRARY + b"evil"))
        shutil.copy(tmp_path / f"evil-{name}" / name, other / name)
        if (other / name).read_bytes() != (signed / name).read_bytes():
            with pytest.raises(PackageError):
                verify_package(other, public(keys))
    evil = write_sample(tmp_path / "evil", member("evil", LIBRARY + b"evil"))
    shutil.copy(signed / "mod.sig", evil / "mod.sig")
    with pytest.raises(PackageError, match="is needed of this mod.json, and it is of another"):
        verify_package(evil, public(keys))


def test_a_variant_is_held_to_what_was_signed(tmp_path, keys):
    """The index of a package for several devices says where a variant lies, not what it is: with
    another pool beneath it, sound in itself, it is refused."""
    path = fleet(tmp_path / "p")
    sign_package(path, private(keys))
    pool = (path / "mod.params").read_bytes()
    start = pool.index(b'{"checksum"')
    text = pool[start : pool.index(b"}\n", start) + 2]
    info = json.loads(text)
    info["model"]["labels"] = ["cat", "dog", "cow!"[:4]]
    evil = sealed({k: v for k, v in info.items() if k != "checksum"})
    assert len(evil) == len(text)
    (path / "mod.params").write_bytes(pool.replace(text, evil))
    name = "a" if info["target"]["mcpu"] == "a" else "b"
    read_package(path, variant=name).close()
    with pytest.raises(PackageError, match=f"the mod.json of '{name}' is needed as it was signed"):
        read_package(path, variant=name, verify=public(keys))


@pytest.mark.parametrize("name", ["p.tar", "p"])
def test_what_was_checked_is_what_is_loaded(tmp_path, keys, name, monkeypatch):
    """Every file of it is replaced after the first look, and mod.so again after the last."""
    path = write_sample(tmp_path / name)
    sign_package(path, private(keys))
    evil = write_sample(tmp_path / f"evil-{name}", member("evil", LIBRARY + b"evil"))
    checked = reading.check_signature

    def then_replaced(*arguments):
        statement = checked(*arguments)
        if path.is_dir():
            for each in ("mod.json", "mod.params", "mod.so"):
                shutil.copy(evil / each, path / f"{each}.new")
                (path / f"{each}.new").rename(path / each)
        else:
            evil.rename(path)
        return statement

    monkeypatch.setattr(reading, "check_signature", then_replaced)
    with read_package(path, verify=public(keys)) as package:
        assert package.library_path.read_bytes() == LIBRARY
        assert package.info.target == {"kind": "llvm"}
        # Nobody else's to write, and not the file that others have open.
        folder = package.library_path.parent
        assert folder != path and folder.stat().st_mode & 0o077 == 0


def test_any_of_several_keys_may_have_signed(tmp_path, keys):
    path = write_sample(tmp_path / "p.tar")
    sign_package(path, private(keys))
    both = tmp_path / "both.pub"
    both.write_bytes((keys / "theirs.pub").read_bytes() + (keys / "ours.pub").read_bytes())
    read_package(path, verify=PublicKeys.read(both)).close()


def test_unpacking_keeps_a_signature_and_an_edit_drops_it(tmp_path, keys):
    path = write_sample(tmp_path / "p.tar")
    sign_package(path, private(keys))
    unpack_package(path, tmp_path / "folder")
    verify_package(tmp_path / "folder", public(keys))
    repack_package(tmp_path / "folder", tmp_path / "again.tar")
    assert read_package(tmp_path / "again.tar").signature is None
    both = fleet(tmp_path / "both.tar")
    sign_package(both, private(keys))
    unpack_package(both, tmp_path / "b", variant="b")
    assert not (tmp_path / "b" / "mod.sig").exists()


def test_an_unsound_package_is_not_signed(tmp_path, keys):
    path = write_sample(tmp_path / "p")
    (path / "mod.so").write_bytes(LIBRARY + b"more")
    with pytest.raises(PackageError, match=r"^'.*p': mod.so must have the SHA-256"):
        sign_package(path, private(keys))
    assert not (path / "mod.sig").exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda text: b"",
        lambda text: b"{}",
        lambda text: b"[1",
        lambda text: b"[" * 100_000,
        lambda text: text[:-1],
        lambda text: b" " + text,
        lambda text: text.replace(b'": "', b'":"', 1),
        lambda text: text.upper(),
        lambda text: text.replace(b'"info"', b'"inf\\u006f"'),
        lambda text: text.replace(b'"format_version": 1', b'"format_version": 1.0'),
        lambda text: text.replace(b'"format_version": 1', b'"format_version": 2'),
        lambda text: text.replace(b'"variants"', b'"format_version": 1, "variants"'),
    ],
)
def test_a_signature_in_another_form_is_none(tmp_path, keys, change):
    """Also one that says the same: of what is signed there is one text."""
    path = write_sample(tmp_path / "p")
    sign_package(path, private(keys))
    read_package(path, verify=public(keys)).close()
    (path / "mod.sig").write_bytes(change((path / "mod.sig").read_bytes()))
    with pytest.raises(
        PackageError, match="mod.sig cannot be read: it must be as 'tvm-vision sign"
    ):
        read_package(path, verify=public(keys))
    read_package(path).close()


def test_keys_that_are_none(tmp_path, keys):
    (tmp_path / "text").write_text("no key")
    for read_key in (PublicKeys.read, PrivateKey.read):
        with pytest.raises(InputError, match="Ed25519 key in PEM is needed, and '.*text' is none"):
            read_key(tmp_path / "text")
        with pytest.raises(InputError, match="key is needed, and '.*none' cannot be read"):
            read_key(tmp_path / "none")
    with pytest.raises(InputError, match="a public Ed25519 key"):
        PublicKeys.read(keys / "ours.pem")
    with pytest.raises(InputError, match="a private Ed25519 key"):
        PrivateKey.read(keys / "ours.pub")
    secret, _ = make_keys(tmp_path, "secret", "word")
    with pytest.raises(InputError, match="the password of .* is needed, which is encrypted"):
        PrivateKey.read(secret)
    with pytest.raises(InputError, match="is needed, found another"):
        PrivateKey.read(secret, lambda: "other")
    assert PrivateKey.read(secret, lambda: "word").fingerprint


def test_keys_of_openssl(tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    make_one = "openssl genpkey -algorithm ed25519 -out k.pem && openssl pkey -in k.pem -pubout"
    subprocess.run(f"{make_one} -out k.pub", shell=True, cwd=tmp_path, check=True)
    digest = subprocess.check_output(
        "openssl pkey -pubin -in k.pub -outform DER | sha256sum", shell=True, cwd=tmp_path
    )
    path = write_sample(tmp_path / "p.tar")
    sign_package(path, PrivateKey.read(tmp_path / "k.pem"))
    verify_package(path, PublicKeys.read(tmp_path / "k.pub"))
    with read_package(path) as package:
        assert package.signature is not None
        assert signer(package.signature) == digest.split()[0].decode()


def test_without_the_library(tmp_path, keys, monkeypatch):
    """Unsigned packages need none of it."""
    monkeypatch.setitem(__import__("sys").modules, "cryptography.hazmat.primitives", None)
    read_package(write_sample(tmp_path / "p.tar")).close()
    with pytest.raises(InputError, match=r"cryptography, .* pip install 'tvm_vision\[sign\]'"):
        public(keys)
