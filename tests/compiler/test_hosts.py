"""The processor beside a device: how it is spelled, and what it changes."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

import onnx
import pytest
from tvm import te

from support import small_network
from tvm_vision import processors
from tvm_vision.api import compile as compile_network
from tvm_vision.compiler.kernels.key import kernel_digest, written
from tvm_vision.compiler.target import machine_of, parse_target, what_is_elsewhere
from tvm_vision.errors import InputError, PackageError, TuningError
from tvm_vision.package import read_package
from tvm_vision.tuning import tune_model
from tvm_vision.tuning.session import reason_not_to_tune

OTHER = "aarch64" if platform.machine() == "x86_64" else "x86_64"


@pytest.mark.parametrize(
    ("target", "host", "machine", "attributes"),
    [
        ("renoir", "aarch64", "aarch64", {"mtriple": "aarch64-linux-gnu"}),
        ("renoir", "arm64", "aarch64", {"mtriple": "aarch64-linux-gnu"}),
        ("renoir", "arm64-linux-gnu", "aarch64", {"mtriple": "aarch64-linux-gnu"}),
        ("renoir", "amd64", "x86_64", {"mtriple": "x86_64-linux-gnu"}),
        (
            "renoir", "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76", "aarch64",
            {"mcpu": "cortex-a76"},
        ),
        (
            "renoir", "riscv64", "riscv64",
            {"mtriple": "riscv64-linux-gnu", "mcpu": "generic-rv64", "mabi": "lp64d"},
        ),
        ("vulkan -device_name=x --host aarch64", None, "aarch64", {"mtriple": "aarch64-linux-gnu"}),
        ('{"kind": "vulkan", "host": "riscv64"}', None, "riscv64", {"mabi": "lp64d"}),
        ("llvm -mtriple=riscv64-linux-gnu", None, "riscv64", {"mabi": "lp64d"}),
        ("llvm -mtriple=riscv64-linux-gnu -mcpu=sifive-u74", None, "riscv64", {"mabi": "lp64d"}),
        ("llvm", None, platform.machine(), {}),
    ],
)  # fmt: skip
def test_a_host_is_spelled(
    target: str, host: str | None, machine: str, attributes: dict[str, Any]
) -> None:
    found = parse_target(target, host)
    assert machine_of(found) == machine
    told = json.loads(str(found.host or found))
    assert {key: told.get(key) for key in attributes} == attributes


@pytest.mark.parametrize(
    ("target", "host", "message"),
    [
        ("renoir", "sparc", "a processor of x86_64, aarch64, riscv64 is needed.*'sparc-linux-gnu'"),
        ("renoir", "vulkan ", "a host of kind llvm is needed"),
        ("renoir", "llvm -mcpu", "-mcpu.*needs a value"),
        ("llvm", "aarch64", "'vulkan' or a device is needed with the host 'aarch64'"),
        ("auto", "aarch64", "a target is needed for the host 'aarch64', since auto is what this"),
        ("llvm -mtriple=armv7l-linux-gnueabihf", None, "a processor of x86_64, aarch64, riscv64"),
    ],
)
def test_what_is_no_host_is_refused_in_one_line(
    target: str, host: str | None, message: str
) -> None:
    with pytest.raises(InputError, match=message) as raised:
        parse_target(target, host)
    assert "\n" not in str(raised.value)


def test_kernels_of_another_host_are_others() -> None:
    x = te.placeholder((4,), name="x")
    kernel = te.create_prim_func([x, te.compute((4,), lambda i: x[i] + 1.0, name="y")])
    hosts = (None, "aarch64", "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76", "riscv64")
    text = written(kernel)
    keys = {kernel_digest(text, parse_target("renoir", host), None, None) for host in hosts}
    assert len(keys) == len(hosts)


def test_what_is_not_here_is_said() -> None:
    assert what_is_elsewhere(parse_target("llvm")) == ""
    assert what_is_elsewhere(parse_target("renoir", OTHER)) == "AMD Radeon Graphics (RADV RENOIR)"
    plain = f"vulkan -max_threads_per_block=256 --host {OTHER}"
    assert what_is_elsewhere(parse_target(plain)) == f"a processor of {OTHER}"
    assert reason_not_to_tune(parse_target(plain))[0].startswith(f"a processor of {OTHER} is not")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "small.onnx"
    onnx.save(small_network.model(), path)
    return path


@pytest.mark.parametrize(
    ("target", "host"),
    [
        ("renoir", "aarch64"),
        ("renoir", "riscv64"),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76", None),
        ("llvm -mtriple=riscv64-linux-gnu", None),
        ("llvm -mtriple=x86_64-linux-gnu", None),
    ],
)
def test_a_package_for_another_processor_says_so(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch, target: str, host: str | None
) -> None:
    """Without any compiler: what links is the same for all."""
    monkeypatch.setenv("PATH", str(tmp_path))
    # It is this machine's processor that says what it has.
    monkeypatch.setattr(processors, "features_here", lambda: None)
    path = compile_network(model, tmp_path / "small.tar", target=target, host=host)
    machine = machine_of(parse_target(target, host))
    with read_package(path) as package:
        told = package.info.target.get("host") or package.info.target
        assert told["mtriple"] == f"{machine}-linux-gnu"
        for here in ("x86_64", "aarch64", "riscv64"):
            monkeypatch.setattr("platform.machine", lambda here=here: here)
            if here == machine:
                package.check_machine()
            else:
                message = f"mod.so is made for {machine}, and this machine is {here}: compile"
                with pytest.raises(PackageError, match=message):
                    package.check_machine()


def test_tuning_for_another_processor_is_refused(tmp_path: Path, model: Path) -> None:
    target = f"vulkan -max_threads_per_block=256 --host {OTHER}"
    with pytest.raises(TuningError, match=f"a processor of {OTHER} is not here: tune there"):
        tune_model(model, records=tmp_path / "records.jsonl", target=target)


def test_halves_of_risc_v_are_its_own_or_refused(tmp_path: Path, model: Path) -> None:
    """TVM's own conversions return halves where code for RISC-V does not look for them."""
    plain = "llvm -mtriple=riscv64-linux-gnu"
    with pytest.raises(PackageError, match=r"float16 on riscv64 needs .*-mattr=.*zfhmin"):
        compile_network(model, tmp_path / "small.tar", target=plain, precision="fp16")
    own = f"{plain} -mcpu=generic-rv64 -mattr=+m,+a,+f,+d,+c,+zfhmin"
    compile_network(model, tmp_path / "small.tar", target=own, precision="fp16")
