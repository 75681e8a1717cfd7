"""The kernel module: launches, barriers, arguments, pipeline cache, timer, damaged input."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import tvm
import tvm_ffi

import tvm_vision.vulkan as vulkan
from support.kernels import SCALE, create_module, scale_module
from support.processes import run_python
from tvm_vision.errors import DeviceError

pytestmark = pytest.mark.usefixtures("device_info")


def tensors(n: int, count: int = 2) -> tuple[np.ndarray, list]:
    host = np.random.default_rng(n).random(n, "float32")
    made = [tvm.runtime.tensor(host, tvm.vulkan(0))]
    made += [tvm.runtime.empty((n,), "float32", tvm.vulkan(0)) for _ in range(count - 1)]
    return host, made


@pytest.mark.parametrize("n", [1, 63, 64, 65, 100_000])
def test_launch(n: int) -> None:
    scale = scale_module()["scale"]
    host, (a, b) = tensors(n)
    scale(a, b, n, 3.0, (n + 63) // 64, 64)
    np.testing.assert_array_equal(b.numpy(), host * np.float32(3))


def test_long_chain_of_dependent_launches() -> None:
    scale = scale_module()["scale"]
    host, (a, b) = tensors(1000)
    for _ in range(200):
        scale(a, b, 1000, 2.0, 16, 64)
        scale(b, a, 1000, 0.5, 16, 64)
    np.testing.assert_array_equal(a.numpy(), host)


def test_tensors_may_be_freed_while_the_device_works() -> None:
    scale = scale_module()["scale"]
    host, (a, result) = tensors(5000)
    for _ in range(100):
        between = tvm.runtime.empty((5000,), "float32", tvm.vulkan(0))
        scale(a, between, 5000, 2.0, 79, 64)
        scale(between, result, 5000, 0.5, 79, 64)
        del between
    np.testing.assert_array_equal(result.numpy(), host)


def test_empty_grid_does_nothing() -> None:
    scale = scale_module()["scale"]
    host, (a, b) = tensors(10)
    b.copyfrom(host)
    scale(a, b, 10, 3.0, 0, 64)
    np.testing.assert_array_equal(b.numpy(), host)


def test_wrong_arguments_name_the_kernel() -> None:
    scale = scale_module()["scale"]
    host, (a, b) = tensors(64)
    with pytest.raises(TypeError, match="kernel scale takes 6 arguments .* found 3"):
        scale(a, b, 64)
    with pytest.raises(DeviceError, match="kernel scale was compiled for workgroups of 64"):
        scale(a, b, 64, 1.0, 1, 32)
    with pytest.raises(DeviceError, match="scale needed a tensor on a Vulkan device"):
        scale(tvm.runtime.tensor(host), b, 64, 1.0, 1, 64)
    with pytest.raises(DeviceError, match="workgroups in axis 0"):
        scale(a, b, 64, 1.0, 1 << 31, 64)
    scale(a, b, 64, 1.0, 1, 64)
    np.testing.assert_array_equal(b.numpy(), host)


def test_two_modules_in_two_threads() -> None:
    failures: list[Exception] = []

    def work(seed: int) -> None:
        try:
            scale = scale_module()["scale"]
            host, (a, b) = tensors(1000 + seed)
            for i in range(100):
                scale(a, b, len(host), float(i), 32, 64)
                np.testing.assert_array_equal(b.numpy(), host * np.float32(i))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_streams_wait_for_each_other() -> None:
    scale = scale_module()["scale"]
    host, (a, b) = tensors(4096)
    dev = tvm.vulkan(0)
    first, second = dev.create_raw_stream(), dev.create_raw_stream()
    dev.set_raw_stream(first)
    scale(a, b, 4096, 2.0, 64, 64)
    dev.sync_raw_streams(first, second) if hasattr(dev, "sync_raw_streams") else dev.sync(first)
    dev.set_raw_stream(second)
    scale(b, a, 4096, 2.0, 64, 64)
    dev.sync(second)
    dev.set_raw_stream(type(first)(0))
    np.testing.assert_array_equal(a.numpy(), host * 4)
    dev.free_raw_stream(first)
    dev.free_raw_stream(second)


MANY_SCALARS = 40


def test_scalars_past_the_push_constant_limit_come_in_a_uniform_buffer() -> None:
    members = "\n".join(f"  layout(offset = {8 * i}) int s{i};" for i in range(MANY_SCALARS))
    total = " + ".join(f"{i + 1} * p.s{i}" for i in range(MANY_SCALARS))
    glsl = f"""#version 450
layout(local_size_x = 1) in;
layout(set = 0, binding = 0) writeonly buffer B {{ int b[]; }};
layout(set = 0, binding = 1, std140) uniform P {{
{members}
}} p;
void main() {{ b[0] = {total}; }}
"""
    module = create_module("many", glsl, ["handle"] + ["int32"] * MANY_SCALARS, flags=1)
    out = tvm.runtime.empty((1,), "int32", tvm.vulkan(0))
    values = [(-1) ** i * i * 1000 for i in range(MANY_SCALARS)]
    for shift in range(3):
        module["many"](out, *[value + shift for value in values], 1, 1)
        expected = sum((i + 1) * (value + shift) for i, value in enumerate(values))
        assert out.numpy()[0] == expected


def test_folded_grid_reaches_every_workgroup() -> None:
    glsl = """#version 450
layout(local_size_x = 1) in;
layout(set = 0, binding = 0) buffer B { int b[]; };
layout(push_constant) uniform P {
  layout(offset = 0) uint gx; layout(offset = 8) uint gy; layout(offset = 16) uint gz;
} p;
void main() {
  uvec3 w = gl_WorkGroupID, n = gl_NumWorkGroups;
  uint linear = w.x + n.x * (w.y + n.y * w.z);
  if (linear >= p.gx * p.gy * p.gz) return;
  b[linear] += int(linear);
}
"""
    launch = ("blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x")
    module = create_module("fold", glsl, ["handle"], launch, flags=1 << 8)
    for grid in [(70_001, 1, 1), (3, 66_000, 1), (5, 2, 7)]:
        total = int(np.prod(grid))
        out = tvm.runtime.tensor(np.zeros(total, "int32"), tvm.vulkan(0))
        module["fold"](out, *grid, 1)
        np.testing.assert_array_equal(out.numpy(), np.arange(total, dtype="int32"))


def test_kernel_for_another_subgroup_size_is_refused(device_info: vulkan.DeviceInfo) -> None:
    impossible = 2 * device_info.max_subgroup_size
    module = create_module(
        "wide", SCALE, ["handle", "handle", "int32", "float32"], flags=impossible << 16
    )
    _, (a, b) = tensors(64)
    with pytest.raises(DeviceError, match=f"needed subgroups of {impossible} lanes"):
        module["wide"](a, b, 64, 1.0, 1, 64)


def test_kernel_that_needs_a_missing_feature_is_refused() -> None:
    words = np.frombuffer(scale_module_bytes(), "<u4").copy()
    # OpCapability Shader becomes OpCapability 5 (Kernel: OpenCL's, no Vulkan device has it).
    place = next(i for i in range(5, len(words)) if words[i] == 2 << 16 | 17)
    words[place + 1] = 5
    module = create_module(
        "scale", SCALE, ["handle", "handle", "int32", "float32"], code=words.tobytes()
    )
    _, (a, b) = tensors(64)
    with pytest.raises(
        DeviceError, match="kernel scale cannot run on .* needed SPIR-V capability 5, found none;"
    ):
        module["scale"](a, b, 64, 1.0, 1, 64)


def scale_module_bytes() -> bytes:
    from tvm_vision.vulkan.codegen import spirv

    return spirv.compile_glsl(SCALE, name="scale")


def test_damaged_module_bytes_are_refused() -> None:
    load = tvm_ffi.get_global_func("ffi.Module.load_from_bytes.vulkan")
    for damaged in (b"", b"vulkan", b"\xff" * 64, scale_module_bytes()):
        with pytest.raises(DeviceError, match="bytes are damaged"):
            load(damaged)
    with pytest.raises(DeviceError, match="no multiple of 4"):
        create_module("scale", SCALE, ["handle"], code=b"12345")
    with pytest.raises(DeviceError, match="magic number"):
        create_module("scale", SCALE, ["handle"], code=b"\0" * 64)


def test_source_can_be_inspected() -> None:
    assert "gl_GlobalInvocationID" in scale_module().inspect_source("glsl")
    assert scale_module().inspect_source("unknown") == ""


@pytest.mark.parametrize("form", ["", "spv", "asm"])
def test_shaders_can_be_inspected(form: str) -> None:
    text = scale_module().inspect_source(form)
    assert text.startswith("; kernel scale\n; SPIR-V\n")
    assert "OpEntryPoint GLCompute" in text
    assert "OpFMul %float" in text


def test_where_nothing_disassembles_the_words_are_listed() -> None:
    tvm_ffi.remove_global_func("tvm_vision.vulkan.disassemble")
    try:
        text = scale_module().inspect_source("spv")
    finally:
        vulkan.register()
    assert text.startswith("; kernel scale\n0x07230203 ")


RUN_SCALE = """
import numpy as np, sys, tvm
from support.kernels import scale_module
import tvm_vision.vulkan as v
a = tvm.runtime.tensor(np.arange(64, dtype="float32"), tvm.vulkan(0))
b = tvm.runtime.empty((64,), "float32", tvm.vulkan(0))
module = scale_module()
module["scale"](a, b, 64, 2.0, 1, 64)
assert (b.numpy() == np.arange(64) * 2).all()
print(*v.pipeline_cache_paths(), v.validation_messages(), sep="|")
"""


def run_scale(cache: Path | str, then: str = "") -> list[Path]:
    """Where a process that runs a kernel, and one more line, keeps its pipelines."""
    code = RUN_SCALE + then
    done = run_python(code, TVM_VISION_CACHE_DIR=str(cache))
    assert done.returncode == 0, done.stderr
    *paths, messages = done.stdout.strip().split("|")
    assert messages == "[]"
    return [Path(path) for path in paths]


def test_pipelines_are_kept_and_survive_damage(tmp_path: Path) -> None:
    (path,) = run_scale(tmp_path)
    good = path.read_bytes()
    assert len(good) > 24
    for damage in (b"", good[:30], b"x" * len(good), good[:-1] + bytes([good[-1] ^ 1])):
        path.write_bytes(damage)
        assert run_scale(tmp_path) == [path]
        assert path.read_bytes()[:8] == good[:8]
    assert not list(path.parent.glob("*.tmp*"))


def test_a_file_that_has_all_is_not_written_again(tmp_path: Path) -> None:
    (path,) = run_scale(tmp_path)
    before = path.stat()
    assert run_scale(tmp_path) == [path]
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (before.st_mtime_ns, before.st_ino)


@pytest.mark.parametrize("when", [0, 4_000_000_000])
def test_a_file_in_use_stays_among_the_newest(tmp_path: Path, when: int) -> None:
    (path,) = run_scale(tmp_path)
    os.utime(path, (when, when))
    run_scale(tmp_path)
    assert abs(path.stat().st_mtime - time.time()) < 600


def test_other_kernels_have_a_file_of_their_own(tmp_path: Path) -> None:
    then = """
from support.kernels import SCALE, create_module
import tvm_ffi
other = SCALE.replace("* p.s", "* p.s * 2.0")
other = create_module("scale", other, ["handle", "handle", "int32", "float32"])
tvm_ffi.get_global_func("tvm_vision.vulkan.prepare")(other, 0)
assert len(set(v.pipeline_cache_paths())) == 2
"""
    run_scale(tmp_path, then)
    assert len(list(tmp_path.glob("pipelines-*.bin"))) == 2


def test_the_oldest_files_are_removed(tmp_path: Path) -> None:
    (path,) = run_scale(tmp_path)
    for number in range(70):
        (tmp_path / f"pipelines-{number}.bin").touch()
        os.utime(tmp_path / f"pipelines-{number}.bin", (number, number))
    (tmp_path / "another.bin").touch()
    path.unlink()
    run_scale(tmp_path)
    left = {file.name for file in tmp_path.glob("pipelines-*")}
    assert left == {path.name, *(f"pipelines-{number}.bin" for number in range(7, 70))}
    assert (tmp_path / "another.bin").exists()


def test_files_of_a_time_to_come_make_room_for_what_is_new(tmp_path: Path) -> None:
    """A robot's clock was wrong when they were written."""
    (path,) = run_scale(tmp_path)
    for number in range(70):
        (tmp_path / f"pipelines-{number}.bin").touch()
        os.utime(tmp_path / f"pipelines-{number}.bin", (4_000_000_000 + number,) * 2)
    path.unlink()
    run_scale(tmp_path)
    assert path.exists() and len(list(tmp_path.glob("pipelines-*"))) == 64


def test_a_prepared_library_is_kept_by_a_process_that_is_killed(tmp_path: Path) -> None:
    then = """
import os, tvm_ffi
sys.stdout.flush()
tvm_ffi.get_global_func("tvm_vision.vulkan.prepare")(module, 0)
os._exit(0)
"""
    (path,) = run_scale(tmp_path, then)
    assert path.exists()


def test_without_a_cache_folder_nothing_is_written() -> None:
    assert run_scale("") == []


def test_timer_measures_work_on_the_device() -> None:
    evaluate = scale_module().time_evaluator("scale", tvm.vulkan(0), number=5, repeat=3)

    def seconds(n: int) -> float:
        _, (a, b) = tensors(n)
        results = list(evaluate(a, b, n, 1.0, n // 64, 64).results)
        assert len(results) == 3
        return float(np.median(results))

    seconds(1 << 20)  # the first launch compiles
    assert 0 < seconds(1 << 6) < seconds(1 << 20) < 10
