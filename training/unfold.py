"""Weights to go on training with, from the exported network: python training/unfold.py
tvm_vision/demo/yoeo_demo.onnx --shards scenes --out start.pth

An exported file has each normalization folded into its convolution. What a folded one was is known
again from the values that scenes give: their mean and variance become the statistics, and scale and
shift undo them, so that the network gives what the file gives, and learns as it did.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import augment
import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import nn

from tvm_vision.errors import InputError
from tvm_vision.exporters.yoeo.config import parse_config
from tvm_vision.exporters.yoeo.network import Yoeo
from tvm_vision.whole_files import whole

CONFIG = Path(__file__).resolve().parents[1] / "tvm_vision" / "demo" / "yoeo_demo.cfg"
BATCH = 8


def folded(path: Path) -> dict[str, np.ndarray]:
    """Kernels and biases of an ONNX file of YOEO, "kernel_3" -> float32, as yoeo-to-onnx names
    them."""
    tables = onnx.load(path).graph.initializer
    arrays = {t.name.removesuffix("/half"): numpy_helper.to_array(t) for t in tables}
    return {
        name: array.astype(np.float32)
        for name, array in arrays.items()
        if name.startswith(("kernel_", "bias_"))
    }


def convolutions(model: Yoeo) -> dict[int, tuple[nn.Conv2d, nn.BatchNorm2d | None]]:
    """Number of a layer -> its convolution and its normalization."""
    found = {}
    for index, layer in enumerate(model.module_list):
        parts = list(layer.children())
        if parts and isinstance(parts[0], nn.Conv2d):
            norm = parts[1] if len(parts) > 1 and isinstance(parts[1], nn.BatchNorm2d) else None
            found[index] = (parts[0], norm)
    return found


@torch.no_grad()
def take_over(model: Yoeo, arrays: dict[str, np.ndarray]) -> None:
    """Sets kernels and biases, with normalizations that change nothing. Raises InputError for a
    file of another network."""
    for index, (convolution, norm) in convolutions(model).items():
        kernel, bias = arrays.get(f"kernel_{index}"), arrays.get(f"bias_{index}")
        if kernel is None or bias is None or kernel.shape != tuple(convolution.weight.shape):
            raise InputError(
                f"a kernel {tuple(convolution.weight.shape)} is needed for layer {index}, found "
                f"{None if kernel is None else kernel.shape}: is the file of this configuration?"
            )
        convolution.weight.copy_(torch.from_numpy(kernel))
        if norm is None:
            assert convolution.bias is not None
            convolution.bias.copy_(torch.from_numpy(bias))
            continue
        assert norm.running_mean is not None and norm.running_var is not None
        norm.weight.fill_(1)
        norm.bias.copy_(torch.from_numpy(bias))
        norm.running_mean.zero_()
        norm.running_var.fill_(1 - norm.eps)


@torch.no_grad()
def unfold(model: Yoeo, images: torch.Tensor) -> None:
    """Gives the normalizations the statistics of images float [n,3,size,size], and the scales and
    shifts with which the network's results stay as they are."""
    sums: dict[int, torch.Tensor] = {}
    handles = []
    for index, (convolution, norm) in convolutions(model).items():
        if norm is not None:

            def note(_: nn.Module, __: object, value: torch.Tensor, index: int = index) -> None:
                flat = value.double().transpose(0, 1).flatten(1)
                number = torch.full_like(flat[:, 0], flat.shape[1])
                row = torch.stack([number, flat.sum(1), (flat**2).sum(1)])
                sums[index] = sums.get(index, torch.zeros_like(row)) + row

            handles.append(convolution.register_forward_hook(note))
    model.eval()
    for first in range(0, len(images), BATCH):
        model(images[first : first + BATCH])
    for handle in handles:
        handle.remove()
    for index, (_, norm) in convolutions(model).items():
        if norm is None:
            continue
        assert norm.running_mean is not None and norm.running_var is not None
        number, total, squares = sums[index]
        mean = total / number
        variance = (squares / number - mean**2).clamp(min=1e-6)
        norm.bias.add_(mean.float())
        norm.weight.copy_((variance + norm.eps).sqrt())
        norm.running_mean.copy_(mean)
        norm.running_var.copy_(variance)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, help="an ONNX file")
    parser.add_argument("--config", type=Path, default=CONFIG)
    parser.add_argument("--shards", type=Path, required=True, help="scenes, of which some are used")
    parser.add_argument("--out", type=Path, required=True, help="weights (.pth)")
    parser.add_argument("--images", type=int, default=64)
    options = parser.parse_args()
    shards = sorted(options.shards.glob("*.npz"))
    if not shards:
        raise SystemExit(
            f"shards of training/render.py are needed in '{options.shards}', found none"
        )
    few: list[torch.Tensor] = []
    model = Yoeo(parse_config(options.config)).eval()
    for path in shards:
        with np.load(path) as shard:
            images, masks, boxes = (
                torch.from_numpy(shard[name]) for name in ("images", "masks", "boxes")
            )
        few.append(augment.crop(images, masks, boxes, model.config.height, plain=True)[0])
        if sum(map(len, few)) >= options.images:
            break
    images = torch.cat(few)[: options.images]
    take_over(model, folded(options.model))
    with torch.no_grad():
        before = model(images[:BATCH])[0]
    unfold(model, images)
    with torch.no_grad():
        after = model(images[:BATCH])[0]
    print(f"{len(images)} images; the boxes differ by {float((after - before).abs().max()):.2g}")
    with whole(options.out) as fresh:
        torch.save(model.state_dict(), fresh)


if __name__ == "__main__":
    main()
