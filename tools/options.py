"""Arguments and options that several commands share, each with one spelling and one help text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from tvm_vision.runtime.device import CHOICES
from tvm_vision.runtime.inputs import FILL_MODES

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
# Whether a path is there and usable is for the library to say: its messages tell what to do.
PATH = click.Path(path_type=Path)


def artifact_argument() -> Decorator:
    return click.argument("artifact", type=PATH)


def device_option() -> Decorator:
    return click.option(
        "--device",
        type=click.Choice(CHOICES),
        default="auto",
        show_default=True,
        help="auto: the device that the package was made for.",
    )


def input_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--inputs, --image and --fill-mode: what goes into the network."""
    options = [
        click.option("--inputs", "-i", type=PATH, help=".npz file with an array for each input."),
        click.option("--image", type=PATH, help="Picture, prepared as the package says."),
        click.option(
            "--fill-mode",
            type=click.Choice(FILL_MODES),
            default="random",
            show_default=True,
            help="Values where neither --inputs nor --image is given.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def timing_options(*, repeat: int, warmup: int = 3) -> Decorator:
    """--repeat, --number and --warmup: how often something is timed."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        command = click.option(
            "--warmup", type=click.IntRange(min=0), default=warmup, show_default=True,
            help="Runs before the first measurement.",
        )(command)  # fmt: skip
        command = click.option(
            "--number", type=click.IntRange(min=1), default=1, show_default=True,
            help="Runs in each measurement.",
        )(command)  # fmt: skip
        return click.option(
            "--repeat", type=click.IntRange(min=1), default=repeat, show_default=True,
            help="Measurements.",
        )(command)  # fmt: skip

    return decorate


def json_option(what: str) -> Decorator:
    return click.option("--json", "as_json", is_flag=True, help=f"Print {what} as JSON.")
