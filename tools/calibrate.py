"""``tvm-vision calibrate``."""

from __future__ import annotations

from pathlib import Path

import click

from .options import UNMEASURED, OutputFile, interruptible
from .progress import progress


@click.command()
@click.option(
    "--output", "-o", type=OutputFile(".json"), metavar="FILE.json",
    help="Write the device's description with what was measured, for --target FILE.json elsewhere.",
)  # fmt: skip
def calibrate(output: Path | None) -> None:
    """Measure what this machine's GPU can do.

    Within 10 to 20 seconds it copies, multiplies and adds, reads shared memory, launches
    kernels and counts the units that run them. What is found is kept for this device and
    driver, and read by what compiles for it later: it decides where kernels are compared by
    time, as Winograd's convolution with the plain one. Networks that were tuned keep what was
    measured of them.

    \b
    Example:
      tvm-vision calibrate
      tvm-vision calibrate -o robot.json
    """
    from tvm_vision.devices.kept import keep
    from tvm_vision.tuning.calibrate import calibrate as measure

    with interruptible(UNMEASURED), progress("calibrating") as tell:
        described = measure(tell)
    click.echo(f"device        {described.name} ({described.source})")
    assert described.measured is not None
    for line in described.measured.lines():
        click.echo(line)
    # First what was asked for: the folder of caches may be one that cannot be written.
    if output is not None:
        described.write(output)
        click.echo(f"wrote {output}")
    if kept := keep(described):
        click.echo(f"kept in {kept}")
