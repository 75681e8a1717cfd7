"""``tvm-vision demo``."""

from __future__ import annotations

from pathlib import Path

import click

from .options import PATH
from .progress import progress


@click.command()
@click.argument("sources", nargs=-1, type=PATH)
@click.option("--model", type=PATH, help="ONNX file of a YOEO network.  [default: the demo's]")
@click.option(
    "--precision", type=click.Choice(["fp32", "fp16"]), default="fp32", show_default=True,
    help="What weights and activations are stored as.",
)  # fmt: skip
@click.option(
    "--output", type=PATH, default=Path("demo_output"), show_default=True,
    help="Folder for the packages and the annotated images.",
)  # fmt: skip
@click.option(
    "--device", type=click.Choice(["auto", "vulkan", "cpu"]), default="auto", show_default=True,
    help="auto: the first GPU with Vulkan, else the CPU, and it says which.",
)  # fmt: skip
def demo(
    sources: tuple[Path, ...],
    model: Path | None,
    precision: str,
    output: Path,
    device: str,
) -> None:
    """See a soccer field as a robot does.

    Compiles the YOEO network that tvm_vision brings along, runs it on images and a short
    clip, or on SOURCES, and writes them with boxes, names, scores and the mask as PNG and MP4.

    \b
    Example:
      tvm-vision demo
      tvm-vision demo photo.jpg --device vulkan --output annotated
    """
    from tvm_vision.demo.detect import run_demo
    from tvm_vision.demo.images import MODEL

    with progress("compiling and detecting"):
        result = run_demo(
            sources,
            model=model or MODEL,
            output=output,
            precision=precision,
            device=device,
            report=click.echo,
        )
    for path in result.written:
        click.echo(f"wrote {path}")
