"""``compile_model``, from an imported network to kernels, a static graph and parameters."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm.target import Target

from ..collecting import collected_seldom
from ..error_lines import first_line
from ..errors import InputError, TvmVisionError, UnsupportedModelError
from ..frontend.signature import Signature, TensorSpec
from ..interrupts import ctrl_c_as_itself
from ..options import CompileOptions
from ..package.precision import MeasuredPrecision
from ..schedules import Chooser, ScheduleConfig, choices, limits_of, schedule_with
from ..tvm_compat.no_ops import lowering_context
from ..vulkan.codegen.dump import shaders_into
from .compilation import Compilation
from .graph.short_names import short_names
from .graph.static_graph import StaticGraph, describe
from .kernels.beside import started_ahead
from .kernels.library import KernelLibrary
from .pipeline import run
from .precision.convert_fp16 import to_fp16
from .precision.fp16_emulation import Fp16Emulation
from .precision.mixed_precision_search import Fp16Choice, Part, Samples, choose_fp16
from .relax.qdq.to_int8 import is_quantized
from .target import parse_target

LOGGER = logging.getLogger(__name__)
# Steps of the pipeline: the last in float32, the last before kernels are made, and those after.
FLOAT32, PREPARED, KERNELS, BUILT, ORDER = (
    "find_concats", "short_names", "known_kernels", "build", "reorder"
)  # fmt: skip


@dataclass(frozen=True)
class CompiledModel:
    """A network compiled for one target.

    Attributes:
        name: of the network.
        library: a function for each kernel of ``graph``; ``library.module`` is a
            tvm.runtime.Module that runs here.
        graph: the static graph as plain data: storages (bytes), tensors, params, inputs, outputs,
            kernels.
        params: the constants by their name in ``graph``.
        target: what it was compiled for.
        inputs, outputs: names, shapes and types, in the order of ``graph``.
        options: how it was compiled.
        memory: device memory in bytes: "weights", "activations", "peak".
        tuned: kernels, each structure once, whose schedule ``choose`` gave.
        known: kernels, each structure once, that were made before.
        measured_precision: which layers keep float32, where that was chosen by samples.
    """

    name: str
    library: KernelLibrary
    graph: dict[str, Any]
    params: dict[str, np.ndarray]
    target: Target
    inputs: list[TensorSpec]
    outputs: list[TensorSpec]
    options: CompileOptions
    memory: dict[str, int]
    tuned: int = 0
    known: int = 0
    measured_precision: MeasuredPrecision | None = None


def compile_model(
    module: tvm.IRModule,
    signature: Signature,
    *,
    target: str | dict[str, Any] | Target = "auto",
    options: CompileOptions | Mapping[str, Any] | None = None,
    name: str = "network",
    choose: Chooser | None = None,
    samples: Samples | None = None,
    dump: Path | None = None,
    dump_shaders: Path | None = None,
    **given: Any,
) -> CompiledModel:
    """Compile the Relax module of a front end, by the steps of ``pipeline.PHASES``.

    The same input gives the same graph, parameters, names and library, byte for byte.

    target: see ``parse_target``. options, given: how, see ``CompileOptions.of``. choose: what
    tuning found for a kernel, see ``schedules.schedule_module``. samples: with "fp16",
    inputs on which the error is measured that decides which layers keep float32, see
    ``precision/mixed_precision_search.py``. dump: a folder for the network's form after each step;
    dump_shaders: one for each kernel of a GPU as GLSL and SPIR-V, see ``vulkan/codegen/dump.py``.

    Raises InputError for options that do not exist, DeviceError for a device that is absent or
    lacks what the precision needs, UnsupportedModelError and UnsupportedKernelError for networks
    and operators that cannot be compiled.
    """
    network = Compilation(module, parse_target(target), CompileOptions.of(options, **given))
    del module  # so that its weights go as soon as there are others
    network.choose = choose
    # Who wants to see the steps sees those of all kernels.
    network.anew = dump is not None
    _check_target(network)
    _warn_of_rounding(network)
    measured = None if samples is None else measure_fp16(network, samples)
    network.fp16_parts = None if measured is None else measured.fp16
    # By a number: what holds operators holds their weights.
    operators = _operators_of(network) if network.by_several else 0
    with started_ahead(operators) as network.waiting:
        with _one_line("operators of the network"):
            run(network, last=PREPARED, dump=dump)
        with _one_line("kernels of the network"), shaders_into(dump_shaders):
            # What kernels leave in circles holds no weights.
            with collected_seldom():
                run(network, first=KERNELS, last=BUILT, dump=dump)
    _check_sizes(network.graph, network.target)
    run(network, first=ORDER, dump=dump)
    graph = network.graph
    plain, memory = describe(graph, network.steps, network.kernels.matrices)
    return CompiledModel(
        name=name,
        library=network.library,
        graph=plain,
        params={f"p{i}": value for i, value in enumerate(graph.params.values())},
        target=network.target,
        inputs=_specs(signature.inputs, graph, graph.inputs),
        outputs=_specs(signature.outputs, graph, graph.outputs),
        options=network.options,
        memory={
            "weights": memory.weights,
            "activations": memory.activations,
            "peak": memory.peak,
        },
        tuned=network.kernels.tuned,
        known=network.kernels.known,
        measured_precision=None if measured is None else measured.report,
    )


def prepare(
    module: tvm.IRModule,
    *,
    target: Target,
    options: CompileOptions | Mapping[str, Any] | None = None,
    fp16: Collection[Part] | None = None,
    last: str = PREPARED,
    **given: Any,
) -> StaticGraph:
    """The kernels of a network before they have schedules, as ``compile_model`` makes them.

    fp16: what ``measure_fp16`` leaves to be fp16; None leaves everything. last: the step
    after which to stop.

    Raises what ``compile_model`` raises for operators and options.
    """
    chosen = CompileOptions.of(options, **given)
    network = Compilation(module, target, chosen, fp16_parts=fp16)
    _check_target(network)
    with _one_line("operators of the network"):
        return run(network, last=last).graph


def measure_fp16(network: Compilation, samples: Samples) -> Fp16Choice:
    """Which layers of a network for its target may be fp16, measured on this processor.

    Raises what ``compile_model`` raises, and InputError where the samples' limit leaves none.
    """
    samples.tell("compiling to measure fp16")
    options = dataclasses.replace(network.options, precision="fp16")
    here = Compilation(network.module, network.target, options, runs_on=parse_target("llvm"))
    with _one_line("operators of the network"):
        run(here, last=FLOAT32)
    here.graph = short_names(here.graph)
    in_place = options.opt_level >= 2 and options.concat_in_place
    joined = here.concat_axes if in_place else {}
    matrices = _matrix_kernels(here)
    with _one_line("kernels of the network"):
        run(here, first=KERNELS, last=BUILT)
    emulation = Fp16Emulation(here.graph, here.library.module)
    return choose_fp16(here.graph, joined, emulation, samples, matrices=matrices)


def _matrix_kernels(network: Compilation) -> set[int]:
    """The kernels of a float32 network that multiply matrices of fp16 as ``to_fp16`` makes them,
    by position."""
    limits = network.limits
    if not network.on_gpu or not limits.matrices:
        return set()
    fp16 = to_fp16(network.graph)
    offered = {name: choices(func, limits) for name, func in fp16.functions.items()}
    uses = {
        name: any(c.template == "coopmat_gemm" for c in found) for name, found in offered.items()
    }
    return {position for position, k in enumerate(fp16.kernels) if uses[k.function]}


def build_function(
    function: Any,
    target: Target,
    choice: ScheduleConfig | None,
    *,
    name: str,
    options: CompileOptions | None = None,
) -> Any:
    """A library with one function, scheduled as a choice says; with None as it is.

    options: what may be used of the target; the defaults where none are given.

    Raises NotThisKind where the choice does not fit, and what TVM raises.
    """
    if choice is not None:
        function = schedule_with(function, limits_of(target, options), choice)
    module = tvm.IRModule({name: function.with_attr("global_symbol", name)})
    with target, lowering_context():
        return tvm.tirx.build(module, target=target)


# An operator as TVM writes it into its errors, with all that it knows of it.
_OPERATOR = re.compile(r'ir\.Op\(span=.*?name="([\w.]+)".*?support_level=\d+\)')
_REPORT = "report it with the model, and try another target or '--opt-level 0' meanwhile"


@contextlib.contextmanager
def _one_line(what: str) -> Iterator[None]:
    """Turns whatever TVM raises while it compiles into one line, and leaves our own alone."""
    try:
        with ctrl_c_as_itself():
            yield
    except TvmVisionError:
        raise
    except Exception as error:
        reason = _OPERATOR.sub(r"\1", first_line(error))
        raise UnsupportedModelError(
            f"TVM cannot compile the {what} ({reason}): {_REPORT}"
        ) from error


def _check_sizes(graph: StaticGraph, target: Target) -> None:
    """Raise UnsupportedModelError for a tensor that is larger than what a kernel may see."""
    most = int(target.attrs.get("max_storage_buffer_range", 0))
    for kernel in graph.kernels if most else ():
        for tensor in (graph.tensors[t] for t in kernel.tensors):
            if tensor.nbytes > most:
                raise UnsupportedModelError(
                    f"tensors of at most {most} bytes are needed, which is what the device "
                    f"'{target.attrs.get('device_name', target.kind.name)}' lets a kernel see "
                    f"(maxStorageBufferRange), and {', '.join(kernel.nodes)} has one of "
                    f"{tensor.nbytes}, {'×'.join(map(str, tensor.shape))} {tensor.dtype}: compile "
                    "with a smaller input or batch, or with --precision fp16"
                )


def _operators_of(network: Compilation) -> int:
    return sum(len(block.bindings) for block in network.module["main"].body.blocks)


def _check_target(network: Compilation) -> None:
    """Raise InputError for options that the target cannot do."""
    target = network.target
    if not (network.fp16 and network.on_gpu):
        return
    # Arithmetic in float16 is not needed: without it the code generator computes in float32.
    if not int(target.attrs.get("supports_16bit_buffer", 0)):
        raise InputError(
            "precision fp16 needs supports_16bit_buffer, which the target "
            f"'{target.attrs.get('device_name', target.kind.name)}' lacks: compile with fp32"
        )


def _warn_of_rounding(network: Compilation) -> None:
    """Say where a quantized network is slower than the one that it was made of."""
    of_itself = network.options.int8 == "auto" and network.on_gpu and not network.int8
    if of_itself and is_quantized(network.module):
        target = network.target
        LOGGER.warning(
            "a quantized network does not pay on %s, which has no instruction for products of "
            "bytes: it is computed in %s and rounded besides; compile the network that it was made "
            "of, in fp16",
            target.attrs.get("device_name", target.kind.name),
            network.options.precision,
        )


def _specs(
    given: tuple[TensorSpec, ...], graph: StaticGraph, tensors: list[int]
) -> list[TensorSpec]:
    if len(given) != len(tensors):
        raise InputError(
            f"a signature with {len(tensors)} tensors is needed, as the module has, "
            f"found {len(given)}: {', '.join(map(str, given))}"
        )
    return [
        dataclasses.replace(spec, shape=graph.tensors[t].shape, dtype=graph.tensors[t].dtype)
        for spec, t in zip(given, tensors, strict=True)
    ]
