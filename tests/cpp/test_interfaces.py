"""The runner built as its guide says, installed elsewhere, and called from other languages."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from support.runner import ROOT, SITE, run
from support.runner_networks import MODELS, images, package_of, random_outputs
from tvm_vision.models import load_model
from tvm_vision.vulkan.device import LIBRARY_NAME


def test_the_command_of_the_guide_configures_a_build(tmp_path: Path) -> None:
    """With the backend built from its sources, as nobody's tests have the time to do."""
    cmake = Path(sys.executable).with_name("cmake")
    if not cmake.exists():
        pytest.skip("cmake is needed to build cpp/: pip install -e '.[test]'")
    folders = ["-S", str(ROOT / "cpp"), "-B", str(tmp_path)]
    command = [str(cmake), *folders, f"-DTVM_VISION_SITE_PACKAGES={SITE}"]
    done = subprocess.run(command, text=True, capture_output=True)
    if "apt install libstb-dev" in done.stderr:
        pytest.skip("stb is needed to build cpp/: apt install libstb-dev")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "triple", ["riscv64-linux-gnu", "arm-linux-gnueabihf", "powerpc64le-linux-gnu"]
)
def test_sources_compile_for_other_processors(triple: str) -> None:
    """What is written for one processor has words for those that it does not know."""
    compiler = shutil.which(f"{triple}-g++")
    if compiler is None:
        pytest.skip(f"the compiler for {triple} is needed: apt install g++-{triple}")
    includes = [SITE / "tvm_ffi" / "include", SITE / "tvm" / "include"]
    command = [compiler, "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    command += ["-iquote", str(ROOT / "tvm_vision"), f"-I{ROOT / 'cpp' / 'include'}"]
    command += [*(f"-isystem{path}" for path in includes)]
    sources = [ROOT / "cpp" / "src" / f"{name}.cc" for name in ("fleet", "package", "processor")]
    done = subprocess.run([*command, *map(str, sources)], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr


def test_c_alone(built, unpacked, tmp_path):
    package = package_of(unpacked, MODELS["scores"], tmp_path)
    _, image = next(images())
    (tmp_path / "pixels").write_bytes(image.tobytes())
    done = run(built / "predict", package, tmp_path / "pixels", *image.shape)
    found = load_model(package)(image).detections
    assert (
        found is not None
        and done.returncode == 0
        and len(done.stdout.splitlines()) == len(found) > 3
    )
    for line, (label, score, box) in zip(done.stdout.splitlines(), found, strict=True):
        _, score_found, *corners, label_found = line.split()
        assert label_found == label and float(score_found) == pytest.approx(score, abs=1e-5)
        assert [float(side) for side in corners] == pytest.approx(list(box), abs=1e-2)


FUNCTIONS = (
    "error", "load", "free", "about", "describe", "set_input", "run", "get_output", "prepare",
    "predict",
)  # fmt: skip


def test_another_language_by_the_c_interface(plain, unpacked, tmp_path):
    """Ten functions, each called by an example in Python, by ctypes alone; NULL is refused."""
    header = (ROOT / "cpp" / "include" / "tvm_vision" / "tvm_vision.h").read_text()
    example = ROOT / "cpp" / "examples" / "predict.py"
    library = plain / "libtvm_vision.so"
    assert re.findall(
        r"tvm_vision_(\w+)\((?!\))", header.split("last call that failed")[1]
    ) == list(FUNCTIONS)
    assert all(f"tvm_vision.tvm_vision_{name}" in example.read_text() for name in FUNCTIONS)
    package = package_of(unpacked, MODELS["yoeo"], tmp_path)
    _, image = next(images())
    (tmp_path / "pixels").write_bytes(image.tobytes())
    pixels = (tmp_path / "pixels", *image.shape)
    done = run(sys.executable, "-I", example, library, package, *pixels)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    result = load_model(package)(image)
    assert result.detections is not None and result.segmentation is not None
    assert lines[0][:3] == ["network", "y", "(yoeo)"]
    assert [words[1] for words in lines if words[0] == "output"] == list(random_outputs())
    objects = [words for words in lines if words[0] == "object"]
    for words, score, box in zip(
        objects, result.detections.scores, result.detections.boxes, strict=True
    ):
        assert float(words[2]) == pytest.approx(score, abs=1e-5)
        assert [float(side) for side in words[3:7]] == pytest.approx(box.tolist(), abs=1e-2)
    assert f"mask {image.shape[0]}x{image.shape[1]} " in done.stdout
    sizes = [int(words[2]) for words in lines if words[0] == "bytes"]
    assert sizes == [array.nbytes for array in random_outputs().values()]
    refusal = run(sys.executable, "-I", example, library, tmp_path / "none.tar", *pixels)
    assert refusal.returncode == 1 and len(refusal.stderr.splitlines()) == 1
    assert "cannot be opened (No such file or directory)" in refusal.stderr
    nothing = (
        "import ctypes, sys; c = ctypes.CDLL(sys.argv[1])\n"
        "c.tvm_vision_error.restype = ctypes.c_char_p\n"
        "for name in sys.argv[2:]:\n"
        "    found = getattr(c, 'tvm_vision_' + name)(*[None] * 4)\n"
        "    print(found, c.tvm_vision_error().decode())\n"
    )
    names = [name for name in FUNCTIONS if name not in ("error", "free", "load")]
    refusal = run(sys.executable, "-I", "-c", nothing, library, *names)
    assert refusal.stdout.splitlines() == ["1 a network is needed, found NULL"] * len(names)


def test_what_is_installed_runs_elsewhere(built, unpacked, tmp_path, request):
    """Without TVM's wheels, and another project finds the library."""
    cmake = Path(sys.executable).with_name("cmake")
    subprocess.run([cmake, "--install", built], check=True, capture_output=True)
    moved = tmp_path / "moved"
    (built / "installed").rename(moved)
    libraries = {path.name for path in (moved / "lib").glob("*.so*")}
    assert {"libtvm_vision.so", LIBRARY_NAME, "libtvm_runtime.so", "libtvm_ffi.so"} <= libraries
    package = package_of(unpacked, MODELS["classifier"], tmp_path)
    assert cv2.imwrite(str(tmp_path / "image.png"), np.zeros((9, 9, 3), np.uint8))
    done = run(moved / "bin" / "run_model", "test", package, tmp_path / "image.png")
    assert done.returncode == 0, done.stderr
    loaded = run("ldd", moved / "bin" / "run_model").stdout
    assert str(SITE) not in loaded
    project = tmp_path / "project"
    project.mkdir()
    # The guide's own lines, where the package that they load is missing.
    guide = (ROOT / "docs" / "guides" / "cpp.md").read_text()
    linked, code = (
        re.findall(rf"```{name}\n(.*?)```", guide, re.DOTALL)[0] for name in ("cmake", "cpp")
    )
    include, code = code.split("\n", 1)
    (project / "main.cc").write_text(
        f"{include}\n#include <cstdio>\nint main() try {{\n"
        f"struct {{ const uint8_t* data; }} bgr{{nullptr}};\n{code}return 1;\n"
        "} catch (const tvm_vision::Error& error) {\n"
        "  std::puts(error.what());\n"
        '  return error.kind() == "InputError" ? 0 : 1;\n}\n'
    )
    (project / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(other CXX)\nadd_executable(robot main.cc)\n"
        f"{linked}"
    )
    flags = request.node.callspec.params["built"]
    prefix = [f"-DCMAKE_PREFIX_PATH={moved}", f"-DCMAKE_CXX_FLAGS={flags}"]
    for command in (
        [cmake, "-S", project, "-B", project / "build", *prefix],
        [cmake, "--build", project / "build"],
        [project / "build" / "robot"],
    ):
        done = run(*command)
        assert done.returncode == 0, done.stdout + done.stderr
