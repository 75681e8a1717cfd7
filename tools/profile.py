"""``tvm-vision profile``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .options import (
    PATH,
    UNMEASURED,
    OutputFile,
    device_option,
    input_options,
    interruptible,
    json_option,
    package_argument,
    rate_option,
    wanted_target,
)
from .progress import progress
from .session import load_network, set_inputs
from .table import table
from .verbosity import note

if TYPE_CHECKING:
    import numpy as np

    from tvm_vision.evaluate.layers import LayerError
    from tvm_vision.report.compare import Change
    from tvm_vision.report.floors import Ceilings, Floor
    from tvm_vision.report.profile_document import SavedProfile
    from tvm_vision.runtime.graph_executor import GraphExecutor
    from tvm_vision.runtime.profiler import KernelProfile, ProfileReport

MAX_NODES = 60
MAX_CHANGES = 30


@click.command()
@package_argument()
@input_options
@click.option("--repeat", type=click.IntRange(min=1), default=30, show_default=True, help="Frames.")
@click.option(
    "--warmup", type=click.IntRange(min=0), default=5, show_default=True,
    help="Frames before, a quarter of a second of them at least unless at a rate; 0 for none.",
)  # fmt: skip
@rate_option()
@click.option(
    "--per-layer-error",
    type=PATH,
    metavar="MODEL",
    help="Compare each layer's output with onnxruntime's on the ONNX file MODEL.",
)
@click.option(
    "--html",
    type=OutputFile(".html", ".htm"),
    metavar="FILE.html",
    help="Write a page of it too, one file without a network.",
)
@click.option(
    "--trace", type=OutputFile(".json"), metavar="FILE.json",
    help="Write when what of a few frames ran too, host and device, for Perfetto.",
)  # fmt: skip
@click.option(
    "--compare", type=PATH, metavar="PACKAGE|JSON",
    help="Say what is slower and faster than in another package, or than in a profile that was "
    "saved with --json.",
)  # fmt: skip
@click.option("--sort", is_flag=True, help="The slowest kernel first, not in the order of running.")
@device_option()
@json_option("the profile")
def profile(
    package: Path,
    inputs: Path | None,
    image: Path | None,
    fill_mode: str,
    repeat: int,
    warmup: int,
    rate: float,
    per_layer_error: Path | None,
    html: Path | None,
    trace: Path | None,
    compare: Path | None,
    sort: bool,
    device: str,
    as_json: bool,
) -> None:
    """Time every kernel of a package.

    With the nodes of the network that each kernel of PACKAGE computes. On Vulkan with the
    device's timestamps, on the CPU by the host's clock. Below the table: the sum of the
    kernels, the span of a frame without timestamps in between, upload, read-back, wall
    time, and what of it is unexplained.

    Each kernel's floor is the least time it can take: for moving its tensors once, for its
    arithmetic, or for a launch. It is known where 'tvm-vision calibrate' measured the
    device, and assumed of kinds of GPUs. '!' stands at those above 4 times theirs.

    \b
    Example:
      tvm-vision profile model.tar --sort
      tvm-vision profile model.tar --html report.html --trace trace.json
      tvm-vision profile model.tar --json > profile.json
      tvm-vision profile new.tar --compare profile.json
      tvm-vision profile fp16.tar --compare fp32.tar --html report.html
      tvm-vision profile model.tar --per-layer-error model.onnx
    """
    from tvm_vision.report.compare import compare_profiles
    from tvm_vision.report.floors import ceilings_of
    from tvm_vision.report.profile_document import SavedProfile, profile_document
    from tvm_vision.whole_files import need_place

    for path in filter(None, (html, trace)):
        need_place(path)
    before = None if compare is None or _is_package(compare) else _saved(compare)
    executor = load_network(package, device, rebuilds=0)
    arrays = set_inputs(executor, inputs, image, fill_mode)
    with interruptible(UNMEASURED), progress("profiling"):
        report = executor.profile(repeat=repeat, warmup=warmup, rate=rate)
    if compare is not None and before is None:
        other = load_network(compare, device, rebuilds=0)
        set_inputs(other, inputs, image, fill_mode)
        with interruptible(UNMEASURED), progress(f"profiling {compare.name}"):
            found = other.profile(repeat=repeat, warmup=warmup, rate=rate)
        before = SavedProfile.of(compare.name, found)
    errors: Mapping[int, LayerError] | None = None
    if per_layer_error is not None:
        from tvm_vision.evaluate.layers import layer_errors

        with progress("comparing layers"):
            errors = layer_errors(
                package, arrays, per_layer_error, device=device, target=wanted_target()
            )
    ceilings = ceilings_of(executor.device)
    document = profile_document(report, executor.info, ceilings, errors)
    changes = [] if before is None else compare_profiles(report.kernels, before.kernels)
    if trace is not None:
        _write_trace(executor, arrays, trace)
    if html is not None:
        from tvm_vision.report.page import write_page
        from tvm_vision.report.profile_page import profile_page

        write_page(html, profile_page(document, executor.info, ceilings, changes, before))
        note(f"page: {html}")
    if as_json:
        if before is not None:
            document["changes"] = [change.to_dict() for change in changes]
        click.echo(json.dumps(document, indent=2))
        return
    for line in report_lines(report, errors, sort=sort, ceilings=ceilings):
        click.echo(line)
    if before is not None:
        for line in change_lines(changes, before, report):
            click.echo(line)


def _is_package(path: Path) -> bool:
    from tvm_vision.file_kinds import PACKAGES, kind_of

    return kind_of(path) in PACKAGES


def _saved(path: Path) -> SavedProfile:
    from tvm_vision.report.profile_document import read_profile

    return read_profile(path)


def _write_trace(executor: GraphExecutor, arrays: Mapping[str, np.ndarray], path: Path) -> None:
    from tvm_vision.report.chrome_trace import write_trace

    with progress("tracing"):
        traced = executor.trace(inputs=arrays)
    write_trace(path, traced, executor.info["model"]["name"])
    frame = traced.frames[0]
    apart = max(f.uncertainty for f in traced.frames) / 1e3
    note(f"trace: {path}, for ui.perfetto.dev (clocks {frame.clocks}, within {apart:.3g} us)")


def report_lines(
    report: ProfileReport,
    errors: Mapping[int, LayerError] | None = None,
    *,
    sort: bool = False,
    ceilings: Ceilings | None = None,
) -> list[str]:
    """The table of kernels and, below it, where the time of a frame goes.

    ceilings: of the device, for the kernels' floors, where they are known.
    """
    from tvm_vision.report.floors import floor_of

    kernels = sorted(report.kernels, key=lambda k: -k.median_us) if sort else report.kernels
    floors = [None if ceilings is None else floor_of(kernel, ceilings) for kernel in kernels]
    header = ["#", "kernel", "nodes", "device", "median us", "p95 us", "share"]
    rows: list[Sequence[object]] = []
    for kernel, floor in zip(kernels, floors, strict=True):
        row: list[object] = [
            kernel.index,
            kernel.function,
            _shortened(" ".join(kernel.nodes)),
            kernel.device,
            f"{kernel.median_us:.1f}",
            f"{kernel.p95_us:.1f}",
            f"{100 * kernel.share:.1f} %",
        ]
        if ceilings is not None and ceilings.known:
            row += _floor_cells(kernel, floor)
        if errors is not None:
            error = errors.get(kernel.index)
            row.append("-" if error is None else f"{error.error.max_rel:.1e}")
        rows.append(row)
    if ceilings is not None and ceilings.known:
        header += ["floor us", "bound", "÷ floor"]
    if errors is not None:
        header.append("max rel error")
    lines = [*table(header, rows, left=4), "", *_stages(report)]
    if ceilings is None:
        return lines
    lines.append(f"{'ceilings':<15}{ceilings.line()}")
    return [*lines, *_below(kernels, floors)]


def _below(kernels: Sequence[KernelProfile], floors: Sequence[Floor | None]) -> list[str]:
    """What kernels that are faster than their floors say of these."""
    pairs = zip(kernels, floors, strict=True)
    faster = sum(f is not None and f.is_beaten_by(k.median_us) for k, f in pairs)
    if not faster:
        return []
    return [
        f"{'':<15}{faster} of {len(floors)} kernels take less than their floors: caches hold their "
        "tensors, or the device does more than it is taken for"
    ]


def _floor_cells(kernel: KernelProfile, floor: Floor | None) -> list[object]:
    if floor is None:
        return ["-", "-", "-"]
    times = kernel.median_us / floor.floor_us
    flag = " !" if floor.flags(kernel.median_us) else "  "
    return [f"{floor.floor_us:.2f}", floor.bound, f"{times:.1f}{flag}"]


def change_lines(
    changes: Sequence[Change], before: SavedProfile, report: ProfileReport
) -> list[str]:
    """What became slower and faster, the largest difference first, and of how much."""
    from tvm_vision.report.compare import how_fast

    rows = [
        (
            change.verdict, _shortened(" ".join(change.nodes)),
            f"{change.before_us:.1f}" if change.before else "-",
            f"{change.now_us:.1f}" if change.now else "-", f"{change.difference_us:+.1f}",
        )
        for change in changes
        if change.verdict != "same"
    ]  # fmt: skip
    header = ["", "nodes", "before us", "now us", "difference"]
    same = len(changes) - len(rows)
    times = how_fast(changes, report.span_us, before.span_us)
    return [
        "",
        *(table(header, rows[:MAX_CHANGES], left=2) if rows else []),
        f"{max(0, len(rows) - MAX_CHANGES)} more; {same} within 5 %",
        f"{before.name}: span {before.span_us:.1f} us, here {report.span_us:.1f} us: {times}",
    ]


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_NODES else f"{text[: MAX_NODES - 3]}..."


def _stages(report: ProfileReport) -> list[str]:
    rows = [
        ("sum of kernels", report.sum_us, "each alone, between two timestamps"),
        ("span", report.span_us, "first to last kernel, as they run in production"),
        ("upload", report.upload_us, ""),
        ("read-back", report.readback_us, ""),
        ("wall", report.wall_us, f"a whole frame, median of {report.repeat}"),
        ("unexplained", report.unexplained_us, "beyond upload, span, read-back of a frame"),
    ]
    return [f"{name:<15}{value:>12.1f} us  {text}".rstrip() for name, value, text in rows]
