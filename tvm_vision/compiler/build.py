"""``compile_model``, from an imported network to kernels, a static graph and parameters."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm.target import Target

from ..errors import InputError, TvmVisionError, UnsupportedModelError
from ..frontend.signature import Signature, TensorSpec
from ..interrupts import ctrl_c_as_itself
from ..package.precision import MeasuredPrecision
from ..schedules import (
    TUNED,
    Choice,
    Chooser,
    Limits,
    check_writes,
    choices,
    schedule_module,
    schedule_with,
)
from .bounded_kernels import bound_kernels
from .cpu_schedules import cpu_schedules
from .guard_indices import guard_indices
from .half_choice import HalfChoice, Part, Samples, choose_halves, single_roots
from .half_emulation import HalfEmulation
from .half_precision import to_half
from .hand_threaded import finish_hand_threaded
from .in_place import concat_axes, concat_in_place, in_place_wanted
from .inline_selections import inline_selections, inline_wanted
from .lowering import lower_to_graph
from .passes import check_layout, check_opt_level, to_kernels
from .phases import in_phases, phases_wanted
from .split_kernels import split_kernels
from .static_graph import Kernel, StaticGraph, describe
from .target import parse_target
from .workspaces import plan_workspaces

PRECISIONS = ("fp32", "fp16")
# Names end up in files and in shaders; long chains of fused operators are cut.
MAX_NAME = 80


@dataclass(frozen=True)
class CompiledModel:
    """A network compiled for one target.

    Attributes:
        name: of the network.
        library: tvm.runtime.Module with a function for each kernel of ``graph``; exportable.
        graph: the static graph as plain data: storages (bytes), tensors, params, inputs, outputs,
            kernels.
        params: the constants by their name in ``graph``.
        target: what it was compiled for.
        inputs, outputs: names, shapes and types, in the order of ``graph``.
        precision: "fp32" or "fp16", what is stored in memory.
        opt_level: 0 to 3, see ``passes``.
        memory: device memory in bytes: "weights", "activations", "peak".
        tuned: kernels, each structure once, whose schedule ``choose`` gave.
        measured_precision: which layers keep float32, where that was chosen by samples.
    """

    name: str
    library: Any
    graph: dict[str, Any]
    params: dict[str, np.ndarray]
    target: Target
    inputs: list[TensorSpec]
    outputs: list[TensorSpec]
    precision: str
    opt_level: int
    memory: dict[str, int]
    tuned: int = 0
    measured_precision: MeasuredPrecision | None = None


def compile_model(
    module: tvm.IRModule,
    signature: Signature,
    *,
    target: str | dict[str, Any] | Target = "auto",
    opt_level: int = 3,
    precision: str = "fp32",
    layout: str = "auto",
    name: str = "network",
    choose: Chooser | None = None,
    samples: Samples | None = None,
) -> CompiledModel:
    """Compile the Relax module of a front end.

    The same input gives the same graph, parameters, names and library, byte for byte.

    target: see ``parse_target``. opt_level: see ``passes``. precision: "fp16" stores weights and
    activations as halves; sums, inputs and outputs stay float32. layout: "nchw" switches off that
    channels lie in blocks of vectors on processors. choose: what tuning found for a kernel of a
    GPU, see ``schedules.schedule_module``. samples: with "fp16", inputs on which the error is
    measured that decides which layers keep float32, see ``half_choice``.

    Raises InputError for options that do not exist, DeviceError for a device that is absent or
    lacks what the precision needs, UnsupportedModelError and UnsupportedKernelError for networks
    and operators that cannot be compiled.
    """
    chosen = parse_target(target)
    options: dict[str, Any] = {"target": chosen, "opt_level": opt_level, "layout": layout}
    check_options(chosen, opt_level, precision, layout)
    measured = None if samples is None else measure_halves(module, samples, **options)
    halves = None if measured is None else measured.halves
    graph = prepare(module, precision=precision, halves=halves, **options)
    with _one_line("kernels of the network"):
        graph, library, tuned = build_library(graph, chosen, choose)
    _check_sizes(graph, chosen)
    sort = opt_level >= 2 and "gpu" in chosen.keys and phases_wanted()
    graph, phases = in_phases(graph) if sort else (graph, None)
    plain, memory = describe(graph, phases)
    return CompiledModel(
        name=name,
        library=library,
        graph=plain,
        params={f"p{i}": value for i, value in enumerate(graph.params.values())},
        target=chosen,
        inputs=_specs(signature.inputs, graph, graph.inputs),
        outputs=_specs(signature.outputs, graph, graph.outputs),
        precision=precision,
        opt_level=opt_level,
        memory={
            "weights": memory.weights,
            "activations": memory.activations,
            "peak": memory.peak,
        },
        tuned=tuned,
        measured_precision=None if measured is None else measured.report,
    )


def prepare(
    module: tvm.IRModule,
    *,
    target: Target,
    opt_level: int = 3,
    precision: str = "fp32",
    layout: str = "auto",
    halves: Collection[Part] | None = None,
) -> StaticGraph:
    """The kernels of a network before they have schedules, as ``compile_model`` makes them.

    halves: what ``measure_halves`` leaves to be halves; None leaves everything.

    Raises what ``compile_model`` raises for operators and options.
    """
    check_options(target, opt_level, precision, layout)
    with _one_line("operators of the network"):
        kernels, nodes = to_kernels(module, target, opt_level, layout, precision)
        graph = bound_kernels(guard_indices(lower_to_graph(kernels, nodes)))
        joined = concat_axes(graph)
        axes = joined if opt_level >= 2 and in_place_wanted() else {}
        if precision == "fp16":
            graph = to_half(graph, () if halves is None else single_roots(graph, halves))
        results = {graph.kernels[position].outputs[0]: axis for position, axis in joined.items()}
        graph = concat_in_place(graph, axes)
        graph = split_kernels(graph, results, Limits.of(target).tensors)
        if opt_level >= 2 and "gpu" in target.keys and inline_wanted():
            graph = inline_selections(graph, target)
        return _short_names(graph)


def check_options(target: Target, opt_level: int, precision: str, layout: str) -> None:
    """Raise InputError for options that do not exist, or that the target cannot do."""
    check_opt_level(opt_level)
    check_layout(layout)
    if precision not in PRECISIONS:
        raise InputError(f"a precision of {' or '.join(PRECISIONS)} is needed, found {precision!r}")
    if precision == "fp16":
        _check_half(target)


def measure_halves(
    module: tvm.IRModule,
    samples: Samples,
    *,
    target: Target,
    opt_level: int = 3,
    layout: str = "auto",
) -> HalfChoice:
    """Which layers of a network for ``target`` may be halves, measured on this processor.

    Raises what ``compile_model`` raises, and InputError where the samples' limit leaves none.
    """
    here = parse_target("llvm")
    samples.tell("compiling to measure halves")
    with _one_line("operators of the network"):
        kernels, nodes = to_kernels(module, target, opt_level, layout, "fp16", runs_on=here)
        graph = _short_names(bound_kernels(guard_indices(lower_to_graph(kernels, nodes))))
    joined = concat_axes(graph) if opt_level >= 2 and in_place_wanted() else {}
    matrices = _matrix_kernels(graph, target)
    with _one_line("kernels of the network"):
        graph, library, _ = build_library(graph, here)
    emulation = HalfEmulation(graph, library)
    return choose_halves(graph, joined, emulation, samples, matrices=matrices)


def _matrix_kernels(graph: StaticGraph, target: Target) -> set[int]:
    """The kernels of a float32 network that multiply matrices of halves as ``to_half`` makes them,
    by position."""
    limits = Limits.of(target)
    if "gpu" not in target.keys or not limits.matrices:
        return set()
    halves = to_half(graph)
    offered = {name: choices(func, limits) for name, func in halves.functions.items()}
    uses = {name: any(c.template == "matrix" for c in found) for name, found in offered.items()}
    return {position for position, k in enumerate(halves.kernels) if uses[k.function]}


def build_function(function: Any, target: Target, choice: Choice | None, *, name: str) -> Any:
    """A library with one function, scheduled as a choice says; with None as it is.

    Raises NotThisKind where the choice does not fit, and what TVM raises.
    """
    if choice is not None:
        function = schedule_with(function, Limits.of(target), choice)
    module = tvm.IRModule({name: function.with_attr("global_symbol", name)})
    with target, tvm.transform.PassContext(opt_level=3):
        return tvm.tirx.build(module, target=target)


def build_library(
    graph: StaticGraph, target: Target, choose: Chooser | None = None
) -> tuple[StaticGraph, Any, int]:
    """The functions of ``graph`` scheduled and compiled, the graph with their workspaces, and how
    many of them ``choose`` gave a schedule."""
    named = sorted(graph.functions.items())
    module = tvm.IRModule({name: f.with_attr("global_symbol", name) for name, f in named})
    with target, tvm.transform.PassContext(opt_level=3):
        if "gpu" in target.keys:
            module = schedule_module(finish_hand_threaded(module), target, choose)
            tuned = sum(TUNED in (f.attrs or {}) for _, f in module.functions_items())
            graph, module = plan_workspaces(graph, module)
        else:
            module, tuned = cpu_schedules(module, target), 0
            for gv, function in module.functions_items():
                check_writes(gv.name_hint, function)
        return graph, tvm.tirx.build(module, target=target), tuned


@contextlib.contextmanager
def _one_line(what: str) -> Iterator[None]:
    """Turns whatever TVM raises while it compiles into one line, and leaves our own alone."""
    try:
        with ctrl_c_as_itself():
            yield
    except TvmVisionError:
        raise
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = lines[0] if lines else type(error).__name__
        raise UnsupportedModelError(f"TVM cannot compile the {what}: {reason}") from error


def _check_sizes(graph: StaticGraph, target: Target) -> None:
    """Raise UnsupportedModelError for a tensor that is larger than what a kernel may see."""
    most = int(target.attrs.get("max_storage_buffer_range", 0))
    for kernel in graph.kernels if most else ():
        for tensor in (graph.tensors[t] for t in (*kernel.inputs, *kernel.outputs)):
            if tensor.nbytes > most:
                raise UnsupportedModelError(
                    f"tensors of at most {most} bytes are needed, which is what the device "
                    f"'{target.attrs.get('device_name', target.kind.name)}' lets a kernel see "
                    f"(maxStorageBufferRange), and {', '.join(kernel.nodes)} has one of "
                    f"{tensor.nbytes}, {'×'.join(map(str, tensor.shape))} {tensor.dtype}: compile "
                    "with a smaller input or batch, or with --precision fp16"
                )


def _check_half(target: Target) -> None:
    if "gpu" not in target.keys:
        return
    lacking = [
        feature
        for feature in ("supports_float16", "supports_16bit_buffer")
        if not int(target.attrs.get(feature, 0))
    ]
    if lacking:
        raise InputError(
            f"precision fp16 needs {' and '.join(lacking)}, which the target "
            f"'{target.attrs.get('device_name', target.kind.name)}' lacks: compile with fp32"
        )


def _short_names(graph: StaticGraph) -> StaticGraph:
    names = {name: _short(name) for name in graph.functions}
    graph.functions = {names[name]: func for name, func in graph.functions.items()}
    graph.kernels = [Kernel(names[k.function], k.inputs, k.outputs, k.nodes) for k in graph.kernels]
    return graph


def _short(name: str) -> str:
    if len(name) <= MAX_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: MAX_NAME - 9]}_{digest}"


def _specs(
    given: tuple[TensorSpec, ...], graph: StaticGraph, tensors: list[int]
) -> list[TensorSpec]:
    if len(given) != len(tensors):
        raise InputError(
            f"a signature with {len(tensors)} tensors is needed, as the module has, "
            f"found {len(given)}: {', '.join(map(str, given))}"
        )
    return [
        TensorSpec(spec.name, graph.tensors[t].shape, graph.tensors[t].dtype)
        for spec, t in zip(given, tensors, strict=True)
    ]
