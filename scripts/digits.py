"""Handwritten digits as a labelled set, and a small network that tells them apart.

    python scripts/digits.py FOLDER

The digits are scikit-learn's, 1,797 of 8×8 pixels, read from the file in its package: ``pip
install --no-deps scikit-learn``. The network has a layer of random filters and one that least
squares fit to the first 1,200; the others become FOLDER/test, a folder for each digit. Then
``tvm-vision evaluate FOLDER/digits.onnx FOLDER/test --like FOLDER/like.tar`` judges it.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
from pathlib import Path

import cv2
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import tvm_vision
from tvm_vision.package import ModelInfo, Preprocessing

FITTED = 1200
FILTERS = 96
SIDE = 8
SCALE = 16.0  # of scikit-learn's grey values
RIDGE = 0.1


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Images float32 [n, 8, 8] in 0..1 and their digits [n]."""
    spec = importlib.util.find_spec("sklearn")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the digits come with scikit-learn: pip install --no-deps scikit-learn")
    path = Path(next(iter(spec.submodule_search_locations)), "datasets", "data", "digits.csv.gz")
    rows = np.loadtxt(gzip.decompress(path.read_bytes()).decode().splitlines(), delimiter=",")
    return (rows[:, :-1].reshape(-1, SIDE, SIDE) / SCALE).astype(np.float32), rows[:, -1].astype(
        int
    )


def network(filters: np.ndarray, weights: np.ndarray, bias: np.ndarray) -> onnx.ModelProto:
    """3 equal channels in, scores of the ten digits out."""
    constants = {"filters": filters, "weights": weights, "bias": bias}
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["image", "filters"], ["c"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["r"]),
            helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
            helper.make_node("Flatten", ["p"], ["f"]),
            helper.make_node("Gemm", ["f", "weights", "bias"], ["scores"]),
        ],
        "digits",
        [value("image", TensorProto.FLOAT, (1, 3, SIDE, SIDE))],
        [value("scores", TensorProto.FLOAT, (1, 10))],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def features(images: np.ndarray, filters: np.ndarray) -> np.ndarray:
    """What the network's last layer gets: float32 [n, filters * 16]."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    windows = [padded[:, y : y + SIDE, x : x + SIDE] for y in range(3) for x in range(3)]
    weights = filters.sum(axis=1).reshape(len(filters), -1)
    found = np.maximum(np.einsum("nyxk,fk->nfyx", np.stack(windows, axis=-1), weights), 0)
    pooled = found.reshape(*found.shape[:2], SIDE // 2, 2, SIDE // 2, 2).max(axis=(3, 5))
    return pooled.reshape(len(images), -1)


def fitted(images: np.ndarray, labels: np.ndarray) -> onnx.ModelProto:
    """The network, of random filters and the ridge regression of what they find."""
    random = np.random.default_rng(1797)
    filters = np.repeat(random.standard_normal((FILTERS, 1, 3, 3)) / 9, 3, axis=1)
    filters = filters.astype(np.float32)
    found = np.hstack([features(images, filters), np.ones((len(images), 1))])
    wanted = 8.0 * np.eye(10)[labels] - 4.0
    solved = np.linalg.solve(found.T @ found + RIDGE * np.eye(found.shape[1]), found.T @ wanted)
    return network(filters, solved[:-1].astype(np.float32), solved[-1].astype(np.float32))


def main() -> None:
    """Write the set, the model, and a package that says how images are prepared."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    images, labels = digits()
    model = fitted(images[:FITTED], labels[:FITTED])
    for index in range(FITTED, len(images)):
        path = folder / "test" / str(labels[index]) / f"{index}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), np.round(255 * images[index]).astype(np.uint8))
    onnx.save(model, folder / "digits.onnx")
    info = ModelInfo(
        "digits",
        "classifier",
        labels=tuple("0123456789"),
        preprocessing=Preprocessing(std=(255.0,) * 3, interpolation="nearest"),
    )
    tvm_vision.compile(model, folder / "like.tar", target="llvm", model_info=info)
    print(f"{FITTED} digits fitted, {len(images) - FITTED} in {folder / 'test'}")


if __name__ == "__main__":
    main()
