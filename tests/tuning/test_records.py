"""Files of records: whole after every line, readable after any accident, never believed abroad."""

from __future__ import annotations

import errno
import logging
import math
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from support.tuning_world import HERE, record
from tvm_vision.errors import TuningError
from tvm_vision.tuning.records import Record, Records, RecordWriter, TuningKey, read_records


def test_a_record_survives_its_line() -> None:
    before = record(seconds=0.25, chosen=True)
    assert Record.from_json(before.to_json()) == before
    failure = record(seconds=math.inf, error="TimeoutError: hung", checked=False)
    assert Record.from_json(failure.to_json()) == failure
    assert failure.best == math.inf


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('"format":1', '"format":2'), "format 1"),
        (('"kernel":"k"', '"kernel":3'), "kernel to be text"),
        (('"checked":true', '"checked":1'), "true or false"),
        (("[0.5]", "[-1]"), "above 0"),
        (("[0.5]", "[NaN]"), "finite numbers"),
        (("[0.5]", '"0.5"'), "list of numbers"),
        (('"precision":"fp32"', '"precision":32'), "hold text"),
        (('"name"', '"nom"'), "fields"),
        (('{"x":1}', "[1]"), "decision to be an object"),
    ],
)
def test_a_line_that_is_no_record_is_named(
    tmp_path: Path, change: tuple[str, str], says: str
) -> None:
    path = tmp_path / "r.jsonl"
    good = record().to_json()
    assert change[0] in good
    path.write_text(good + "\n" + good.replace(*change) + "\n")
    with pytest.raises(TuningError, match=f"line 2 .*{says}"):
        read_records(path)


def test_half_a_line_at_the_end_is_skipped_with_a_notice(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(record(x=1).to_json() + "\n" + record(x=2).to_json()[:40])
    with caplog.at_level(logging.WARNING):
        assert [r.decision["x"] for r in read_records(path)] == [1]
    assert "half a record" in caplog.text
    with RecordWriter(path) as writer:
        writer.write(record(x=3))
    assert [r.decision["x"] for r in read_records(path)] == [1, 3]


def test_records_are_whole_after_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    program = (
        "import sys\n"
        "from support.tuning_world import record\n"
        "from tvm_vision.tuning.records import RecordWriter\n"
        "with RecordWriter(sys.argv[1]) as writer:\n"
        "    for x in range(10**9):\n"
        "        writer.write(record(x=x))\n"
        "        print(x, flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:
        assert process.stdout is not None
        said = [int(process.stdout.readline()) for _ in range(20)]
        process.send_signal(signal.SIGKILL)
    found = [r.decision["x"] for r in read_records(path)]
    assert said == list(range(20))
    assert found == list(range(len(found))) and len(found) >= 20


def test_a_full_disk_keeps_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.jsonl"
    writer = RecordWriter(path)
    writer.write(record(x=1))

    class Full:
        """The file, of whose next line only ten bytes find room."""

        def __init__(self, file: object) -> None:
            self.file = file

        def write(self, data: bytes) -> int:
            return int(self.file.write(data[:10]))  # type: ignore[attr-defined]

        def __getattr__(self, name: str) -> object:
            return getattr(self.file, name)

    file = writer._file
    monkeypatch.setattr(writer, "_file", Full(file))
    with pytest.raises(TuningError, match=os.strerror(errno.ENOSPC)):
        writer.write(record(x=2))
    monkeypatch.setattr(writer, "_file", file)
    writer.write(record(x=3))
    writer.close()
    assert [r.decision["x"] for r in read_records(path)] == [1, 3]


def test_a_full_disk_cuts_off_no_other_process_s_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "records.jsonl"
    with RecordWriter(path) as ours, RecordWriter(path) as theirs:
        ours.write(record(x=1))
        theirs.write(record(x=2))

        def full(file: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(TuningError, match="No space left"):
            ours.write(record(x=3))
    assert [r.to_json() for r in read_records(path)] == [record(x=x).to_json() for x in (1, 2)]


def test_processes_that_append_to_one_file_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    processes, each = 3, 60
    children = []
    for process in range(processes):
        if child := os.fork():
            children.append(child)
            continue
        for x in range(each):
            with RecordWriter(path) as writer:
                writer.write(record(x=process * each + x))
        os._exit(0)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * processes
    found = sorted(r.decision["x"] for r in read_records(path))
    assert found == list(range(processes * each))


def test_missing_and_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(TuningError, match="is not there"):
        read_records(tmp_path / "none")
    assert len(read_records(tmp_path / "none", missing_ok=True)) == 0
    with pytest.raises(TuningError, match="cannot be read"):
        read_records(tmp_path)
    with pytest.raises(TuningError, match="cannot be written"):
        RecordWriter(tmp_path)


def test_the_winner_is_the_last_chosen_or_the_best_checked() -> None:
    slow, fast = record(x=1, seconds=0.5), record(x=2, seconds=0.25)
    lucky = record(x=3, seconds=0.1, checked=False)
    assert Records([slow, fast, lucky]).winner("k", HERE) == fast
    chosen = replace(slow, chosen=True)
    assert Records([chosen, fast, lucky]).winner("k", HERE) == chosen
    assert Records([slow]).winner("other", HERE) is None


def test_other_devices_and_drivers_are_hints_never_truth() -> None:
    other = TuningKey("Other GPU", "driver 1", "fp32")
    newer = TuningKey("Some GPU", "driver 2", "fp32")
    records = Records([record(x=1, seconds=0.1, place=other), record(x=2, place=newer)])
    assert records.winner("k", HERE) is None
    assert records.hints("k", HERE) == [{"x": 2}, {"x": 1}]
    assert records.hints("k", HERE, most=1) == [{"x": 2}]


def test_merging_keeps_each_once_and_pruning_the_best() -> None:
    records = Records([record(x=1), record(x=2, seconds=0.25)])
    records.add([record(x=1), record(x=3, seconds=0.75), record("q")])
    assert [r.decision["x"] for r in records] == [1, 2, 3, 1]
    chosen = record(x=1, chosen=True)
    records.add([chosen])
    assert records.pruned().items == [record(x=2, seconds=0.25), chosen, record("q")]
    other = record("q", chosen=True, place=replace(HERE, driver="driver 2"))
    records.add([other])
    assert records.chosen().items == [chosen, other]
