"""``yoeo-to-onnx``, on its own and as ``tvm-vision yoeo-to-onnx``."""

from __future__ import annotations

from pathlib import Path

import click

from .options import (
    NOTHING_WRITTEN,
    PATH,
    SETTINGS,
    OneLineErrors,
    OutputFile,
    interruptible,
    parse_size,
)
from .progress import progress
from .verbosity import note


@click.command("yoeo-to-onnx", cls=OneLineErrors, context_settings=SETTINGS)
@click.argument("model_cfg", type=PATH)
@click.argument("model_weights", type=PATH)
@click.option(
    "--output",
    "-o",
    type=OutputFile(".onnx"),
    help="The ONNX file.  [default: MODEL_CFG, but with .onnx]",
)
@click.option(
    "--names", type=PATH,
    help="YAML with the lists 'detection' and 'segmentation': names of the classes, kept in the "
    "file.  [default: class0, class1, ...]",
)  # fmt: skip
@click.option(
    "--groups", type=PATH,
    help="YAML with 'group_classes' and 'surrogate_class': classes that count as one when "
    "overlapping boxes are removed, kept in the file.",
)  # fmt: skip
@click.option(
    "--input-size", callback=parse_size, metavar="N|HxW",
    help="Pixels of the network's input.  [default: MODEL_CFG's]",
)  # fmt: skip
@click.option(
    "--raw-heads", is_flag=True,
    help="Leave decoding to who runs it: Head0, Head1, ... instead of Detections.",
)  # fmt: skip
@click.option(
    "--opset", type=click.IntRange(11, 21), default=11, show_default=True, help="Of ONNX."
)
def yoeo_to_onnx(
    model_cfg: Path,
    model_weights: Path,
    output: Path | None,
    names: Path | None,
    groups: Path | None,
    input_size: tuple[int, int] | None,
    raw_heads: bool,
    opset: int,
) -> None:
    """Export a YOEO network to ONNX.

    MODEL_CFG is its .cfg, MODEL_WEIGHTS a .pth checkpoint (needs PyTorch) or Darknet's .weights.
    Also installed as 'yoeo-to-onnx', for YOEO's own command of that name: the same arguments, and
    the same file, inputs and outputs.

    What differs: the input has the size that MODEL_CFG says, where YOEO's is always 416x416; batch
    norms are folded into the convolutions; a checkpoint is read without running code in it; the
    result is compared with PyTorch before it is written, where onnxruntime is installed.

    \b
    Example:
      yoeo-to-onnx yoeo.cfg yoeo.pth
      tvm-vision yoeo-to-onnx yoeo.cfg yoeo.weights --names yoeo_names.yaml -o yoeo.onnx
    """
    from tvm_vision.exporters.yoeo.config import parse_config
    from tvm_vision.exporters.yoeo.export import ExportOptions, export_weights
    from tvm_vision.exporters.yoeo.names import read_groups, read_names
    from tvm_vision.exporters.yoeo.weights import read_weights

    config = parse_config(model_cfg)
    options = ExportOptions(
        size=input_size,
        names=None if names is None else read_names(names),
        groups=() if groups is None else read_groups(groups),
        raw_heads=raw_heads,
        opset=opset,
    )
    target = output or model_cfg.with_suffix(".onnx")
    with interruptible(NOTHING_WRITTEN), progress(f"exporting {model_cfg.name}"):
        errors = export_weights(config, read_weights(config, model_weights), target, options)
    if names is None:
        note("note: the classes are called class0, class1, ...: give --names")
    if errors is None:
        note("note: not compared with PyTorch, which needs: pip install torch onnxruntime")
    else:
        parts = [
            f"{error.name} {100 * error.equal:.2f} % equal"
            if error.is_integer
            else f"{error.name} within {error.max_rel:.0e}"
            for error in errors
        ]
        note(f"compared with PyTorch: {', '.join(parts)}")
    click.echo(f"wrote {target}")
