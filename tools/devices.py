"""``tvm-vision devices``."""

from __future__ import annotations

from pathlib import Path

import click

from tvm_vision.errors import DeviceError

from .device_lines import describe
from .options import OutputFile
from .table import table


@click.command()
@click.option(
    "--export", type=OutputFile(".json"), metavar="FILE.json",
    help="Write what the compiler asks of the first device, for --target FILE.json on another "
    "machine.",
)  # fmt: skip
@click.option(
    "--known",
    is_flag=True,
    help="List the devices that --target takes by name, and where their numbers are from.",
)
@click.option(
    "--report",
    is_flag=True,
    help="Print one block of text for a report: versions, devices, and what calibrate measured.",
)
def devices(export: Path | None, known: bool, report: bool) -> None:
    """List this machine's Vulkan devices.

    Each with its type, driver, memory, limits and features. TVM_VISION_VULKAN_DEVICE chooses which
    of several is the first.

    \b
    Example:
      tvm-vision devices
      tvm-vision devices --export robot.json
      tvm-vision compile model.onnx -o model.tar --target robot.json
      tvm-vision devices --known
      tvm-vision devices --report
    """
    from tvm_vision import vulkan

    if (export is not None) + known + report > 1:
        raise click.UsageError("--export, --known and --report exclude each other")
    if report:
        from .device_report import report_lines

        for line in report_lines():
            click.echo(line)
        return
    if known:
        for line in known_lines():
            click.echo(line)
        return
    found = vulkan.devices()
    if not found:
        raise DeviceError(f"no Vulkan device: {vulkan.status()}")
    if export is not None:
        from tvm_vision.devices.kept import described_here

        described = described_here(found[0])
        described.write(export)
        click.echo(f"wrote {export}: {described.name} ({described.source})")
        return
    for info in found:
        for line in describe(info):
            click.echo(line)


def known_lines() -> list[str]:
    """A table of the descriptions that come along."""
    from tvm_vision.devices import known_devices
    from tvm_vision.devices.description import ORIGINS

    rows = [
        (name, known.title, ORIGINS[known.origin], known.source)
        for name, known in known_devices().items()
    ]
    return table(("name", "device", "numbers", "source"), rows, left=4)
