"""The command ``tvm-vision``: the group that all commands are registered in."""

from __future__ import annotations

from typing import Any

import click

from tvm_vision import __version__
from tvm_vision.errors import TvmVisionError

from .benchmark import benchmark
from .check import check
from .classify import classify
from .compile import compile as compile_command
from .demo_classifier import demo_classifier
from .devices import devices
from .inspect import inspect
from .package import package
from .profile import profile
from .run import run


class OneLineErrors(click.Group):
    """Turns a TvmVisionError of any command into its one line, with exit code 1."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except TvmVisionError as error:
            raise click.ClickException(" ".join(str(error).split())) from error
        except MemoryError as error:
            raise click.ClickException(
                f"more memory is needed than this machine gives ({error or 'out of memory'}): use "
                "a smaller batch or image"
            ) from None


def hyphens(name: str) -> str:
    """--input_shape is --input-shape: older tools spell options with underscores."""
    return name.replace("_", "-")


SETTINGS = {"help_option_names": ["-h", "--help"], "token_normalize_func": hyphens}


@click.group(cls=OneLineErrors, context_settings=SETTINGS)
@click.version_option(__version__, prog_name="tvm-vision")
def main() -> None:
    """Run vision networks on this machine's GPU: the stock TVM wheel with a Vulkan backend."""


COMMANDS = (
    benchmark,
    check,
    classify,
    compile_command,
    demo_classifier,
    devices,
    inspect,
    package,
    profile,
    run,
)
for command in COMMANDS:
    main.add_command(command)
