"""Measures a network on held-out shards: python training/measure.py yoeo_demo.onnx --shards scenes

AP50 of each class of boxes, IoU of each class of pixels; and AP50 once more of objects of at least
CLEAR pixels of 416, what is smaller being doubtful.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import augment
import numpy as np
import torch
from found import found_of
from photographs import BOXES, PIXELS

from tvm_vision.evaluate.detection import Found, MaskScore, Truth, average_precisions

CLEAR, CLEAR_OF = 16, 416  # pixels, of an image so broad


def truth_of(boxes: np.ndarray, smallest: float = 0.0) -> Truth:
    """The rows [n,5] of a shard; boxes whose longer side is below smallest pixels are doubtful."""
    label, corners = boxes[:, 0], boxes[:, 1:]
    real, doubt = (label >= 0) & (label < len(BOXES)), label == 9
    small = (corners[:, 2:] - corners[:, :2]).max(1) < smallest
    sure = real & ~small
    return Truth(corners[sure], label[sure].astype(int), corners[doubt | (real & small)])


@dataclass
class Examined:
    """Of each image what was found, what is there, and the same with small objects doubtful."""

    found: list[Found] = field(default_factory=list)
    truths: list[Truth] = field(default_factory=list)
    clear: list[Truth] = field(default_factory=list)
    masks: MaskScore = field(default_factory=lambda: MaskScore(len(PIXELS), ignored=255))


@torch.no_grad()
def examine(
    detect: Callable, folders: Iterable[Path], prefix: str, device: torch.device, size: int
) -> Examined:
    """Runs a network over the shards of some folders. detect: images float [n,3,size,size] ->
    (detections, segmentation), tensors as YOEO has them. prefix: of the shards' names."""
    result = Examined()
    for path in (path for folder in folders for path in sorted(folder.glob(f"{prefix}*.npz"))):
        shard = np.load(path)
        images, masks_of, boxes = (
            torch.from_numpy(shard[name]).to(device) for name in ("images", "masks", "boxes")
        )
        image, mask, box = augment.crop(images, masks_of, boxes, size, plain=True)
        detections, segmentation = detect(image)
        for row in range(len(image)):
            result.found.append(found_of(detections[row].float().cpu().numpy()))
            result.truths.append(truth_of(box[row].cpu().numpy()))
            result.clear.append(truth_of(box[row].cpu().numpy(), CLEAR * size / CLEAR_OF))
            result.masks.add(segmentation[row].cpu().numpy(), mask[row].cpu().numpy())
    return result


def measure(detect: Callable, folder: Path, prefix: str, device: torch.device, size: int) -> dict:
    """The report as a dictionary, of what examine() found in a folder; its parameters."""
    seen = examine(detect, [folder], prefix, device, size)

    def by_name(names: tuple[str, ...], values: np.ndarray) -> dict[str, float]:
        return {name: round(float(value), 4) for name, value in zip(names, values, strict=True)}

    def precisions(truths: list[Truth]) -> dict[str, float]:
        return by_name(BOXES, average_precisions(seen.found, truths, len(BOXES)))

    return {
        "held_out_images": len(seen.found),
        "ap50": precisions(seen.truths),
        f"ap50_from_{CLEAR}_pixels": precisions(seen.clear),
        "iou": by_name(PIXELS, seen.masks.iou()),
        "miou": round(seen.masks.mean_iou(), 4),
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
