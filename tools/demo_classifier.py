"""``tvm-vision demo-classifier``."""

from __future__ import annotations

from pathlib import Path

import click

PATH = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("photos", nargs=-1, type=PATH)
@click.option(
    "--model",
    type=PATH,
    default=Path("build/models/efficientnet-lite0.onnx"),
    show_default=True,
    help="ONNX file of the network; made when it is not there (needs the extra 'export').",
)
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("demo_output"),
    show_default=True,
    help="Folder for the photos with their classes drawn beside.",
)
@click.option(
    "--device",
    type=click.Choice(["auto", "vulkan", "cpu"]),
    default="auto",
    show_default=True,
    help="auto: the first Vulkan device, else the CPU, and it says which.",
)
def demo_classifier(photos: tuple[Path, ...], model: Path, output: Path, device: str) -> None:
    """Classify photos, beside onnxruntime.

    By EfficientNet-Lite0 with its ImageNet weights. Without PHOTOS it takes those that
    scikit-image and scikit-learn ship.

    \b
    Example:
      tvm-vision demo-classifier cat.jpg --device vulkan
    """
    from tvm_vision.demo.annotate import write_pictures
    from tvm_vision.demo.classify import run_demo

    result = run_demo(model, photos, device=device, report=click.echo)
    for path in write_pictures(result, output):
        click.echo(f"wrote {path}")
