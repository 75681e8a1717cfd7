"""``tvm-vision benchmark``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from .options import (
    artifact_argument,
    device_option,
    input_options,
    json_option,
    rate_option,
    timing_options,
)
from .progress import progress
from .session import load_network, set_inputs


@click.command()
@artifact_argument()
@input_options
@timing_options(repeat=50, warmup=10)
@rate_option()
@device_option()
@json_option("the times")
def benchmark(
    artifact: Path,
    inputs: Path | None,
    image: Path | None,
    fill_mode: str,
    repeat: int,
    number: int,
    warmup: int,
    rate: float,
    device: str,
    as_json: bool,
) -> None:
    """Time whole frames of a package.

    From the upload of ARTIFACT's inputs to its outputs read back, by the host's clock.
    'tvm-vision profile' says where the time goes.

    \b
    Example:
      tvm-vision benchmark model.tar --repeat 200
      tvm-vision benchmark model.tar --rate 30
      tvm-vision benchmark model.tar --device cpu --json
    """
    executor = load_network(artifact, device)
    set_inputs(executor, inputs, image, fill_mode)
    with progress("measuring"):
        times = executor.benchmark(repeat, number, warmup, rate)
    if as_json:
        document = {"device": executor.device_description, "rate": rate, **times.to_dict()}
        click.echo(json.dumps(document, indent=2))
    else:
        click.echo(str(times))
