"""``tvm_vision.compile``: from a model to a package, in one call; and ``tvm_vision.quantize``."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from .cache.packages import CompileReport, Description, asked_for, heard, put
from .collecting import collected_seldom
from .drivers import driver_of
from .errors import InputError
from .freed_memory import FreedMemory
from .options import CompileOptions
from .whole_files import need_place, write_whole

if TYPE_CHECKING:
    from .compiler import CompiledModel
    from .compiler.precision.mixed_precision_search import Samples
    from .frontend.signature import Signature
    from .package import ModelInfo, PackageDevice, PackageInfo

PathLike = str | os.PathLike[str]
Describe = Callable[["Signature"], "ModelInfo"]
LOGGER = logging.getLogger(__name__)
# Of the outputs, where fp16 are measured on sample images.
MAX_ERROR = 0.01


@overload
def compile(
    model: Any,
    output: None = None,
    *,
    target: Any = "auto",
    host: str | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    input_values: Mapping[str, Any] | None = None,
    example_inputs: Sequence[Any] = (),
    raw_io: bool = False,
    opt_level: int | None = None,
    precision: str | None = None,
    layout: str | None = None,
    options: CompileOptions | Mapping[str, Any] | None = None,
    name: str | None = None,
    model_info: ModelInfo | Describe | Description | None = None,
    tuning_records: Sequence[PathLike] = (),
    shipped_records: bool = True,
    sample_images: Sequence[PathLike] = (),
    max_error: float | None = None,
    dump_ir: PathLike | None = None,
    dump_shaders: PathLike | None = None,
    progress: Callable[[str], object] | None = None,
    on_target: Callable[[str], object] | None = None,
    on_compiled: Callable[[CompileReport], object] | None = None,
) -> CompiledModel: ...
@overload
def compile(
    model: Any,
    output: PathLike,
    *,
    target: Any = "auto",
    host: str | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    input_values: Mapping[str, Any] | None = None,
    example_inputs: Sequence[Any] = (),
    raw_io: bool = False,
    opt_level: int | None = None,
    precision: str | None = None,
    layout: str | None = None,
    options: CompileOptions | Mapping[str, Any] | None = None,
    name: str | None = None,
    model_info: ModelInfo | Describe | Description | None = None,
    tuning_records: Sequence[PathLike] = (),
    shipped_records: bool = True,
    sample_images: Sequence[PathLike] = (),
    max_error: float | None = None,
    dump_ir: PathLike | None = None,
    dump_shaders: PathLike | None = None,
    progress: Callable[[str], object] | None = None,
    on_target: Callable[[str], object] | None = None,
    on_compiled: Callable[[CompileReport], object] | None = None,
) -> Path: ...
def compile(
    model: Any,
    output: PathLike | None = None,
    *,
    target: Any = "auto",
    host: str | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    input_values: Mapping[str, Any] | None = None,
    example_inputs: Sequence[Any] = (),
    raw_io: bool = False,
    opt_level: int | None = None,
    precision: str | None = None,
    layout: str | None = None,
    options: CompileOptions | Mapping[str, Any] | None = None,
    name: str | None = None,
    model_info: ModelInfo | Describe | Description | None = None,
    tuning_records: Sequence[PathLike] = (),
    shipped_records: bool = True,
    sample_images: Sequence[PathLike] = (),
    max_error: float | None = None,
    dump_ir: PathLike | None = None,
    dump_shaders: PathLike | None = None,
    progress: Callable[[str], object] | None = None,
    on_target: Callable[[str], object] | None = None,
    on_compiled: Callable[[CompileReport], object] | None = None,
) -> Path | CompiledModel:
    """Compile a model and write it as a package.

    A package that was made before of the same file, for the same target and in the same way, by
    the same installation, is taken from the folder of TVM_VISION_CACHE_DIR, without TVM
    (``options={"package_cache": False}``: made anew).

    model: see ``tvm_vision.frontend.model.import_model``: an ONNX or TFLite file, a PyTorch module,
        ...
    output: the package, a tar where it ends in .tar, else a folder; None writes nothing.
    target: "auto", "vulkan", "vulkan --from_device 0", "llvm -mcpu=native", JSON, ...; "renoir" or
        another name of ``tvm_vision.devices.known_devices``, or a .json file that ``tvm-vision
        devices --export`` wrote, for devices that need not be here. "auto" is the first Vulkan
        device, or this processor where there is none, which the log then says.
    host: the processor beside a GPU that is not this machine's: "aarch64", "riscv64", "x86_64", or
        "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76"; None for this one, or the one that a
        description of the device names.
    input_shapes: input name -> shape, for inputs that an ONNX or TFLite model leaves open.
    input_values: input name -> value, for small inputs that become constants of the network, such
        as a rate: a number for all elements, or as many as the input has. mod.json keeps them.
    example_inputs: tensors to compile a torch.nn.Module for.
    raw_io: whether quantized inputs and outputs of a TFLite file are its integers; else they are
        float32, and the network converts them.
    opt_level: 0 to 3, the default.
    precision: "fp32", the default, or "fp16" for weights and activations as fp16.
    layout: "auto", the default, "nchw" for channels in the model's order, "nhwc" for channels last
        on a GPU.
    options: these and all others, by name or as a value; see ``CompileOptions``.
    name: of the model in the package; the file's name where not given.
    model_info: everything else that the package says about the model (kind, labels,
        preprocessing); its name counts. Or what makes it of the model's inputs and outputs. None:
        what the file's metadata and the outputs say, where these are clear.
    tuning_records: files that ``tvm_vision.tuning.tune_model`` wrote; what they say of this device
        and driver is used.
    shipped_records: whether to use what this version brings for this device and driver, too.
    sample_images: images, folders of them, or .npz files with the network's inputs; with "fp16".
        They are run in float32 and with fp16, on this processor, and layers whose rounding costs
        too much of the outputs' accuracy keep float32; see
        ``tvm_vision.compiler.precision.mixed_precision_search``.
    max_error: the largest error of an output on them, as ``tvm-vision check`` has it: the largest
        difference, relative to the largest value; of integers the share that differs. 0.01 where
        none is given.
    dump_ir: a folder for the network's form after each step of the compiler.
    dump_shaders: a folder for each kernel of a GPU, as GLSL (.comp) and SPIR-V (.spv).
    progress: called with a few words before each step.
    on_target: called with a line that says what "auto" stands for and why; else the log has it.
    on_compiled: called with what is to be told of the compilation, before the package is written.

    Returns the package's path; without ``output`` the CompiledModel.

    Raises InputError, UnsupportedModelError, UnsupportedKernelError, DeviceError, TuningError or
    PackageError, each with a line that says what to do.
    """
    given = dict(locals())
    if output is not None:
        from .package.files import need_package_place

        need_package_place(Path(output))
    tell = progress or (lambda words: None)
    how = CompileOptions.of(options, opt_level=opt_level, precision=precision, layout=layout)
    limit = _limit_of(how.precision, sample_images, max_error)
    asked = asked_for(how, given)
    if asked is not None and output is not None and (found := asked.found()) is not None:
        report, package = found
        _say_target(report, on_target)
        for logger, level, words in report.logged:
            logging.getLogger(logger).log(level, "%s", words)
        tell("the package was made before")
        if on_compiled is not None:
            on_compiled(report)
        with package:
            put(package, Path(output))
        return Path(output)
    compiled, info, report = _compiled(given, how, limit, tell)
    if on_compiled is not None:
        on_compiled(report)
    if output is None:
        return compiled
    tell(f"writing {output}")
    written = _written(compiled, Path(output), info)
    del compiled  # its weights are in the package
    if asked is not None:
        asked.keep(Path(output), written.to_bytes(), report)
    return Path(output)


def _compiled(
    given: Mapping[str, Any], how: CompileOptions, limit: float, tell: Callable[[str], object]
) -> tuple[CompiledModel, ModelInfo, CompileReport]:
    """What ``compile`` makes of its arguments, what is said of the model, and what is to be told.
    limit: for sample images."""
    from .frontend.model import import_model, is_quantized_file, prepare

    model, images = given["model"], given["sample_images"]
    # TVM's import takes as long as this does.
    prepare(model)
    describe = given["model_info"]
    if hasattr(describe, "begin"):
        describe = describe.begin()
    _need_compiler()
    # Not beyond: what is in a circle may hold weights.
    with collected_seldom():
        from .compiler import compile_model
        from .compiler.target import choose_target
        from .exporters.describe import open_shapes
        from .schedules import limits_of
        from .tuning.choose import chooser, load_records
        from .tuning.places import place_of

    chosen, why = choose_target(given["target"], given["host"])
    report = CompileReport(target=why, gpu="gpu" in chosen.keys)
    _say_target(report, given["on_target"])
    with heard() as logged:
        tell("reading the model")
        module, signature = import_model(
            model,
            input_shapes=given["input_shapes"] or open_shapes(model),
            input_values=given["input_values"],
            example_inputs=given["example_inputs"],
            raw_io=given["raw_io"],
        )
        found = described(model, signature, given["name"], describe)
        info = replace(found, cut=signature.cut, input_values=dict(signature.input_values))
        # Nobody keeps the weights as they were beside what is made of them.
        held = [module]
        del module
        FreedMemory().give_back()
        tell(f"compiling for {chosen.attrs.get('device_name', chosen.kind.name)}")
        records = load_records(given["tuning_records"], shipped=given["shipped_records"])
        choose = chooser(records, place_of(chosen, how.precision), limits_of(chosen, how))
        dump_ir, dump_shaders = given["dump_ir"], given["dump_shaders"]
        compiled = compile_model(
            held.pop(),
            signature,
            target=chosen,
            options=how,
            name=info.name,
            choose=choose,
            samples=_samples(images, signature, info, limit, tell) if images else None,
            dump=None if dump_ir is None else Path(dump_ir),
            dump_shaders=None if dump_shaders is None else Path(dump_shaders),
        )
    of_bytes = any(value.dtype == "int8" for value in compiled.params.values())
    report = replace(
        report,
        known=compiled.known,
        kernels=len(compiled.library.kernels),
        kind=getattr(describe, "line", ""),
        dequantized=not of_bytes and is_quantized_file(model, info),
        logged=tuple(logged),
    )
    tell(f"{report.known} of {report.kernels} kernels made before")
    return compiled, info, report


def _say_target(report: CompileReport, on_target: Callable[[str], object] | None) -> None:
    """Of "auto", what it stands for: to who asks, else in the log, as a warning where there is no
    device."""
    if report.target and on_target is not None:
        on_target(report.target)
    elif report.target:
        level = logging.INFO if report.gpu else logging.WARNING
        LOGGER.log(level, "target: %s", report.target)


def described(
    model: Any,
    signature: Signature,
    name: str | None = None,
    wanted: ModelInfo | Describe | None = None,
) -> ModelInfo:
    """What the package says of the model. Raises InputError and PackageError where that does not
    fit its outputs, before anything that takes long."""
    from .models.classifier.labels import check_labels
    from .package.build import described_inputs, described_outputs

    info = _said_of(model, signature, name, wanted)
    if info.kind in ("network", "classifier"):
        check_labels(info.labels, signature.outputs[0].shape, info.name)
    described_inputs(signature.inputs, info)[0].check(described_outputs(signature.outputs))
    return info


def _said_of(
    model: Any, signature: Signature, name: str | None, wanted: ModelInfo | Describe | None
) -> ModelInfo:
    from .exporters.describe import Wishes, describe
    from .package import ModelInfo

    if isinstance(wanted, ModelInfo):
        return wanted
    if wanted is not None:
        return wanted(signature)
    wishes = Wishes(name=name or "")
    return describe(model, signature.inputs, signature.outputs, wishes)[0]


def choose_target(target: Any = "auto", host: str | None = None) -> tuple[Any, str]:
    """What ``compile`` takes for a target and host, and, for "auto", a line that says what was
    chosen, why, and what brings the other; else "". Raises InputError and DeviceError."""
    _need_compiler()
    from .compiler import target as targets

    return targets.choose_target(target, host)


def quantize(
    model: PathLike,
    output: PathLike,
    *,
    sample_images: Sequence[PathLike],
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    input_values: Mapping[str, Any] | None = None,
    model_info: ModelInfo | Describe | None = None,
    keep: Sequence[str] = (),
    calibration: str = "percentile",
    progress: Callable[[str], object] | None = None,
) -> dict[str, float]:
    """Write an ONNX model with int8 weights and activations, which ``compile`` computes in bytes.

    model: an ONNX or TFLite file in float32.
    sample_images: images, folders of them, or .npz files with the network's inputs, up to 32 of
        them evenly spread over more. They decide what range of numbers each tensor's bytes stand
        for: they should be like what the robot sees.
    model_info: how images are prepared, as for ``compile``: None for what the file's metadata and
        the outputs say.
    keep: names of nodes that stay float32. What comes after a path's last convolution or product
        does so anyway.
    calibration: "percentile" leaves out the rarest values, "minmax" none, "entropy" as many as
        loses least.
    input_shapes, input_values, progress: as for ``compile``.

    Returns for each output its error on the worst sample, as ``tvm-vision check`` has it: the
    largest difference, relative to the largest value; of integers the share that differs.

    Raises InputError and UnsupportedModelError; then nothing is written.
    """
    from .evaluate import Reference, compare_outputs
    from .exporters.describe import open_shapes
    from .file_kinds import TFLITE, kind_of
    from .frontend.model import onnx_form
    from .frontend.onnx.quantize import check_smaller, plain_onnx, plain_signature, quantized
    from .models.samples import read_sample, sample_paths
    from .package.build import described_inputs

    need_place(Path(output))
    tell = progress or (lambda words: None)
    paths = sample_paths(sample_images)
    tell("reading the model")
    shapes = input_shapes or open_shapes(model)
    source = onnx_form(Path(model), shapes, input_values=input_values)
    # A TFLite file's are constants by now.
    values = None if kind_of(Path(model)) is TFLITE else input_values
    plain = plain_onnx(source, shapes, values)
    signature = plain_signature(plain)
    said = _said_of(model, signature, None, model_info)
    info, inputs = described_inputs(signature.inputs, said)
    samples = [read_sample(path, info, inputs) for path in paths]
    made = quantized(plain, samples, keep=keep, calibration=calibration, tell=tell)
    check_smaller(made, Path(model))
    tell("comparing with the network in float32")
    exact, ours = Reference(plain), Reference(made)
    errors: dict[str, float] = {}
    for sample in samples:
        for found in compare_outputs(ours.run(sample), exact.run(sample)):
            errors[found.name] = max(errors.get(found.name, 0.0), found.error)
    tell(f"writing {output}")
    write_whole(Path(output), made.SerializeToString())
    return errors


def _limit_of(precision: str, images: Sequence[PathLike], max_error: float | None) -> float:
    """The limit for sample images. Raises InputError for options that do not go together."""
    if isinstance(images, (str, os.PathLike)):
        raise InputError(f"a list of sample images is needed, found {os.fspath(images)!r} alone")
    if images and precision != "fp16":
        raise InputError(
            "sample images decide which layers of an fp16 network keep float32: precision fp16 "
            f"is needed, found {precision}"
        )
    if max_error is None:
        return MAX_ERROR
    if not images:
        raise InputError(
            "a largest error is measured on sample images, and none are given: name some"
        )
    if not 0 < max_error < math.inf:
        raise InputError(f"a largest error above 0 is needed, found {max_error:g}")
    return max_error


def _samples(
    images: Sequence[PathLike],
    signature: Signature,
    model: ModelInfo,
    limit: float,
    tell: Callable[[str], object],
) -> Samples:
    from .compiler.precision.mixed_precision_search import Samples
    from .evaluate.compare import compare
    from .models.samples import read_sample, sample_paths
    from .package.build import described_inputs

    tell("reading the sample images")
    model, inputs = described_inputs(signature.inputs, model)
    found = (read_sample(path, model, inputs) for path in sample_paths(images))
    return Samples(
        arrays=[[arrays[tensor.name] for tensor in inputs] for arrays in found],
        limit=limit,
        error_of=lambda ours, exact: compare("an output", ours, exact).error,
        tell=tell,
    )


def _need_compiler() -> None:
    """Raise InputError where only TVM's runtime library is loaded."""
    from .tvm_compat.runtime_library import is_runtime_alone

    if is_runtime_alone():
        raise InputError(
            "compiling needs TVM's compiler, and TVM_USE_RUNTIME_LIB=1 leaves it out: unset it, or "
            "compile on another machine"
        )


def _written(compiled: CompiledModel, output: Path, info: ModelInfo) -> PackageInfo:
    from .package import write_package

    # A frozen dataclass is no match for a protocol with plain attributes.
    return write_package(output, compiled, info, device=_device_of(compiled))


def _device_of(compiled: CompiledModel) -> PackageDevice | None:
    """The device whose limits the kernels were made for; None for the CPU."""
    from .package import PackageDevice

    if "gpu" not in compiled.target.keys:
        return None
    attributes = compiled.target.attrs
    name = str(attributes.get("device_name", "unknown"))
    return PackageDevice(name=name, driver=driver_of(attributes))
