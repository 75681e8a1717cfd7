"""``tvm-vision evaluate``."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .options import (
    PATH,
    OutputFile,
    frame_timeout_option,
    host_option,
    input_shapes_option,
    input_values_option,
    interruptible,
)
from .progress import progress
from .session import recovery
from .table import data_size, table
from .trackers import KEY, TRACKER, tracker_of
from .verbosity import note

if TYPE_CHECKING:
    from tvm_vision.package import ModelInfo

KEPT = "what is finished is kept; the same command goes on"


def listed(
    values: Sequence[str] = (),
) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Reads VALUE,VALUE,…; each of ``values``, where these are given. Quotes hold commas."""

    def read(ctx: click.Context, param: click.Parameter, text: str) -> list[str]:
        import csv

        found = [each.strip() for each in next(csv.reader([text]), []) if each.strip()]
        wrong = [each for each in found if values and each not in values]
        if not found or wrong:
            raise click.BadParameter(
                f"values of {', '.join(values) or 'any kind'} are needed, separated by commas, "
                f"found '{wrong[0] if wrong else text}'"
            )
        return found

    return read


@click.command()
@click.argument("model", type=PATH)
@click.argument("data", type=PATH)
@click.option("--precision", default="fp32", show_default=True, metavar="LIST",
              callback=listed(("fp32", "fp16", "int8")),
              help="Of fp32, fp16, int8: quantized by images of DATA.")  # fmt: skip
@click.option("--opt-level", default="3", show_default=True, metavar="LIST",
              callback=listed(("0", "1", "2", "3")), help="Levels of optimisation.")  # fmt: skip
@click.option("--layout", default="auto", show_default=True, metavar="LIST",
              callback=listed(("auto", "nchw", "nhwc")), help="Layouts.")  # fmt: skip
@click.option("--target", default="auto", show_default=True, metavar="LIST", callback=listed(),
              help="Targets that run here, or on the boards, as in vulkan,llvm.")  # fmt: skip
@click.option("--like", type=PATH, metavar="PACKAGE",
              help="A package of the same network that says its kind, labels and how images are "
              "prepared, where MODEL does not.")  # fmt: skip
@click.option("--limit", type=click.IntRange(min=1), metavar="N",
              help="Take N images, evenly spread over DATA.")  # fmt: skip
@click.option("--reference/--no-reference", default=True, show_default=True,
              help="Judge onnxruntime (LiteRT for TFLite files) too.")  # fmt: skip
@click.option("--output", "-o", type=PATH, metavar="FOLDER",
              help="Where packages and results are kept.  [default: MODEL-evaluation, or "
              "MODEL-KEY-evaluation]")  # fmt: skip
@input_shapes_option()
@input_values_option()
@TRACKER
@KEY
@host_option
@frame_timeout_option()
@click.option(
    "--html", type=OutputFile(".html", ".htm"), metavar="FILE.html", help="Write a page of it too."
)
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def evaluate(
    model: Path,
    data: Path,
    precision: list[str],
    opt_level: list[str],
    layout: list[str],
    target: list[str],
    like: Path | None,
    limit: int | None,
    reference: bool,
    output: Path | None,
    input_shapes: dict[str, tuple[int, ...]],
    input_values: dict[str, Any],
    tracker: tuple[str, int] | None,
    key: str | None,
    host: str | None,
    html: Path | None,
    as_json: bool,
) -> None:
    """Judge a model's variants on labelled images.

    MODEL is an ONNX or TFLite file. DATA is a folder with a sub-folder of images for each
    class, or with images/ and masks/ (grey PNGs of the same names with numbers of classes,
    255 where a pixel does not count), a .csv of image,label, COCO's .json of boxes, or the
    .yaml of a YOLO set.

    Every combination of --target, --precision, --opt-level and --layout is compiled and run
    over all images: classifiers by top 1 and top 5, detectors by AP50 and AP50-95 (with
    pycocotools), segmenters by IoU, beside the latency of whole frames, the package's size
    and its memory.
    What is finished is kept in the folder: the same command goes on where it was cut off.
    The exit code is 1 where a variant or the reference failed; the others are there.

    With --tracker and --key the variants run on the boards that 'tvm-vision rpc-server'
    registered there, several at once, which take the times themselves. Boards tell their
    processor; where --target names a described device, --host does where it has another.

    \b
    Example:
      tvm-vision evaluate model.onnx photos/ --precision fp32,fp16,int8 --html report.html
      tvm-vision evaluate model.onnx val.json --target vulkan,llvm --limit 500
      tvm-vision evaluate model.onnx data.yaml --like model.tar --opt-level 1,3 --json
      tvm-vision evaluate model.onnx photos/ --tracker 10.0.0.1:9190 --key nuc
    """
    from tvm_vision.errors import InputError
    from tvm_vision.evaluate.datasets import read_data_set
    from tvm_vision.evaluate.variants import Evaluation, matrix
    from tvm_vision.file_kinds import ONNX, TFLITE, need, need_folder_name
    from tvm_vision.whole_files import need_place

    need(model, "an ONNX or TFLite file", ONNX, TFLITE)
    if host is not None and tracker is None:
        raise click.UsageError("--host is the processor of boards: add --tracker and --key")
    if html is not None:
        need_place(html)
    found = read_data_set(data).first(limit)
    boards = tracker_of(tracker, key)
    folder = output or Path(f"{model.stem}{f'-{key}' if key else ''}-evaluation")
    need_folder_name(folder, "the name of a folder", "name another", InputError)
    variants = matrix(target, precision, [int(level) for level in opt_level], layout)
    with interruptible(KEPT), progress("evaluating") as show:
        run = Evaluation(
            model, found, folder, info=_info(like), input_shapes=input_shapes,
            input_values=input_values, tracker=boards, host=host, tell=show, remark=note,
            recovery=recovery(),
        )  # fmt: skip
        rows = run.rows(variants)
        if reference:
            rows.append(run.reference())
    if html is not None:
        from tvm_vision.report.evaluation_page import evaluation_page
        from tvm_vision.report.page import write_page

        text = evaluation_page(rows, found.kind, found.names, f"Evaluation of {model.stem}")
        write_page(html, text)
        note(f"page: {html}")
    for line in [json.dumps(rows, indent=2)] if as_json else row_lines(rows, found.kind):
        click.echo(line)
    failed = [f"{row['name']}: {row['error']}" for row in rows if "error" in row]
    if failed:
        some = "no variant was" if len(failed) == len(rows) else "not every variant was"
        others = f" ({len(failed) - 1} more failed)" if failed[1:] else ""
        raise click.ClickException(f"{some} evaluated{others}: {failed[0]}")


def _info(like: Path | None) -> ModelInfo | None:
    from tvm_vision.package import read_package

    if like is None:
        return None
    with read_package(like) as opened:
        return opened.info.model


def row_lines(rows: Sequence[dict[str, Any]], kind: str) -> list[str]:
    """The table, and below it what failed and what was warned of."""
    from tvm_vision.report.evaluation_page import MEASURES

    measures = MEASURES[kind]
    cells: list[list[str]] = []
    remarks = []
    for row in rows:
        remarks += [f"{row['name']}: {line}" for line in row.get("warnings", ())]
        if "error" in row:
            remarks.append(f"{row['name']}: {row['error']}")
            continue
        scores = [row["scores"][measure] for measure in measures]
        memory = row["memory_bytes"]
        cells.append(
            [
                row["name"],
                *("-" if score is None else f"{100 * score:.1f} %" for score in scores),
                f"{row['latency_ms']['median']:.2f}",
                f"{row['latency_ms']['p95']:.2f}",
                data_size(row["package_bytes"]),
                "-" if memory is None else data_size(memory),
            ]
        )
    header = ["variant", *measures.values(), "median ms", "p95 ms", "package", "memory"]
    return [*(table(header, cells) if cells else []), *remarks]
