"""``yoeo-onnx-to-tvm``, on its own and as ``tvm-vision yoeo-onnx-to-tvm``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tvm_vision.options import CompileOptions

from .inspect import bytes_note, precision_lines
from .options import (
    PATH,
    SETTINGS,
    OneLineErrors,
    check_sample_options,
    chosen_target,
    class_options,
    compile_options,
    host_option,
    interruptible,
    parse_size,
    sample_options,
)
from .progress import progress
from .table import data_size
from .tune import Duration, search_schedules
from .verbosity import note

if TYPE_CHECKING:
    from tvm_vision.package import PackageInfo

# Seconds.
BUDGET = 600.0
INTERPOLATIONS = ("linear", "nearest", "area", "cubic")


@click.command("yoeo-onnx-to-tvm", cls=OneLineErrors, context_settings=SETTINGS)
@click.argument("onnx_path", type=PATH)
@click.option(
    "--output-model", "--output", "-o", "output", type=PATH, default=Path("compiled_model.tar"),
    show_default=True, help="The package: a tar where it ends in .tar, else a folder.",
)  # fmt: skip
@click.option(
    "--input-size", callback=parse_size, metavar="N|HxW",
    help="Pixels of the network's input, where ONNX_PATH leaves them open.",
)  # fmt: skip
@click.option("--half", is_flag=True, help="Weights and activations as 16-bit floats.")
@sample_options("--half")
@click.option(
    "--target", default="auto", show_default=True,
    help="'vulkan', 'vulkan -from_device=1', 'llvm', renoir or another name of 'devices --known', "
    "a file of 'devices --export'; auto: the first Vulkan device, else this machine's CPU.",
)  # fmt: skip
@host_option
@click.option(
    "--camera-size", callback=parse_size, metavar="HxW",
    help="Prepare frames on the device, by kernels before the network: the package then takes "
    "frames of this size only.  [default: on the CPU, any size]",
)  # fmt: skip
@class_options
@compile_options
@click.option(
    "--interpolation", type=click.Choice(INTERPOLATIONS), default="linear", show_default=True,
    help="How frames are resized; the original takes the nearest pixel.",
)  # fmt: skip
@click.option(
    "--time-budget", type=Duration(), help="How long to tune: 90s, 10m, 2h.  [default: 10m]"
)
@click.option(
    "--trials", type=click.IntRange(min=0),
    help="Most measurements of the tuner; 0: no tuning.",
)  # fmt: skip
@click.option("--no-tuning", is_flag=True, help="Compile with the records that there are.")
@click.option(
    "--tuning-record-checkpoint", "-c", "checkpoint", type=PATH,
    help="Records of an earlier tuning, to use and to start from.",
)  # fmt: skip
@click.option(
    "--output-tuning-records", "-r", "records", type=PATH, default=Path("tuning_records.json"),
    show_default=True, help="File for the tuner's records; what is in it counts.",
)  # fmt: skip
@click.option(
    "--check/--no-check", "check", default=True, show_default=True,
    help="Compare boxes and mask with onnxruntime before anything is written.",
)  # fmt: skip
def yoeo_onnx_to_tvm(
    onnx_path: Path,
    output: Path,
    input_size: tuple[int, int] | None,
    half: bool,
    sample_images: tuple[Path, ...],
    max_error: float | None,
    target: str,
    host: str | None,
    camera_size: tuple[int, int] | None,
    names: Path | None,
    groups: Path | None,
    options: dict[str, Any],
    interpolation: str,
    time_budget: float | None,
    trials: int | None,
    no_tuning: bool,
    checkpoint: Path | None,
    records: Path,
    check: bool,
) -> None:
    """Compile a YOEO network for this machine.

    ONNX_PATH is what yoeo-to-onnx writes, or YOEO's own export (which needs --names). The
    package runs with 'tvm-vision detect', in Python and in the ROS node. Also installed as
    'yoeo-onnx-to-tvm', for YOEO's own command of that name: the same arguments.

    What differs: the input's size comes from ONNX_PATH; the target is the first Vulkan device
    where none is given, and the CPU where there is none; tuning takes ten minutes, not days, and on
    a CPU, or its Vulkan, only where --trials or --time-budget asks for it; what was compiled is
    compared with onnxruntime. Options may be spelled with underscores (--no_tuning).

    Ctrl-C keeps what was tuned, and the same command goes on; a package is whole or not there.

    \b
    Example:
      yoeo-onnx-to-tvm yoeo.onnx --half -o yoeo.tar
      tvm-vision yoeo-onnx-to-tvm yoeo.onnx --half --sample-images photos/ -o yoeo.tar
      tvm-vision yoeo-onnx-to-tvm yoeo.onnx --names yoeo_names.yaml --target llvm
    """
    from tvm_vision.api import compile as compile_network
    from tvm_vision.compiler.target import what_is_elsewhere
    from tvm_vision.errors import PackageError
    from tvm_vision.exporters.describe import kind_line
    from tvm_vision.exporters.yoeo.describe import input_shapes, write_camera_model, yoeo_model_info
    from tvm_vision.exporters.yoeo.names import read_groups, read_names
    from tvm_vision.package import read_package, unpack_package
    from tvm_vision.tuning import TuningOptions
    from tvm_vision.whole_files import ScratchFolder, put, writing

    check_sample_options(sample_images, max_error, fp16=half, by="--half")
    info = yoeo_model_info(
        onnx_path,
        names=None if names is None else read_names(names),
        groups=None if groups is None else read_groups(groups),
        size=input_size,
        interpolation=interpolation,
    )
    chosen = chosen_target(target, onnx_path, host)
    how = CompileOptions.of(options, precision="fp16" if half else None)
    network: dict[str, Any] = {"target": chosen, "options": how}
    # Beside the output, so that a folder that cannot be written shows before anything takes long.
    with writing(output, PackageError):
        output.parent.mkdir(parents=True, exist_ok=True)
        beside = ScratchFolder(output.parent)
    with beside as scratch:
        model, package = onnx_path, scratch / "model.tar"
        if camera_size is None:
            network["input_shapes"] = input_shapes(onnx_path, info)
        else:
            model = scratch / onnx_path.name
            write_camera_model(onnx_path, model, info, camera_size)
        used = [] if checkpoint is None else [checkpoint]
        asked = time_budget is not None or trials is not None
        if not (no_tuning or trials == 0) and worth_tuning(chosen, asked):
            tuning = TuningOptions(time_budget=time_budget or BUDGET, trials=trials)
            search_schedules(model, records, prior=used, tuning=tuning, **network)
            used.append(records)
        compiling = progress(f"compiling {onnx_path.name}")
        with interruptible(untouched(output, used)), compiling as tell:
            compile_network(
                model, package, model_info=info, tuning_records=used, progress=tell,
                sample_images=sample_images, max_error=max_error, **network,
            )  # fmt: skip
            verdict = "not compared, as asked"
            if check:
                tell("comparing with onnxruntime")
                verdict = compared_here(
                    package, onnx_path, elsewhere=what_is_elsewhere(chosen) != ""
                )
        if output.suffix == ".tar":
            with writing(output, PackageError):
                put(package, output)
        else:
            unpack_package(package, output)
    note(verdict)
    with read_package(output) as written:
        compiled = written.info
    for line in (*described(output, compiled), kind_line(compiled.model)):
        click.echo(line)
    if line := bytes_note(onnx_path, compiled):
        note(line)


def compared_here(package: Path, onnx_path: Path, *, elsewhere: bool) -> str:
    """What comparing with onnxruntime said; of a package for a device that is ``elsewhere``, where
    this machine cannot run it, what to do instead."""
    from tvm_vision.demo.images import comparison_images
    from tvm_vision.errors import DeviceError, PackageError
    from tvm_vision.evaluate import compare_package

    try:
        return compare_package(package, onnx_path, comparison_images())
    except (DeviceError, PackageError) as error:
        if not elsewhere:
            raise
        return f"not compared, since it does not run here ({error}): use 'tvm-vision check' there"


def untouched(output: Path, records: Sequence[Path]) -> str:
    """What Ctrl-C leaves while it compiles."""
    if not records:
        return f"{output} was not written; the same command begins again"
    return f"{output} was not written, what was tuned is in {records[-1]}; the same command goes on"


def described(package: Path, info: PackageInfo) -> list[str]:
    """What was compiled, in a few lines."""
    place = info.device.name if info.device else "the CPU"
    size = f"{len(info.graph.kernels)} kernels for {place}, {data_size(info.memory.peak)} of memory"
    return [f"wrote {package}: {size}", *precision_lines(info)]


def worth_tuning(target: Any, asked: bool) -> bool:
    """Whether a target is tuned; says why not."""
    from tvm_vision.tuning import reason_not_to_tune

    reason, always = reason_not_to_tune(target)
    if not reason or (asked and not always):
        return True
    remedy = "" if always else ": --time-budget 10m does it still"
    note(f"note: not tuned, since {reason}{remedy}")
    return False
