"""Replaces a file or folder over and over in processes that are killed, or fail, at every step.

Run as a program: ``whole_file_world.py FOLDER {file,folder} {exchange,rename} {kill,fail}``. Each
round begins with "old" in FOLDER/it, and writes "new". A step is whatever Python asks of the system
(its audit events), renameat2 included. Prints a JSON list with an entry a round: what FOLDER/it
holds afterwards, what else lies in FOLDER, and the same after the next writer was there.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

from tvm_vision import whole_files

STEPS = ("os.", "open", "shutil.", "tempfile.")
ALL_DONE = 3  # exit status of a process that was not stopped: there are no more steps


def write(path: Path, text: str, folder: bool) -> None:
    with whole_files.whole(path) as fresh:
        if folder:
            fresh.mkdir()
            fresh = fresh / "content"
        fresh.write_text(text)


def content(path: Path) -> str:
    found = path / "content" if path.is_dir() else path
    return found.read_text() if found.is_file() else "nothing"


def one_round(path: Path, folder: bool, at: int, kill: bool) -> int:
    """The exit status of a process that writes "new" and is stopped at a step."""
    if pid := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    count = 0

    def step(event: str, _: object = None) -> None:
        nonlocal count
        if not event.startswith(STEPS):
            return
        count += 1
        if count == at:
            if kill:
                os.kill(os.getpid(), signal.SIGKILL)
            raise OSError(28, "No space left on device")

    exchange = whole_files._exchange

    def exchanging(one: Path, other: Path) -> bool:
        step("os.renameat2")
        done = exchange(one, other)
        if kill:  # what fails after it is too late to matter
            step("os.renameat2 done")
        return done

    whole_files._exchange = exchanging
    whole_files._visited.clear()
    sys.addaudithook(step)
    try:
        write(path, "new", folder)
    except Exception:
        os._exit(1)
    os._exit(0 if count >= at else ALL_DONE)


def main(where: str, kind: str, way: str, stop: str) -> None:
    if way == "rename":
        whole_files._exchange = lambda one, other: False
    rounds = []
    base = Path(where)
    for at in range(1, 200):
        shutil.rmtree(base, ignore_errors=True)
        base.mkdir()
        path = base / "it"
        write(path, "old", kind == "folder")
        status = one_round(path, kind == "folder", at, stop == "kill")
        if status == ALL_DONE:
            break
        before = content(path)
        left = sorted(entry.name for entry in base.iterdir() if entry.name != "it")
        whole_files._visited.clear()
        whole_files.clear_leftovers(base)
        after = content(path)
        rest = sorted(entry.name for entry in base.iterdir() if entry.name != "it")
        rounds.append([status, before, left, after, rest])
    print(json.dumps(rounds))


if __name__ == "__main__":
    main(*sys.argv[1:])
