"""The field's measures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from tvm_vision.evaluate.datasets import read_data_set
from tvm_vision.evaluate.detection import Found, MaskScore, Truth, average_precisions
from tvm_vision.evaluate.scores import box_scores, class_scores, mask_scores

NONE = np.empty((0, 4))


def test_classes() -> None:
    guesses = [[0, 1, 2], [1, 0, 2], [-1, 2, 0], [2, 1, 0]]
    found = class_scores(guesses, [0, 0, 2, 2], ["a", "b", "c"])
    assert (found["top1"], found["top5"]) == (0.5, 1.0)
    assert found["confusion"] == [[1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 1, 1]]
    assert found["classes"] == {"a": 0.5, "b": None, "c": 0.5}


def test_only_the_first_five_count() -> None:
    found = class_scores([[1, 2, 3, 4, 5, 0]], [0], list("abcdef"))
    assert found["top5"] == 0.0


def boxes(*rows: tuple[float, float, float, float]) -> np.ndarray:
    return np.array(rows, float).reshape(-1, 4)


def test_boxes_as_coco_judges_them() -> None:
    truths = [
        Truth(boxes((0, 0, 10, 10), (20, 20, 40, 40)), np.array([0, 1]), NONE),
        Truth(boxes((5, 5, 25, 25)), np.array([0]), NONE),
    ]
    right = [Found(t.boxes, np.full(len(t.boxes), 0.9), t.class_ids) for t in truths]
    found = box_scores(right, truths, ["a", "b", "absent"])
    assert found["ap50_95"] == pytest.approx(1.0) and found["ap50"] == pytest.approx(1.0)
    assert found["classes"]["absent"] == {"ap50_95": None, "ap50": None}
    # Off by a tenth of the width: an IoU of 0.82 counts up to 0.80, that is at 7 of 10 thresholds.
    moved = [Found(f.boxes + (f.boxes[:, 2:3] - f.boxes[:, :1]) * [[0.1, 0, 0.1, 0]], f.scores,
                   f.class_ids) for f in right]  # fmt: skip
    found = box_scores(moved, truths, ["a", "b", "absent"])
    assert found["ap50"] == pytest.approx(1.0) and found["ap50_95"] == pytest.approx(0.7)


def test_boxes_that_were_not_found() -> None:
    truths = [Truth(boxes((0, 0, 10, 10)), np.array([0]), NONE)]
    nothing = [Found(NONE, np.empty(0), np.empty(0, int))]
    found = box_scores(nothing, truths, ["a", "b"])
    assert found["ap50"] == 0.0
    assert found["classes"] == {
        "a": {"ap50_95": 0.0, "ap50": 0.0}, "b": {"ap50_95": None, "ap50": None}
    }  # fmt: skip


def test_a_crowd_is_neither_found_nor_false() -> None:
    truths = [Truth(boxes((0, 0, 10, 10)), np.array([0]), boxes((50, 50, 90, 90)))]
    guess = Found(boxes((55, 55, 80, 80), (0, 0, 10, 10)), np.array([0.9, 0.8]), np.array([0, 0]))
    assert box_scores([guess], truths, ["a"])["ap50"] == pytest.approx(1.0)


def test_masks() -> None:
    score = MaskScore(4, 255)
    score.add(np.array([[0, 0, 1, 1]]), np.array([[0, 1, 1, 255]]))
    found = mask_scores(score, ["a", "b", "c", "d"])
    assert found["classes"] == {"a": 0.5, "b": 0.5, "c": None, "d": None}
    assert (found["miou"], found["pixels"]) == (0.5, pytest.approx(2 / 3))


def test_as_the_measure_of_our_training() -> None:
    """Two measures of average precision, all points and 101 points, on random boxes."""
    random = np.random.default_rng(5)
    truths, guesses = [], []
    for _ in range(40):
        corner = random.uniform(0, 80, (5, 2))
        true = np.hstack([corner, corner + random.uniform(8, 20, (5, 2))])
        ids = random.integers(0, 2, 5)
        kept = random.random(5) < 0.8
        near = true[kept] + random.normal(0, 1.0, (kept.sum(), 4))
        truths.append(Truth(true, ids, NONE))
        guesses.append(Found(near, random.random(kept.sum()), ids[kept]))
    ours = average_precisions(guesses, truths, 2, 0.5)
    theirs = box_scores(guesses, truths, ["a", "b"])["classes"]
    for class_id, name in enumerate("ab"):
        assert theirs[name]["ap50"] == pytest.approx(ours[class_id], abs=0.02)


def test_a_set_with_crowds_is_judged_as_pycocotools_judges_the_file(tmp_path: Path) -> None:
    """A crowd is one of its class: detections of others there are false."""
    random = np.random.default_rng(6)
    document: dict[str, list[dict[str, Any]]] = {
        "info": [], "images": [], "annotations": [],
        "categories": [{"id": 3 + 2 * i, "name": name} for i, name in enumerate("abc")],
    }  # fmt: skip
    guesses, results = [], []
    for i in range(30):
        image = {"id": 100 - i, "file_name": f"{i}.png", "width": 99, "height": 99}
        document["images"].append(image)
        (tmp_path / f"{i}.png").touch()
        low, size = random.uniform(0, 80, (8, 2)), random.uniform(8, 20, (8, 2))
        ids = random.integers(0, 3, 8)
        for where, what, crowd in zip(
            np.hstack([low, size]), ids, random.random(8) < 0.3, strict=True
        ):
            document["annotations"].append(
                {
                    "id": 1 + len(document["annotations"]), "image_id": image["id"],
                    "category_id": int(3 + 2 * what), "bbox": where.tolist(),
                    "area": float(where[2] * where[3]), "iscrowd": int(crowd),
                }
            )  # fmt: skip
        seen = np.hstack([low, size]) + random.normal(0, 1, (8, 4))
        mistaken = np.where(random.random(8) < 0.3, (ids + 1) % 3, ids)
        scores = random.random(8)
        guesses.append(Found(seen @ (np.eye(4) + np.eye(4, k=2)), scores, mistaken))
        results += [
            {"image_id": image["id"], "category_id": int(3 + 2 * what), "bbox": at.tolist(),
             "score": float(score)}
            for at, what, score in zip(seen, mistaken, scores, strict=True)
        ]  # fmt: skip
    path = tmp_path / "val.json"
    path.write_text(json.dumps(document))
    truths = [sample.boxes(99, 99) for sample in read_data_set(path).samples]
    ours = box_scores(guesses, truths, ["a", "b", "c"])
    truth = COCO(str(path))
    judged = COCOeval(truth, truth.loadRes(results), "bbox")
    judged.evaluate()
    judged.accumulate()
    judged.summarize()
    assert [ours["ap50_95"], ours["ap50"]] == pytest.approx(judged.stats[:2], abs=1e-9)
