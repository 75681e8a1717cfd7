"""How much commands say beside their results: --quiet and --verbose, which every command has."""

from __future__ import annotations

import logging

import click

LOG = "tvm_vision"
_KEY = __name__
FORMAT = "%(levelname)s %(name)s: %(message)s"


def add_verbosity(command: click.Command) -> click.Command:
    """Give a command, and those in it, the options --quiet and --verbose."""
    if any(param.name == "quiet" for param in command.params):
        return command
    for names, words, level in (
        (("-q", "--quiet"), "Say nothing but results and errors.", logging.ERROR),
        (
            ("-v", "--verbose"),
            "Say what is being done, and where in the program an error is from.",
            logging.DEBUG,
        ),
    ):

        def set_level(
            ctx: click.Context, param: click.Parameter, value: bool, level: int = level
        ) -> None:
            if value and not ctx.resilient_parsing:
                _set(ctx, level)

        option = click.Option(
            names, is_flag=True, expose_value=False, callback=set_level, help=words
        )
        command.params.append(option)
    for inner in getattr(command, "commands", {}).values():
        add_verbosity(inner)
    return command


def _set(ctx: click.Context, level: int) -> None:
    if ctx.meta.get(_KEY, level) != level:
        raise click.UsageError("--quiet and --verbose exclude each other")
    if _KEY in ctx.meta:
        return
    ctx.meta[_KEY] = level
    logger = logging.getLogger(LOG)
    former = logger.level
    logger.setLevel(level)
    root = ctx.find_root()
    root.call_on_close(lambda: logger.setLevel(former))
    if level == logging.DEBUG:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter(FORMAT))
        logger.addHandler(handler)
        root.call_on_close(lambda: logger.removeHandler(handler))


def is_quiet() -> bool:
    """Whether nothing but results and errors is wanted."""
    return _level() == logging.ERROR


def is_verbose() -> bool:
    """Whether all is wanted that can be said."""
    return _level() == logging.DEBUG


def _level() -> int:
    ctx = click.get_current_context(silent=True)
    return int(ctx.meta.get(_KEY, logging.WARNING)) if ctx else logging.WARNING


def note(text: str) -> None:
    """A line beside the results, on standard error; none where --quiet was given."""
    if not is_quiet():
        click.echo(text, err=True)
