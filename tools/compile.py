"""``tvm-vision compile``."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tvm_vision.options import CompileOptions

from .check import check
from .cut import cut_lines, cut_model, write_rest
from .inspect import bytes_note, dequantized_note, precision_lines
from .model_info import ModelOptions
from .options import (
    NOTHING_WRITTEN,
    PATH,
    OutputFile,
    check_runs_here,
    check_sample_options,
    chosen_target,
    class_options,
    compile_options,
    host_option,
    input_shapes_option,
    input_values_option,
    interruptible,
    kind_option,
    named_options,
    other_processor,
    parse_kind_options,
    sample_options,
)
from .progress import progress
from .table import data_size
from .verbosity import note

if TYPE_CHECKING:
    from tvm_vision.cache.packages import CompileReport
    from tvm_vision.package import PackageInfo


@click.command()
@click.argument("model", type=PATH)
@click.option(
    "--output", "-o", type=PATH, required=True,
    help="The package: a tar where it ends in .tar, else a folder.",
)  # fmt: skip
@click.option(
    "--target", default="auto", show_default=True,
    help="'vulkan', 'vulkan --from_device 1', 'llvm -mcpu=cortex-a72', JSON; renoir or "
    "another name of 'devices --known'; a file of 'devices --export'; auto: the first Vulkan "
    "device, else this machine's CPU. Several, as in renoir,tgl,llvm, make one package for all.",
)  # fmt: skip
@host_option
@input_shapes_option()
@input_values_option()
@click.option(
    "--raw-io",
    is_flag=True,
    help="Keep quantized inputs and outputs of a TFLite file as its integers, not float32.",
)
@named_options
@compile_options
@sample_options("--precision fp16")
@click.option(
    "--tuning-records", type=PATH, multiple=True,
    help="What tune found for this device and driver; repeatable.",
)  # fmt: skip
@click.option(
    "--shipped-records/--no-shipped-records", default=True, show_default=True,
    help="Whether the records that come with this version count, too.",
)  # fmt: skip
@click.option("--name", help="Name of the network.  [default: the file's]")
@kind_option
@click.option(
    "--kind-option", "kind_options", multiple=True, metavar="NAME=VALUE",
    callback=parse_kind_options,
    help="How outputs are read, by a key of mod.json's detection, segmentation or depth, as in "
    "confidence=0.4 or activation=softmax; repeatable.",
)  # fmt: skip
@class_options
@click.option("--labels", help="Text file with a class a line, or 'imagenet'; not of YOEO.")
@click.option(
    "--preprocess", metavar="NAME|FILE",
    help="How images are prepared: imagenet, efficientnet-lite, inception, unit, pixels, or a "
    ".json file with crop, mean, std, ...",
)  # fmt: skip
@click.option(
    "--cut", is_flag=True,
    help="Compile what comes before nodes that cannot be compiled, and say what is left to you.",
)  # fmt: skip
@click.option(
    "--rest", type=OutputFile(".onnx"), metavar="FILE.onnx",
    help="With --cut: write what is left as an ONNX file, which onnxruntime runs.",
)  # fmt: skip
@click.option(
    "--check",
    "check_after",
    is_flag=True,
    help="Compare it with onnxruntime or LiteRT, as the command check does.",
)
@click.option("--dump-shaders", type=PATH, metavar="FOLDER", help="Write each kernel's shader.")
@click.option(
    "--dump-ir", type=PATH, metavar="FOLDER",
    help="Write the network's form after each step of the compiler.",
)  # fmt: skip
@click.pass_context
def compile(  # the command's name
    ctx: click.Context,
    model: Path,
    output: Path,
    target: str,
    host: str | None,
    input_shapes: dict[str, tuple[int, ...]],
    input_values: dict[str, Any],
    raw_io: bool,
    opt_level: str | None,
    precision: str | None,
    layout: str | None,
    options: dict[str, Any],
    sample_images: tuple[Path, ...],
    max_error: float | None,
    tuning_records: tuple[Path, ...],
    shipped_records: bool,
    name: str | None,
    kind: str | None,
    kind_options: dict[str, str],
    names: Path | None,
    groups: Path | None,
    labels: str | None,
    preprocess: str | None,
    cut: bool,
    rest: Path | None,
    check_after: bool,
    dump_shaders: Path | None,
    dump_ir: Path | None,
) -> None:
    """Compile a network into a package.

    MODEL is an ONNX file, a TFLite file, or a .pt2 file that torch.export.save wrote. The package
    holds all that is needed to run it.

    \b
    Example:
      tvm-vision compile model.onnx -o model.tar
      tvm-vision compile model.onnx -o model.tar --target llvm --input-shape image:1,3,416,416
      tvm-vision compile lite0.onnx -o lite0.tar --precision fp16 --kind classifier \\
          --labels imagenet --preprocess efficientnet-lite
      tvm-vision compile yoeo.onnx -o yoeo.tar --names yoeo_names.yaml --check
      tvm-vision compile yoeo.onnx -o yoeo.tar --precision fp16 --sample-images photos/
      tvm-vision compile model.onnx -o model.tar --option winograd=off --option split_k=off
      tvm-vision compile model.onnx -o model.tar --cut --rest rest.onnx
      tvm-vision compile model.tflite -o model.tar --check
      tvm-vision compile voice.onnx -o voice.tar --input-value sr=16000
      tvm-vision compile model.onnx -o model.tar --target vulkan --host aarch64
      tvm-vision compile model.onnx -o model.tar \\
          --target "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76"
      tvm-vision compile yoeo.onnx -o team.tar --target renoir,tgl,llvm
    """
    from tvm_vision.api import compile as compile_network
    from tvm_vision.file_kinds import need_model
    from tvm_vision.fleets import compile_fleet, target_name
    from tvm_vision.package import read_package
    from tvm_vision.target_lists import split_targets

    if rest is not None and not cut:
        raise click.UsageError("--rest writes what --cut leaves: give --cut as well")
    how = CompileOptions.of(options, opt_level=opt_level, precision=precision, layout=layout)
    check_sample_options(
        sample_images, max_error, fp16=how.precision == "fp16", by="--precision fp16"
    )
    described = ModelOptions(
        model, name, kind, names, groups, labels, preprocess, input_shapes, kind_options
    )
    targets: list[Any] = split_targets(target)
    variants = [target_name(each) for each in targets] if len(targets) > 1 else [""]
    need_model(model)
    # What is wrong with them is said before a part of a model, or a package for one, is made.
    if cut or check_after or len(targets) > 1:
        from tvm_vision.frontend.model import prepare

        # By the time that TVM is imported, this is done.
        prepare(model)
        targets, host = [chosen_target(each, model, host) for each in targets], None
    if check_after and all(map(other_processor, targets)):
        check_runs_here(targets[0])
    made: list[CompileReport] = []
    with interruptible(NOTHING_WRITTEN), progress(f"compiling {model.name}") as tell:
        parts = None
        if cut:
            wanted = rest is not None
            parts = cut_model(
                model, input_shapes, input_values, tell, raw_io=raw_io, with_rest=wanted
            )
        source = model if parts is None else parts.imported
        how_compiled: dict[str, Any] = {
            "input_shapes": input_shapes if parts is None else None,
            "input_values": input_values if parts is None else None,
            "raw_io": raw_io and parts is None,
            "options": how,
            "model_info": described,
            "tuning_records": tuning_records,
            "shipped_records": shipped_records,
            "sample_images": sample_images,
            "max_error": max_error,
            "dump_ir": dump_ir,
            "dump_shaders": dump_shaders,
            "progress": tell,
            "on_target": lambda line: note(f"target: {line}"),
            "on_compiled": made.append,
        }
        if len(targets) > 1:
            compile_fleet(source, output, targets=targets, names=variants, **how_compiled)
        else:
            compile_network(source, output, target=targets[0], host=host, **how_compiled)
        if parts is not None and rest is not None:
            write_rest(parts, rest)

    infos = []
    for variant in variants:
        with read_package(output, variant=variant) as package:
            size = sum(package.sizes().values())
            infos.append((package.info, size, package.machine() or ""))
    if len(targets) > 1:
        size = sum(file.stat().st_size for file in _files_of(output))
        click.echo(f"wrote {output}: {data_size(size)} for {len(targets)} devices")
    for variant, (info, size, machine), report in zip(variants, infos, made, strict=True):
        click.echo(f"{variant or f'wrote {output}'}: {_summary(info, size, machine, report)}")
    info = infos[0][0]
    for tensor in info.outputs:
        if tensor.units:
            click.echo(f"{tensor}: {tensor.units}")
    kinds = [report.kind for report in made]
    for line in dict.fromkeys((*kinds, *precision_lines(info))):
        click.echo(line)
    if parts is not None:
        for line in cut_lines(parts, rest):
            click.echo(line)
    if line := _note_of_bytes(model, info, made[0], cut=cut):
        note(line)
    if check_after:
        ctx.invoke(check, package=output, model=model)


def _summary(info: PackageInfo, size: int, machine: str, report: CompileReport) -> str:
    place = info.device.name if info.device else info.target["kind"]
    if machine != platform.machine():
        place += f" beside {machine}" if info.device else f" on {machine}"
    count = len(info.graph.kernels)
    known = f" ({report.known} of {report.kernels} different ones made before)"
    return (
        f"{data_size(size)}, {count} kernel{'s' * (count != 1)} for {place}"
        f"{known if report.known else ''}, {data_size(info.memory.peak)} of device memory"
    )


def _note_of_bytes(model: Path, info: PackageInfo, report: CompileReport, *, cut: bool) -> str:
    if cut:  # what was compiled is no file
        return bytes_note(model, info)
    return dequantized_note(model) if report.dequantized else ""


def _files_of(package: Path) -> list[Path]:
    return list(package.iterdir()) if package.is_dir() else [package]
