"""Stop commands at their writes, and look at what is left.

    PYTHONPATH=tests python -m support.durability --kills 500
    PYTHONPATH=tests python -m support.durability --full 20 --only compile,quantize

Every command of jobs.py is killed at random writes, or a moment later, over and over in one place.
After each kill what has the output's name must be whole, the old or the new; after every few kills
the command runs undisturbed: it succeeds, and nothing lies in its folder, in that of temporary
files or in the caches but what lies there where nothing was ever killed. ``--full`` gives the disk
room for a part of what a command writes: it ends with one line and exit code 1, or, where only a
cache had no room, succeeds; what was there before is there still. Where a file system in memory can
be mounted (root) that is a real one of that size; else a write fails. ``--signals`` asks it to end
by SIGINT, SIGTERM and SIGHUP: one line, 128 and the signal's number, and nothing is left at once.
Exit code 1 for any fault.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from .jobs import JOBS, Job, prepare
from .stopped import SIGNALS, import_all, stop

KILLED = (-9, -14)
KILLS_BEFORE_A_RUN = 8
LONGEST_DELAY = 0.03  # s, after a write
MOST_SECONDS = 120
# For each kill, of those of which some end before it.
MOST_RUNS = 10
SHOWN = 5


@dataclass
class World:
    """Folders of one job: what it reads, writes, keeps, and its temporary files."""

    base: Path
    made: Path
    faults: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def out(self) -> Path:
        return self.base / "out"

    def clear(self, job: Job) -> None:
        shutil.rmtree(self.base, ignore_errors=True)
        self.fill(job)

    def fill(self, job: Job) -> None:
        for name in ("out", "temporary", "cache"):
            (self.base / name).mkdir(parents=True, exist_ok=True)
        if job.name == "sign":
            shutil.copy(self.made / "mean.tar", self.out / "s.tar")
        if job.name == "bag" and not (self.out / f"{job.output}.progress").exists():
            # It replaces none that is done.
            (self.out / job.output).unlink(missing_ok=True)
        if job.name == "records" and not (self.made / "r.jsonl").exists():
            (self.made / "r.jsonl").touch()

    def run(self, job: Job, at: int, delay: float, way: str) -> tuple[int, str]:
        """Exit code and standard error of the job, stopped at a write."""
        command = job.command(self.made, self.out)
        with tempfile.TemporaryFile() as said:
            process = os.fork()
            if not process:
                self._become(said.fileno())
                stop(command, at, delay, way)
            code = self._wait(job, process, at)
            self._wait_for_children(job, process)
            said.seek(0)
            return code, said.read().decode(errors="replace")

    def _become(self, said: int) -> None:
        """In the child: its own session, folders and outputs."""
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(0, 1)
        os.dup2(said, 2)
        os.environ["TMPDIR"] = str(self.base / "temporary")
        os.environ["TVM_VISION_CACHE_DIR"] = str(self.base / "cache")
        tempfile.tempdir = None

    def _wait(self, job: Job, process: int, at: int) -> int:
        end = time.monotonic() + MOST_SECONDS
        while not (found := os.waitpid(process, os.WNOHANG))[0]:
            if time.monotonic() > end:
                os.kill(process, 9)
                self.fault(job, f"it hangs at write {at}")
                end += MOST_SECONDS
            time.sleep(0.01)
        return os.waitstatus_to_exitcode(found[1])

    def _wait_for_children(self, job: Job, session: int) -> None:
        """What it started ends with it, whatever ended it."""
        end = time.monotonic() + 30
        while (alive := _in_session(session)) and time.monotonic() < end:
            time.sleep(0.05)
        for pid in alive:
            self.fault(job, f"process {pid} goes on without it")
            os.kill(pid, 9)

    def listing(self) -> set[str]:
        """What lies there, keys of caches left out: they are the same in kind."""
        found = (path.relative_to(self.base).as_posix() for path in self.base.rglob("*"))
        return {re.sub(r"[0-9a-f]{16,}", "#", name) for name in found}

    def fault(self, job: Job, words: str) -> None:
        self.faults.append(f"{job.name}: {words}")
        print(f"FAULT {self.faults[-1]}", flush=True)


def _in_session(session: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def whole(job: Job, world: World, had: bool) -> str:
    """Why the output is not the old or the new; "" where it is."""
    path = world.out / job.output
    if not path.exists():
        return "the old one is gone" if had else ""
    try:
        if job.grows or any(path.iterdir() if path.is_dir() else [path]):
            job.read(path)
    except Exception as error:
        return f"half of it is there: {error!r:.200}"
    return ""


def undisturbed(job: Job, world: World) -> int:
    """How many writes the job makes; a fault where it fails."""
    code, said = world.run(job, 0, 0.0, "kill")
    if code != 0:
        world.fault(job, f"undisturbed it ends with {code}: {said[-300:]}")
        return 0
    if problem := whole(job, world, True):
        world.fault(job, problem)
    return int(said.split()[-1])


def kill(job: Job, world: World, kills: int, chance: random.Random) -> None:
    """Kill a job so many times, in rounds that begin with nothing. A run that ends before it is
    killed does not count."""
    world.clear(job)
    writes = undisturbed(job, world)
    usual = world.listing()
    done = runs = 0
    while done < kills and writes and runs < MOST_RUNS * kills and len(world.faults) < SHOWN:
        world.clear(job)
        for _ in range(min(KILLS_BEFORE_A_RUN, kills - done)):
            runs += 1
            had = (world.out / job.output).exists()
            delay = chance.choice((0.0, chance.uniform(0, LONGEST_DELAY)))
            at = chance.randint(1, writes)
            code, said = world.run(job, at, delay, "kill")
            done += code in KILLED
            world.counts["killed" if code in KILLED else "ended before"] += 1
            if code not in (*KILLED, 0):
                world.fault(job, f"at write {at} it ends with {code}: {said[-3000:]}")
            if problem := whole(job, world, had):
                world.fault(job, f"killed at write {at} and {delay:.3f} s: {problem}")
            world.fill(job)
        undisturbed(job, world)
        if left := sorted(world.listing() - usual):
            world.fault(job, f"left behind: {', '.join(left[:SHOWN])}")
    if done < kills and not world.faults:
        world.fault(job, f"only {done} of {runs} runs were killed, {kills} were asked for")
    print(f"{job.name}: {done} kills in {runs} runs, {writes} writes", flush=True)


def ask(job: Job, world: World, times: int, chance: random.Random) -> None:
    """Ask a job so many times to end, by each signal in turn, each time in a place with nothing in
    it. It ends with one line and the signal's exit code and leaves nothing, or has all written."""
    world.clear(job)
    writes = undisturbed(job, world)
    usual = world.listing()
    for number in range(times if writes else 0):
        world.clear(job)
        way = SIGNALS[number % len(SIGNALS)]
        at, delay = chance.randint(1, writes), chance.uniform(0, LONGEST_DELAY / 4)
        code, said = world.run(job, at, delay, way)
        what = f"{way} at write {at} and {delay:.3f} s"
        # At the very end there is nobody to tell, and shells have the same number for it.
        over = code == -signal.Signals[way]
        asked = over or code == 128 + signal.Signals[way]
        world.counts[way if asked else "ended before"] += 1
        lines = [line for line in said.splitlines() if line.startswith("interrupted: ")]
        if code != 0 and (not asked or "Traceback" in said or len(lines) != (not over)):
            world.fault(job, f"{what}: it ends with {code}: {said[-2000:]}")
        if problem := whole(job, world, False):
            world.fault(job, f"{what}: {problem}")
        found = world.listing() - usual
        if left := sorted(name for name in found if not (job.resumed and job.resumed in name)):
            world.fault(job, f"{what} left behind: {', '.join(left[:SHOWN])}")
    print(f"{job.name}: asked {times} times to end", flush=True)


def full(job: Job, world: World, times: int, chance: random.Random) -> None:
    """Run a job so many times with less room than it needs."""
    world.clear(job)
    writes = undisturbed(job, world)
    usual = world.listing()
    used = sum(path.stat().st_blocks * 512 for path in world.base.rglob("*"))
    mounted = mount(world.base, used + (1 << 20))
    shown = "real" if mounted else "simulated"
    for _ in range(times if writes else 0):
        if mounted:
            unmount(world.base)
            room = chance.randint(16, max(17, used // 1024)) << 10
            mount(world.base, room)
            at, what = 0, f"with {room} bytes of room"
            try:
                world.fill(job)
            except OSError:  # too small for what it begins with
                continue
        else:
            world.clear(job)
            at = chance.randint(1, writes)
            what = f"full from write {at}"
        had = (world.out / job.output).exists()
        code, said = world.run(job, at, 0.0, "full")
        world.counts["refused" if code == 1 else "succeeded"] += 1
        lines = [line for line in said.splitlines() if "rror" in line]
        if code not in (0, 1) or "Traceback" in said or (code == 1 and len(lines) != 1):
            world.fault(job, f"{what} it ends with {code}: {said[-400:]}")
        if problem := whole(job, world, had):
            world.fault(job, f"{what}: {problem}")
        found = world.listing() - usual
        if left := sorted(name for name in found if not (job.resumed and job.resumed in name)):
            world.fault(job, f"{what} left behind: {', '.join(left[:SHOWN])}")
    if mounted:
        unmount(world.base)
    print(f"{job.name}: {times} times too little room ({shown})", flush=True)


def mount(folder: Path, room: int) -> bool:
    """A file system of so many bytes in memory; no where this user may not."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={room},mode=700", "tmpfs", str(folder)]
    try:
        return subprocess.run(command, capture_output=True).returncode == 0
    except OSError:
        return False


def unmount(folder: Path) -> None:
    subprocess.run(["umount", str(folder)], check=True, capture_output=True)


def make(made: Path) -> None:
    """``prepare`` in a process of its own: threads that it starts would be in no fork of this."""
    made.mkdir()
    if not (child := os.fork()):
        prepare(made)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def main(arguments: Iterable[str] | None = None) -> None:
    names = [job.name for job in JOBS]
    parser = argparse.ArgumentParser(prog="python -m support.durability")
    parser.add_argument("--kills", type=int, default=0, help="of all commands together")
    parser.add_argument("--full", type=int, default=0, help="times that each has too little room")
    parser.add_argument("--signals", type=int, default=0, help="times that each is asked to end")
    parser.add_argument("--only", default=",".join(names), help="commands, with commas between")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(None if arguments is None else list(arguments))
    chosen = [job for job in JOBS if job.name in given.only.split(",")]
    chance, faults = random.Random(given.seed), []
    counts: Counter[str] = Counter()
    # No TemporaryDirectory, which every fork would remove at its end.
    folder = Path(tempfile.mkdtemp())
    try:
        make(folder / "made")
        import_all()
        for number, job in enumerate(chosen):
            world = World(folder / "world", folder / "made")
            share = given.kills * (number + 1) // len(chosen) - given.kills * number // len(chosen)
            if share:
                kill(job, world, share, chance)
            if given.signals:
                ask(job, world, given.signals, chance)
            if given.full:
                full(job, world, given.full, chance)
            faults += world.faults
            counts += world.counts
    finally:
        shutil.rmtree(folder)
    print(", ".join(f"{count} {name}" for name, count in counts.items()), f"{len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
