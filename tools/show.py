"""``tvm-vision show``."""

from __future__ import annotations

import re
from pathlib import Path

import click

from .options import PATH, OutputFile, device_option, wanted_target
from .progress import progress

PAGE = OutputFile(".html", ".htm", ".svg")


@click.command()
@click.argument("model_or_package", type=PATH, metavar="MODEL|PACKAGE")
@click.option(
    "--output", "-o", type=PATH, metavar="FILE",
    help="Where to: .html for a page, .svg for the drawing alone; with --layer a folder.  "
    "[default: NAME.html, NAME-layers]",
)  # fmt: skip
@click.option(
    "--model", type=PATH, metavar="MODEL",
    help="The ONNX or TFLite file that PACKAGE was made from: names the nodes' operators, and is "
    "the reference of --layer.",
)  # fmt: skip
@click.option("--layer", metavar="NAME", help="Write what the node NAME computes as pictures.")
@click.option("--image", type=PATH, help="Image for --layer, prepared as the package says.")
@click.option("--inputs", "-i", type=PATH, help=".npz file with inputs for --layer.")
@device_option()
def show(
    model_or_package: Path,
    output: Path | None,
    model: Path | None,
    layer: str | None,
    image: Path | None,
    inputs: Path | None,
    device: str,
) -> None:
    """Draw a network as a graph.

    Of an ONNX or TFLite file the nodes, of PACKAGE the kernels with the nodes that were
    fused into each. The page is one file that fetches nothing.

    With --layer and --image the network runs, and what the node NAME computes is written
    as pictures, its channels side by side: of the package, of onnxruntime on MODEL, and
    their difference.

    \b
    Example:
      tvm-vision show model.onnx
      tvm-vision show model.tar --model model.onnx -o network.html
      tvm-vision show model.tar --model model.onnx --layer Conv_12 --image cat.jpg
    """
    from tvm_vision.file_kinds import ONNX, PACKAGES, TFLITE, need

    needed = (*PACKAGES, *(() if layer else (ONNX, TFLITE)))
    what = "a package" if layer else "a package, or an ONNX or TFLite file,"
    need(model_or_package, what, *needed)
    if layer is None:
        if image is not None or inputs is not None:
            raise click.UsageError("--image and --inputs are for --layer: name one")
        path = output or Path(f"{model_or_package.stem}.html")
        PAGE.convert(path, None, None)
        _write_drawing(model_or_package, path, model)
        click.echo(f"wrote {path}")
        return
    if model is None:
        raise click.UsageError("--layer needs --model, the file that PACKAGE was made from")
    if output is not None and output.suffix.lower() in PAGE.endings:
        raise click.UsageError(f"--layer writes pictures: a folder is needed, found '{output}'")
    folder = output or Path(f"{model_or_package.stem}-layers")
    _write_layer(model_or_package, folder, model, layer, image, inputs, device)


def _write_drawing(path: Path, output: Path, model: Path | None) -> None:
    from tvm_vision.file_kinds import PACKAGES, kind_of
    from tvm_vision.report.model_graph import model_drawing, read_as_compiled, read_model
    from tvm_vision.report.page import write_page
    from tvm_vision.report.show_page import (
        model_page,
        operators_of,
        package_drawing,
        package_page,
    )
    from tvm_vision.report.svg import svg_of

    from .session import read_any

    alone = output.suffix.lower() == ".svg"
    with progress(f"drawing {path.name}"):
        if kind_of(path) not in PACKAGES:
            proto = read_model(path)
            text = (
                svg_of(model_drawing(proto), alone=True) if alone else model_page(proto, path.stem)
            )
        else:
            with read_any(path) as opened:
                info = opened.info
            named = None if model is None else read_as_compiled(model)
            operators = None if named is None else operators_of(info, named, str(model))
            drawn = package_drawing(info, operators)
            text = svg_of(drawn, alone=True) if alone else package_page(info, operators)
    write_page(output, text)


def _write_layer(
    package: Path,
    folder: Path,
    model: Path,
    layer: str,
    image: Path | None,
    inputs: Path | None,
    device: str,
) -> None:
    from tvm_vision.evaluate.layers import layer_of
    from tvm_vision.report.feature_maps import pictures_of, write_pictures
    from tvm_vision.runtime.inputs import FILL_MODES

    from .session import load_network, set_inputs

    executor = load_network(package, device)
    arrays = set_inputs(executor, inputs, image, FILL_MODES[0])
    with progress(f"running {package.name} and {model.name}"):
        found = layer_of(package, arrays, model, layer, device=device, target=wanted_target())
    pictures = pictures_of(found.ours, found.reference)
    stem = re.sub(r"[^A-Za-z0-9._-]+", "_", layer)
    for path in write_pictures(pictures, folder, stem):
        click.echo(f"wrote {path}")
    error = found.error().error
    click.echo(f"{layer} ({found.value}): {pictures.words}, {error.max_rel:.1e} of the largest")
