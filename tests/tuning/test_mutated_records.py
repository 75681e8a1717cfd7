"""Records changed at random: read, or refused in one line that names file, line and reason."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from support.mutations import ODD, mutated
from support.tuning_world import HERE, record
from tvm_vision.errors import TuningError
from tvm_vision.tools.cli import main
from tvm_vision.tuning import merge, read_records, write_records
from tvm_vision.tuning.records import RecordWriter

TRACE: dict[str, Any] = {
    "template": "trace",
    "parameters": {"json": '[[["GetSBlock", [], ["x", "main"]]], []]'},
}
TILES = {"template": "elementwise", "parameters": {"tile": 4, "sizes": [1, 2], "vector": 1.0}}
SAMPLE = [
    record(x=1, chosen=True).to_json(),
    record("q", seconds=float("inf"), error="TimeoutError: hung", checked=False).to_json(),
    record("r", decision=TRACE, search="metaschedule").to_json(),
    record("s", decision=TILES).to_json(),
]


def one_line(path: Path) -> str | None:
    """Why a file is refused; None where it is not."""
    try:
        found = read_records(path)
    except TuningError as error:
        message = str(error)
        assert "\n" not in message and len(message) < 600
        assert str(path) in message and re.search(r"line \d+ of", message), message
        return message
    # What is read can be written, compared and asked.
    again = path.with_name("again.jsonl")
    write_records(again, merge([path]))
    assert len(read_records(again)) <= len(found)
    found.pruned(), found.chosen(), found.hints("k", HERE), found.winner("k", HERE)
    return None


def test_changed_files_are_read_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    sample = "".join(line + "\n" for line in SAMPLE).encode()
    refused = 0
    for data in mutated(sample, seed=11, count=1500):
        path.write_bytes(data)
        refused += one_line(path) is not None
    assert 500 < refused < 1450


@pytest.mark.parametrize("odd", range(len(ODD)))
def test_something_odd_in_the_place_of_every_value(tmp_path: Path, odd: int) -> None:
    path = tmp_path / "records.jsonl"
    for line in SAMPLE:
        for match in re.finditer(r'(?<=[:\[,])("[^"]*"|[\d.e-]+|true|false)(?=[,\]}])', line):
            path.write_text(line[: match.start()] + ODD[odd] + line[match.end() :] + "\n")
            one_line(path)


@pytest.mark.parametrize("value", ["1" + "0" * 400, "[" * 100_000, "[" * 900 + "]" * 900])
@pytest.mark.parametrize(
    "command",
    [["records", "list"], ["records", "merge", "-o", "m.jsonl"],
     ["records", "prune", "-o", "p.jsonl"], ["records", "draw", "-o", "d.png"]],
    ids=" ".join,
)  # fmt: skip
def test_every_command_refuses_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], value: str
) -> None:
    monkeypatch.chdir(tmp_path)
    good = record(x=1).to_json()
    for place in ("[0.5]", '{"x":1}', '"k"'):
        changed = good.replace(place, f"[{value}]")
        Path("r.jsonl").write_text(f"{good}\n{changed}\n")
        result = CliRunner().invoke(main, [*command, "r.jsonl"])
        assert result.exit_code == 1 and isinstance(result.exception, SystemExit)
        assert re.fullmatch(r"Error: .* line 2 of 'r\.jsonl' is none \(.*\).*\n", result.stderr)
        assert not {"m.jsonl", "p.jsonl", "d.png"} & {path.name for path in tmp_path.iterdir()}


def test_a_writer_does_not_mind_what_is_in_its_file(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    for data in mutated(SAMPLE[0].encode() + b"\n", seed=5, count=100):
        path.write_bytes(data)
        try:
            with RecordWriter(path) as writer:
                writer.write(record(x=3))
        except TuningError:
            # Nothing that is no record is cut off.
            assert path.read_bytes() == data
            continue
        assert path.read_bytes().endswith(record(x=3).to_json().encode() + b"\n")


def test_changed_traces_are_passed_over() -> None:
    """TVM reads the steps that MetaSchedule wrote; whatever they are, compiling goes on."""
    import tvm
    from tvm import te

    from tvm_vision.compiler import parse_target
    from tvm_vision.schedules import TargetLimits, kernel_key
    from tvm_vision.schedules.module import TUNED, schedule_module
    from tvm_vision.tuning.choose import chooser
    from tvm_vision.tuning.records import Records

    x = te.placeholder((64,), name="x")
    function = te.create_prim_func([x, te.compute((64,), lambda i: x[i] + 1.0, name="main")])
    target = parse_target({"kind": "vulkan", "max_num_threads": 64, "thread_warp_size": 8})
    chance = random.Random(3)
    steps = TRACE["parameters"]["json"].encode()
    for data in mutated(steps, seed=chance.randrange(99), count=150):
        decision = {"template": "trace", "parameters": {"json": data.decode("utf-8", "replace")}}
        records = Records([record(kernel_key(function), decision=decision, chosen=True)])
        choose = chooser(records, HERE, TargetLimits.of(target))
        made = schedule_module(tvm.IRModule({"main": function}), target, choose)
        assert TUNED in made["main"].attrs or made["main"].attrs["tirx.is_scheduled"]
