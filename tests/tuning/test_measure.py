"""Measuring for real, on whatever Vulkan device is here, in processes that may hang or die."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te, topi

from tvm_vision.compiler import build_function, parse_target
from tvm_vision.errors import TuningError
from tvm_vision.options import CompileOptions
from tvm_vision.schedules import TargetLimits, choices, kernel_key
from tvm_vision.tuning import measure
from tvm_vision.tuning.measure import DeviceMeasurer, Measured, MeasureJob, MeasureProcess, compare
from tvm_vision.tuning.worker import Argument, Board, MeasureRuns, random_array
from tvm_vision.whole_files import ScratchFolder

SHAPES = ((24, 40), (40, 56), (24, 56))
FACTORS = ((SHAPES[0], "a"), (SHAPES[1], "b"))


@pytest.fixture(scope="module")
def product() -> tvm.tirx.PrimFunc:
    """relu(A @ B)."""
    a, b = (te.placeholder(shape, "float32", name) for shape, name in FACTORS)
    return te.create_prim_func([a, b, topi.nn.relu(topi.matmul(a, b))])


@pytest.fixture(scope="module")
def job(product: tvm.tirx.PrimFunc) -> MeasureJob:
    arguments = tuple(Argument(shape, "float32", shape == SHAPES[2]) for shape in SHAPES)
    return MeasureJob(kernel_key(product), "product", tvm.ir.save_json(product), arguments)


@pytest.fixture(scope="module")
def measurer() -> Iterator[DeviceMeasurer]:
    made = DeviceMeasurer.of(parse_target("vulkan"), MeasureRuns(2, 1, 0), (Board(),))
    yield made
    made.close()


def test_candidates_are_measured_and_right(
    job: MeasureJob, product: tvm.tirx.PrimFunc, measurer: DeviceMeasurer
) -> None:
    offered = choices(product, TargetLimits.of(parse_target("vulkan")))
    tried = [choice.to_dict() for choice in (offered[0], offered[-1])]
    results = list(measurer.measure(job, tried))
    assert [result.decision for result in results] == tried
    for result in results:
        assert len(result.seconds) == 2 and min(result.seconds) > 0, result.error
        assert measurer.check(job, result) == ""


def test_nothing_is_made_to_compare_with_where_nothing_is_compared(
    job: MeasureJob, product: tvm.tirx.PrimFunc, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    measurer = DeviceMeasurer("{}", "vulkan", checks=False)
    monkeypatch.setattr(measure._Pool, "submit", lambda _, what, *rest: asked.append(what))
    for checks, wanted in ((False, 2), (True, 3)):
        measurer.checks = checks
        asked.clear()
        measurer._libraries.clear()
        measurer.measure(job, [{}])
        assert len(asked) == wanted
    measurer.close()


def test_candidates_of_bytes_are_measured_and_right(measurer: DeviceMeasurer) -> None:
    """A product of bytes, rounded to bytes: every way of computing it that is offered."""
    a, b = te.placeholder((24, 80), "int8", "a"), te.placeholder((48, 80), "int8", "b")
    k = te.reduce_axis((0, 80), "k")
    sums = te.compute(
        (24, 48), lambda i, j: te.sum(a[i, k].astype("int32") * b[j, k].astype("int32"), axis=k)
    )
    scaled = topi.clip(topi.round(topi.cast(sums, "float32") * 0.0007), -128, 127)
    function = te.create_prim_func([a, b, topi.cast(scaled, "int8")])
    arguments = [
        Argument(shape, "int8", shape == (24, 48)) for shape in ((24, 80), (48, 80), (24, 48))
    ]
    job = MeasureJob(kernel_key(function), "bytes", tvm.ir.save_json(function), tuple(arguments))
    offered = [c.to_dict() for c in choices(function, TargetLimits.of(parse_target("vulkan")))]
    templates = [choice["template"] for choice in offered]
    assert "contraction" in templates
    tried = [offered[templates.index(name)] for name in dict.fromkeys(templates)]
    for result in measurer.measure(job, tried):
        assert len(result.seconds) == 2, result.error
        assert measurer.check(job, result) == ""


@pytest.mark.slow
def test_several_processes_load_while_one_measures(
    job: MeasureJob, product: tvm.tirx.PrimFunc
) -> None:
    target = parse_target("vulkan")
    several = DeviceMeasurer(str(target), "vulkan", MeasureRuns(2, 1, 0), (Board(),) * 3)
    try:
        tried = [choice.to_dict() for choice in choices(product, TargetLimits.of(target))[:6]]
        results = list(several.measure(job, tried))
        assert [result.decision for result in results] == tried
        assert all(len(result.seconds) == 2 for result in results), results
        assert several.check(job, results[0]) == ""
    finally:
        several.close()


def test_a_device_that_others_have_is_asked_for_again(
    job: MeasureJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([None, None, [1.0], None, None, None])

    def call(self: MeasureProcess, function: object, *arguments: object, timeout: float) -> object:
        return next(answers) if function is measure.worker.measure else "library"

    monkeypatch.setattr(MeasureProcess, "call", call)
    made = DeviceMeasurer("", "vulkan", builders=1)
    first, second = made.measure(job, [{"x": 1}, {"x": 2}])
    made.close()
    assert first.seconds == (1.0,)
    assert "the device was not to be had" in second.error


def test_a_candidate_that_cannot_be_built_is_a_result(
    job: MeasureJob, measurer: DeviceMeasurer
) -> None:
    wrong = {"template": "contraction", "parameters": {"m": 7}}
    (result,) = measurer.measure(job, [wrong])
    assert result.seconds == () and result.best == float("inf")
    assert "contraction" in result.error and "\n" not in result.error


def test_wrong_results_are_found(
    job: MeasureJob, product: tvm.tirx.PrimFunc, measurer: DeviceMeasurer
) -> None:
    """Held against the reference of the product without its ReLU."""
    a, b = (te.placeholder(shape, "float32", name) for shape, name in FACTORS)
    plain = tvm.ir.save_json(te.create_prim_func([a, b, topi.matmul(a, b)]))
    other = MeasureJob("plain", "plain", plain, job.arguments)
    default = choices(product, TargetLimits.of(parse_target("vulkan")))[0].to_dict()
    (result,) = measurer.measure(job, [default])
    assert "wrong results: output 0 is off by" in measurer.check(other, result)
    gone = Measured({}, (1.0,), library="/nowhere/kernel.so")
    assert "Error" in measurer.check(job, gone)


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (np.array([1.0, 2.0, 3.0], np.float32), ""),
        (np.array([1.0, 2.0, 3.002], np.float32), ""),
        (np.array([1.0, 2.0, 3.01], np.float32), "off by 3.3e-03"),
        (np.array([1.0, 2.0, np.nan], np.float32), "off by nan"),
        (np.array([1, 2, 3], np.int32), ""),
        (np.array([1, 2, 4], np.int32), "1 of 3 values"),
        (np.array([1, 3, 2], np.int8), ""),  # a step of rounding
        (np.array([1, 2, 5], np.int8), "1 of 3 values"),
    ],
)
def test_results_are_compared(found: np.ndarray, says: str) -> None:
    wanted = np.asarray([1.0, 2.0, 3.0]).astype(found.dtype)
    told = compare([found], [wanted])
    assert (says in told) if says else told == ""


def test_inputs_are_the_same_everywhere_and_outputs_start_unwritten() -> None:
    read, written = Argument((3, 4), "float32", False), Argument((3, 4), "float16", True)
    assert np.array_equal(random_array(read, 0), random_array(read, 0))
    assert not np.array_equal(random_array(read, 0), random_array(read, 1))
    assert np.isnan(random_array(written, 0)).all()
    for dtype in ("int32", "uint8", "bool", "int64"):
        values = random_array(Argument((50,), dtype, False), 0)
        assert str(values.dtype) == dtype and 0 <= values.min() and values.max() <= 3
    quantized = random_array(Argument((5000,), "int8", False), 0)
    assert (quantized.min(), quantized.max()) == (-128, 127)


def test_candidates_are_built_in_parallel_while_one_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With processes that only sleep: one measures, three build ahead of it."""
    log: list[tuple[str, float, float]] = []

    class Sleeper:
        def call(self, function, *arguments, timeout):
            begin = time.monotonic()
            time.sleep(0.05)
            log.append((function.__name__, begin, time.monotonic()))
            return [1.0] if function is measure.worker.measure else "library"

        def close(self) -> None:
            pass

    monkeypatch.setattr(measure, "MeasureProcess", lambda folder: Sleeper())
    made = DeviceMeasurer("", "vulkan", builders=3)
    jobs = [MeasureJob(name, name, "", ()) for name in "ab"]
    asked = [made.measure(job, [{"x": x} for x in range(6)]) for job in jobs]
    assert [result.seconds for results in asked for result in results] == [(1.0,)] * 12
    made.close()

    def at_once(name: str) -> int:
        spans = [(begin, end) for kind, begin, end in log if kind == name]
        return max(sum(b <= begin < e for b, e in spans) for begin, _ in spans)

    assert at_once("measure") == 1 and at_once("build") > 1
    first = min(end for kind, _, end in log if kind == "measure")
    assert sum(kind == "build" and begin < first for kind, begin, _ in log) > 2


def test_what_is_left_out_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    class Quick:
        def call(self, function, *arguments, timeout):
            ran.append(function.__name__)
            time.sleep(0.05)
            return [1.0] if function is measure.worker.measure else "library"

        def close(self) -> None:
            pass

    monkeypatch.setattr(measure, "MeasureProcess", lambda folder: Quick())
    made = DeviceMeasurer("", "vulkan", builders=1)
    job = MeasureJob("a", "a", "", ())
    made.measure(job, [{"x": x} for x in range(20)]).close()
    assert next(iter(made.measure(job, [{"x": 19}]))).seconds == (1.0,)
    made.close()
    assert ran.count("measure") <= 2 and ran.count("build") <= 4


def test_failures_for_want_of_room_are_no_results(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def call(self, function, *arguments, timeout):
            raise ChildProcessError("the linker died")

        def close(self) -> None:
            pass

    monkeypatch.setattr(measure, "MeasureProcess", lambda folder: Full())
    made = DeviceMeasurer("", "vulkan", builders=1)
    job = MeasureJob("a", "a", "", ())
    assert next(iter(made.measure(job, [{"x": 1}]))).error == "ChildProcessError: the linker died"
    usage = shutil.disk_usage("/")._replace(free=1000)
    monkeypatch.setattr(measure.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(TuningError, match="room for libraries is needed in .*, found 1000 bytes"):
        next(iter(made.measure(job, [{"x": 2}])))
    made.close()


def test_a_process_that_hangs_or_dies_is_started_anew(tmp_path: Path) -> None:
    process = MeasureProcess(tmp_path)
    try:
        with pytest.raises(TimeoutError):
            process.call(time.sleep, 60.0, timeout=0.5)
        assert process.call(abs, -3, timeout=60.0) == 3
        with pytest.raises(ChildProcessError):
            process.call(os.abort, timeout=60.0)
        assert process.call(abs, -4, timeout=60.0) == 4
    finally:
        process.close()


def test_a_process_is_closed_in_the_middle_of_a_call(tmp_path: Path) -> None:
    process, ended = MeasureProcess(tmp_path), []

    def call() -> None:
        try:
            process.call(time.sleep, 120, timeout=300)
        except ChildProcessError as error:
            ended.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    while process._worker._proc is None:
        time.sleep(0.01)
    process.close()
    thread.join(timeout=60)
    assert len(ended) == 1 and not thread.is_alive()
    with pytest.raises(ChildProcessError, match="closed"):
        process.call(time.sleep, 0, timeout=1)


def test_temporary_files_of_candidates_go_with_the_measurer(tmp_path: Path) -> None:
    """Those that TVM, its popen workers and the linker make included."""
    with ScratchFolder(tmp_path) as folder:
        process = MeasureProcess(folder)
        assert process.call(tempfile.gettempdir, timeout=60) == str(folder)
        assert process.call(os.getenv, "TMPDIR", timeout=60) == str(folder)
        process.close()
    assert list(tmp_path.iterdir()) == []


def test_candidates_are_built_by_the_options_of_the_network(
    job: MeasureJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = CompileOptions(packed_fp16="on")
    given = []

    def call(self: MeasureProcess, function: object, *arguments: object, timeout: float) -> object:
        given.append(arguments)
        return (1.0,) if function is measure.worker.measure else "library"

    monkeypatch.setattr(MeasureProcess, "call", call)
    made = DeviceMeasurer("", "vulkan", builders=1, checks=False, options=options)
    (found,) = made.measure(job, [{"x": 1}])
    made.close()
    assert found.seconds == (1.0,) and options in given[0]


@pytest.mark.parametrize("how", ["off", "on"])
def test_a_kernel_is_built_as_its_options_say(how: str) -> None:
    a, b = (te.placeholder(shape, "float16") for shape in ((64, 128), (128, 64)))
    k = te.reduce_axis((0, 128))
    factors = (a, b)
    product = te.create_prim_func(
        [*factors, te.compute((64, 64), lambda m, n: te.sum(_fp32(a[m, k]) * _fp32(b[k, n]), k))]
    )
    target = parse_target({"kind": "vulkan", "supports_float16": True})
    options = CompileOptions(packed_fp16=how)
    choice = choices(product, TargetLimits.of(target, options))[0]
    library = build_function(product, target, choice, name="kernel", options=options)
    source = str(library.imports[0].inspect_source("glsl"))
    assert bool(re.search(r"^  f16vec4 \w+_rf_local_v4", source, re.M)) == (how == "on")


def _fp32(value: Any) -> Any:
    return value.astype("float32")
