"""Rendered scenes as a labelled set of COCO's form: python training/coco.py scenes set

Reads the shards that training/render.py writes; writes FOLDER/images and FOLDER/coco.json, which
``tvm-vision evaluate`` takes. Black margins are cut off; regions that count neither as object nor
as background become crowds, one of each class.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np

NAMES = ("ball", "goalpost", "robot")
PADDING, IGNORE = 255, 9


def scene(
    image: np.ndarray, mask: np.ndarray, boxes: np.ndarray
) -> tuple[np.ndarray, list[dict[str, Any]]]:
    """An image uint8 [h,w,3] in RGB without its margins, and the annotations of its boxes.

    image, mask, boxes: a row of a shard.
    """
    rows, columns = (np.flatnonzero((mask != PADDING).any(axis)) for axis in (1, 0))
    top, left = int(rows[0]), int(columns[0])
    cut = image[top : rows[-1] + 1, left : columns[-1] + 1]
    annotations = []
    for label, *corners in boxes.tolist():
        if label < 0:
            break
        x1, x2 = (min(max(corners[i] - left, 0.0), cut.shape[1]) for i in (0, 2))
        y1, y2 = (min(max(corners[i] - top, 0.0), cut.shape[0]) for i in (1, 3))
        crowd = int(label) == IGNORE
        annotations += [
            {
                "category_id": category, "iscrowd": int(crowd),
                "bbox": [x1, y1, x2 - x1, y2 - y1], "area": (x2 - x1) * (y2 - y1),
            }
            for category in (range(1, len(NAMES) + 1) if crowd else (int(label) + 1,))
        ]  # fmt: skip
    return cut, annotations


def write_set(shards: Path, folder: Path, limit: int | None = None) -> int:
    """Write the scenes of a folder of shards; returns how many there are."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for path in sorted(shards.glob("*.npz")):
        shard = np.load(path)
        for row in zip(shard["images"], shard["masks"], shard["boxes"], strict=True):
            if len(images) == limit:
                break
            cut, found = scene(*row)
            name = f"{len(images):05d}.png"
            cv2.imwrite(str(folder / "images" / name), cut[..., ::-1])
            for each in found:
                more = {"id": len(annotations) + 1, "image_id": len(images) + 1}
                annotations.append({**more, **each})
            height, width = cut.shape[:2]
            images.append(
                {"id": len(images) + 1, "file_name": name, "width": width, "height": height}
            )
    categories = [{"id": i, "name": name} for i, name in enumerate(NAMES, 1)]
    document = {"images": images, "categories": categories, "annotations": annotations}
    (folder / "coco.json").write_text(json.dumps(document))
    return len(images)


def main() -> None:
    """Write the set."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("shards", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--limit", type=int, help="how many images at the most")
    options = parser.parse_args()
    print(f"{write_set(options.shards, options.folder, options.limit)} images")


if __name__ == "__main__":
    main()
