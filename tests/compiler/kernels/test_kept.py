"""Kernels made before: when they are taken, when not, and what goes wrong with files."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto
from tvm import relax

from support.compiled import FIXED, executor_of
from support.networks import NETWORKS, Builder
from support.relax_models import module_of
from tvm_vision import whole_files
from tvm_vision.compiler import CompiledModel, build_function, compile_model, prepare
from tvm_vision.compiler.kernels import kept, network
from tvm_vision.compiler.kernels.code import KernelCode
from tvm_vision.compiler.kernels.kept import KERNELS, KeptKernels
from tvm_vision.compiler.kernels.network import NetworkKernels
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.frontend.onnx.quantize import plain_onnx, quantized
from tvm_vision.package import ModelInfo, write_package
from tvm_vision.schedules import ScheduleConfig, TargetLimits, choices
from tvm_vision.schedules.cost.gemm_tile import GemmTile

IMAGE = np.random.default_rng(1).uniform(0, 1, (1, 3, 16, 16)).astype("float32")
PRECISIONS = ("fp32", "fp16", "int8")


def small(nodes_before: int = 0, channels: int = 8) -> onnx.ModelProto:
    """Two convolutions, the last with some number of channels."""
    b, x = Builder(1), "input"
    for _ in range(nodes_before):
        x = b.node("Identity", [x])
    x = b.conv(x, 3, 8, 3, act="relu")
    return b.model(16, [(b.conv(x, 8, channels, 1), TensorProto.FLOAT)])


def tiny(builder: Any, x: Any) -> Any:
    return builder.emit(relax.op.exp(x))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test alone, empty."""
    monkeypatch.setenv("TVM_VISION_CACHE_DIR", str(tmp_path / "cache"))
    KERNELS.forget()
    return tmp_path / "cache" / "kernels"


@pytest.fixture(autouse=True)
def forgets() -> Any:
    yield
    KERNELS.forget()


@pytest.fixture(scope="module")
def code() -> KernelCode:
    return next(iter(compiled_tiny(kernel_cache=False).library.kernels.values()))


def compiled(model: onnx.ModelProto, target: Any = "llvm", **options: Any) -> CompiledModel:
    return compile_model(*import_onnx(model), target=target, **options)


def compiled_tiny(target: Any = "llvm", **options: Any) -> CompiledModel:
    """One kernel."""
    return compile_model(*module_of(tiny, (4, 4)), target=target, **options)


def members(made: CompiledModel, path: Path) -> dict[str, bytes]:
    write_package(path, made, ModelInfo("small"))
    with tarfile.open(path) as tar:
        return {m.name: tar.extractfile(m).read() for m in tar}


def in_precision(model: onnx.ModelProto, precision: str, size: int) -> onnx.ModelProto:
    if precision != "int8":
        return model
    image = np.random.default_rng(2).uniform(0, 1, (1, 3, size, size)).astype("float32")
    return quantized(plain_onnx(model, {}), [{"input": image}])


def check_packages(model: onnx.ModelProto, target: Any, precision: str, tmp_path: Path) -> None:
    """Made without a cache, made, taken from files, taken from memory: the same bytes."""
    how = {"precision": "fp16"} if precision == "fp16" else {}
    how |= {"int8": "on"} if precision == "int8" else {}
    alone = members(compiled(model, target, kernel_cache=False, **how), tmp_path / "a.tar")
    first = compiled(model, target, **how)
    packages = [members(first, tmp_path / "b.tar")]
    KERNELS.forget()
    for name in ("c.tar", "d.tar"):
        again = compiled(model, target, **how)
        assert again.known == len(again.library.kernels) > first.known
        packages.append(members(again, tmp_path / name))
    assert packages[0] == packages[1] == packages[2]
    del alone["mod.json"]  # which has the option
    assert alone == {name: packages[0][name] for name in alone}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("target", [FIXED, "llvm"], ids=["vulkan", "llvm"])
def test_packages_are_the_same(target, precision, tmp_path):
    check_packages(in_precision(small(), precision, 16), target, precision, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("target", [FIXED, "llvm"], ids=["vulkan", "llvm"])
@pytest.mark.parametrize("name", NETWORKS)
def test_packages_of_networks_are_the_same(name, target, precision, tmp_path):
    model = in_precision(NETWORKS[name](64), precision, 64)
    check_packages(model, target, precision, tmp_path)


@pytest.mark.parametrize("target", ["vulkan", "llvm"])
def test_outputs_of_what_was_known(target, device_info):
    model = small()
    device = tvm.cpu(0) if target == "llvm" else tvm.vulkan(0)
    results = []
    for _ in range(2):
        made = compiled(model, target)
        KERNELS.forget()
        executor = executor_of(made, device)
        executor.run(input=IMAGE)
        results.append(next(iter(executor.outputs().values())))
    assert made.known == len(made.library.kernels)
    np.testing.assert_array_equal(results[0], results[1])


def test_a_similar_network_has_its_own_kernels_to_make_alone():
    """Whatever its nodes are called, and how its kernels are numbered."""
    first = compiled(small(), FIXED)
    count = len(first.library.kernels)
    other = compiled(small(channels=24), FIXED)
    assert (other.known, len(other.library.kernels)) == (count - 1, count)
    longer = compiled(small(nodes_before=3), FIXED)
    assert longer.known == count and longer.library.source() == first.library.source()


@pytest.mark.parametrize(
    ("target", "other", "options"),
    [
        ("llvm -mcpu=x86-64-v3", "llvm -mcpu=x86-64", {}),
        ("llvm", "llvm", {"llvm_opt_level": 1}),
        ("llvm", {"kind": "llvm", "opt-level": 2}, {}),
        (FIXED, {**FIXED.attrs, "kind": "vulkan", "max_threads_per_block": 32}, {}),
        (FIXED, FIXED, {"guarded_loads": "select"}),
    ],
)
def test_another_target_or_option_makes_them_anew(target, other, options):
    before = compiled_tiny(target)
    made = compiled_tiny(other, **options)
    assert (made.known, before.known) == (0, 0)
    assert compiled_tiny(other, **options).known == len(made.library.kernels)


def test_a_choice_of_tuning_makes_it_anew():
    module, signature = import_onnx(small())
    limits = TargetLimits.of(FIXED)

    def choose(function):
        offered = choices(function, limits)
        return offered[1] if len(offered) > 1 else None

    default = compile_model(module, signature, target=FIXED)
    tuned = compile_model(module, signature, target=FIXED, choose=choose)
    assert tuned.tuned > 0 and tuned.known == len(tuned.library.kernels) - tuned.tuned
    assert tuned.library.source() != default.library.source()
    again = compile_model(module, signature, target=FIXED, choose=choose)
    assert (again.tuned, again.known) == (tuned.tuned, len(again.library.kernels))


def test_a_choice_that_does_not_fit_is_said_each_time(caplog):
    tile = ScheduleConfig("contraction", GemmTile(32, 32, 32))
    for _ in range(2):
        caplog.clear()
        made = compile_model(*module_of(tiny, (4, 4)), target=FIXED, choose=lambda _: tile)
        assert "a tuned choice is passed over" in caplog.text
        assert made.tuned == 0


def test_switched_off_nothing_is_kept_or_taken(folder, monkeypatch):
    compiled_tiny()
    assert list(folder.iterdir())
    monkeypatch.setattr(network.KERNELS, "load", lambda key: pytest.fail("looked up"))
    monkeypatch.setattr(network.KERNELS, "store", lambda *_: pytest.fail("kept"))
    assert compiled_tiny(kernel_cache=False).known == 0


def test_steps_of_all_kernels_are_dumped(tmp_path):
    compiled_tiny()
    made = compile_model(*module_of(tiny, (4, 4)), target="llvm", dump=tmp_path / "ir")
    (scheduled,) = (tmp_path / "ir").glob("*_schedule.tir.txt")
    (name,) = made.library.kernels
    assert made.known == 0 and f"def {name}(" in scheduled.read_text()


def test_shaders_are_dumped_known_or_not(tmp_path):
    found = []
    for name in ("first", "second"):
        made = compiled_tiny(FIXED, dump_shaders=tmp_path / name)
        found.append({p.name: p.read_bytes() for p in (tmp_path / name).iterdir()})
    assert made.known == 1
    assert found[0] == found[1] and len(found[0]) == 2


def test_what_is_measured_is_made(monkeypatch):
    """Tuning builds each candidate, whatever is kept."""
    compiled_tiny(FIXED)
    (function,) = prepare(module_of(tiny, (4, 4))[0], target=FIXED).functions.values()
    monkeypatch.setattr(network.KERNELS, "load", lambda key: pytest.fail("looked up"))
    default, other = (
        build_function(function, FIXED, choice, name="kernel").imports[0].inspect_source("glsl")
        for choice in choices(function, TargetLimits.of(FIXED))[:2]
    )
    assert default != other


DAMAGES = {
    "cut": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "random": lambda content: os.urandom(len(content)),
    "changed": lambda content: content[:40] + bytes([content[40] ^ 1]) + content[41:],
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_none(damage, code, folder):
    KERNELS.store("a" * 64, code)
    KERNELS.forget()
    assert KERNELS.load("a" * 64) == code
    (path,) = folder.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    KERNELS.forget()
    assert KERNELS.load("a" * 64) is None


def test_damaged_files_only_cost_time(folder):
    first = compiled_tiny()
    (path,) = folder.iterdir()
    path.write_bytes(b"?")
    KERNELS.forget()
    second = compiled_tiny()
    assert second.known == 0 and second.library.kernels == first.library.kernels
    KERNELS.forget()
    assert compiled_tiny().known == 1


def test_a_file_of_another_form_is_none(folder):
    """Its checksum is right."""
    kept.FILES.store("a" * 64, b"kernels of tomorrow")
    assert len(list(folder.iterdir())) == 1
    assert KERNELS.load("a" * 64) is None


def test_a_folder_that_cannot_be_written_is_no_cache(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("TVM_VISION_CACHE_DIR", str(blocked))
    assert compiled_tiny().known == 0
    assert blocked.read_text() == ""


def test_a_full_disk_leaves_nothing(folder, code, monkeypatch):
    def half(path, content):
        with path.open("wb") as stream:
            stream.write(content[:10])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(whole_files.Path, "write_bytes", half)
    KERNELS.store("a" * 64, code)
    assert list(folder.iterdir()) == []
    assert KERNELS.load("a" * 64) == code  # from memory


PROCESS = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_kept import compiled_tiny, members
members(compiled_tiny(), Path(sys.argv[2]))
"""


def test_two_processes_at_once(tmp_path, folder):
    """Each writes its own package, and both leave whole files."""
    here = str(Path(__file__).parent)
    children = [
        subprocess.Popen([sys.executable, "-c", PROCESS, here, tmp_path / f"{i}.tar"])
        for i in range(2)
    ]
    assert [child.wait(timeout=200) for child in children] == [0, 0]
    assert (tmp_path / "0.tar").read_bytes() == (tmp_path / "1.tar").read_bytes()
    assert compiled_tiny().known == len(list(folder.iterdir())) == 1


def test_memory_is_bounded_and_the_oldest_goes_first(folder, code):
    kernels = KeptKernels(kept.FILES, 2 * len(code.to_bytes()))
    for key in "abc":
        kernels.store(key * 64, code)
        assert kernels.load("a" * 64) == code  # is used, and so the newest
    for path in folder.iterdir():
        path.unlink()
    assert kernels.load("b" * 64) is None
    assert kernels.load("a" * 64) == kernels.load("c" * 64) == code


def test_a_function_that_a_network_has_twice_is_made_once(folder):
    module, _ = import_onnx(small())
    function = next(iter(prepare(module, target=FIXED).functions.values()))
    kernels = NetworkKernels.of(
        {"two": function, "one": function}, FIXED, TargetLimits.of(FIXED), None
    )
    with FIXED, tvm.transform.PassContext(opt_level=3):
        scheduled = kernels.with_workspaces(kernels.scheduled())
        library = kernels.library(scheduled, keep=True)
    assert [variable.name_hint for variable in scheduled.get_global_vars()] == ["one"]
    assert len(list(folder.iterdir())) == 1
    assert [code.name for code in library.kernels.values()] == ["one", "two"]
