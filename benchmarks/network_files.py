"""A command that writes a network, for modules that make one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
import onnx

from tvm_vision.whole_files import write_whole

OPSET = 17
# Of a command whose network has another form.
FP32 = click.Option(["--fp32"], is_flag=True, help="Those that were timed in float32.")


def model_of(graph: onnx.GraphProto) -> onnx.ModelProto:
    """A graph of OPSET as a model that older readers take, too."""
    opset = onnx.helper.make_opsetid("", OPSET)
    return onnx.helper.make_model(graph, opset_imports=[opset], ir_version=9)


def command_of(
    network: Callable[..., onnx.ModelProto], megabytes: int, *options: click.Option
) -> click.Command:
    """``OUTPUT``: writes there what ``network`` makes of the options, of so many megabytes."""

    @click.command(
        context_settings={"help_option_names": ["-h", "--help"]},
        help=f"Write the network to OUTPUT, {megabytes} MB.",
    )
    @click.argument("output", type=click.Path(path_type=Path))
    def main(output: Path, **given: object) -> None:
        write_whole(output, network(**given).SerializeToString())

    main.params.extend(options)
    return main
