"""Weights and mod.json as whatever holds their bytes, as code for TVM's former executor does."""

from __future__ import annotations

import array
import ctypes
import json
import mmap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

import tvm_vision
from support import handmade
from tvm_vision.errors import InputError, PackageError
from tvm_vision.package import read_package
from tvm_vision.runtime import graph_executor
from tvm_vision.runtime.graph_executor import GraphExecutor

X = np.array([1, -2, 3, 4], np.float32)


def mapped(data: bytes) -> mmap.mmap:
    memory = mmap.mmap(-1, len(data))
    memory.write(data)
    return memory


BUFFERS: dict[str, Callable[[bytes], Any]] = {
    "bytes": bytes,
    "bytearray": bytearray,
    "memoryview": memoryview,
    "memoryview that reads only": lambda data: memoryview(bytearray(data)).toreadonly(),
    "numpy": lambda data: np.frombuffer(data, np.uint8),
    "numpy int8": lambda data: np.frombuffer(data, np.int8),
    "numpy of two axes": lambda data: np.frombuffer(data, np.uint8).reshape(1, -1),
    "numpy with gaps": lambda data: np.repeat(np.frombuffer(data, np.uint8), 2)[::2],
    "array": lambda data: array.array("B", data),
    "ctypes": lambda data: (ctypes.c_char * len(data)).from_buffer_copy(data),
    "mmap": mapped,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return handmade.write_package_file(tmp_path_factory.mktemp("package") / "tiny")


@pytest.fixture
def executor(folder: Path) -> GraphExecutor:
    return tvm_vision.load(folder)


@pytest.mark.parametrize("kind", BUFFERS)
def test_the_lines_of_the_readme_with_any_buffer(folder: Path, kind: str) -> None:
    library = tvm.runtime.load_module(str(folder / "mod.so"))
    text, params = (
        BUFFERS[kind]((folder / name).read_bytes()) for name in ("mod.json", "mod.params")
    )
    module = graph_executor.create(text, library, tvm.cpu(0))
    module.load_params(params)
    module.set_input("x", X)
    module.run()
    np.testing.assert_allclose(module.get_output(0).numpy(), handmade.expected(X), rtol=1e-6)


def test_mod_json_as_text_and_parsed(folder: Path) -> None:
    library = tvm.runtime.load_module(str(folder / "mod.so"))
    for form in (str, json.loads):
        made = graph_executor.create(form((folder / "mod.json").read_text()), library, tvm.cpu(0))
        assert made.input_names == ("x",)


@pytest.mark.parametrize("wrong", ["mod.params", None, 3, Path("mod.params"), [1, 2]])
def test_what_has_no_bytes_is_refused(executor: GraphExecutor, wrong: object) -> None:
    with pytest.raises(InputError, match=r"content of mod\.params is needed, found .*: pass open"):
        executor.load_params(wrong)


@pytest.mark.parametrize("cut", [0, 7, 50, -1])
def test_damaged_weights_are_refused(executor: GraphExecutor, folder: Path, cut: int) -> None:
    with read_package(folder) as package:
        content = package.params[:]
    with pytest.raises(PackageError, match=r"mod\.params cannot be read"):
        executor.load_params(bytearray(content[:cut]))
    with pytest.raises(PackageError, match=r"mod\.params cannot be read"):
        executor.load_params(b"x" * 99)


def test_bytes_that_are_no_mod_json(folder: Path) -> None:
    library = tvm.runtime.load_module(str(folder / "mod.so"))
    with pytest.raises(PackageError, match=r"content of mod\.json was needed"):
        graph_executor.create(b"\xff\xfe", library, tvm.cpu(0))
