"""Ctrl-C: one line that says what is kept and how to go on, exit code 130, nothing half-written."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import tvm_ffi

from support import handmade, yoeo_networks
from tvm_vision.interrupts import ctrl_c_as_itself, ended_as_by_ctrl_c, held, met
from tvm_vision.package import unpack_package
from tvm_vision.whole_files import ScratchFolder


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file of each kind that commands take."""
    where = tmp_path_factory.mktemp("world")
    handmade.write_package_file(where / "tiny.tar")
    unpack_package(where / "tiny.tar", where / "tiny")
    handmade.write_model(where / "tiny.onnx")
    yoeo_networks.write_tiny(where / "yoeo.onnx")
    (where / "net.cfg").write_text(yoeo_networks.CFG)
    (where / "net.weights").write_bytes(bytes(32))
    cv2.imwrite(str(where / "a.png"), np.zeros((8, 8, 3), np.uint8))
    return where


BEGINS_AGAIN = "the same command begins again"
# Words of a command, the function in which Ctrl-C meets it, and what it then says.
COMMANDS = {
    "compile": (
        "compile tiny.onnx -o OUT --target llvm", "tvm_vision.compiler.compile_model",
        f"nothing was written; {BEGINS_AGAIN}",
    ),
    "compile while it writes": (
        "compile tiny.onnx -o OUT --target llvm", "tvm_vision.package.container.write_tar",
        f"nothing was written; {BEGINS_AGAIN}",
    ),
    "yoeo-onnx-to-tvm": (
        "yoeo-onnx-to-tvm yoeo.onnx -o OUT --target llvm", "tvm_vision.compiler.compile_model",
        f"OUT was not written; {BEGINS_AGAIN}",
    ),
    "quantize": (
        "quantize tiny.onnx -o OUT.onnx --sample-images a.npz", "tvm_vision.api.quantize",
        f"nothing was written; {BEGINS_AGAIN}",
    ),
    "tune": (
        "tune tiny.onnx -r OUT", "tvm_vision.tuning.tune_model",
        "what was measured is in OUT, and the same command goes on",
    ),
    "benchmark": (
        "benchmark tiny.tar", "tvm_vision.runtime.graph_executor.GraphExecutor.benchmark",
        "nothing was measured to the end; a smaller --repeat takes less time",
    ),
    "profile": (
        "profile tiny.tar", "tvm_vision.runtime.graph_executor.GraphExecutor.profile",
        "nothing was measured to the end; a smaller --repeat takes less time",
    ),
    "run": (
        "run tiny.tar -o OUT.npz", "tvm_vision.runtime.graph_executor.GraphExecutor.run",
        f"no file is half-written; {BEGINS_AGAIN}",
    ),
    "check": (
        "check tiny.tar tiny.onnx", "tvm_vision.evaluate.reference_of",
        f"no file is half-written; {BEGINS_AGAIN}",
    ),
    "inspect": (
        "inspect tiny.tar", "tvm_vision.package.read_package",
        f"no file is half-written; {BEGINS_AGAIN}",
    ),
    "unpack": (
        "package unpack tiny.tar OUT", "shutil.copyfile",
        f"no file is half-written; {BEGINS_AGAIN}",
    ),
    "detect while it loads": (
        "detect yoeo.tar a.png", "tvm_vision.models.load_model",
        f"no file is half-written; {BEGINS_AGAIN}",
    ),
    "yoeo-to-onnx": (
        "yoeo-to-onnx net.cfg net.weights -o OUT.onnx",
        "tvm_vision.exporters.yoeo.weights.read_weights",
        f"nothing was written; {BEGINS_AGAIN}",
    ),
    "classifier-to-onnx": (
        "classifier-to-onnx net:Net -o OUT.onnx --preprocess unit",
        "tvm_vision.exporters.classifier.find.find_network",
        f"nothing was written; {BEGINS_AGAIN}",
    ),
    "demo": (
        "demo --output OUT --device cpu", "tvm_vision.demo.detect.run_demo",
        f"no file is half-written; {BEGINS_AGAIN}",
    ),
}  # fmt: skip


@pytest.fixture
def heeds_ctrl_c() -> Iterator[None]:
    """A process in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeds_ctrl_c")
@pytest.mark.parametrize("through_tvm", [False, True], ids=["", "through_tvm"])
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_says_what_is_kept(
    name: str, through_tvm: bool, world: Path, tmp_path: Path, command, monkeypatch
) -> None:
    """Also where the signal comes while TVM's C++ calls Python."""

    def interrupt(*_: object, **__: object) -> None:
        if through_tvm:
            tvm_ffi.convert(signal.raise_signal)(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.chdir(world)
    words, function, says = COMMANDS[name]
    output = tmp_path / "out.tar"
    if name == "unpack":
        output = tmp_path / "out"
    monkeypatch.setattr(function, interrupt)
    before = sorted(world.rglob("*"))
    result = command(*(word.replace("OUT", str(output)) for word in words.split()))
    assert result.exit_code == 130
    lines = [
        x
        for x in result.stderr.splitlines()
        if not x.startswith(("device: ", "target: ", "note: "))
    ]
    assert lines == [f"interrupted: {says.replace('OUT', str(output))}"]
    assert list(tmp_path.iterdir()) == [] and sorted(world.rglob("*")) == before


def test_frames_are_counted_and_a_video_is_kept(
    world: Path, tmp_path: Path, command, monkeypatch
) -> None:
    import tvm_vision

    monkeypatch.chdir(tmp_path)
    package = tmp_path / "yoeo.tar"
    from tvm_vision.exporters.yoeo.describe import yoeo_model_info

    model = world / "yoeo.onnx"
    tvm_vision.compile(model, package, target="llvm", model_info=yoeo_model_info(model))
    from tvm_vision.runtime.sources import Frame

    def camera(*sources: object):
        for index in range(3):
            yield Frame(f"camera 0#{index}", np.zeros((48, 64, 3), np.uint8), "camera 0", 10.0)
        raise KeyboardInterrupt

    monkeypatch.setattr("tvm_vision.runtime.sources.frames", camera)
    result = command("detect", package, "0", "--save", "seen")
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-2:] == [
        "wrote seen/camera 0.mp4",
        "interrupted: 3 frames are done; what is listed is written",
    ]
    assert (tmp_path / "seen" / "camera 0.mp4").stat().st_size > 0


@pytest.mark.parametrize(
    "place",
    ["tvm_vision.vulkan.codegen.build.print_kernel", "tvm_vision.compiler.pipeline.lower_to_graph"],
)
def test_a_real_signal_while_tvm_calls_python(world: Path, tmp_path: Path, place: str) -> None:
    """TVM's C++ makes an error without a word of what a function in Python raises there."""
    code = (
        "import os, signal, sys; from importlib import import_module\n"
        "from tvm_vision.tools.cli import main\n"
        # As in a terminal, also where the tests run in the background.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "module, _, name = sys.argv[1].rpartition('.'); module = import_module(module)\n"
        "function = getattr(module, name)\n"
        "def interrupted(*a, **k):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    return function(*a, **k)\n"
        "setattr(module, name, interrupted)\n"
        "main(sys.argv[2:])"
    )
    output = tmp_path / "x.tar"
    words = ["compile", str(world / "tiny.onnx"), "-o", str(output), "--target", "vulkan"]
    done = subprocess.run(
        [sys.executable, "-c", code, place, *words],
        env={**os.environ, "TVM_VISION_CACHE_DIR": "", "TVM_VISION_VULKAN_VALIDATION": "0"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 130, done.stderr
    assert re.search(r"^interrupted: nothing was written; .*$", done.stderr, re.M)
    assert "Traceback" not in done.stderr and list(tmp_path.iterdir()) == []


def test_only_an_error_without_a_word_is_ctrl_c() -> None:
    with pytest.raises(KeyboardInterrupt), ctrl_c_as_itself():
        raise RuntimeError
    with pytest.raises(RuntimeError, match="out of"), ctrl_c_as_itself():
        raise RuntimeError("out of memory")
    with pytest.raises(ValueError), ctrl_c_as_itself():
        raise ValueError
    with pytest.raises(RuntimeError), ended_as_by_ctrl_c(), ctrl_c_as_itself():
        raise RuntimeError  # and no signal came


def test_ctrl_c_is_not_for_the_processes_of_a_search(tmp_path: Path) -> None:
    """A terminal sends it to all of them, which would each write a traceback."""
    from tvm_vision.tuning.measure import MeasureProcess

    process = MeasureProcess(tmp_path)
    try:
        assert process.call(signal.getsignal, signal.SIGINT, timeout=60) == signal.SIG_IGN
    finally:
        process.close()


SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.fixture
def terminal() -> Iterator[None]:
    """As in one, also where the tests run in the background."""
    ctrl_c = signal.signal(signal.SIGINT, signal.default_int_handler)
    hang_up = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGINT, ctrl_c)
    signal.signal(signal.SIGHUP, hang_up)


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_waits_for_the_end_of_what_must_not_be_cut(number: int) -> None:
    done = []
    with ended_as_by_ctrl_c():
        with pytest.raises(KeyboardInterrupt), held():
            with held():
                os.kill(os.getpid(), number)
                done.append("inner")
            done.append("outer")
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert done == ["inner", "outer"]


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("call", ["mkdtemp", "rmtree"])
def test_a_scratch_folder_is_gone_whenever_a_signal_comes(
    number: int, call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is made, before anybody knows of it, and where it is removed."""
    module = tempfile if call == "mkdtemp" else shutil
    real = getattr(module, call)

    def asked(*words: object, **given: object) -> object:
        result = real(*words, **given)
        os.kill(os.getpid(), number)
        return result

    monkeypatch.setattr(module, call, asked)
    with ended_as_by_ctrl_c(), pytest.raises(KeyboardInterrupt), ScratchFolder(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("number", SIGNALS)
def test_a_scratch_folder_that_nobody_closed_goes_and_the_signal_comes_again(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python drops what is raised while an object goes."""
    real = shutil.rmtree

    def asked(*words: Any, **given: Any) -> None:
        os.kill(os.getpid(), number)
        real(*words, **given)

    monkeypatch.setattr(shutil, "rmtree", asked)
    with ended_as_by_ctrl_c(), pytest.raises(KeyboardInterrupt):
        ScratchFolder(tmp_path)
        time.sleep(10)
    assert list(tmp_path.iterdir()) == []


def test_what_is_ignored_stays_so() -> None:
    """As under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ended_as_by_ctrl_c():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_command_ends_with_the_code_of_its_signal(number: int, world: Path) -> None:
    code = (
        "import os, signal, sys, tvm_vision.api; from tvm_vision.tools.cli import main\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import tvm_vision.compiler as compiler\n"
        "compiler.compile_model = lambda *a, **k: os.kill(os.getpid(), int(sys.argv[1]))\n"
        "main(sys.argv[2:])"
    )
    words = ["compile", str(world / "tiny.onnx"), "-o", str(world / "no.tar"), "--target", "llvm"]
    done = subprocess.run(
        [sys.executable, "-c", code, str(int(number)), *words], capture_output=True, text=True
    )
    assert done.returncode == 128 + number, done.stderr
    lines = [line for line in done.stderr.splitlines() if not line.startswith("target: ")]
    assert lines == ["interrupted: nothing was written; the same command begins again"]
    assert not (world / "no.tar").exists()


@pytest.mark.usefixtures("terminal")
def test_a_signal_of_a_command_before_says_nothing_of_the_next() -> None:
    with ended_as_by_ctrl_c(), pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGTERM)
    assert met() == signal.SIGTERM
    with ended_as_by_ctrl_c():
        assert met() == signal.SIGINT
