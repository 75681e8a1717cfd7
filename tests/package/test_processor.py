"""What a package's code needs of a processor: said in it, and asked before it is loaded."""

import json
import platform

import pytest
from tvm.target import Target, codegen

from support import handmade, packages
from tvm_vision import processors
from tvm_vision.compiler.target import parse_target
from tvm_vision.errors import PackageError
from tvm_vision.linking.machines import machine_of
from tvm_vision.package import read_package
from tvm_vision.package.build import package_info
from tvm_vision.schedules.cpu.processor import vector_lanes

NEEDED = ["avx2", "avx512f"]


@pytest.mark.parametrize("here", [None, {"avx", "avx2"}, {"avx", "avx2", "avx512f"}])
def test_a_processor_that_can_do_less_is_refused(tmp_path, monkeypatch, here):
    """Its first instruction of another kind would end the process."""
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(processors, "features_here", lambda: here)
    document = {**packages.sample_info(), "processor": NEEDED}
    members = {**packages.sample_members(), "mod.json": packages.sealed(document)}
    with read_package(packages.write_sample(tmp_path / "p.tar", members)) as package:
        if here == {"avx", "avx2"}:
            with pytest.raises(PackageError, match="mod.so needs a processor with avx512f, which"):
                package.check_machine()
        else:
            package.check_machine()


@pytest.mark.parametrize(
    ("bits", "order", "number", "name"),
    [
        (2, 1, 62, "x86_64"), (2, 1, 183, "aarch64"), (2, 1, 243, "riscv64"), (1, 1, 40, "armv7l"),
        (2, 1, 21, "ppc64le"), (2, 2, 21, ""), (1, 1, 62, ""), (2, 1, 9999, ""),
    ],
)  # fmt: skip
def test_processors_of_libraries(bits, order, number, name):
    head = b"\x7fELF" + bytes([bits, order]) + bytes(12) + number.to_bytes(2, "little")
    assert machine_of(head) == name
    assert machine_of(head[:19]) == machine_of(b"#!" + head) == ""


def needed(**target):
    compiled = handmade.Compiled(None, target=Target({"kind": "llvm", **target}))
    members = packages.sample_info()["members"]
    return set(package_info(compiled, handmade.MODEL, device=None, members=members).processor)


def test_packages_say_what_their_code_needs():
    triple = "x86_64-linux-gnu"
    assert needed(mcpu="x86-64-v3", mtriple=triple) >= {"avx2", "fma", "f16c", "abm"}
    assert needed(mtriple=triple) == set()
    assert "asimddp" in needed(mcpu="cortex-a76", mtriple="aarch64-linux-gnu")


def test_what_linux_says_of_this_processor():
    here = processors.features_here()
    native = parse_target("llvm")
    names = processors.linux_names(platform.machine(), codegen.llvm_get_cpu_features(native))
    if here is None or not names:
        pytest.skip("nothing is said of this processor")
    assert set(names) <= here


def test_what_a_virtual_machine_hides_is_left_out(monkeypatch):
    """LLVM tells a processor by its model, and code for it would be refused where it was made."""
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    shown = set("sse4_1 sse4_2 popcnt movbe abm bmi1 bmi2 avx avx2 fma".split())
    monkeypatch.setattr(processors, "features_here", lambda: shown)
    monkeypatch.setattr(codegen, "llvm_get_system_cpu", lambda: "znver4")
    for spelling in ("llvm", "llvm -mcpu=native"):
        target = parse_target(spelling)
        assert target.attrs["mcpu"] == "znver4"
        names = set(map(str, codegen.llvm_get_cpu_features(target)))
        assert {"avx2", "fma"} <= names
        assert not names & {"avx512f", "avx512bw", "avx512vnni", "f16c", "gfni"}
        assert processors.lacking_here(needed(**json.loads(str(target)))) == ()
        assert vector_lanes(target) == 8
    assert "mattr" not in parse_target("llvm -mcpu=znver4").attrs
    kept = parse_target("llvm -mcpu=native -mattr=-avx2").attrs["mattr"]
    assert kept[-1] == "-avx2"


def test_nothing_is_left_out_where_linux_says_nothing(monkeypatch):
    monkeypatch.setattr(processors, "features_here", lambda: None)
    assert "mattr" not in parse_target("llvm").attrs
