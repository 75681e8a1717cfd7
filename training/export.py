"""Writes trained weights as the demo's ONNX file: python training/export.py run/yoeo_demo.pth

Names, classes and anchors go into the file; the weights are stored as float16 and computed with as
float32. The written file is compared with PyTorch before it is kept.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from photographs import BOXES, PIXELS

from tvm_vision.exporters.yoeo.config import YoeoConfig, parse_config
from tvm_vision.exporters.yoeo.export import export_onnx
from tvm_vision.exporters.yoeo.names import ClassNames
from tvm_vision.exporters.yoeo.network import Yoeo
from tvm_vision.exporters.yoeo.weights import load_weights

DEMO = Path(__file__).resolve().parents[1] / "tvm_vision" / "demo"
LARGEST = 6_000_000


def average(config: YoeoConfig, paths: list[Path], shares: list[float] | None) -> Yoeo:
    """A network whose every value is the weighted mean of those in the files: of runs that began
    with the same weights it is mostly better than each."""
    shares = shares or [1 / len(paths)] * len(paths)
    if len(shares) != len(paths):
        raise SystemExit(f"a share for each of {len(paths)} files is needed, found {len(shares)}")
    result = Yoeo(config)
    state = result.state_dict()
    total = {name: torch.zeros_like(value, dtype=torch.float64) for name, value in state.items()}
    for path, share in zip(paths, shares, strict=True):
        load_weights(result, path)
        for name, value in result.state_dict().items():
            total[name] += share * value.double()
    result.load_state_dict({name: total[name].to(value.dtype) for name, value in state.items()})
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("weights", type=Path, nargs="+", help="of several the average is taken")
    parser.add_argument("--shares", type=float, nargs="+", help="of each in the average")
    parser.add_argument("--config", type=Path, default=DEMO / "yoeo_demo.cfg")
    parser.add_argument("--out", type=Path, default=DEMO / "yoeo_demo.onnx")
    options = parser.parse_args()
    model = average(parse_config(options.config), options.weights, options.shares)
    errors = export_onnx(
        model.eval(), options.out, names=ClassNames(BOXES, PIXELS), fp16_storage=True
    )
    for error in errors or []:
        print(error)
    size = options.out.stat().st_size
    if size > LARGEST:
        raise SystemExit(f"at most {LARGEST} bytes are wanted for {options.out}, found {size}")
    print(f"{options.out}: {size} bytes")


if __name__ == "__main__":
    main()
