"""Measures a network on held-out shards: python training/measure.py yoeo_demo.onnx --shards scenes

AP50 of each class of boxes, IoU of each class of pixels; and AP50 once more of objects of at least
CLEAR pixels of 416, what is smaller being doubtful.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import augment
import numpy as np
import torch

from tvm_vision.evaluate.detection import Found, MaskScore, Truth, average_precisions

CLEAR, CLEAR_OF = 16, 416  # pixels, of an image so broad
BOXES, PIXELS = ("ball", "goalpost", "robot"), ("background", "lines", "field")


def suppress(boxes: np.ndarray, scores: np.ndarray, iou: float) -> np.ndarray:
    """Indices [k] that greedy non-maximum suppression keeps, best first; boxes [n,4] as corners."""
    order, kept = np.argsort(-scores, kind="stable"), []
    area = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    while len(order):
        first, rest = order[0], order[1:]
        kept.append(int(first))
        low, high = (
            np.maximum(boxes[first, :2], boxes[rest, :2]),
            np.minimum(boxes[first, 2:], boxes[rest, 2:]),
        )
        inter = (high - low).clip(min=0).prod(1)
        order = rest[inter / (area[first] + area[rest] - inter + 1e-9) <= iou]
    return np.array(kept, np.int64)


def found_of(detections: np.ndarray, confidence: float = 0.005, iou: float = 0.5) -> Found:
    """Boxes [n, 5 + classes] as YOEO's output has them, through score and suppression."""
    scores = detections[:, 4:5] * detections[:, 5:]
    row, kind = np.nonzero(scores > confidence)
    boxes, score = detections[row, :4], scores[row, kind]
    corners = np.concatenate([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], 1)
    kept = []
    for class_id in range(scores.shape[1]):
        mine = np.nonzero(kind == class_id)[0]
        mine = mine[np.argsort(-score[mine])][:300]
        kept += list(mine[suppress(corners[mine], score[mine], iou)])
    return Found(corners[kept], score[kept], kind[kept])


def truth_of(boxes: np.ndarray, smallest: float = 0.0) -> Truth:
    """The rows [n,5] of a shard; boxes whose longer side is below smallest pixels are doubtful."""
    label, corners = boxes[:, 0], boxes[:, 1:]
    real, doubt = (label >= 0) & (label < len(BOXES)), label == 9
    small = (corners[:, 2:] - corners[:, :2]).max(1) < smallest
    sure = real & ~small
    return Truth(corners[sure], label[sure].astype(int), corners[doubt | (real & small)])


@torch.no_grad()
def measure(detect: Callable, folder: Path, prefix: str, device: torch.device, size: int) -> dict:
    """The report as a dictionary. detect: images float [n,3,size,size] -> (detections,
    segmentation), tensors as YOEO has them. prefix: of the shards' names."""
    found, clear, truths, masks = [], [], [], MaskScore(len(PIXELS), ignored=255)
    for path in sorted(folder.glob(f"{prefix}*.npz")):
        shard = np.load(path)
        images, masks_of, boxes = (
            torch.from_numpy(shard[name]).to(device) for name in ("images", "masks", "boxes")
        )
        image, mask, box = augment.crop(images, masks_of, boxes, size, plain=True)
        detections, segmentation = detect(image)
        for row in range(len(image)):
            found.append(found_of(detections[row].float().cpu().numpy()))
            truths.append(truth_of(box[row].cpu().numpy()))
            clear.append(truth_of(box[row].cpu().numpy(), CLEAR * size / CLEAR_OF))
            masks.add(segmentation[row].cpu().numpy(), mask[row].cpu().numpy())

    def by_name(names: tuple[str, ...], values: np.ndarray) -> dict[str, float]:
        return {name: round(float(value), 4) for name, value in zip(names, values, strict=True)}

    return {
        "held_out_images": len(found),
        "ap50": by_name(BOXES, average_precisions(found, truths, len(BOXES))),
        f"ap50_from_{CLEAR}_pixels": by_name(BOXES, average_precisions(found, clear, len(BOXES))),
        "iou": by_name(PIXELS, masks.iou()),
        "miou": round(masks.mean_iou(), 4),
    }


def of_onnx(path: Path) -> tuple[Callable, int]:
    """detect and size for measure(): an ONNX file in onnxruntime, an image at a time."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])

    def detect(images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows = [
            session.run(["Detections", "Segmentations"], {"InputLayer": image[None].numpy()})
            for image in images
        ]
        boxes, masks = zip(*rows, strict=True)
        return torch.from_numpy(np.concatenate(boxes)), torch.from_numpy(np.concatenate(masks))

    return detect, session.get_inputs()[0].shape[2]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, help="an ONNX file")
    parser.add_argument("--shards", type=Path, required=True)
    parser.add_argument("--prefix", default="9", help="of the names of the shards that count")
    options = parser.parse_args()
    detect, size = of_onnx(options.model)
    report = measure(detect, options.shards, options.prefix, torch.device("cpu"), size)
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
