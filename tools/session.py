"""What the commands that run a network have in common: load it, and set its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .options import frame_timeout, wanted_target
from .progress import progress
from .verbosity import note

if TYPE_CHECKING:
    import numpy as np

    from tvm_vision.package import Package
    from tvm_vision.runtime.graph_executor import GraphExecutor
    from tvm_vision.runtime.recovery import Recovery


def load_network(package: Path, device: str, *, rebuilds: int | None = None) -> GraphExecutor:
    """The package's executor, after a line on standard error that names the device.

    rebuilds: how often a minute a device that was lost is opened anew, 0 where what comes of it
    would be no measurement; None: as usual.
    """
    from tvm_vision.runtime.loader import load

    with progress(f"loading {package.name}"):
        executor = load(package, device, wanted_target(), recovery=recovery(rebuilds))
    note(f"device: {executor.device_description}")
    return executor


def recovery(rebuilds: int | None = None) -> Recovery:
    """What is done where the device is lost, as the command's options say; see ``load_network``."""
    from tvm_vision.runtime.recovery import Recovery

    usual = Recovery(frame_timeout=frame_timeout())
    return usual if rebuilds is None else replace(usual, rebuilds_per_minute=rebuilds)


def read_any(package: Path) -> Package:
    """A package to look at; of one for several devices the variant that --target names, else that
    for this machine, else the first."""
    from tvm_vision.errors import DeviceError
    from tvm_vision.package import read_fleet, read_package
    from tvm_vision.runtime.variants import choose_variant

    fleet = read_fleet(package)
    if fleet is None:
        return read_package(package)
    try:
        name = choose_variant(fleet, target=wanted_target()).name
    except DeviceError:
        name = fleet.names[0]
    return read_package(package, variant=name)


def set_inputs(
    executor: GraphExecutor,
    inputs: Path | None,
    image: Path | None,
    fill_mode: str,
    below: Mapping[str, int] | None = None,
) -> dict[str, np.ndarray]:
    """Set all inputs of the network, from a file, an image or values; returns them by name.

    below: of inputs whose values are made up, a number that they are below."""
    from tvm_vision.models.image_inputs import image_inputs
    from tvm_vision.runtime.inputs import check_inputs, filled, input_specs, load_arrays
    from tvm_vision.runtime.sources import read_image

    if inputs is not None and image is not None:
        raise click.UsageError("--inputs and --image exclude each other")
    specs = input_specs(executor.info)
    if inputs is not None:
        arrays = load_arrays(inputs)
    elif image is not None:
        arrays = image_inputs(executor.info, read_image(image))
    else:
        arrays = filled(specs, fill_mode, below)
    for line in check_inputs(arrays, specs):
        note(f"note: {line}")
    for name, array in arrays.items():
        executor.set_input(name, array)
    return arrays
