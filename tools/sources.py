"""What commands that look at frames have in common: sources, and files of the results."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tvm_vision.file_kinds import PACKAGES, need

from .options import PATH, OutputFile

if TYPE_CHECKING:
    from tvm_vision.models.exports import Export


def source_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """SOURCES as arguments, or by --source; the command gets them as ``sources``."""

    def both(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
        chosen = value + ctx.meta.pop(__name__, ())
        if not chosen and not ctx.resilient_parsing:
            # Who forgot the package has given a source in its place.
            need(ctx.params["package"], "a package", *PACKAGES)
            raise click.UsageError(
                "a source is needed: an image, folder, pattern, video, camera's number or "
                "stream's address, as argument or by --source"
            )
        return chosen

    def keep(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> None:
        ctx.meta[__name__] = value

    command = click.argument("sources", nargs=-1, callback=both)(command)
    return click.option(
        "--source", multiple=True, metavar="SOURCE", expose_value=False, is_eager=True,
        callback=keep, help="The same as an argument; repeatable.",
    )(command)  # fmt: skip


@contextlib.contextmanager
def readable() -> Iterator[Callable[[str], None]]:
    """Gives the block what says that a file of a folder is passed over; at its end the command
    fails where there was one."""
    count = 0

    def passed_over(line: str) -> None:
        nonlocal count
        count += 1
        click.echo(f"passed over: {line}", err=True)

    yield passed_over
    if count:
        files = "a file" if count == 1 else f"{count} files"
        raise click.ClickException(f"{files} could not be read; all others are done")


def export_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--save-json, --save-txt, --save-crop, --save-masks and --save-conf."""
    options = [
        click.option(
            "--save-json", type=OutputFile(".json"), metavar="FILE.json",
            help="Write all results there, as COCO has them.",
        ),
        click.option(
            "--save-txt", type=PATH, metavar="FOLDER",
            help="Write a text file for each frame there, as YOLO's labels are: class, x, y, "
            "width, height as parts of the frame; outlines where the network has masks.",
        ),
        click.option("--save-conf", is_flag=True, help="With --save-txt: each line's score, too."),
        click.option(
            "--save-crop", type=PATH, metavar="FOLDER",
            help="Write each object as an image there, in a folder for each class.",
        ),
        click.option(
            "--save-masks", type=PATH, metavar="FOLDER",
            help="Write masks there as PNG of numbers: the class of each pixel; NAME-objects.png: "
            "which object.",
        ),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def exports(
    save_json: Path | None,
    save_txt: Path | None,
    save_conf: bool,
    save_crop: Path | None,
    save_masks: Path | None,
    *,
    produces: tuple[str, ...],
    name: str,
) -> list[Export]:
    """What was asked for, after a look at whether the network ``name`` has anything for it."""
    from tvm_vision.models.exports import CocoJson, Crops, Masks, YoloText, check_exports

    if save_conf and save_txt is None:
        raise click.UsageError("--save-conf adds scores to --save-txt: name its folder")
    asked: dict[str, tuple[Path | None, Any]] = {
        "--save-json": (save_json, CocoJson),
        "--save-txt": (save_txt, YoloText),
        "--save-crop": (save_crop, Crops),
        "--save-masks": (save_masks, Masks),
    }
    wanted = {option: kind for option, (path, kind) in asked.items() if path is not None}
    check_exports(wanted, produces, name)
    more = {YoloText: {"scores": save_conf}}
    return [kind(path, **more.get(kind, {})) for path, kind in asked.values() if path is not None]
