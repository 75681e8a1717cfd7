"""``classifier-to-onnx``, on its own and as ``tvm-vision classifier-to-onnx``."""

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


@click.command("classifier-to-onnx", cls=OneLineErrors, context_settings=SETTINGS)
@click.argument("network")
@click.option(
    "--weights", type=PATH,
    help="PyTorch checkpoint with the weights.  [default: the library's, which are downloaded; a "
    "callable's network stays as it is]",
)  # fmt: skip
@click.option("--output", "-o", type=OutputFile(".onnx"), required=True, help="The ONNX file.")
@click.option(
    "--input-size", callback=parse_size, metavar="N|HxW",
    help="Pixels of the network's input.  [default: the library's, else 224]",
)  # fmt: skip
@click.option(
    "--preprocess", metavar="NAME|FILE",
    help="How images are prepared, as for 'compile'.  [default: the library's]",
)  # fmt: skip
@click.option(
    "--labels",
    help="Text file with a label a line, or 'imagenet'.  [default: torchvision's, if any]",
)
@click.option(
    "--opset", type=click.IntRange(11, 20), default=17, show_default=True, help="Of ONNX."
)
def classifier_to_onnx(
    network: str,
    weights: Path | None,
    output: Path,
    input_size: tuple[int, int] | None,
    preprocess: str | None,
    labels: str | None,
    opset: int,
) -> None:
    """Export a PyTorch classifier to ONNX.

    NETWORK is module:callable (called without arguments; modules of the current folder are found),
    or a name of timm or torchvision where these are installed. How images are prepared and what
    the classes are called is kept in the file, where 'tvm-vision compile' finds it. Also installed
    as 'classifier-to-onnx'. Needs PyTorch.

    \b
    Example:
      classifier-to-onnx mobilenet_v2 --labels imagenet -o mobilenet.onnx
      tvm-vision classifier-to-onnx ball_net:BallNet --weights ball.pth --input-size 64 \\
          --preprocess unit --labels labels.txt -o ball.onnx
    """
    from tvm_vision.errors import InputError
    from tvm_vision.exporters.classifier.export import export_classifier, with_size
    from tvm_vision.exporters.classifier.find import find_network
    from tvm_vision.models.classifier.labels import read_labels
    from tvm_vision.models.classifier.presets import PRESETS, preset

    chosen = None if preprocess is None else preset(preprocess)
    names = None if labels is None else read_labels(labels)
    with interruptible(NOTHING_WRITTEN), progress(f"exporting {network}"):
        found = find_network(network, weights)
        size = input_size or (found.preprocessing.size if found.preprocessing else None)
        preparation = chosen or found.preprocessing
        if preparation is None:
            raise InputError(
                f"how images for '{network}' are prepared is needed: --preprocess with one of "
                f"{', '.join(PRESETS)}, or a .json file"
            )
        error = export_classifier(
            found.network,
            output,
            preprocessing=with_size(preparation, size),
            labels=found.labels if names is None else names,
            opset=opset,
        )
    if error is None:
        note("note: not compared with PyTorch, which needs: pip install onnxruntime")
    else:
        note(f"compared with PyTorch: logits within {error.max_rel:.0e}")
    click.echo(f"wrote {output}")
