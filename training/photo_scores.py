"""Scores a network on photographs: python training/photo_scores.py yoeo_demo.onnx --photos FOLDER

AP50 of each class; recall and precision at the network's own confidences (or 0.5); posts by their
feet alone, which count where they are within FOOT pixels of a frame 640 wide; what is found on
photographs of other things; IoU of field and lines, where pixels are labelled. photographs.py
tells of the labels.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from found import found_of
from photographs import BOXES, PIXELS, Photograph, photographs
from thresholds import USUAL, read_thresholds

from tvm_vision.evaluate.confidence import operating_point
from tvm_vision.evaluate.detection import Found, MaskScore, average_precision, judged
from tvm_vision.exporters.yoeo.describe import yoeo_model_info
from tvm_vision.models.frames import Preprocessor

Array = np.ndarray
BALL, POST = 0, 1
FOOT, FOOT_OF = 25.0, 640.0  # pixels, of a frame so wide
LEAST = 0.005  # a score from which boxes count for AP


@dataclass(frozen=True)
class Seen:
    """What a network made of a photograph: boxes in its pixels, and classes uint8 [h,w]."""

    photo: Photograph
    found: Found
    mask: Array


def look(model: Path, photos: Iterable[Photograph]) -> list[Seen]:
    """Runs a YOEO network in onnxruntime, with the package's preprocessing."""
    import onnxruntime

    info = yoeo_model_info(model)
    assert info.preprocessing is not None
    preprocessor = Preprocessor(info.preprocessing)
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    result = []
    for photo in photos:
        letterbox = preprocessor(photo.image())
        boxes, mask = session.run(
            ["Detections", "Segmentations"], {"InputLayer": preprocessor.tensor}
        )
        found = found_of(boxes[0], LEAST)
        placed = letterbox.to_image(found.boxes.astype(np.float32))
        result.append(
            Seen(
                photo,
                Found(placed, found.scores, found.class_ids),
                letterbox.mask_to_image(mask[0]),
            )
        )
    return result


def judged_feet(seen: Iterable[Seen]) -> tuple[Array, Array, int]:
    """Posts as judged() tells of boxes, but by the middle of their lower edge: the best detection
    within FOOT of a post that no other has found is right."""
    hits: list[bool] = []
    scores: list[float] = []
    positives = 0
    for each in seen:
        reach = FOOT / FOOT_OF * each.mask.shape[1]
        truth = each.photo.truth
        wanted = feet(truth.boxes[truth.class_ids == POST])
        positives += len(wanted)
        mine = each.found.class_ids == POST
        order = np.argsort(-each.found.scores[mine], kind="stable")
        places = feet(each.found.boxes[mine][order])
        free = np.ones(len(wanted), bool)
        for place, score in zip(places, each.found.scores[mine][order], strict=True):
            far = np.where(free, np.linalg.norm(wanted - place, axis=1), np.inf)
            nearest = int(far.argmin()) if len(far) else -1
            hit = nearest >= 0 and far[nearest] <= reach
            if hit:
                free[nearest] = False
            elif within(place, truth.doubtful):
                continue
            hits.append(hit)
            scores.append(float(score))
    return np.array(hits, bool), np.array(scores), positives


def feet(boxes: Array) -> Array:
    """The middles [n,2] of the lower edges of boxes [n,4]."""
    return np.stack([(boxes[:, 0] + boxes[:, 2]) / 2, boxes[:, 3]], 1)


def within(place: Array, boxes: Array) -> bool:
    """Whether a point [2] is in one of the boxes [n,4]."""
    return bool(((place >= boxes[:, :2]) & (place <= boxes[:, 2:])).all(1).any())


def scores(seen: list[Seen], confidences: Mapping[str, float]) -> dict[str, Any]:
    """The report. seen: of photographs, with and without a field; confidences: of each class."""
    games = [each for each in seen if each.photo.of_a_game]
    found, truths = [each.found for each in games], [each.photo.truth for each in games]
    classes = {}
    for class_id, name in enumerate(BOXES):
        everything = judged(found, truths, class_id)
        classes[name] = told(everything, confidences[name])
    masks = MaskScore(len(PIXELS), ignored=255)
    for each in games:
        if each.photo.mask is not None:
            masks.add(each.mask, each.photo.mask)
    others = [each for each in seen if not each.photo.of_a_game]
    return {
        "photographs": len(games),
        "classes": classes,
        "post feet": told(judged_feet(games), confidences["goalpost"]),
        "with labelled pixels": sum(each.photo.mask is not None for each in games),
        "iou": dict(zip(PIXELS, [round(float(v), 3) for v in masks.iou()], strict=True)),
        "photographs of other things": len(others),
        "false there": {
            name: false_boxes(others, i, confidences[name]) for i, name in enumerate(BOXES)
        },
    }


def false_boxes(others: list[Seen], class_id: int, confidence: float) -> int:
    """How many boxes count on photographs without anything to be found."""
    truths = [each.photo.truth for each in others]
    _, values, _ = judged([each.found for each in others], truths, class_id)
    return int((values > confidence).sum())


def told(everything: tuple[Array, Array, int], confidence: float) -> dict[str, float]:
    """Of hits, scores and how many there are: AP, and both at a confidence."""
    hits, values, positives = everything
    point = operating_point(hits, values, positives, confidence)
    return {
        "objects": positives,
        "ap50": round(average_precision(hits, values, positives), 3),
        "confidence": confidence,
        "recall": round(point.recall, 3),
        "precision": round(point.precision, 3),
    }


def table(report: dict[str, Any]) -> str:
    """The report as lines of text."""
    lines = [f"{report['photographs']} photographs of games and robots"]
    for name, row in [*report["classes"].items(), ("post foot", report["post feet"])]:
        lines.append(
            f"  {name:9} {row['objects']:3} objects, AP50 {row['ap50']:.3f}, at "
            f"{row['confidence']:.2f}: recall {row['recall']:.3f}, precision {row['precision']:.3f}"
        )
    iou = ", ".join(f"{name} {value}" for name, value in report["iou"].items())
    lines.append(f"  IoU on {report['with labelled pixels']} of them: {iou}")
    false = ", ".join(f"{count} of {name}" for name, count in report["false there"].items())
    lines.append(f"{report['photographs of other things']} of other things: false boxes {false}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, help="an ONNX file of YOEO")
    parser.add_argument("--photos", type=Path, nargs="*", default=[], help="folders of photographs")
    parser.add_argument("--only", nargs="*", help="sources of photographs, such as bit-bots/YOEO")
    parser.add_argument("--confidence", type=float, help="of all classes, instead of the file's")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    options = parser.parse_args()
    photos = photographs(options.photos)
    if options.only:
        photos = [photo for photo in photos if photo.source in options.only]
    if not any(photo.of_a_game for photo in photos):
        raise SystemExit(
            "photographs of games that training/photographs.json has labels of are needed, found "
            "none: training/fetch_photographs.py FOLDER brings them, --photos FOLDER names them"
        )
    confidences = read_thresholds(options.model)
    if options.confidence is not None:
        confidences = dict.fromkeys(BOXES, options.confidence)
    report = scores(look(options.model, photos), {n: confidences.get(n, USUAL) for n in BOXES})
    print(json.dumps(report, indent=1) if options.json else table(report))


if __name__ == "__main__":
    main()
