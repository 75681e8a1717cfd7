"""Installed where nothing can be written, for a user without a home: all works, or says why not."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest

from support import ROOT, small_network

pytestmark = pytest.mark.usefixtures("device_info")
# What root may do beyond what a file's mode allows; dropped by prctl(2), see capabilities(7).
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1
TINY_TMPFS = "size=16k,mode=755"


def as_any_user() -> None:
    if os.geteuid() == 0:
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)


def lock(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))


def unlock(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of what is installed, without the code that Python has compiled."""
    site = tmp_path_factory.mktemp("site")
    ignore = shutil.ignore_patterns("__pycache__", "csrc")
    for name, source in {
        "tvm_vision": "tvm_vision", "tvm_vision/tools": "tools", "tvm_vision_ros": "ros2_node",
    }.items():  # fmt: skip
        shutil.copytree(ROOT / source, site / name, ignore=ignore)
    lock(site)
    yield site
    unlock(site)


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "locked"
    folder.mkdir()
    lock(folder)
    yield folder
    unlock(folder)


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A file system without room, where this user may mount one."""
    folder = tmp_path / "full"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", TINY_TMPFS, "tmpfs", str(folder)]
    if subprocess.run(words, capture_output=True).returncode != 0:
        pytest.skip("needs to mount a file system")
    with contextlib.suppress(OSError), (folder / "filler").open("wb", buffering=0) as stream:
        stream.write(bytes(1 << 20))
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


WORDS = {
    "compile": "compile net.onnx -o net.tar --target vulkan",
    "compile to a folder": "compile net.onnx -o net --target llvm",
    "run": "run net.tar -o y.npz",
    "run a folder": "run net -o z.npz",
    "quantize": "quantize net.onnx -o q.onnx --sample-images samples.npz",
    "tune": "tune net.onnx -r r.jsonl --target vulkan --trials 2 --min-repeat-ms 0",
    "inspect": "inspect net.tar",
    "doctor": "doctor",
}


@pytest.mark.slow
def test_all_commands_do_their_work(site: Path, locked: Path, tmp_path: Path) -> None:
    work(site, tmp_path, {"HOME": str(locked), "XDG_CACHE_HOME": str(locked)})


@pytest.mark.slow
@pytest.mark.parametrize("cache", ["/proc/nowhere", "/dev/null/x", "relative"])
def test_without_a_home(site: Path, tmp_path: Path, cache: str) -> None:
    """Neither HOME nor a place for caches nor TMPDIR is there."""
    work(site, tmp_path, {"XDG_CACHE_HOME": cache, "TMPDIR": "/nowhere"})


def test_with_a_full_cache(site: Path, full: Path, tmp_path: Path) -> None:
    work(site, tmp_path, {"HOME": str(full), "XDG_CACHE_HOME": str(full)}, ("compile", "run"))


def test_where_nothing_temporary_can_be_written(site: Path, locked: Path, tmp_path: Path) -> None:
    """A network needs room for its library: one line says so."""
    onnx.save(small_network.model(), tmp_path / "net.onnx")
    given = {"TMPDIR": str(tmp_path)}
    assert run(site, tmp_path, WORDS["compile"], given).returncode == 0
    code = (
        "import sys, tempfile, tvm_vision.whole_files as w; from pathlib import Path\n"
        f"w.temporary_folder = lambda: Path({str(locked)!r})\n"
        "from tvm_vision.tools.cli import main; main(sys.argv[1:])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "run", "net.tar", "-o", "y.npz"], cwd=tmp_path, text=True,
        env={"PYTHONPATH": str(site), "PATH": os.environ["PATH"]}, capture_output=True,
        preexec_fn=as_any_user,
    )  # fmt: skip
    assert done.returncode == 1 and "name another folder in TMPDIR" in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) == 1


def run(
    site: Path, folder: Path, words: str, given: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tvm_vision", *words.split()],
        cwd=folder, text=True, capture_output=True, preexec_fn=as_any_user, timeout=300,
        env={"PYTHONPATH": str(site), "PATH": os.environ["PATH"], **given},
    )  # fmt: skip


def work(
    site: Path, folder: Path, given: dict[str, str], commands: Collection[str] = WORDS.keys()
) -> None:
    onnx.save(small_network.model(), folder / "net.onnx")
    np.savez(folder / "samples.npz", input=small_network.IMAGE)
    for what in commands:
        done = run(site, folder, WORDS[what], given)
        # The doctor has to tell of a cache that cannot be written.
        sound = done.returncode == 0 or (what == "doctor" and done.returncode == 1)
        assert sound and "Traceback" not in done.stderr, f"{what}: {done.stdout}{done.stderr}"
        if what == "doctor":
            assert str(site) in done.stdout or "cache" in done.stdout
    assert not list(site.rglob("__pycache__"))
