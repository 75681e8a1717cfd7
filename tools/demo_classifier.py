"""``tvm-vision demo-classifier``."""

from __future__ import annotations

from pathlib import Path

import click

from .options import PATH
from .progress import progress


@click.command()
@click.argument("photos", nargs=-1, type=PATH)
@click.option(
    "--network", type=click.Choice(["efficientnet-lite0", "mobilenet-v2"]),
    default="efficientnet-lite0", show_default=True, help="Which network.",
)  # fmt: skip
@click.option(
    "--model", type=PATH,
    help="ONNX file of the network; made when it is not there (needs the extra 'export').  "
    "[default: build/models/NETWORK.onnx]",
)  # fmt: skip
@click.option(
    "--precision", type=click.Choice(["fp32", "fp16"]), default="fp32", show_default=True,
    help="What weights and activations are stored as.",
)  # fmt: skip
@click.option(
    "--output", type=PATH, default=Path("demo_output"), show_default=True,
    help="Folder for the photos with their classes drawn beside.",
)  # fmt: skip
@click.option(
    "--device", type=click.Choice(["auto", "vulkan", "cpu"]), default="auto", show_default=True,
    help="auto: the first GPU with Vulkan, else the CPU, and it says which.",
)  # fmt: skip
def demo_classifier(
    photos: tuple[Path, ...],
    network: str,
    model: Path | None,
    precision: str,
    output: Path,
    device: str,
) -> None:
    """Classify photos, beside onnxruntime.

    By a network with its ImageNet weights, compiled into a package. Without PHOTOS it takes those
    that scikit-image and scikit-learn ship.

    \b
    Example:
      tvm-vision demo-classifier cat.jpg --device vulkan
    """
    from tvm_vision.demo.annotate import write_images
    from tvm_vision.demo.classify import run_demo

    with progress("classifying"):
        result = run_demo(
            model,
            photos,
            network=network,
            precision=precision,
            device=device,
            report=click.echo,
        )
    for path in write_images(result, output):
        click.echo(f"wrote {path}")
