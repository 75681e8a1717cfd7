"""Rendered scenes as a COCO set: margins cut off, boxes moved with them, doubt as crowds."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "training"))

import coco

from tvm_vision.evaluate.datasets import read_data_set


def test_evaluate_reads_what_was_rendered(tmp_path):
    images = np.zeros((3, 64, 64, 3), np.uint8)
    masks = np.full((3, 64, 64), 255, np.uint8)
    masks[:, 8:56] = 0
    images[:, 8:56, :, 0] = 200
    boxes = np.full((3, 4, 5), -1, np.float32)
    boxes[0, 0] = (2, 10, 20, 30, 60)  # over the edge of the image
    boxes[0, 1] = (9, 0, 8, 16, 16)
    boxes[1, 0] = (0, 1, 9, 5, 13)
    np.savez(tmp_path / "0001_0000.npz", images=images, masks=masks, boxes=boxes)
    assert coco.write_set(tmp_path, tmp_path / "set", limit=2) == 2
    data = read_data_set(tmp_path / "set" / "coco.json")
    assert data.names == ("ball", "goalpost", "robot") and len(data.samples) == 2
    first, second = (sample.boxes(64, 48) for sample in data.samples)
    assert first.boxes.tolist() == [[10, 12, 30, 48]] and first.class_ids.tolist() == [2]
    assert first.doubtful.tolist() == 3 * [[0, 0, 16, 8]]
    assert first.doubtful_ids.tolist() == [0, 1, 2]
    assert second.boxes.tolist() == [[1, 1, 5, 5]] and second.class_ids.tolist() == [0]
