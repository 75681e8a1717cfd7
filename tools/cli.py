"""The command ``tvm-vision``: the group that all commands are registered in."""

from __future__ import annotations

import click

from tvm_vision import __version__
from tvm_vision.interrupts import silent_ctrl_c

# Imports take some tenths of a second, in which Ctrl-C has nothing to tell.
with silent_ctrl_c():
    from .bag import bag
    from .benchmark import benchmark
    from .calibrate import calibrate
    from .check import check
    from .classifier_to_onnx import classifier_to_onnx
    from .classify import classify
    from .compile import compile as compile_command
    from .demo import demo
    from .demo_classifier import demo_classifier
    from .detect import detect
    from .devices import devices
    from .doctor import doctor
    from .evaluate import evaluate
    from .inspect import inspect
    from .options import SETTINGS, OneLineErrors
    from .other_names import as_others_write, no_such_command
    from .package import package
    from .profile import profile
    from .quantize import quantize
    from .records import records
    from .replay import replay
    from .rpc_server import rpc_server
    from .run import run
    from .show import show
    from .sign import sign, verify
    from .tune import tune
    from .verbosity import add_verbosity
    from .yoeo_onnx_to_tvm import yoeo_onnx_to_tvm
    from .yoeo_to_onnx import yoeo_to_onnx


class CommandGroup(OneLineErrors, click.Group):
    """The group, whose commands' errors are one line each, and which all say how much they say."""

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        super().add_command(add_verbosity(cmd), name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        command = self.get_command(ctx, args[0]) if args else None
        if command is not None:
            words = as_others_write(args[1:], command)
        else:
            words = no_such_command(args[0]) if args else ""
        if words:
            raise click.UsageError(words, ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=CommandGroup, context_settings=SETTINGS)
@click.version_option(__version__, prog_name="tvm-vision")
def main() -> None:
    """Run vision networks on this machine's GPU: the stock TVM wheel with a Vulkan backend."""


COMMANDS = (
    bag,
    benchmark,
    calibrate,
    check,
    classifier_to_onnx,
    classify,
    compile_command,
    demo,
    demo_classifier,
    detect,
    devices,
    doctor,
    evaluate,
    inspect,
    package,
    profile,
    quantize,
    records,
    replay,
    rpc_server,
    run,
    show,
    sign,
    tune,
    verify,
    yoeo_onnx_to_tvm,
    yoeo_to_onnx,
)
for command in COMMANDS:
    main.add_command(command)
