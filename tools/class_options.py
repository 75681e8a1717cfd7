"""--class-option, for commands that show or keep boxes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from .options import Decorator

if TYPE_CHECKING:
    from tvm_vision.models.class_options import ClassOptions


def class_option() -> Decorator:
    """--class-option CLASS.OPTION=VALUE, as ``class_options``: ClassOptions by name of a class."""
    return click.option(
        "--class-option", "class_options", multiple=True, metavar="CLASS.OPTION=VALUE",
        callback=_parse,
        help="What of one class counts: enabled (true, false), confidence, max_count (the best so "
        "many), min_size (pixels of the shorter side), as in ball.max_count=1; repeatable.",
    )  # fmt: skip


def _parse(
    ctx: click.Context, param: click.Parameter, written: tuple[str, ...]
) -> Mapping[str, ClassOptions]:
    from tvm_vision.errors import InputError
    from tvm_vision.models.class_options import parse_class_options

    if not written:
        return {}
    try:
        return parse_class_options(written)
    except InputError as error:
        raise click.BadParameter(str(error)) from None


def set_thresholds(network: Any, values: Mapping[str, Any]) -> None:
    """Of a network that finds boxes, what was asked for of its ``Thresholds``, by name; None and
    nothing are left out. Raises click.UsageError for another network, and for one that has no such
    threshold; InputError for other classes."""
    boxes = getattr(network, "network", network)
    wanted = {name: value for name, value in values.items() if value is not None and value != {}}
    for name, value in wanted.items():
        if "detections" not in network.produces:
            option = "--class-option" if name == "class_options" else f"--{name}"
            raise click.UsageError(f"{option} is for networks that find boxes, not {network.name}")
        if not hasattr(boxes, name):
            raise click.UsageError(f"--{name} means nothing to {network.name}, which needs none")
        setattr(boxes, name, value)
