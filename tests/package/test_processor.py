"""What a package's code needs of a processor: said in it, and asked before it is loaded."""

import platform

import pytest
from tvm.target import Target, codegen

from support import handmade, packages
from tvm_vision import processors
from tvm_vision.errors import PackageError
from tvm_vision.linking.machines import machine_of
from tvm_vision.package import read_package
from tvm_vision.package.build import package_info

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
    native = Target({"kind": "llvm", "mcpu": codegen.llvm_get_system_cpu()})
    names = processors.linux_names(platform.machine(), codegen.llvm_get_cpu_features(native))
    if here is None or not names:
        pytest.skip("nothing is said of this processor")
    # A virtual machine may hide some.
    assert len(set(names) & here) > len(names) / 2
