"""``tvm-vision devices``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tvm_vision.devices import known_devices
from tvm_vision.devices.description import ORIGINS
from tvm_vision.devices.kept import described_here
from tvm_vision.errors import DeviceError

from .options import PATH
from .table import table

if TYPE_CHECKING:
    from tvm_vision.vulkan import DeviceInfo

FEATURES = (
    "float16",
    "float64",
    "int8",
    "int16",
    "int64",
    "8bit_buffer",
    "16bit_buffer",
    "integer_dot_product",
    "cooperative_matrix",
)


@click.command()
@click.option(
    "--export", type=PATH, metavar="FILE.json",
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
        described = described_here(found[0])
        described.write(export)
        click.echo(f"wrote {export}: {described.name} ({described.source})")
        return
    for info in found:
        for line in describe(info):
            click.echo(line)


def known_lines() -> list[str]:
    """A table of the descriptions that come along."""
    rows = [
        (name, known.title, ORIGINS[known.origin], known.source)
        for name, known in known_devices().items()
    ]
    return table(("name", "device", "numbers", "source"), rows, left=4)


def describe(info: DeviceInfo) -> Iterator[str]:
    """The lines that tell of one device, the first without indent."""
    yield info.describe()
    memory = "shared with the CPU" if info.unified_memory else "of its own"
    yield f"  memory     {info.memory_bytes / 2**30:.1f} GiB {memory}"
    yield (
        f"  workgroup  up to {info.max_threads_per_block} threads, "
        f"{info.max_shared_memory_per_block // 1024} KiB shared"
    )
    lanes = sorted({info.min_subgroup_size, info.thread_warp_size, info.max_subgroup_size})
    yield f"  subgroup   {info.thread_warp_size} lanes of {lanes[0]} to {lanes[-1]}"
    timer = f"{info.timestamp_period_ns:g} ns a tick" if info.timestamp_bits else "none"
    yield f"  timestamps {timer}"
    for word, wanted in (("has", True), ("lacks", False)):
        names = [name for name in FEATURES if getattr(info, f"supports_{name}") is wanted]
        yield f"  {word:<10} {', '.join(names).replace('_', ' ') or 'nothing'}"
    for m, n, k, *types in info.cooperative_matrix_shapes:
        yield f"  matrix     {m}x{n}x{k} {' '.join(str(name) for name in types)}"
