"""What ``import tvm_vision`` offers: each name is there, listed, lazy, and typed for checkers."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import tvm_vision
from tvm_vision import errors
from tvm_vision.models import results

ROOT = Path(tvm_vision.__file__).resolve().parent.parent
# What the front door opens with.
LEAVES = ("collecting", "error_lines", "errors", "lazy", "version", "with_tvm")
LAZY_PACKAGES = (
    "tvm_vision",
    "tvm_vision.devices",
    "tvm_vision.package",
    "tvm_vision.models.yoeo",
)


def classes_of(module):
    found = vars(module).items()
    return {n for n, v in found if inspect.isclass(v) and v.__module__ == module.__name__}


@pytest.mark.parametrize("name", LAZY_PACKAGES)
def test_names_are_there_and_listed(name):
    package = importlib.import_module(name)
    assert set(package.__all__) <= set(dir(package))
    assert all(getattr(package, known) is not None for known in package.__all__)
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nothing'"):
        _ = package.nothing


def test_names_of_other_libraries_say_what_has_it_here():
    for other, words in tvm_vision._OTHERS.items():
        assert other not in dir(tvm_vision)
        with pytest.raises(AttributeError, match=f"has no attribute '{other}': use "):
            getattr(tvm_vision, other)
        first = re.split(r"[^a-z_.]", words)[0].removeprefix("tvm_vision.").split(".")[0]
        assert first in (*tvm_vision.__all__, "models", "the"), words


@pytest.mark.parametrize("name", LAZY_PACKAGES)
def test_type_checkers_see_what_is_there(name):
    """An import for type checkers that is another, or none, would make a name something else."""
    package = importlib.import_module(name)
    seen = set()
    for node in ast.parse(Path(str(package.__file__)).read_text("utf-8")).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for line in node.body:
                assert isinstance(line, ast.ImportFrom)
                module = importlib.import_module("." * line.level + (line.module or ""), name)
                for alias in line.names:
                    public = alias.asname or alias.name
                    seen.add(public)
                    assert getattr(package, public) is getattr(module, alias.name), public
    # A module is there as soon as anybody imports it.
    rooms = {n for n in seen if inspect.ismodule(getattr(package, n))}
    lazy = {n for n in dir(package) if n in package.__all__ and n not in vars(package)}
    assert lazy | rooms == seen


def test_all_errors_and_results_are_among_the_names():
    assert classes_of(errors) | classes_of(results) <= set(tvm_vision.__all__)


def test_looking_around_imports_nothing():
    code = (
        "import sys, tvm_vision; before = set(sys.modules); dir(tvm_vision);"
        "print(sorted(n for n in sys.modules if n.startswith('tvm_vision')), "
        "set(sys.modules) - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    leaves = ["tvm_vision", *(f"tvm_vision.{name}" for name in LEAVES)]
    assert done.stdout == f"{leaves} set()\n"


# What mypy says of a line is named at its end; of the others it must say nothing.
CALLS = """
    from pathlib import Path
    from typing import Any
    import numpy as np
    from typing_extensions import assert_type
    import tvm_vision
    from tvm_vision import CompileOptions, ModelInfo, TuningOptions

    package = tvm_vision.compile("m.onnx", "m.tar", precision="fp16", layout="nhwc")
    assert_type(package, Path)
    assert_type(tvm_vision.compile("m.onnx"), tvm_vision.CompiledModel)
    tvm_vision.compile(object(), Path("m.tar"), options=CompileOptions(winograd="off"))
    tvm_vision.compile("m.onnx", "m.tar", model_info=ModelInfo("m", "classifier", ("a", "b")))
    tvm_vision.compile("m.onnx", "m.tar", precison="fp16")  # call-overload
    tvm_vision.compile("m.onnx", "m.tar", opt_level="3")  # call-overload
    tvm_vision.compile("m.onnx", 7)  # call-overload
    tvm_vision.compile("m.onnx", "m.tar", "vulkan")  # call-overload
    CompileOptions(wingrad="off")  # call-arg

    network = tvm_vision.load(package, device="cpu")
    assert_type(network, tvm_vision.GraphExecutor)
    assert_type(network.outputs(), dict[str, np.ndarray[Any, Any]])
    tvm_vision.load(package, 0)  # arg-type
    tvm_vision.load(package, devise="cpu")  # call-arg
    tvm_vision.load()  # call-arg

    worst = tvm_vision.quantize("m.onnx", "q.onnx", sample_images=["a.png"])
    assert_type(worst, dict[str, float])
    tvm_vision.quantize("m.onnx", "q.onnx")  # call-arg
    tvm_vision.quantize("m.onnx", "q.onnx", sample_images=["a.png"], keep=3)  # arg-type

    tuned = tvm_vision.tune("m.onnx", records="r.jsonl", tuning=TuningOptions(time_budget=60))
    assert_type(tuned, tvm_vision.TuningOutcome)
    assert_type(tuned.after, float)
    tvm_vision.tune("m.onnx", records="r.jsonl", precision=16)  # arg-type
    tvm_vision.tune("m.onnx", records="r.jsonl", time_budget=60)  # call-arg

    model = tvm_vision.load_model("m.tar", confidence=0.4)
    assert_type(model, tvm_vision.VisionModel)
    tvm_vision.load_model("m.tar", confidense=0.4)  # call-arg
    tvm_vision.load_model("m.tar", confidence="high")  # arg-type

    result = model(np.zeros((480, 640, 3), np.uint8))
    assert_type(result, tvm_vision.VisionResult)
    assert_type(result.timing, tvm_vision.Timing)
    assert_type(result.timing.total_ms, float)
    result.detections.boxes  # union-attr
    if result.detections is not None:
        assert_type(len(result.detections), int)
        assert_type(result.detections.class_names, tuple[str, ...])
        result.detections.labels  # attr-defined
    if result.segmentation is not None:
        assert_type(result.segmentation.share("field"), float)
    if result.classification is not None:
        assert_type(result.classification.labels, tuple[str, ...])

    try:
        tvm_vision.compil("m.onnx")  # attr-defined
    except (tvm_vision.InputError, tvm_vision.DeviceError) as error:
        assert_type(str(error), str)
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "calls.py"
    path.write_text(textwrap.dedent(CALLS).lstrip())
    return path


def wrong_lines(program):
    """(line, what mypy calls it) of each call that is wrong."""
    lines = program.read_text().splitlines()
    return {(n, line.split("  # ")[1]) for n, line in enumerate(lines, 1) if "  # " in line}


@pytest.mark.slow  # as pyright, which takes a quarter of its time
def test_mypy_knows_right_calls_from_wrong_ones(program, tmp_path):
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--no-pretty"),
            *("--config-file", ROOT / "pyproject.toml", "--cache-dir", tmp_path / "cache"),
            program,
        ],
        cwd=tmp_path, env={**os.environ, "MYPYPATH": str(ROOT)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    said = re.findall(r"calls\.py:(\d+): error: .*\[([a-z-]+)\]$", done.stdout, re.MULTILINE)
    found = {(int(line), kind) for line, kind in said}
    assert found == wrong_lines(program), done.stdout + done.stderr


def test_pyright_knows_them_too(program, tmp_path):
    settings = {"include": ["calls.py"], "extraPaths": [str(ROOT)], "typeCheckingMode": "standard"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "basedpyright", "-p", tmp_path, "--outputjson"),
            *("--pythonpath", sys.executable),
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = json.loads(done.stdout)["generalDiagnostics"]
    found = {s["range"]["start"]["line"] + 1 for s in said if s["severity"] == "error"}
    assert found == {line for line, _ in wrong_lines(program)}, done.stdout


def test_the_package_says_that_it_is_typed():
    assert (ROOT / "tvm_vision" / "py.typed").is_file()
    assert '"py.typed"' in (ROOT / "pyproject.toml").read_text("utf-8")
