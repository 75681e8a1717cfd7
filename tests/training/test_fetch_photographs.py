"""Photographs come from where their labels say, as they were labelled or not at all."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "training"))

import fetch_photographs  # noqa: E402

from tvm_vision.errors import InputError  # noqa: E402


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def host(tmp_path: Path) -> tuple[str, str]:
    """A host with one repository, team/pictures, and the commit before its last one."""
    if shutil.which("git") is None:
        pytest.skip("git is needed")
    folder = tmp_path / "host" / "team" / "pictures"
    folder.mkdir(parents=True)

    def git(*words: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        command = ["git", "-C", str(folder), *identity, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "--quiet")
    git("config", "uploadpack.allowFilter", "true")
    git("config", "uploadpack.allowAnySHA1InWant", "true")
    for content in (b"first", b"second"):
        (folder / "a picture.jpg").write_bytes(content)
        git("add", ".")
        git("commit", "--quiet", "-m", "a")
    return f"file://{tmp_path / 'host'}", git("rev-parse", "HEAD~1")


def label(name: str, **source: str) -> dict[str, object]:
    return {"name": name, "size": [1, 1], "boxes": [], "doubtful": [], "licence": "MIT", **source}


def test_a_repository_gives_files_of_its_commit(host: tuple[str, str], tmp_path: Path) -> None:
    """Only what is missing, and nothing under a name that it does not have."""
    place, commit = host
    folder = tmp_path / "photographs"
    source = {"repository": "team/pictures", "commit": commit, "file": "a picture.jpg"}
    labels = {sha256(b"first"): label("a.jpg", **source)}
    fetch_photographs.fetch(labels, folder, place)
    assert [path.name for path in folder.iterdir()] == ["a.jpg"]
    assert (folder / "a.jpg").read_bytes() == b"first"
    (folder / "a.jpg").rename(folder / "renamed.jpg")
    fetch_photographs.fetch(labels, folder, "file:///nowhere")
    assert [path.name for path in folder.iterdir()] == ["renamed.jpg"]


def test_classes_of_pixels_come_with_their_photograph(
    host: tuple[str, str], tmp_path: Path
) -> None:
    """From the commit that they name, under the photograph's name."""
    place, commit = host
    folder = tmp_path / "photographs"
    last = subprocess.run(
        ["git", "-C", str(tmp_path / "host/team/pictures"), "rev-parse", "HEAD"],
        check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    source = {"repository": "team/pictures", "commit": commit, "file": "a picture.jpg"}
    labels = {sha256(b"first"): label("a.jpg", **source)}
    labels[sha256(b"first")]["pixels"] = {
        "sha256": sha256(b"second"), "commit": last, "file": "a picture.jpg",
    }  # fmt: skip
    fetch_photographs.fetch(labels, folder, place)
    found = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert found == {"a.jpg": b"first", "a.classes.png": b"second"}
    (folder / "a.jpg").unlink()
    assert list(fetch_photographs.missing(labels, folder)) == [sha256(b"first")]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"file": "no.jpg"}, "must succeed, found .*no.jpg"),
        ({"commit": "0" * 40}, "must succeed, found "),
        ({"repository": "team/none"}, "must succeed, found "),
        ({}, "'a.jpg' with the SHA-256 0+ is needed, found a7937b64"),
    ],
)
def test_what_cannot_be_had_is_one_line(
    change: dict[str, str], message: str, host: tuple[str, str], tmp_path: Path
) -> None:
    place, commit = host
    source = {"repository": "team/pictures", "commit": commit, "file": "a picture.jpg", **change}
    with pytest.raises(InputError, match=message) as error:
        fetch_photographs.fetch({"0" * 64: label("a.jpg", **source)}, tmp_path / "out", place)
    assert "\n" not in str(error.value) and not list((tmp_path / "out").iterdir())


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is needed")
def test_a_package_of_debian_gives_its_files(tmp_path: Path, monkeypatch) -> None:
    root = tmp_path / "root"
    (root / "DEBIAN").mkdir(parents=True)
    control = "Package: pictures\nVersion: 1-2\nArchitecture: all\nMaintainer: a\nDescription: a\n"
    (root / "DEBIAN" / "control").write_text(control)
    (root / "usr").mkdir()
    (root / "usr" / "a.jpg").write_bytes(b"picture")
    root.chmod(0o755)
    (root / "DEBIAN").chmod(0o755)
    built = tmp_path / "pictures.deb"
    subprocess.run(["dpkg-deb", "--build", str(root), str(built)], check=True, capture_output=True)
    run = fetch_photographs.command

    def command(words: list[str], folder: Path | None = None) -> bytes:
        if words[0] != "apt-get":
            return run(words, folder)
        assert words == ["apt-get", "download", "pictures=1-2"] and folder is not None
        shutil.copy(built, folder)
        return b""

    monkeypatch.setattr(fetch_photographs, "command", command)
    source = {"debian": "pictures", "version": "1-2", "file": "usr/a.jpg"}
    fetch_photographs.fetch({sha256(b"picture"): label("a.jpg", **source)}, tmp_path / "out")
    assert (tmp_path / "out" / "a.jpg").read_bytes() == b"picture"


def test_a_command_that_is_not_there_is_named() -> None:
    with pytest.raises(InputError, match="the command 'no-such-command' is needed, found none"):
        fetch_photographs.command(["no-such-command"])
