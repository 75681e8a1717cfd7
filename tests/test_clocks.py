"""The time of day decides nothing: a robot hears of it late, and it jumps by hours then.

What reads it is named here, with the reason. And what has a time limit, takes its time or keeps
order runs while the clock jumps fifty times a second (runtime/cpp/jumping_clock.cc).
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support import ROOT, SUPPORT
from support.faults import write_to_lose
from support.loaders import run_with_faults
from support.preloaded import compile_preloaded
from tvm_vision.tuning.records import read_records

ROOMS = ("tvm_vision", "tools", "ros2_node", "launch")
SOURCES = [
    path
    for room in (*ROOMS, "cpp")
    for path in (ROOT / room).rglob("*")
    if path.suffix in (".cc", ".h", ".hpp", ".c") and "tests" not in path.parts
]
# Names of Python's that read it, by their module or class.
READERS = {
    "time": {"time", "time_ns", "localtime", "gmtime", "ctime", "strftime", "asctime"},
    "datetime": {"now", "utcnow", "today", "fromtimestamp"},
    "date": {"today", "fromtimestamp"},
}
# Until Python 3.11 and on some systems, these wait by it.
WAITERS = {"sigtimedwait", "sem_timedwait"}
IN_C = re.compile(
    r"system_clock::now|high_resolution_clock|utc_clock|file_time_type::clock|CLOCK_REALTIME"
    r"|\bgettimeofday|\btimespec_get|\b(?:std::)?time\((?:NULL|nullptr|0|&)|\blocaltime|\bgmtime"
    r"|pthread_cond_timedwait|sem_timedwait|pthread_mutex_timedlock"
)
ORDERS = "which files of a cache were used last; those of a time to come are taken for old"
MAY_READ = {
    "tvm_vision/cache/files.py time.time": ORDERS,
    "tvm_vision/vulkan/csrc/cache_file.cc system_clock::now": ORDERS,
    "tvm_vision/vulkan/csrc/cache_file.cc file_time_type::clock": ORDERS,
    "tvm_vision/tuning/calibrate.py datetime.date.today": "the date in a description, for people",
}


def readers(tree: ast.AST) -> Iterator[str]:
    """Each use of the time of day, as it is written."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            of = ast.unparse(node.value)
            if node.attr in READERS.get(of.rpartition(".")[2], WAITERS):
                yield f"{of}.{node.attr}"
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            yield from (f"time.{name.name}" for name in node.names if name.name in READERS["time"])


def test_whoever_reads_the_time_of_day_has_a_reason() -> None:
    found = {
        f"{path.relative_to(ROOT)} {use}"
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        for use in readers(ast.parse(path.read_text("utf-8")))
    }
    found |= {
        f"{path.relative_to(ROOT)} {use}"
        for path in SOURCES
        for use in IN_C.findall(path.read_text("utf-8"))
    }
    assert SOURCES and found == set(MAY_READ)


@pytest.mark.parametrize(
    "text",
    [
        "import time\nend = time.time() + 5",
        "from time import time",
        "import datetime\ndatetime.datetime.now()",
        "from datetime import date\ndate.today()",
        "import time\nclock = time.time",
        "import signal\nsignal.sigtimedwait([2], 1)",
    ],
)
def test_the_search_sees_each_kind(text: str) -> None:
    assert len(list(readers(ast.parse(text)))) == 1


@pytest.fixture(scope="module")
def jumps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which the clock jumps."""
    return {"LD_PRELOAD": str(compile_preloaded("jumping_clock", tmp_path_factory.mktemp("clock")))}


def test_the_clock_jumps_and_the_one_that_only_grows_does_not(jumps: dict[str, str]) -> None:
    code = """
import json, threading, time
look = lambda: (time.time(), time.monotonic())
found = []
for _ in range(20):
    found.append(look())
    threading.Event().wait(0.02)
print(json.dumps(found))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **jumps}, capture_output=True, check=True
    )
    found = np.diff(np.array(json.loads(done.stdout)), axis=0)
    assert np.abs(found[:, 0]).max() > 3600 and found[:, 0].min() < -3600
    assert found[:, 1].min() > 0 and found[:, 1].max() < 10


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, device_info: Any) -> Path:
    pytest.importorskip("rosbags", reason="rosbags is not installed: pip install rosbags")
    from support.durability.jobs import prepare

    folder = tmp_path_factory.mktemp("jumps")
    prepare(folder)
    write_to_lose(folder)
    return folder


# Of recovery_program.py.
SCENES = ("once", "often", "hang", "in flight", "fallback", "back")
# Of each kind that has a limit, a budget or a pace of its own.
COMMANDS = {
    "tune": "tune {0}/net.onnx -r {1}/r.jsonl --target vulkan --time-budget 3s",
    "bag": "bag {0}/in/in.mcap {1}/seen.mcap -m {0}/mean.tar",
    "benchmark": "benchmark {0}/network.tar --repeat 5",
    "detect": "detect {0}/pixels.tar {0}/photos",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_do_all_of_their_work(
    folder: Path, tmp_path: Path, jumps: dict[str, str], name: str
) -> None:
    words = COMMANDS[name].format(folder, tmp_path).split()
    done = subprocess.run(
        [sys.executable, "-m", "tvm_vision", *words],
        env={**os.environ, "TVM_VISION_CACHE_DIR": str(tmp_path / "cache"), **jumps},
        text=True,
        capture_output=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    if name == "tune":
        assert read_records(tmp_path / "r.jsonl")


def test_a_device_that_hangs_is_noticed_in_time(folder: Path, jumps: dict[str, str]) -> None:
    """And attempts are so many a minute as they may be."""
    told = [run_with_faults("recovery_program.py", folder, **given) for given in (jumps, {})]
    seconds = re.compile(r"\d+\.\d+ s")
    jumping, still = (
        {scene: [seconds.sub("", frame) for frame in found[scene]["frames"]] for scene in SCENES}
        for found in told
    )
    assert jumping == still and "right" in jumping["hang"]


def test_a_frame_may_take_its_time_where_the_process_is_stopped(
    folder: Path, jumps: dict[str, str]
) -> None:
    done = subprocess.run(
        [sys.executable, SUPPORT / "robot_program.py", folder, "network.tar", "stopped_in_a_frame"],
        env={**os.environ, "TVM_USE_RUNTIME_LIB": "1", **jumps},
        text=True,
        capture_output=True,
        timeout=120,
    )
    assert done.stdout.splitlines() == ["0 lost, stopped", "right"], done.stderr
