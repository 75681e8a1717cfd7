"""Denormal numbers count as zeros in kernels on the processor, on x86, and nowhere else."""

from __future__ import annotations

import platform
import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import tvm_vision
from support.onnx_models import make_model
from tvm_vision.errors import InputError

pytestmark = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="other processors keep their modes"
)
# Enough for all threads to have a part.
SHAPE = (64, 64, 256)
SMALL, SMALLER = np.float32(1e-30), np.float32(1e-10)
DENORMAL = SMALL * SMALLER


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """x · 1e-10, for a processor."""
    folder = tmp_path_factory.mktemp("denormals")
    nodes = [helper.make_node("Mul", ["x", "s"], ["y"])]
    model = make_model(nodes, [("x", SHAPE)], [("y", SHAPE)], [("s", np.array(SMALLER))])
    onnx.save(model, folder / "model.onnx")
    tvm_vision.compile(folder / "model.onnx", folder / "model.tar", target="llvm")
    return folder / "model.tar"


def loaded(package: Path, monkeypatch: pytest.MonkeyPatch, said: str | None) -> Any:
    if said is None:
        monkeypatch.delenv("TVM_VISION_DENORMALS", raising=False)
    else:
        monkeypatch.setenv("TVM_VISION_DENORMALS", said)
    return tvm_vision.load(package)


def product(network: Any) -> np.ndarray:
    network.run(x=np.full(SHAPE, SMALL))
    return network.get_output(0).numpy()


def test_all_threads_take_them_for_zeros(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    assert DENORMAL != 0
    assert not product(loaded(package, monkeypatch, None)).any()


def test_they_are_computed_with_where_a_variable_says_so(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In turns with a network that does not, whose threads are the same."""
    keeps, drops = (loaded(package, monkeypatch, said) for said in ("keep", "zero"))
    for _ in range(2):
        np.testing.assert_array_equal(product(keeps), DENORMAL)
        assert not product(drops).any()


def test_who_calls_keeps_them(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a profile or a trace is taken, and in a thread of its own."""
    network = loaded(package, monkeypatch, "zero")
    found = []

    def call() -> None:
        product(network)
        network.profile(repeat=1)
        found.append(np.full(4, SMALL) * SMALLER)

    call()
    other = threading.Thread(target=call)
    other.start()
    other.join()
    np.testing.assert_array_equal(found, DENORMAL)


def test_another_word_is_refused(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = 'TVM_VISION_DENORMALS must be zero or keep, found "none"'
    with pytest.raises(InputError, match=needed):
        loaded(package, monkeypatch, "none")


def test_a_sigmoid_of_large_numbers_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TVM_VISION_DENORMALS", raising=False)
    x = np.linspace(-110, 110, 4096, dtype="float32").reshape(1, 16, 16, 16)
    model = make_model(
        [helper.make_node("Sigmoid", ["x"], ["y"])], [("x", x.shape)], [("y", x.shape)]
    )
    onnx.save(model, tmp_path / "model.onnx")
    tvm_vision.compile(tmp_path / "model.onnx", tmp_path / "model.tar", target="llvm")
    network = tvm_vision.load(tmp_path / "model.tar")
    network.run(x=x)
    wanted = 1 / (1 + np.exp(-x.astype("float64")))
    least = float(np.finfo("float32").tiny)
    np.testing.assert_allclose(network.get_output(0).numpy(), wanted, rtol=1e-6, atol=least)
