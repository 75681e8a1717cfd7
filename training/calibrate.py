"""Chooses each class's confidence on rendered scenes and writes it into the network's file:
python training/calibrate.py tvm_vision/demo/yoeo_demo.onnx --shards scenes --write

A class's confidence is the highest whose F1 is nearly the best on the shards of --choose, of all
the folders together: photographs have more that is taken for something than scenes. What it gives
is told of the shards of --report too, whose scenes are others, beside what one confidence for all
would give.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path

import torch
from measure import Examined, examine, of_onnx
from photographs import BOXES
from thresholds import USUAL, write_thresholds

from tvm_vision.evaluate.confidence import OperatingPoint, best_f1, operating_point
from tvm_vision.evaluate.detection import judged

SLACK = 0.005  # of F1


def chosen(seen: Examined) -> dict[str, float]:
    """Name of a class -> the highest confidence of those whose F1 is the best, less SLACK."""
    return {
        name: best_f1(*judged(seen.found, seen.truths, class_id), SLACK).confidence
        for class_id, name in enumerate(BOXES)
    }


def points(seen: Examined, confidences: Mapping[str, float]) -> dict[str, OperatingPoint]:
    """Name of a class -> recall and precision at its confidence."""
    return {
        name: operating_point(*judged(seen.found, seen.truths, class_id), confidences[name])
        for class_id, name in enumerate(BOXES)
    }


def told(title: str, seen: Examined, confidences: Mapping[str, float]) -> None:
    """Prints a table of recall, precision and F1."""
    print(f"{title}: {len(seen.found)} images")
    for at in (dict.fromkeys(BOXES, USUAL), confidences):
        for name, point in points(seen, at).items():
            print(
                f"  {name:9} at {point.confidence:.2f}: recall {point.recall:.3f}, "
                f"precision {point.precision:.3f}, F1 {point.f1:.3f}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, help="an ONNX file")
    parser.add_argument("--shards", type=Path, nargs="+", required=True, help="folders of them")
    parser.add_argument("--choose", default="9201", help="prefix of the shards that decide")
    parser.add_argument("--report", default="9001", help="prefix of the shards that do not")
    parser.add_argument("--write", action="store_true", help="write them into the file")
    options = parser.parse_args()
    detect, size = of_onnx(options.model)
    seen: dict[str, Examined] = {}
    for prefix in (options.choose, options.report):
        for folder in options.shards:
            if not any(folder.glob(f"{prefix}*.npz")):
                raise SystemExit(
                    f"shards named {prefix}*.npz are needed in '{folder}', found none: "
                    f"python training/render.py --seed {prefix} --count 320 --per-world 5"
                )
        seen[prefix] = examine(detect, options.shards, prefix, torch.device("cpu"), size)
    confidences = chosen(seen[options.choose])
    told(f"chosen on {options.choose}", seen[options.choose], confidences)
    told(f"elsewhere, {options.report}", seen[options.report], confidences)
    if options.write:
        write_thresholds(options.model, confidences)
        print(f"{options.model}: class_thresholds {json.dumps(confidences)}")


if __name__ == "__main__":
    main()
