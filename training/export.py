"""Writes trained weights as the demo's ONNX file: python training/export.py run/yoeo_demo.pth

Names, classes and anchors go into the file; the weights are stored as float16 and computed with as
float32. The written file is compared with PyTorch before it is kept.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from measure import BOXES, PIXELS

from tvm_vision.models.yoeo.config import parse_config
from tvm_vision.models.yoeo.export import export_onnx
from tvm_vision.models.yoeo.names import ClassNames
from tvm_vision.models.yoeo.network import Yoeo
from tvm_vision.models.yoeo.weights import load_weights

DEMO = Path(__file__).resolve().parents[1] / "tvm_vision" / "demo"
LARGEST = 6_000_000


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("weights", type=Path)
    parser.add_argument("--config", type=Path, default=DEMO / "yoeo_demo.cfg")
    parser.add_argument("--out", type=Path, default=DEMO / "yoeo_demo.onnx")
    options = parser.parse_args()
    model = Yoeo(parse_config(options.config))
    load_weights(model, options.weights)
    errors = export_onnx(
        model.eval(), options.out, names=ClassNames(BOXES, PIXELS), half_storage=True
    )
    for error in errors or []:
        print(error)
    size = options.out.stat().st_size
    if size > LARGEST:
        raise SystemExit(f"at most {LARGEST} bytes are wanted for {options.out}, found {size}")
    print(f"{options.out}: {size} bytes")


if __name__ == "__main__":
    main()
