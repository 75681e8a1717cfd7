"""From a model to records and back into a compiled network, on whatever Vulkan device is here."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto

import tvm_vision
from support.networks import Builder, reference
from tvm_vision.errors import InputError
from tvm_vision.tools.cli import main
from tvm_vision.tuning import (
    Records,
    TuningOptions,
    list_kernels,
    read_records,
    tune_model,
    write_records,
)
from tvm_vision.tuning.worker import MeasureRuns

QUICK = MeasureRuns(repeat=1, number=1, min_repeat_ms=0)


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    """Two convolutions, the second one twice."""
    builder = Builder(3)
    x = builder.conv("input", 3, 8, 3, act="relu")
    for _ in range(2):
        x = builder.conv(x, 8, 8, 3, act="relu")
    return builder.model(12, [(x, TensorProto.FLOAT)])


@pytest.fixture(scope="module")
def tuned(model: onnx.ModelProto, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tuned") / "records.jsonl"
    outcome = tune_model(model, records=path, tuning=TuningOptions(trials=6, batch=3), timing=QUICK)
    assert outcome.tried >= 6 and outcome.failed == 0
    assert outcome.reason == "all trials are used"
    assert 0 < outcome.after <= outcome.before * 1.2
    return path


def test_kernels_are_listed_with_their_calls(model: onnx.ModelProto) -> None:
    kernels = list_kernels(model)
    assert [kernel.calls for kernel in kernels] == [2, 1]
    assert all(kernel.candidates > 5 for kernel in kernels)
    first = next(iter(kernels)).nodes[0]
    assert [kernel.calls for kernel in list_kernels(model, only=[first])] == [2]
    assert list_kernels(model, only=["no such node"]) == []


def test_records_go_into_the_network_and_it_stays_right(
    model: onnx.ModelProto, tuned: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    records = read_records(tuned)
    best = Records([replace(r, chosen=True) for r in records if r.checked])
    write_records(tmp_path / "best.jsonl", best)
    compiled = tvm_vision.compile(model, tuning_records=[tmp_path / "best.jsonl"])
    assert compiled.tuned == 2
    package = tvm_vision.compile(
        model, tmp_path / "m.tar", tuning_records=[tmp_path / "best.jsonl"]
    )
    network = tvm_vision.load(package)
    assert network.info["records"] == "2 kernels"
    x = np.random.default_rng(1).random((1, 3, 12, 12), np.float32)
    network.run(input=x)
    (want,) = reference(model, x)
    np.testing.assert_allclose(network.get_output(0).numpy(), want, rtol=1e-4, atol=1e-5)


def test_records_of_another_driver_are_not_used(
    model: onnx.ModelProto, tuned: Path, tmp_path: Path
) -> None:
    other = [
        replace(r, place=replace(r.place, driver="another"), chosen=True)
        for r in read_records(tuned)
    ]
    write_records(tmp_path / "other.jsonl", Records(other))
    compiled = tvm_vision.compile(
        model, tuning_records=[tmp_path / "other.jsonl"], shipped_records=False
    )
    assert compiled.tuned == 0


def test_a_record_of_an_unknown_template_is_passed_over(
    model: onnx.ModelProto, tuned: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    strange = {"template": "of tomorrow", "parameters": {}}
    records = [replace(r, decision=strange, chosen=True) for r in read_records(tuned)]
    write_records(tmp_path / "strange.jsonl", Records(records))
    with caplog.at_level(logging.WARNING):
        compiled = tvm_vision.compile(model, tuning_records=[tmp_path / "strange.jsonl"])
    assert compiled.tuned == 0 and "passed over" in caplog.text


def test_a_search_goes_on_where_it_was(model: onnx.ModelProto, tuned: Path, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(tuned.read_bytes())
    before = len(read_records(path))
    outcome = tune_model(model, records=path, tuning=TuningOptions(trials=4, batch=2), timing=QUICK)
    assert outcome.tried == 4 and outcome.before > 0
    fresh = [r for r in read_records(path).items[before:] if not r.chosen]
    tried = {(r.kernel, str(r.decision)) for r in read_records(tuned)}
    assert len(fresh) == 4
    assert not any((r.kernel, str(r.decision)) in tried for r in fresh)


def test_no_trials_measure_nothing(model: onnx.ModelProto, tmp_path: Path) -> None:
    outcome = tune_model(model, records=tmp_path / "r.jsonl", tuning=TuningOptions(trials=0))
    assert outcome.tried == 0 and (tmp_path / "r.jsonl").read_bytes() == b""


def test_a_kernel_that_is_not_there(model: onnx.ModelProto, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no kernel is called softmax"):
        tune_model(model, records=tmp_path / "r.jsonl", tuning=TuningOptions(only=("softmax",)))
    with pytest.raises(InputError, match="templates, metaschedule or static"):
        tune_model(model, records=tmp_path / "r.jsonl", search="luck")


def test_the_commands(model: onnx.ModelProto, tuned: Path, tmp_path: Path) -> None:
    runner = CliRunner()
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    listed = runner.invoke(main, ["tune", str(path), "-r", str(tuned), "--list-tasks"])
    assert listed.exit_code == 0 and "candidates" in listed.output
    run = ["tune", str(path), "-r", str(tmp_path / "r.jsonl"), "--trials", "2", "--repeat", "1"]
    done = runner.invoke(main, [*run, "--prior-records", str(tuned), "--min-repeat-ms", "0"])
    assert done.exit_code == 0, done.output
    assert "2 candidates, 0 failed" in done.output and "--tuning-records" in done.output
    shown = runner.invoke(main, ["records", "list", str(tuned)])
    assert shown.exit_code == 0 and "contraction" in shown.output
    merged = tmp_path / "merged.jsonl"
    assert (
        runner.invoke(
            main, ["records", "merge", str(tuned), str(tmp_path / "r.jsonl"), "-o", str(merged)]
        ).exit_code
        == 0
    )
    assert len(read_records(merged)) > len(read_records(tuned))
    pruned = runner.invoke(main, ["records", "prune", str(merged), "-o", str(tmp_path / "p.jsonl")])
    assert pruned.exit_code == 0 and len(read_records(tmp_path / "p.jsonl")) <= 4


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--time-budget", "soon"], "90s, 10m or 2h"),
        (["--time-budget", "0"], "90s, 10m or 2h"),
        (["--tracker", "somewhere", "--key", "nuc"], "HOST:PORT is needed"),
        (["--tracker", "localhost:9190"], "needed together"),
        (["--search", "luck"], "metaschedule"),
    ],
)
def test_wrong_options_are_one_line(tmp_path: Path, arguments: list[str], says: str) -> None:
    result = CliRunner().invoke(
        main, ["tune", "model.onnx", "-r", str(tmp_path / "r.jsonl"), *arguments]
    )
    assert result.exit_code == 2 and says in result.output
