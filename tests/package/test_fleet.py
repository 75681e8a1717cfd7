"""Packages for several devices: written, read one variant at a time, and damaged ones refused."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.packages import (
    LIBRARY,
    WEIGHTS,
    params_bytes,
    sample_info,
    sample_members,
    sealed,
    with_checksum,
    write_sample,
)
from tvm_vision.errors import PackageError
from tvm_vision.package import Package, read_fleet, read_package, write_fleet
from tvm_vision.package.container import list_tar
from tvm_vision.package.fleet import FLEET_VERSION
from tvm_vision.package.info import FORMAT_VERSION, canonical
from tvm_vision.package.peek import peek

TAIL = np.array([7, 8, 9], np.float32)


def package(folder: Path, name: str, library: bytes = LIBRARY, **changes: Any) -> Package:
    """A package that differs from others of that network by ``changes`` of its weights."""
    weights = params_bytes({**WEIGHTS, **changes})
    info = sample_info()
    info["target"] = {"kind": "llvm", "mcpu": name}
    info["members"] = {
        "mod.so": hashlib.sha256(library).hexdigest(),
        "mod.params": hashlib.sha256(weights).hexdigest(),
    }
    members = {"mod.json": sealed(info), "mod.params": weights, "mod.so": library}
    return read_package(write_sample(folder / f"{name}.tar", members))


@pytest.fixture
def packages(tmp_path: Path) -> list[tuple[str, Package]]:
    """One, its equal but for the library, and one with another weight."""
    return [
        ("a", package(tmp_path, "one")),
        ("b", package(tmp_path, "two", LIBRARY + b"b")),
        ("c", package(tmp_path, "three", p1=TAIL)),
    ]


@pytest.mark.parametrize("name", ["team.tar", "team"])
def test_each_variant_is_the_package_it_was_made_of(tmp_path, packages, name):
    path = tmp_path / name
    write_fleet(path, packages)
    fleet = read_fleet(path)
    assert fleet is not None and fleet.names == ("a", "b", "c")
    for called, source in packages:
        with read_package(path, variant=called) as found:
            assert found.info == source.info and found.params[:] == source.params[:]
            assert found.library_path.read_bytes() == source.library_path.read_bytes()
            variant = fleet.variant(called)
            assert variant.target == source.info.target and variant.host == "x86_64"
            assert variant.options == source.info.options and variant.device is None
    assert peek(path).is_fleet and peek(path).target_kind == "llvm"
    again = tmp_path / f"again-{name}"
    write_fleet(again, packages)
    if name.endswith(".tar"):
        assert again.read_bytes() == path.read_bytes()


def test_what_is_the_same_is_stored_once(tmp_path, packages):
    write_fleet(tmp_path / "team", packages)
    infos = sum(len(source.info.to_bytes()) for _, source in packages)
    weight = 40 + 8 + TAIL.nbytes  # its header of one axis, and itself
    pool = (tmp_path / "team" / "mod.params").stat().st_size
    assert pool == infos + len(params_bytes()) + weight
    # "a" and "c" have one library.
    assert (tmp_path / "team" / "mod.so").read_bytes() == LIBRARY * 2 + b"b"


def test_nothing_of_the_others_is_read(tmp_path, packages):
    """Every byte that is not of a variant may be damaged, and it loads."""
    path = tmp_path / "team"
    fleet = write_fleet(path, packages)
    own = fleet.variant("c")
    for name, pieces in (("mod.params", (*own.info, *own.params)), ("mod.so", (own.library,))):
        content = (path / name).read_bytes()
        kept = bytearray(len(content))
        for piece in pieces:
            end = piece.offset + piece.size
            kept[piece.offset : end] = content[piece.offset : end]
        (path / name).write_bytes(kept)
    with read_package(path, variant="c") as found:
        assert found.params[:] == packages[2][1].params[:]
    with pytest.raises(PackageError):
        read_package(path, variant="a")


def test_a_variant_has_to_be_named(tmp_path, packages):
    write_fleet(tmp_path / "t.tar", packages)
    for name, found in (("", "a package for several devices"), ("d", "'d'")):
        with pytest.raises(PackageError, match=f"a target of a, b, c is needed, found {found}"):
            read_package(tmp_path / "t.tar", variant=name)


def test_readers_of_single_packages_refuse_it_by_its_version(tmp_path, packages, monkeypatch):
    """Those that know nothing of fleets: the members are the same, the version is not."""
    assert FLEET_VERSION != FORMAT_VERSION
    write_fleet(tmp_path / "t.tar", packages)
    with (tmp_path / "t.tar").open("rb") as stream:
        assert set(list_tar(stream)) == set(sample_members())
    monkeypatch.setattr("tvm_vision.package.reading.is_fleet", lambda document: False)
    with pytest.raises(PackageError, match=f"of format version .*found {FLEET_VERSION}: compile"):
        read_package(tmp_path / "t.tar")


def test_of_one_network(tmp_path, packages):
    info = sample_info()
    info["model"]["labels"] = ["cat", "dog", "cow"]
    members = {**sample_members(), "mod.json": sealed(info)}
    other = read_package(write_sample(tmp_path / "other.tar", members))
    with pytest.raises(PackageError, match="'a' and 'x' differ in their model"):
        write_fleet(tmp_path / "t.tar", [packages[0], ("x", other)])
    assert not (tmp_path / "t.tar").exists()


def test_names_are_different(tmp_path, packages):
    with pytest.raises(PackageError, match="of different names"):
        write_fleet(tmp_path / "t.tar", [packages[0], ("a", packages[1][1])])


def damaged(content: bytes, change) -> bytes:
    """With the checksum that fits, but where nothing but that is wrong."""
    document = json.loads(content)
    checksum = document.pop("checksum")
    change(document)
    if document["variants"] and document["variants"][0]["host"] == "arm":
        return canonical({**document, "checksum": checksum})
    return with_checksum(canonical(document))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.update(format_version=7), "several devices of format version 100, found 7"),
        (lambda d: d.update(variants=[]), "1 to 256 of different names"),
        (lambda d: d.update(more=1), "the field more is not known"),
        (lambda d: d["variants"][0].update(host="arm"), "must have the checksum"),
        (lambda d: d["variants"][0]["params"].append([0, -1]), "a whole number from 0"),
        (lambda d: d["variants"][0].pop("library"), "variants.0..library is missing"),
    ],
)
def test_a_damaged_index_is_refused(tmp_path, packages, change, says):
    path = tmp_path / "team"
    write_fleet(path, packages)
    (path / "mod.json").write_bytes(damaged((path / "mod.json").read_bytes(), change))
    for read in (lambda: read_package(path, variant="a"), lambda: read_fleet(path)):
        with pytest.raises(PackageError, match=says):
            read()


@pytest.mark.parametrize("member", ["mod.params", "mod.so"])
def test_a_member_that_is_cut(tmp_path, packages, member):
    path = tmp_path / "team"
    write_fleet(path, packages)
    content = (path / member).read_bytes()
    (path / member).write_bytes(content[: len(content) // 3])
    with pytest.raises(PackageError, match=f"{member} must have .* bytes, found"):
        read_package(path, variant="b")
