"""Packages made before: when they are taken, when not, and what goes wrong with their files."""

from __future__ import annotations

import dataclasses
import errno
import inspect
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import cv2
import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import numpy_helper

import tvm_vision
from support.small_network import model as small_network
from tvm_vision import api
from tvm_vision.cache import devices_here, makers
from tvm_vision.cache import files as kept_files
from tvm_vision.cache import packages as kept_packages
from tvm_vision.cache.packages import CompileReport, asked_for
from tvm_vision.options import CompileOptions, variable_of
from tvm_vision.package import ModelInfo
from tvm_vision.tools.cli import main
from tvm_vision.tools.compile import compile as command

SIGNATURE = inspect.signature(api.compile)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test alone, empty, where packages are kept."""
    monkeypatch.setenv("TVM_VISION_CACHE_DIR", str(tmp_path / "cache"))
    for field in dataclasses.fields(CompileOptions):
        monkeypatch.delenv(variable_of(field.name), raising=False)
    return tmp_path / "cache" / "packages"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "small.onnx"
    onnx.save(small_network(), path)
    return path


def compiled(model: Path, output: Path, **options: Any) -> CompileReport:
    """Compile for this processor; what was told."""
    told: list[CompileReport] = []
    tvm_vision.compile(model, output, on_compiled=told.append, **{"target": "llvm", **options})
    return told[0]


def made_anew(model: Path, output: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> bool:
    """Whether the compiler was at work."""
    asked: list[Any] = []
    before = api._compiled

    def count(*arguments: Any) -> Any:
        asked.append(arguments)
        return before(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(api, "_compiled", count)
        compiled(model, output, **options)
    return bool(asked)


def entries(folder: Path, suffix: str = ".package") -> list[Path]:
    return sorted(folder.glob(f"*{suffix}"))


def test_the_second_time_it_is_the_same_without_the_compiler(
    model: Path, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = compiled(model, tmp_path / "first.tar")
    assert len(entries(folder)) == len(entries(folder, ".note")) == 1
    assert not made_anew(model, tmp_path / "second.tar", monkeypatch)
    assert compiled(model, tmp_path / "again.tar") == dataclasses.replace(
        first, known=first.kernels
    )
    assert (tmp_path / "second.tar").read_bytes() == (tmp_path / "first.tar").read_bytes()
    # A folder has the same members.
    assert not made_anew(model, tmp_path / "folder", monkeypatch)
    monkeypatch.setenv("TVM_VISION_CACHE_DIR", "")
    compiled(model, tmp_path / "anew", options={"package_cache": True})
    for path in (tmp_path / "anew").iterdir():
        assert path.read_bytes() == (tmp_path / "folder" / path.name).read_bytes()


def test_a_folder_is_kept_too(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(model, tmp_path / "folder")
    assert not made_anew(model, tmp_path / "second.tar", monkeypatch)
    monkeypatch.setenv("TVM_VISION_CACHE_DIR", "")
    compiled(model, tmp_path / "anew.tar")
    assert (tmp_path / "second.tar").read_bytes() == (tmp_path / "anew.tar").read_bytes()


COMMAND = """
import sys
from tvm_vision.tools.cli import main
try:
    main(sys.argv[1:])
finally:
    heavy = {"tvm", "tvm_ffi", "onnx", "numpy", "onnxsim", "cv2"} & set(sys.modules)
    print("imported:", *sorted(heavy), file=sys.stderr)
"""


@pytest.mark.parametrize("target", ["renoir", "llvm", "auto"])
def test_the_command_says_the_same_and_imports_nothing_that_is_large(
    target: str, model: Path, tmp_path: Path
) -> None:
    words = ["compile", model, "-o", tmp_path / "made.tar", "--target", target]
    done = [
        subprocess.run(
            [sys.executable, "-c", COMMAND, *map(str, words)],
            capture_output=True, text=True, check=True, timeout=300,
        )
        for _ in range(2)
    ]  # fmt: skip
    first, second = (one.stdout.split(" (")[0].split(", ") for one in done)
    assert first[0] == second[0] and len(done[0].stdout.splitlines()) == 2
    assert done[0].stdout.splitlines()[1] == done[1].stdout.splitlines()[1]
    assert "different ones made before" in done[1].stdout
    *before, imported = done[0].stderr.splitlines()
    assert "tvm" in imported
    assert done[1].stderr.splitlines() == [*before, "imported:"]


def test_devices_are_the_same_for_a_process_that_only_runs() -> None:
    here = devices_here.facts()
    assert here
    told = subprocess.run(
        [sys.executable, "-c", "from tvm_vision.cache import devices_here as d; import json; "
         "print(json.dumps(d.facts()))"],
        capture_output=True, text=True, check=True, timeout=100,
    )  # fmt: skip
    assert json.loads(told.stdout) == here


def test_every_parameter_of_compile_is_in_one_table() -> None:
    """A new one is either in the key, or it is said why it need not be."""
    tables = (
        kept_packages.KEYED, kept_packages.NOT_KEPT, kept_packages.OF_OPTIONS, kept_packages.SILENT,
    )  # fmt: skip
    names = [name for table in tables for name in table]
    assert sorted(names) == sorted(SIGNATURE.parameters)
    fields = {field.name for field in dataclasses.fields(CompileOptions)}
    assert set(kept_packages.OF_OPTIONS) <= fields


def given(model: Path, **changed: Any) -> dict[str, Any]:
    bound = SIGNATURE.bind(model, "made.tar", **changed)
    bound.apply_defaults()
    return dict(bound.arguments)


def key(model: Path, **changed: Any) -> str:
    """The key of a call; "" of one whose package is not kept."""
    arguments = given(model, **changed)
    how = CompileOptions.of(
        arguments["options"], **{name: arguments[name] for name in kept_packages.OF_OPTIONS}
    )
    found = asked_for(how, arguments)
    return "" if found is None else found.key


def file(path: Path, content: str) -> Path:
    path.write_text(content)
    return path


OTHERS: dict[str, Callable[[Path], Any]] = {
    "model": lambda folder: file(folder / "other.onnx", "other"),
    "target": lambda folder: "renoir",
    "host": lambda folder: "aarch64",
    "input_shapes": lambda folder: {"input": (1, 3, 8, 8)},
    "input_values": lambda folder: {"rate": np.float32(3)},
    "raw_io": lambda folder: True,
    "options": lambda folder: {"winograd": "off"},
    "name": lambda folder: "other",
    "model_info": lambda folder: ModelInfo("other", kind="classifier", labels=("a", "b")),
    "tuning_records": lambda folder: [file(folder / "records.jsonl", "{}")],
    "shipped_records": lambda folder: False,
    "sample_images": lambda folder: [image(folder / "image.png")],
    "max_error": lambda folder: 0.5,
}


def image(path: Path) -> Path:
    cv2.imwrite(str(path), np.zeros((8, 8, 3), np.uint8))
    return path


@pytest.mark.parametrize("name", kept_packages.KEYED)
def test_each_parameter_makes_another_package(name: str, model: Path, tmp_path: Path) -> None:
    changed = {name: OTHERS[name](tmp_path)}
    base = key(model)
    found = key(changed.pop("model", model), **changed)
    assert base and found and found != base
    assert key(model) == base


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(CompileOptions)])
def test_each_option_makes_another_package_or_none(name: str, model: Path) -> None:
    values, default = CompileOptions.values_of(name)
    keys = {key(model, options={name: value}) for value in values}
    assert len(keys) == len(values)
    assert ("" in keys) == (name in ("package_cache", "kernel_cache"))
    assert key(model, options={name: default}) == key(model)


@pytest.mark.parametrize("name", kept_packages.NOT_KEPT)
def test_what_makes_more_than_a_package_is_not_kept(name: str, model: Path, tmp_path: Path) -> None:
    assert key(model, **{name: (1,) if name == "example_inputs" else tmp_path}) == ""


def test_what_cannot_be_told_apart_is_not_kept(model: Path, tmp_path: Path) -> None:
    assert key(model, model_info=lambda signature: ModelInfo("made")) == ""
    assert key(model, input_values={"x": object()}) == ""
    assert key(model, tuning_records=[tmp_path]) == ""
    assert key(tmp_path / "absent.onnx") == ""
    assert key(onnx.load(model)) == ""


# Of the command: what else is asked for, and files that it reads with other content.
SILENT = {
    "output", "cut", "rest", "check_after", "help", "help_options", "quiet", "verbose"
}  # fmt: skip
WORDS: dict[str, list[str]] = {
    "target": ["--target", "renoir"],
    "host": ["--target", "renoir", "--host", "aarch64"],
    "input_shapes": ["--input-shape", "input:1,3,8,8"],
    "input_values": ["--input-value", "rate=3"],
    "raw_io": ["--raw-io"],
    "layout": ["--layout", "nchw"],
    "precision": ["--precision", "fp16"],
    "opt_level": ["--opt-level", "1"],
    "options": ["--option", "winograd=off"],
    "sample_images": ["--precision", "fp16", "--sample-images", "{folder}/image.png"],
    "max_error": [
        *("--precision", "fp16", "--sample-images", "{folder}/image.png", "--max-error", "0.3"),
    ],
    "tuning_records": ["--tuning-records", "{folder}/text"],
    "shipped_records": ["--no-shipped-records"],
    "name": ["--name", "other"],
    "kind": ["--kind", "yolo"],
    "kind_options": ["--kind-option", "confidence=0.3"],
    "names": ["--names", "{folder}/text"],
    "groups": ["--groups", "{folder}/text"],
    "labels": ["--labels", "{folder}/text"],
    "preprocess": ["--preprocess", "{folder}/text"],
}  # fmt: skip
NOT_KEPT = {"dump_shaders": "--dump-shaders", "dump_ir": "--dump-ir"}
READ = ("tuning_records", "names", "groups", "labels", "preprocess")


@pytest.fixture
def key_of_command(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., str]:
    """The key of what the command asks for with these words beside those that it needs."""
    image(tmp_path / "image.png")
    file(tmp_path / "text", "a\n")
    found: list[str] = []

    def instead(source: Any, output: Any, **options: Any) -> None:
        found.append(key(source, **options))
        raise click.ClickException("asked")

    monkeypatch.setattr(api, "compile", instead)

    def run(*words: str) -> str:
        words = tuple(word.format(folder=tmp_path) for word in words)
        done = CliRunner().invoke(main, ["compile", str(model), "-o", "made.tar", *words])
        assert "Error: asked" in done.output, done.output
        return found[-1]

    return run


@pytest.mark.parametrize("name", [p.name for p in command.params if p.name not in SILENT])
def test_each_option_of_the_command_is_in_the_key(
    name: str, key_of_command: Callable[..., str], tmp_path: Path
) -> None:
    """A new one fails here until it has its words."""
    base = key_of_command()
    if name == "model":
        onnx.save(small_network(16), tmp_path / "small.onnx")
        assert key_of_command() != base
        return
    if name in NOT_KEPT:
        assert key_of_command(NOT_KEPT[name], str(tmp_path)) == ""
        return
    found = key_of_command(*WORDS[name])
    assert found and found != base
    if name == "max_error":
        assert found != key_of_command(*WORDS["sample_images"])
    if name in READ:
        file(tmp_path / "text", "b\n")
        assert key_of_command(*WORDS[name]) != found


def test_variables_of_tvm_are_in_the_key(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = key(model)
    monkeypatch.setenv("SOMETHING_ELSE", "1")
    assert key(model) == base
    # Options of the compiler are there already, however they were given.
    monkeypatch.setenv("TVM_VISION_WINOGRAD", "off")
    assert key(model) == key(model, options={"winograd": "off"}) != base
    monkeypatch.delenv("TVM_VISION_WINOGRAD")
    monkeypatch.setenv("TVM_NUM_THREADS", "17")
    assert key(model) != base
    monkeypatch.setenv("TVM_VISION_DUMP_SHADERS", "shaders")
    assert key(model) == ""


def test_another_installation_makes_it_anew(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base, before = key(model), makers.installation()
    monkeypatch.setattr(kept_packages, "installation", lambda: (*before, "more-1.0.dist-info"))
    assert key(model) != base


def test_sources_are_those_of_this_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(makers, "_PACKAGE", tmp_path)
    digests = {makers._sources()}
    for name in ("a.py", "b.jsonl", "known.json"):
        file(tmp_path / name, "1")
        digests.add(makers._sources())
    file(tmp_path / "a.py", "2")
    digests.add(makers._sources())
    (tmp_path / "a.py").rename(tmp_path / "c.py")
    digests.add(makers._sources())
    assert len(digests) == 6


def test_another_device_makes_it_anew(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled(model, tmp_path / "made.tar", target="vulkan")
    assert not made_anew(model, tmp_path / "made.tar", monkeypatch, target="vulkan")
    facts = devices_here.facts()
    assert facts
    for others in ([{**facts[0], "driver_info": "newer"}], None):
        with monkeypatch.context() as patch:
            patch.setattr(devices_here, "facts", lambda found=others: found)
            assert made_anew(model, tmp_path / "made.tar", monkeypatch, target="vulkan")


def test_devices_are_asked_only_where_there_may_be_a_package(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never() -> None:
        raise AssertionError("devices were asked")

    monkeypatch.setattr(devices_here, "facts", never)
    asked = asked_for(CompileOptions.of(), given(model, target="vulkan"))
    assert asked is not None and asked.found() is None


def test_a_child_that_fails_is_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tvm_vision.vulkan")

    def start(module: str, **variables: str) -> Any:
        return before("no.such.module", **variables)

    before = devices_here.start_python
    monkeypatch.setattr(devices_here, "start_python", start)
    assert devices_here.facts() is None


def test_weights_beside_the_model_are_a_part_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proto = small_network()
    path = tmp_path / "outside.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="outside.bin", size_threshold=16)
    compiled(path, tmp_path / "made.tar")
    assert not made_anew(path, tmp_path / "made.tar", monkeypatch)
    weights = tmp_path / "outside.bin"
    before = weights.read_bytes()
    numbers = np.frombuffer(before, np.float32) * np.float32(2)
    weights.write_bytes(numbers.tobytes())
    assert made_anew(path, tmp_path / "other.tar", monkeypatch)
    assert (tmp_path / "other.tar").read_bytes() != (tmp_path / "made.tar").read_bytes()
    weights.write_bytes(before)
    assert not made_anew(path, tmp_path / "made.tar", monkeypatch)
    weights.unlink()
    with pytest.raises(tvm_vision.InputError, match=r"outside\.bin"):
        compiled(path, tmp_path / "made.tar")


def test_a_model_that_changes_while_it_is_compiled_is_not_kept(
    model: Path, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = api._written

    def change(*arguments: Any) -> Any:
        model.write_bytes(model.read_bytes() + b"")
        return before(*arguments)

    monkeypatch.setattr(api, "_written", change)
    compiled(model, tmp_path / "made.tar")
    assert entries(folder) == []


def test_what_another_process_wrote_meanwhile_is_not_kept(
    model: Path, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = api._written

    def other(compiled: Any, output: Path, info: Any) -> Any:
        written = before(compiled, output, info)
        before(compiled, output, dataclasses.replace(info, name="another"))
        return written

    monkeypatch.setattr(api, "_written", other)
    compiled(model, tmp_path / "made.tar")
    assert entries(folder) == []


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def one_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def nothing(path: Path) -> None:
    path.write_bytes(b"")


def foreign(path: Path) -> None:
    """Its checksum is right."""
    files = kept_packages.NOTES if path.suffix == ".note" else kept_packages.PACKAGES
    files.store(path.stem, b'\x09\0\0\0\0\0\0\0{"a": []}packages of tomorrow')


def no_file(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("damage", [cut_off, one_bit, nothing, foreign, no_file])
@pytest.mark.parametrize("suffix", [".package", ".note"])
def test_a_damaged_entry_is_none(
    damage: Callable[[Path], None],
    suffix: str,
    model: Path,
    tmp_path: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled(model, tmp_path / "first.tar")
    damage(entries(folder, suffix)[0])
    assert made_anew(model, tmp_path / "second.tar", monkeypatch)
    assert (tmp_path / "second.tar").read_bytes() == (tmp_path / "first.tar").read_bytes()
    if damage is not no_file:
        assert not made_anew(model, tmp_path / "third.tar", monkeypatch)


def test_a_folder_that_cannot_be_written_is_no_cache(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TVM_VISION_CACHE_DIR", str(file(tmp_path / "blocked", "")))
    compiled(model, tmp_path / "made.tar")
    assert made_anew(model, tmp_path / "made.tar", monkeypatch)
    assert (tmp_path / "blocked").read_text() == ""


def test_a_full_disk_leaves_nothing(
    model: Path, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(source: Any, digest: Any = None, copy: Any = None) -> Any:
        copy.write(source.read(10))
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(kept_files, "_digest", half)
    compiled(model, tmp_path / "made.tar")
    # A note of weights that was small enough says of nothing that it is there.
    assert [path.suffix for path in folder.iterdir()] == [".note"]
    assert made_anew(model, tmp_path / "again.tar", monkeypatch)
    assert (tmp_path / "again.tar").read_bytes() == (tmp_path / "made.tar").read_bytes()


def test_the_total_is_bounded_at_once(folder: Path) -> None:
    files = dataclasses.replace(kept_packages.PACKAGES, most_bytes=100, most_total=250)
    for number in range(5):
        files.store(str(number) * 64, bytes(100))
        os.utime(folder / f"{str(number) * 64}.package", (number + 1, number + 1))
    assert len(entries(folder)) <= 3
    files.store("a" * 64, bytes(101))
    assert len(entries(folder)) <= 3


def test_two_processes_at_once(model: Path, tmp_path: Path, folder: Path) -> None:
    children = [
        subprocess.Popen(
            [sys.executable, "-m", "tvm_vision", "compile", model, "-o", tmp_path / f"{i}.tar",
             "--target", "llvm", "-q"]
        )
        for i in range(2)
    ]  # fmt: skip
    assert [child.wait(timeout=200) for child in children] == [0, 0]
    assert (tmp_path / "0.tar").read_bytes() == (tmp_path / "1.tar").read_bytes()
    assert len(list(folder.iterdir())) == 2


def test_warnings_are_told_again(
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = api.described

    def warns(*arguments: Any) -> Any:
        logging.getLogger("tvm_vision.somewhere").warning("mind the %s", "gap")
        return before(*arguments)

    monkeypatch.setattr(api, "described", warns)
    for _ in range(2):
        caplog.clear()
        report = compiled(model, tmp_path / "made.tar")
        assert [record.getMessage() for record in caplog.records] == ["mind the gap"]
        assert report.logged == (("tvm_vision.somewhere", logging.WARNING, "mind the gap"),)
    # Who did not want to hear them has a package without, which is for its like alone.
    base = key(model)
    monkeypatch.setattr(logging.getLogger("tvm_vision"), "level", logging.ERROR)
    logging.getLogger("tvm_vision").manager._clear_cache()  # type: ignore[attr-defined]
    assert key(model) != base


def test_a_quantized_file_that_is_computed_in_float32_is_named_again(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(1)
    weight = numpy_helper.from_array(rng.standard_normal((8, 8)).astype(np.float32), "w")
    scale = numpy_helper.from_array(np.float32(0.1), "s")
    zero = numpy_helper.from_array(np.uint8(128), "z")
    nodes = [
        onnx.helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        onnx.helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        onnx.helper.make_node("MatMul", ["d", "w"], ["y"]),
    ]
    ends = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (4, 8)) for name in "xy"
    ]
    graph = onnx.helper.make_graph(nodes, "q", ends[:1], ends[1:], [weight, scale, zero])
    path = tmp_path / "quantized.onnx"
    onnx.save(
        onnx.helper.make_model(
            graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8
        ),
        path,
    )
    reports = [compiled(path, tmp_path / "made.tar") for _ in range(2)]
    assert [report.dequantized for report in reports] == [True, True]
    assert reports[1].known == reports[1].kernels
