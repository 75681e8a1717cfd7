"""What the linker makes of LLVM's objects runs, on each processor that it knows."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tvm
import tvm_ffi
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import te
from tvm.target import Target

from support.elsewhere import cross_compiler, run_there
from tvm_vision.errors import PackageError
from tvm_vision.linking import library, link_library
from tvm_vision.linking.machines import MACHINES
from tvm_vision.linking.objects import LinkError
from tvm_vision.linking.shared import link_shared, undefined_names

TARGETS = {
    "x86_64": {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "x86-64-v3"},
    "aarch64": {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a76"},
    "riscv64": {
        "kind": "llvm", "mtriple": "riscv64-linux-gnu", "mcpu": "generic-rv64",
        "mattr": ["+m", "+a", "+f", "+d", "+c"], "mabi": "lp64d",
    },
}  # fmt: skip
# Halves of RISC-V are refused: see tests/compiler/test_hosts.py.
KEPT = {"x86_64": "float16", "aarch64": "float16", "riscv64": "float32"}
SOURCE = Path(__file__).parent / "c" / "call_kernel.c"
Files = Callable[[str], list[str]]


def function(name: str, factor: float, kept: str = "float16") -> tvm.tirx.PrimFunc:
    """cosh is of libm; each object has its own functions of halves; and constants."""
    x = te.placeholder((64,), name="x")
    e = te.compute((64,), lambda i: te.cosh(x[i]).astype(kept), name="e")
    y = te.compute((64,), lambda i: e[i].astype("float32") * factor + te.floor(x[i]), name="y")
    return te.create_prim_func([x, y]).with_attr("global_symbol", name)


def write_object(path: Path, machine: str, *functions: tvm.tirx.PrimFunc) -> str:
    """An object file as LLVM makes it; its path."""
    module = tvm.IRModule({str(f.attrs["global_symbol"]): f for f in functions})
    tvm.compile(module, Target(TARGETS[machine])).mod.write_to_file(str(path), "o")
    return str(path)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Two objects for a processor."""
    folder, known = tmp_path_factory.mktemp("objects"), {}

    def make(machine: str) -> list[str]:
        if machine not in known:
            known[machine] = [
                write_object(
                    folder / f"{machine}-{name}.o", machine, function(name, factor, KEPT[machine])
                )
                for name, factor in (("kernel", 3.25), ("second", 0.5))
            ]
        return known[machine]

    return make


def contents(files: list[str]) -> list[bytes]:
    return [Path(file).read_bytes() for file in files]


@pytest.mark.parametrize("machine", TARGETS)
def test_a_library_runs_on_its_processor(tmp_path: Path, files: Files, machine: str) -> None:
    """Through a program in C: the dynamic loader, names, constants, and functions of libm."""
    compiler = cross_compiler(machine)
    link_library(str(tmp_path / "kernel.so"), files(machine))
    program, include = tmp_path / "call_kernel", tvm_ffi.libinfo.find_include_path()
    dlpack = tvm_ffi.libinfo.find_dlpack_include_path()
    subprocess.run(
        [compiler, SOURCE, "-o", program, "-rdynamic", "-ldl", f"-I{include}", f"-I{dlpack}"],
        check=True,
    )
    done = run_there(machine, [program, tmp_path / "kernel.so", "0.0625"])
    assert done.returncode == 0, done.stderr
    x = np.arange(64, dtype=np.float32) * np.float32(0.0625)
    expected = np.cosh(x).astype(KEPT[machine]).astype(np.float32) * 3.25 + np.floor(x)
    np.testing.assert_allclose(np.array(done.stdout.split(), np.float32), expected, rtol=1e-3)


@pytest.mark.parametrize("machine", TARGETS)
def test_the_same_objects_give_the_same_bytes(files: Files, machine: str) -> None:
    first, second = (link_shared(contents(files(machine))) for _ in range(2))
    assert first == second
    assert int.from_bytes(first[18:20], "little") in MACHINES
    assert undefined_names(contents(files(machine))) == {
        "TVMFFIErrorSetRaisedFromCStrParts", "coshf",
    }  # fmt: skip


def test_a_library_that_is_loaded_stays_as_it_was(tmp_path: Path, files: Files) -> None:
    """Another one of its name may be written meanwhile."""
    path = str(tmp_path / "kernel.so")
    link_library(path, files("x86_64"))
    loaded = ctypes.CDLL(path)
    link_library(path, files("x86_64")[1:])
    assert loaded.__tvm_ffi_kernel and loaded.__tvm_ffi_second
    assert [file.name for file in tmp_path.iterdir()] == ["kernel.so"]


class Bases(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("text", "data", "function")]


def test_a_stack_can_be_unwound_through_it(tmp_path: Path, files: Files) -> None:
    """Through each object's code, so that errors and debuggers say who called."""
    link_library(str(tmp_path / "kernel.so"), files("x86_64"))
    loaded = ctypes.CDLL(str(tmp_path / "kernel.so"))
    find = ctypes.CDLL("libgcc_s.so.1")._Unwind_Find_FDE
    find.restype = ctypes.c_void_p
    for name in ("__tvm_ffi_kernel", "__tvm_ffi_second"):
        address = ctypes.cast(getattr(loaded, name), ctypes.c_void_p).value or 0
        bases = Bases()
        assert find(ctypes.c_void_p(address + 1), ctypes.byref(bases)), name
        assert bases.function == address


def test_what_takes_a_compiler_takes_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function of libgcc: no library of a robot has it."""
    x = te.placeholder((64,), name="x")
    y = te.compute((64,), lambda i: tvm.tirx.call_pure_extern("float32", "__powisf2", x[i], 3))
    powers = te.create_prim_func([x, y]).with_attr("global_symbol", "kernel")
    file = write_object(tmp_path / "kernel.o", "x86_64", powers)
    compiled = []
    monkeypatch.setattr("tvm.support.cc.create_shared", lambda *a, **k: compiled.append((a, k)))
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("tvm.support.cc.get_cc", lambda: "/usr/bin/c++")
    link_library(str(tmp_path / "kernel.so"), [file])
    ((_, inputs, _), named) = compiled[0]
    assert (inputs[0], named) == (file, {"cc": "/usr/bin/c++"})
    monkeypatch.setattr("tvm.support.cc.get_cc", lambda: None)
    with pytest.raises(
        PackageError,
        match=r"for x86_64 needs a C\+\+ compiler for it \(code for it calls __powisf2\), and "
        r"none is installed: apt install g\+\+$",
    ):
        link_library(str(tmp_path / "kernel.so"), [file])
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(PackageError, match=r"for x86_64 .*: apt install g\+\+-x86-64-linux-gnu$"):
        link_library(str(tmp_path / "kernel.so"), [file])


def test_a_compiler_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "kernel.o"
    file.write_bytes(b"no object")
    monkeypatch.setattr("tvm.support.cc.get_cc", lambda: "/bin/false")
    with pytest.raises(PackageError, match=r"mod\.so cannot be linked with /bin/false: "):
        link_library(str(tmp_path / "kernel.so"), [str(file)])


def test_objects_that_do_not_go_together(files: Files) -> None:
    ours, others = contents(files("x86_64")), contents(files("aarch64"))
    with pytest.raises(LinkError, match="of one processor are needed"):
        link_shared([ours[0], others[0]])
    with pytest.raises(LinkError, match="__tvm_ffi_kernel is defined twice"):
        link_shared([ours[0], ours[1], ours[0]])
    with pytest.raises(LinkError, match="an object file is needed"):
        link_shared([])
    other = bytearray(ours[0])
    other[18:20] = b"\x08\x00"
    with pytest.raises(LinkError, match="aarch64, riscv64 is needed, found number 8"):
        link_shared([bytes(other)])


def test_sections_beyond_all_memory_are_damage(files: Files) -> None:
    content = bytearray(contents(files("x86_64"))[0])
    content[47] = 0x80  # the last byte of the place of the sections' table
    with pytest.raises(LinkError, match="an object file is damaged"):
        link_shared([bytes(content)])


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_damaged_object_is_refused_or_linked(files: Files, data: st.DataObject) -> None:
    """Never another error: what is refused goes to a compiler, which says what is wrong."""
    content = bytearray(contents(files("x86_64"))[0])
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    else:
        start = data.draw(st.integers(0, len(content) - 1))
        changed = data.draw(st.binary(min_size=1, max_size=8))
        content[start : start + len(changed)] = changed
    try:
        link_shared([bytes(content)])
    except LinkError:
        pass


def place(kind: int, machine: int, before: bytes, value: int, at: int) -> bytes:
    content = bytearray(before)
    MACHINES[machine].patches[kind](content, 0, value, at)
    return bytes(content)


@pytest.mark.parametrize(
    ("machine", "kind", "before", "value", "after"),
    [
        # As GNU's assembler writes them: adrp x0, +0x12345000; ldrb/ldrh/ldr w0, ldr x0, ldr q0
        # [x1, 0x340]; add x0, x1, 0x345; bl and b to +0x1000; .word of a distance.
        (183, 275, "00000090", 0x12345678, "201a09b0"),
        (183, 277, "20000091", 0x345, "20140d91"),
        (183, 278, "20004039", 0x345, "20144d39"),
        (183, 284, "20004079", 0x346, "208c4679"),
        (183, 285, "200040b9", 0x344, "204443b9"),
        (183, 286, "200040f9", 0x348, "20a441f9"),
        (183, 299, "2000c03d", 0x340, "20d0c03d"),
        (183, 282, "00000014", 0x1000, "00040014"),
        (183, 283, "00000094", -0x1000, "00fcff97"),
        (183, 261, "00000000", -2, "feffffff"),
    ],
)  # fmt: skip
def test_instructions(machine: int, kind: int, before: str, value: int, after: str) -> None:
    assert place(kind, machine, bytes.fromhex(before), value, 0).hex() == after


@pytest.mark.parametrize(
    ("machine", "kind", "value"),
    [(62, 2, 1 << 31), (183, 275, 1 << 32), (183, 283, 1 << 27), (183, 286, 4), (243, 23, 1 << 31)],
)
def test_what_has_no_room_in_an_instruction(machine: int, kind: int, value: int) -> None:
    with pytest.raises(LinkError, match="does not fit|is not a multiple"):
        place(kind, machine, bytes(4), value, 0)


def test_known_functions_are_there() -> None:
    """What is taken for granted of the C library, this one has."""
    for soname, names in library._LIBRARIES.items():
        loaded = ctypes.CDLL(soname)
        for name in names - {"roundeven", "roundevenf"}:  # of 2.25 and later
            assert hasattr(loaded, name), name
