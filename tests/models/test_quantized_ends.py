"""Integers outside a network stand for real numbers: what it says is what it says of these."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support import quantized_ends
from tvm_vision.api import compile as compile_network
from tvm_vision.models import load_model
from tvm_vision.models.classifier.preprocess import as_input, write_input
from tvm_vision.models.values import real_outputs
from tvm_vision.package.tensors import IntegersInfo, TensorInfo


@pytest.mark.parametrize("kind", quantized_ends.MODELS)
def test_raw_and_real_ends_say_the_same(tmp_path: Path, kind: str) -> None:
    file = quantized_ends.write(tmp_path / "network.tflite", "int8")
    model = quantized_ends.MODELS[kind]
    image = np.random.default_rng(2).integers(0, 256, (90, 130, 3), np.uint8)
    raw, real = (
        load_model(
            compile_network(
                file, tmp_path / f"{raw_io}.tar", target="llvm", model_info=model, raw_io=raw_io
            )
        )(image)
        for raw_io in (True, False)
    )
    if raw.classification is not None and real.classification is not None:
        assert list(raw.classification.class_ids) == list(real.classification.class_ids)
        found, needed = dict(raw.classification), dict(real.classification)
        assert found == pytest.approx(needed, abs=1e-6) and max(needed.values()) > 0.35
    else:
        assert raw.segmentation is not None and real.segmentation is not None
        assert np.array_equal(raw.segmentation.mask, real.segmentation.mask)
        assert len(np.unique(real.segmentation.mask)) == 3


@pytest.mark.parametrize(
    ("dtype", "zero", "ends"), [("int8", -3, (-128, 127)), ("uint8", 40, (0, 255))]
)
def test_integers_are_the_nearest(dtype: str, zero: int, ends: tuple[int, int]) -> None:
    """By float64; beyond their range the last of it."""
    scale = 0.05
    spec = TensorInfo("x", (1, 9), dtype, quantization=IntegersInfo(dtype, scale, zero))
    values = np.array([[-90, -1.02, -0.03, 0, 0.02, 0.03, 1.26, 3.33, 90]], np.float32)
    needed = np.clip(np.rint(values.astype(np.float64) / scale) + zero, *ends).astype(dtype)
    into = np.zeros((1, 9), dtype)
    write_input(values, spec, into)
    assert np.array_equal(as_input(values, spec), needed) and np.array_equal(into, needed)
    back = real_outputs({"x": needed}, [spec])["x"]
    np.testing.assert_allclose(back, (needed.astype(np.float64) - zero) * scale, atol=1e-6)
    # What the network converts itself, and integers that stand for nothing else, stay.
    outside = TensorInfo("x", (1, 9), "float32", quantization=spec.quantization)
    assert real_outputs({"x": values}, [outside])["x"] is values
    plain = TensorInfo("x", (1, 9), dtype)
    assert real_outputs({"x": needed}, [plain])["x"] is needed
