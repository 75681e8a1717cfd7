"""--tracker and --key: which boards a command works with instead of this machine."""

from __future__ import annotations

import click


def parse_tracker(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> tuple[str, int] | None:
    """HOST:PORT as (host, port)."""
    if value is None:
        return None
    host, colon, port = value.rpartition(":")
    if not (colon and host and port.isdigit()):
        raise click.BadParameter(f"HOST:PORT is needed, found '{value}'")
    return host, int(port)


TRACKER = click.option(
    "--tracker", callback=parse_tracker, metavar="HOST:PORT",
    help="RPC tracker whose boards measure, instead of this machine.",
)  # fmt: skip
KEY = click.option("--key", help="Key of the boards at the tracker.")


def tracker_of(tracker: tuple[str, int] | None, key: str | None) -> tuple[str, int, str] | None:
    """Host, port and key; None where neither option was given. Raises UsageError for one alone."""
    if (tracker is None) != (key is None):
        raise click.UsageError("--tracker and --key are needed together")
    return None if tracker is None or key is None else (*tracker, key)
