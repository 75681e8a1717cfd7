"""``tvm-vision quantize``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .model_info import ModelOptions
from .options import (
    NOTHING_WRITTEN,
    PATH,
    OutputFile,
    input_shapes_option,
    input_values_option,
    interruptible,
    kind_option,
)
from .progress import progress
from .table import data_size
from .verbosity import note

if TYPE_CHECKING:
    from tvm_vision.package import ModelInfo


@click.command()
@click.argument("model", type=PATH)
@click.option("--output", "-o", type=OutputFile(".onnx"), required=True, help="The ONNX file.")
@click.option(
    "--sample-images", type=PATH, multiple=True, required=True, metavar="FILE|FOLDER",
    help="Images like those that the network will see, or .npz files with its inputs: they "
    "decide which numbers bytes stand for; up to 32 are used. Repeatable.",
)  # fmt: skip
@click.option(
    "--keep", multiple=True, metavar="NODE",
    help="Leave this node in float32; repeatable. What comes after the last convolution or "
    "product stays so anyway.",
)  # fmt: skip
@click.option(
    "--calibration", type=click.Choice(["percentile", "minmax", "entropy"]), default="percentile",
    show_default=True, help="Which values count: all but the rarest, all, as many as lose least.",
)  # fmt: skip
@input_shapes_option()
@input_values_option()
@kind_option
@click.option(
    "--preprocess", metavar="NAME|FILE",
    help="How images are prepared, as for 'compile'.  [default: as networks of its kind have them]",
)  # fmt: skip
def quantize(
    model: Path,
    output: Path,
    sample_images: tuple[Path, ...],
    keep: tuple[str, ...],
    calibration: str,
    input_shapes: dict[str, tuple[int, ...]],
    input_values: dict[str, Any],
    kind: str | None,
    preprocess: str | None,
) -> None:
    """Give a network int8 weights and activations.

    MODEL is an ONNX file, and so is what is written: 'compile' and 'yoeo-onnx-to-tvm' take it in
    MODEL's place, and compute it in bytes on GPUs that have instructions for that. Says how far its
    outputs on the sample images are from MODEL's. Needs onnxruntime.

    \b
    Example:
      tvm-vision quantize yoeo.onnx -o yoeo_int8.onnx --sample-images photos/
      tvm-vision quantize lite0.onnx -o lite0_int8.onnx --sample-images photos/ --keep Conv_0
    """
    from tvm_vision.api import quantize as quantize_network
    from tvm_vision.frontend.onnx.storage import file_bytes

    found: list[ModelInfo] = []
    said = ModelOptions(model, kind=kind, preprocess=preprocess, shapes=input_shapes).begin()

    def described(signature: Any) -> ModelInfo:
        found.append(said(signature))
        return found[0]

    with interruptible(NOTHING_WRITTEN), progress(f"quantizing {model.name}") as tell:
        errors = quantize_network(
            model,
            output,
            sample_images=sample_images,
            input_shapes=input_shapes,
            input_values=input_values,
            model_info=described,
            keep=keep,
            calibration=calibration,
            progress=tell,
        )
    note(said.line)
    for name, error in errors.items():
        note(f"{name}: error {error:.2g} on the worst sample")
    preparation = found[0].preprocessing
    if preparation is not None and preparation.letterbox:
        note(
            "note: what the network says of the padding beside an image counts, too; "
            "'tvm-vision detect' shows what both find"
        )
    before, after = (data_size(file_bytes(path)) for path in (model, output))
    click.echo(f"wrote {output}: {after}, of {before}")
