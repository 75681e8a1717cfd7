"""The command ``tvm-vision``: the group that all commands are registered in."""

from __future__ import annotations

from typing import Any

import click

from tvm_vision.errors import TvmVisionError

from .demo_classifier import demo_classifier
from .devices import devices


class OneLineErrors(click.Group):
    """Turns a TvmVisionError of any command into its one line, with exit code 1."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except TvmVisionError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=OneLineErrors, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tvm_vision")
def main() -> None:
    """Run vision networks on this machine's GPU: the stock TVM wheel with a Vulkan backend."""


main.add_command(demo_classifier)
main.add_command(devices)
