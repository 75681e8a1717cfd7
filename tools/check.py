"""``tvm-vision check``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .options import PATH, artifact_argument, device_option, input_options, json_option
from .progress import progress
from .session import load_network, set_inputs
from .table import table

if TYPE_CHECKING:
    from tvm_vision.evaluate import OutputError


@click.command()
@artifact_argument()
@click.argument("model", type=PATH)
@input_options
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0.0),
    help="Largest error, relative to an output's largest value; for integers the share that "
    "differs.  [default: 1e-3, for fp16 3e-2]",
)
@device_option()
@json_option("the errors")
def check(
    artifact: Path,
    model: Path,
    inputs: Path | None,
    image: Path | None,
    fill_mode: str,
    tolerance: float | None,
    device: str,
    as_json: bool,
) -> None:
    """Compare a package with onnxruntime.

    MODEL is the ONNX file that ARTIFACT was made from. Prints the error of each output; the
    exit code is 1 where one is above the tolerance.

    \b
    Example:
      tvm-vision check model.tar model.onnx
      tvm-vision check model.tar model.onnx --image cat.jpg --tolerance 0.01
    """
    from tvm_vision.evaluate import Reference, compare_outputs, tolerance_for

    executor = load_network(artifact, device)
    arrays = set_inputs(executor, inputs, image, fill_mode)
    if tolerance is None:
        tolerance = tolerance_for(executor.info["precision"])
    with progress("running, here and in onnxruntime"):
        executor.run()
        errors = compare_outputs(executor.outputs(), Reference(model).run(arrays))
    if as_json:
        click.echo(json.dumps([error.to_dict() for error in errors], indent=2))
    else:
        for line in error_lines(errors, tolerance):
            click.echo(line)
    worst = [error.name for error in errors if not error.within(tolerance)]
    if worst:
        raise click.ClickException(
            f"{', '.join(worst)} must be within {tolerance:g} of onnxruntime's, and is not: is "
            f"'{model}' what the package was made from? If so, 'tvm-vision profile "
            "--per-layer-error' shows where it goes wrong"
        )


def error_lines(errors: Sequence[OutputError], tolerance: float) -> list[str]:
    """A table of errors, one output a line."""
    rows = [
        (
            error.name,
            f"{error.dtype}{list(error.shape)}",
            f"{error.max_abs:.2e}",
            f"{error.max_rel:.2e}",
            f"{100 * error.equal:.2f} %",
            "-" if error.argmax_agreement is None else f"{100 * error.argmax_agreement:.2f} %",
            "ok" if error.within(tolerance) else "WRONG",
        )
        for error in errors
    ]
    header = ("output", "type", "max abs", "max rel", "equal", "same arg max", "")
    return table(header, rows, left=2)
