"""Whole or not at all, wherever a write fails or is killed; and nothing of it stays for ever."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from support import ROOT, SUPPORT
from tvm_vision import whole_files
from tvm_vision.errors import InputError, PackageError
from tvm_vision.whole_files import (
    ScratchFolder,
    clear_leftovers,
    hold,
    need_place,
    whole,
    write_whole,
)

WORLD = SUPPORT / "whole_file_world.py"


@pytest.fixture(autouse=True)
def first_visit(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process, which looks for leftovers."""
    monkeypatch.setattr(whole_files, "_visited", set())


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def rounds(folder: Path, kind: str, way: str, stop: str) -> list:
    command = [sys.executable, str(WORLD), str(folder / "world"), kind, way, stop]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert 5 < len(found) < 150
    return found


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_killed_at_any_step_there_is_the_old_or_the_new(tmp_path: Path, kind: str) -> None:
    found = rounds(tmp_path, kind, "exchange", "kill")
    assert {status for status, *_ in found} == {-signal.SIGKILL}
    assert {before for _, before, *_ in found} == {"old", "new"}
    assert any(left for _, _, left, *_ in found)
    assert all(after == before and not rest for _, before, _, after, rest in found), found


def test_without_an_exchange_of_names_the_next_process_puts_the_old_back(tmp_path: Path) -> None:
    found = rounds(tmp_path, "folder", "rename", "kill")
    assert "nothing" in {before for _, before, *_ in found}  # the moment that cannot be avoided
    assert {after for *_, after, _ in found} == {"old", "new"}
    assert not any(rest for *_, rest in found), found


@pytest.mark.parametrize("way", ["exchange", "rename"])
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_failure_at_any_step_keeps_the_old_and_leaves_nothing(
    tmp_path: Path, kind: str, way: str
) -> None:
    found = rounds(tmp_path, kind, way, "fail")
    for status, before, left, after, rest in found:
        # What fails while the scratch folder is removed fails too late to matter.
        assert before == after and before in (("old",) if status else ("old", "new"))
        assert not rest and (not left or status == 0), found


def test_a_device_or_pipe_keeps_its_name(tmp_path: Path) -> None:
    """Root could replace /dev/null itself."""
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link):
        with pytest.raises(InputError, match=r"cannot be written \(it is a device, a pipe or a"):
            write_whole(path, b"content")
    assert pipe.is_fifo() and link.is_symlink() and names(tmp_path) == ["link", "pipe"]


def test_names_are_really_exchanged_here(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    if whole_files._exchange(tmp_path / "a", tmp_path / "b"):
        assert names(tmp_path / "a") == ["b"] and names(tmp_path / "b") == ["a"]
    else:  # a file system without it
        assert names(tmp_path / "a") == ["a"]


def killed(code: str, *arguments: object, after: str) -> None:
    """Run Python until it prints ``after``, then kill it."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == after
        process.send_signal(signal.SIGKILL)


HOLDING = (
    "import sys, time; from pathlib import Path; from tvm_vision.whole_files import ScratchFolder\n"
    "scratch = ScratchFolder(Path(sys.argv[1])); (scratch.path / 'half').touch()\n"
    "print('made', flush=True); time.sleep(60)"
)


def test_the_next_process_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    (tmp_path / ".tvm_vision-mine.part").mkdir()  # not a name of ours
    for _ in range(3):
        killed(HOLDING, tmp_path, after="made")
    # The second and third have removed what the one before left.
    assert len(names(tmp_path)) == 2
    write_whole(tmp_path / "x", b"x")
    assert names(tmp_path) == [".tvm_vision-mine.part", "x"]


def test_what_a_living_process_uses_stays(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDING, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            ours = ScratchFolder(tmp_path)
            clear_leftovers(tmp_path)
            assert len(names(tmp_path)) == 2
            ours.close()
            (theirs,) = names(tmp_path)
            # Who works for that process keeps it, too, beyond its end.
            lock = hold(tmp_path / theirs)
        finally:
            process.kill()
    clear_leftovers(tmp_path)
    assert names(tmp_path) == [theirs]
    os.close(lock)
    clear_leftovers(tmp_path)
    assert names(tmp_path) == []


def test_makers_and_removers_never_meet(tmp_path: Path) -> None:
    """Thousands of scratch folders, while others look for leftovers all the time."""
    over = threading.Event()

    def remove() -> None:
        while not over.is_set():
            clear_leftovers(tmp_path)

    removers = [threading.Thread(target=remove) for _ in range(3)]
    for thread in removers:
        thread.start()
    try:
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            with ScratchFolder(tmp_path) as folder:
                (folder / "half").write_text("mine")
                assert (folder / "half").read_text() == "mine"
    finally:
        over.set()
        for thread in removers:
            thread.join()
    assert names(tmp_path) == []


def test_a_fork_does_not_take_the_folder_along(tmp_path: Path) -> None:
    scratch = ScratchFolder(tmp_path)
    if not (child := os.fork()):
        scratch.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert scratch.path.is_dir()
    scratch.close()
    scratch.close()
    assert names(tmp_path) == []


def test_a_file_system_without_locks_works_and_is_never_cleared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", refuse)
    write_whole(tmp_path / "x", b"x")
    scratch = ScratchFolder(tmp_path)
    clear_leftovers(tmp_path)
    assert scratch.path.is_dir()


def test_temporary_files_are_where_tmpdir_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with ScratchFolder() as folder:
        assert folder.parent == tmp_path and folder.stat().st_mode & 0o077 == 0
    assert names(tmp_path) == []


def test_what_is_written_has_the_usual_mode(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        write_whole(tmp_path / "deeper" / "x", b"x")
    finally:
        os.umask(mask)
    assert (tmp_path / "deeper" / "x").stat().st_mode & 0o777 == 0o640


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="'.*/file/x' cannot be written"):
        write_whole(tmp_path / "file" / "x", b"x")
    with pytest.raises(InputError, match=r"/file/x/y' cannot be written \(Not a directory\): name"):
        need_place(tmp_path / "file" / "x" / "y")
    need_place(tmp_path / "new" / "folder" / "y")
    need_place(Path("y"))
    assert not (tmp_path / "new").exists()
    with pytest.raises(PackageError, match=r"folder' cannot be written \(Is a directory\)"):
        write_whole(tmp_path / "folder", b"x", PackageError)
    with pytest.raises(InputError, match=r"'\.' cannot be written \(Is a directory\)"):
        write_whole(Path("."), b"x")
    with pytest.raises(InputError, match="cannot be written"), whole(tmp_path / "file") as fresh:
        fresh.mkdir()
    with pytest.raises(RuntimeError), whole(tmp_path / "file") as fresh:
        fresh.write_text("half")
        raise RuntimeError
    assert names(tmp_path) == ["file", "folder"] and (tmp_path / "file").read_bytes() == b""


def test_names_as_long_as_they_may_be(tmp_path: Path) -> None:
    write_whole(tmp_path / ("x" * 255), b"x")
    assert names(tmp_path) == ["x" * 255]


def test_many_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "it"
    failures: list[BaseException] = []

    def write(letter: bytes) -> None:
        try:
            for _ in range(100):
                write_whole(path, letter * 5000)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        if path.exists():
            assert len(set(data := path.read_bytes())) == 1 and len(data) == 5000
    assert not failures and names(tmp_path) == ["it"]


# What may name the module tempfile beside whole_files, and why.
TEMPFILE = {
    "tvm_vision/vulkan/codegen/spirv.py": "a shader that was refused, kept to be looked at",
    "tvm_vision/tuning/worker.py": "tells TVM the scratch folder",
    "tvm_vision/doctor/installation.py": "tries whether a folder takes a file, which is none",
    "ros2_node/main.py": "where ROS logs, without a home",
}


def test_nothing_else_makes_temporary_files_or_renames_them() -> None:
    found = set()
    for package in ("tvm_vision", "tools", "ros2_node"):
        for path in sorted((ROOT / package).rglob("*.py")):
            nodes = list(ast.walk(ast.parse(path.read_text())))
            imports = {name.name for n in nodes if isinstance(n, ast.Import) for name in n.names}
            attributes = {
                f"{n.value.id}.{n.attr}"
                for n in nodes
                if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)
            }
            if "tempfile" in imports or attributes & {"os.replace", "os.rename"}:
                found.add(str(path.relative_to(ROOT)))
    assert found == {*TEMPFILE, "tvm_vision/whole_files.py"}


def test_no_file_is_made_to_find_the_folder_of_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As tempfile makes one, which stays where the process is killed just then."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    before = tmp_path.stat().st_mtime_ns
    assert whole_files.temporary_folder() == tmp_path
    assert tmp_path.stat().st_mtime_ns == before and tempfile.tempdir is None
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    assert whole_files.temporary_folder() != tmp_path / "none"


def test_temporary_files_of_others_go_with_the_scratch_folder() -> None:
    with whole_files.ScratchFolder() as folder:
        with whole_files.temporary_files_in(folder):
            handle, name = tempfile.mkstemp()
            os.close(handle)
            assert Path(name).parent == folder
        assert Path(tempfile.gettempdir()) != folder
    assert not Path(name).exists()


def test_who_only_reads_a_cache_removes_what_a_killed_one_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tvm_vision.cache import files as kept_files

    monkeypatch.setenv("TVM_VISION_CACHE_DIR", str(tmp_path))
    files = kept_files.KeptFiles("kind", ".bin", 100, 1000)
    files.store("ab", b"x")
    left = tmp_path / "kind" / ".tvm_vision-abcdefgh.part"
    left.mkdir()
    whole_files._visited.clear()
    assert files.load("ab") == b"x" and not left.exists()
