"""Write docs/reference/commands.md from the help of the commands: python scripts/commands_doc.py.

A test compares the file with what this makes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from tvm_vision.tools.cli import main

TARGET = Path(__file__).resolve().parent.parent / "docs" / "reference" / "commands.md"
WIDTH = 88
INTRODUCTION = """\
# Commands

Made by `python scripts/commands_doc.py` from the commands' own help; do not edit.

An error is one line on standard error and exit code 1; wrong usage is exit code 2. Options may be
spelled with underscores too (`--input_shape`). What a command prints on standard output is its
result; progress, the device, the target that `auto` chose and notes go to standard error. Given a
file of another kind, a command says what it is and which command serves that.

Ctrl-C is a line that says what is kept and how to go on, and exit code 130; so are SIGTERM, with
143, and SIGHUP, with 129, unless it is ignored. What a command writes is whole or not there, and
what it replaces stays until then. It grows in a hidden folder beside it, `.tvm_vision-….part`, or
in `$TMPDIR`; what a killed process leaves of these, the next one that writes there removes.

A package holds native code: loading one is trusting it. The checks find damage, not malice.
"""


def document() -> str:
    """The whole text of docs/reference/commands.md."""
    sections = [f"## {title}\n\n```\n{text}\n```\n" for title, text in helps(main, "tvm-vision")]
    return "\n".join([INTRODUCTION, *sections])


def helps(
    command: click.Command, name: str, parent: click.Context | None = None
) -> Iterator[tuple[str, str]]:
    """(name, help text) of a command and of all below it."""
    context = click.Context(
        command, parent, info_name=name, terminal_width=WIDTH, **command.context_settings
    )
    text = command.get_help(context)
    yield context.command_path, "\n".join(line.rstrip() for line in text.splitlines())
    if isinstance(command, click.Group):
        for child in sorted(command.commands):
            yield from helps(command.commands[child], child, context)


if __name__ == "__main__":
    TARGET.write_text(document(), "utf-8")
