"""``tvm-vision check``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .options import PATH, device_option, input_options, json_option, package_argument
from .progress import progress
from .session import load_network, set_inputs
from .table import table

if TYPE_CHECKING:
    import numpy as np
    import onnx

    from tvm_vision.evaluate import Agreement, LiteRtReference, OutputError, Reference
    from tvm_vision.runtime.graph_executor import GraphExecutor

HALVES = (
    "; where fp16 has too few digits for it, compile it with --sample-images, which keeps float32 "
    "where that matters, or with --precision fp32"
)


@click.command()
@package_argument()
@click.argument("model", type=PATH)
@input_options
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0.0),
    help="Largest error, relative to an output's largest value; for integers the share that "
    "differs.  [default: 1e-3, for fp16, of PACKAGE or MODEL, 3e-2, for quantized networks 5e-2]",
)
@device_option()
@json_option("the errors")
def check(
    package: Path,
    model: Path,
    inputs: Path | None,
    image: Path | None,
    fill_mode: str,
    tolerance: float | None,
    device: str,
    as_json: bool,
) -> None:
    """Compare a package with onnxruntime, or with LiteRT.

    MODEL is the ONNX, TFLite or .pt2 file that PACKAGE was made from. LiteRT runs TFLite files
    where it is installed (pip install ai-edge-litert), else onnxruntime the ONNX model made of
    them, as it does of .pt2 files. Prints the error of each output; the exit code is 1 where one
    is above the tolerance. Where a network finds boxes or classes of pixels it also prints, for
    --image or the images of the demo, how far these are the same: boxes of a score above 0.3
    within a pixel of the network's input, and 99.9 % of the mask, for fp16 99 %; for quantized
    networks nine boxes of ten within three pixels, and 99 %.

    \b
    Example:
      tvm-vision check model.tar model.onnx
      tvm-vision check model.tar model.onnx --image cat.jpg --tolerance 0.01
    """
    from tvm_vision.evaluate import tolerance_for
    from tvm_vision.evaluate.vocabularies import vocabularies_of

    executor = load_network(package, device)
    arrays = set_inputs(executor, inputs, image, fill_mode, vocabularies_of(model))
    reference = _reference(executor, model)
    strictness = "fp16" if reference.fp16 else executor.info["precision"]
    strictness = "int8" if reference.quantized else strictness
    if tolerance is None:
        tolerance = tolerance_for(strictness)
    with progress("running, here and in the reference"):
        executor.run()
        # Frames as a camera gives them are no input of MODEL: those are compared below.
        given = {} if set(arrays) != set(reference.inputs) and of_camera(executor) else arrays
        errors: list[OutputError] = []
        own: dict[str, float] = {}
        if given:
            wanted = reference.run(given)
            errors = _errors(executor, wanted)
            if not all(error.within(tolerance) for error in errors):
                own = _own_differences(executor, model, given, wanted, reference.fp16)
        frames = frame_agreements(executor, reference, image)
    if as_json:
        document: Any = [error.to_dict() for error in errors]
        if frames:
            compared = [{"name": name, **found.to_dict()} for name, found in frames]
            document = {"outputs": document, "images": compared}
        click.echo(json.dumps(document, indent=2))
    else:
        for line in error_lines(errors, tolerance, own):
            click.echo(line)
        for name, found in frames:
            click.echo(f"{name}: {found}")
        for line in measured_when_compiled(executor):
            click.echo(line)
    if of_camera(executor) and not reference.quantized:
        strictness = "fp16"
    other = [name for name, found in frames if not found.within(strictness)]
    if other:
        raise click.ClickException(
            f"boxes and mask must be the same as onnxruntime's, and are not on {', '.join(other)}: "
            f"is '{model}' what the package was made from? If so, 'tvm-vision profile "
            "--per-layer-error' shows where it goes wrong"
        )
    worst = [error.name for error in errors if not _is_close(error, tolerance, own)]
    if worst:
        raise click.ClickException(
            f"{', '.join(worst)} must be within {tolerance:g} of the reference's, and "
            f"{'is' if len(worst) == 1 else 'are'} not: is "
            f"'{model}' what the package was made from? If so, 'tvm-vision profile "
            "--per-layer-error' shows where it goes wrong"
            + (HALVES if executor.info["precision"] == "fp16" else "")
        )


def _reference(
    executor: GraphExecutor, model: Path, optimized: bool = True, in_float32: bool = False
) -> Reference | LiteRtReference:
    """What the package is held to. Of a model that was cut it gives the values that are outputs of
    the package alone. optimized: whether onnxruntime may fuse and reorder what the model says.
    in_float32: whether it computes in float32 what the model does in float16."""
    from tvm_vision.errors import InputError
    from tvm_vision.evaluate import Reference, reference_of

    cut = _cut(executor)
    if not cut:
        fixed = _fixed(executor)
        return reference_of(
            model, raw_io=has_raw_io(executor), input_values=fixed, optimized=optimized,
            in_float32=in_float32,
        )  # fmt: skip
    whole, outputs = _whole(executor, model)
    known = {name for node in whole.graph.node for name in node.output if name}
    # Rows that the data counts come with their number, which is no value of the model.
    counts = tuple(f"{name}_count" for name in known)
    lacking = [name for name in cut if name not in outputs]
    lacking += [n for n in executor.output_names if n not in known and not n.startswith(counts)]
    if lacking:
        raise InputError(
            f"the package was cut from a model that has '{lacking[0]}', and '{model}' has not: is "
            "it the model that the package was made from?"
        )
    return Reference(
        whole, values=executor.output_names, optimized=optimized, in_float32=in_float32
    )


def _whole(executor: GraphExecutor, model: Path) -> tuple[onnx.ModelProto, list[str]]:
    """A model as it is cut, of a TFLite file as much as has an ONNX form, and all its outputs."""
    from tvm_vision.file_kinds import TFLITE, kind_of
    from tvm_vision.frontend.onnx.cut import plain_onnx
    from tvm_vision.frontend.tflite.cut import tflite_head

    shapes = {end["name"]: end["shape"] for end in executor.info["inputs"]}
    if kind_of(model) is not TFLITE:
        whole = plain_onnx(model, shapes, _fixed(executor))
        return whole, [value.name for value in whole.graph.output]
    head = tflite_head(
        model, input_shapes=shapes, input_values=_fixed(executor), raw_io=has_raw_io(executor)
    )
    outputs = [value.name for value in head.form.model.graph.output]
    return head.form.model, [*outputs, *head.lost]


def _fixed(executor: GraphExecutor) -> dict[str, Any]:
    """Inputs of the model that are constants of the package."""
    found: dict[str, Any] = executor.info["model"].get("input_values", {})
    return found


def _cut(executor: GraphExecutor) -> Sequence[str]:
    """Outputs of the model that the package has not."""
    found: Sequence[str] = executor.info["model"].get("cut", ())
    return found


def _errors(executor: GraphExecutor, wanted: dict[str, np.ndarray]) -> list[OutputError]:
    from tvm_vision.evaluate import compare_outputs

    cut = _cut(executor)
    kept = {name: value for name, value in wanted.items() if name not in cut}
    return compare_outputs(executor.outputs(), kept)


def _own_differences(
    executor: GraphExecutor,
    model: Path,
    given: dict[str, np.ndarray],
    wanted: dict[str, np.ndarray],
    fp16: bool,
) -> dict[str, float]:
    """By how much the reference's outputs differ from themselves where it computes what the model
    says in another order: where all of an output is next to 0, say behind a sigmoid that has
    nothing to find, that may be as much as the largest of it. fp16: the model computes in float16,
    after each of whose steps the reference rounds; in float32 it says what that costs."""
    from tvm_vision.evaluate import Reference, compare_outputs

    found: dict[str, float] = {}
    for in_float32 in (False, True) if fp16 else (False,):
        other = _reference(executor, model, optimized=False, in_float32=in_float32)
        if not isinstance(other, Reference):
            continue
        for error in compare_outputs(other.run(given), wanted):
            found[error.name] = max(found.get(error.name, 0.0), error.error)
    return found


def _is_close(error: OutputError, tolerance: float, own: Mapping[str, float]) -> bool:
    """own: see ``_own_differences``. Two results that are so far apart may both be as far from the
    exact one, on the same side."""
    return error.within(max(tolerance, 2 * own.get(error.name, 0.0)))


def measured_when_compiled(executor: GraphExecutor) -> list[str]:
    """What the package says of its error on sample images, in a line; empty without."""
    from tvm_vision.package import MeasuredPrecision

    found = executor.info.get("measured_precision")
    if found is None:
        return []
    measured = MeasuredPrecision.from_json(found, "measured_precision")
    return [f"when it was compiled: {measured}"]


def has_raw_io(executor: GraphExecutor) -> bool:
    """Whether inputs and outputs are the integers that a quantized network keeps them as."""
    ends = [*executor.info["inputs"], *executor.info["outputs"]]
    kept = [(end["dtype"], end.get("quantization")) for end in ends]
    return any(found is not None and found["dtype"] == dtype for dtype, found in kept)


def of_camera(executor: GraphExecutor) -> bool:
    """Whether a YOEO network's package prepares frames on its device."""
    yoeo = executor.info["model"].get("yoeo") is not None
    return yoeo and executor.info["inputs"][0]["layout"] == "NHWC"


def frame_agreements(
    executor: GraphExecutor, reference: Reference | LiteRtReference, image: Path | None
) -> list[tuple[str, Agreement]]:
    """Of a network that finds boxes or classes of pixels: for each image how far they are the
    same."""
    from tvm_vision.demo.images import demo_images
    from tvm_vision.evaluate import compare_frames, seeing
    from tvm_vision.runtime.sources import read_image

    model = seeing(executor)
    if model is None:
        return []
    paths = [image] if image is not None else demo_images()
    images = (read_image(path) for path in paths)
    found = compare_frames(model, reference, images)
    return list(zip((path.name for path in paths), found, strict=True))


def error_lines(
    errors: Sequence[OutputError], tolerance: float, own: Mapping[str, float] | None = None
) -> list[str]:
    """A table of errors, one output a line, and what is said of those that are only as close to the
    reference as that is to itself. own: see ``_own_differences``."""
    own = own or {}
    rows = [
        (
            error.name,
            f"{error.dtype}{list(error.shape)}",
            f"{error.max_abs:.2e}",
            f"{error.max_rel:.2e}",
            f"{100 * error.equal:.2f} %",
            "-" if error.argmax_agreement is None else f"{100 * error.argmax_agreement:.2f} %",
            "ok" if _is_close(error, tolerance, own) else "WRONG",
        )
        for error in errors
    ]
    header = ("output", "type", "max abs", "max rel", "equal", "same arg max", "")
    said = [
        f"{error.name}: onnxruntime differs from itself by {own[error.name]:.2e}, with and without "
        "its optimizations"
        for error in errors
        if not error.within(tolerance) and _is_close(error, tolerance, own)
    ]
    return [*(table(header, rows, left=2) if rows else ()), *said]
