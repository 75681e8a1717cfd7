"""``tvm-vision run``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .options import (
    OutputFile,
    device_option,
    input_options,
    package_argument,
    timing_options,
)
from .progress import progress
from .session import load_network, set_inputs
from .table import table

if TYPE_CHECKING:
    import numpy as np


@click.command()
@package_argument()
@input_options
@click.option(
    "--output", "--outputs", "-o", type=OutputFile(".npz"), help=".npz file for the outputs."
)
@click.option("--print-time", is_flag=True, help="Time runs, upload and read-back included.")
@click.option(
    "--print-top", type=click.IntRange(min=1), metavar="N", help="Print the N largest values."
)
@click.option("--profile", is_flag=True, help="Print the time of each kernel.")
@timing_options(repeat=10)
@device_option()
def run(
    package: Path,
    inputs: Path | None,
    image: Path | None,
    fill_mode: str,
    output: Path | None,
    print_time: bool,
    print_top: int | None,
    profile: bool,
    repeat: int,
    number: int,
    warmup: int,
    device: str,
) -> None:
    """Run a package and show its outputs.

    PACKAGE runs once, on the inputs given or on values of a kind.

    \b
    Example:
      tvm-vision run model.tar --inputs x.npz --output y.npz
      tvm-vision run model.tar --image cat.jpg --print-top 5
      tvm-vision run model.tar --fill-mode zeros --print-time --repeat 100
    """
    from tvm_vision.runtime.inputs import save_arrays

    executor = load_network(package, device)
    set_inputs(executor, inputs, image, fill_mode)
    with progress("running"):
        executor.run()
    outputs = executor.outputs()
    for line in describe(outputs):
        click.echo(line)
    if print_top:
        for line in largest(outputs, print_top):
            click.echo(line)
    if output is not None:
        save_arrays(output, outputs)
        click.echo(f"wrote {output}")
    if print_time:
        with progress("measuring"):
            times = executor.benchmark(repeat, number, warmup)
        click.echo(f"time: {times}")
    if profile:
        from .profile import report_lines

        with progress("profiling"):
            report = executor.profile(repeat=repeat, warmup=warmup)
        for line in report_lines(report):
            click.echo(line)


def describe(outputs: Mapping[str, np.ndarray]) -> list[str]:
    """A table of the outputs: shape, type and the range of the values."""
    rows = [
        (name, f"{array.dtype}{list(array.shape)}", *_range(array))
        for name, array in outputs.items()
    ]
    return table(("output", "type", "min", "mean", "max"), rows, left=2)


def _range(array: Any) -> tuple[str, str, str]:
    if array.size == 0:
        return ("-", "-", "-")
    values = array.astype("float64")
    return (f"{values.min():.6g}", f"{values.mean():.6g}", f"{values.max():.6g}")


def largest(outputs: Mapping[str, np.ndarray], count: int) -> list[str]:
    """The largest values of the first output with their positions, the largest first."""
    name, array = next(iter(outputs.items()))
    flat = array.reshape(-1).astype("float64")
    best = (-flat).argsort(kind="stable")[:count]
    return [f"{name}[{index}] = {flat[index]:.6g}" for index in best.tolist()]
