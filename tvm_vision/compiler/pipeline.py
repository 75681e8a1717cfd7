"""What becomes of a network on its way to kernels: the compiler's table of contents.

``PHASES`` has each step in order, with the form (IR) that it works on:

- RELAX: an IRModule whose ``main`` calls operators, from ``legalize`` on TensorIR functions;
- GRAPH: a StaticGraph, kernels in order over tensors;
- TIR: the graph's TensorIR functions, with schedules.

``run`` goes through them; ``dump`` writes the form after each. ``Phase.opt_level`` is the lowest
level at which a step is taken, see ``CompileOptions``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import tvm
from tvm import relax

from ..freed_memory import FreedMemory
from ..schedules import TEMPLATES, schedule_function
from ..schedules.common import can_schedule
from ..schedules.gpu import attention, chain, plain_attention, reduction
from ..topi.attention import AttentionForm
from ..tvm_compat.kept_types import keep_types
from ..tvm_compat.llvm_functions import exact_functions
from ..tvm_compat.no_ops import lowering_context
from ..tvm_compat.relax import quiet_take
from ..whole_files import write_whole
from .compilation import GRAPH, RELAX, TIR, Compilation, Phase
from .graph.bound_kernels import bound_kernels
from .graph.concat_in_place import concat_axes, concat_in_place, keep_apart
from .graph.fuse_data_movement import fuse_data_movement
from .graph.guard_indices import guarded
from .graph.lower import lower_to_graph
from .graph.reorder import in_levels
from .graph.short_names import short_names
from .graph.slice_in_place import slice_in_place
from .graph.split_kernels import split_kernels
from .graph.static_graph import StaticGraph
from .kernels.network import NetworkKernels
from .precision.convert_fp16 import to_fp16
from .precision.mixed_precision_search import fp32_roots
from .relax.attention import fused_attention
from .relax.banded_products import banded_products
from .relax.chained_products import join_chains
from .relax.common_shapes import in_common_shapes
from .relax.correlations import correlations
from .relax.drop_identities import drop_identities
from .relax.ends_of_sums import join_ends_of_sums
from .relax.exact_quotients import exact_quotients
from .relax.fold_constants import fold_constants, fold_moves
from .relax.fold_scale_axis import fold_scales
from .relax.fold_transposes import fold_transposes
from .relax.fusion import fuse
from .relax.group_norms import group_norms
from .relax.items_of_tuples import items_of_tuples
from .relax.join_branches import join_branches
from .relax.join_moves import join_moves
from .relax.join_products import join_products
from .relax.layout_choice import channel_block, layout_on_gpu
from .relax.legalize import legalize_ops
from .relax.nchwc.block_channels import block_channels
from .relax.node_names import NodeNames
from .relax.norms_in_steps import norms_in_steps
from .relax.norms_of_images import norms_of_images
from .relax.own_operators import LegalizeOwnOperators
from .relax.pads_into_windows import pads_into_windows
from .relax.parts_of_one import parts_of_one
from .relax.plain_prelus import plain_prelus
from .relax.pool_before_concat import pools_before_concats
from .relax.pools_in_steps import pools_in_steps
from .relax.qdq.legalize_int8 import WORD, integer_kernels
from .relax.qdq.to_int8 import in_bytes
from .relax.repeated_parts import LINEAR, repeated_parts
from .relax.resizes_in_steps import resizes_in_steps
from .relax.rows_as_images import rows_as_images
from .relax.rows_in_order import rows_in_order
from .relax.scale_products import scale_products
from .relax.scans import scans_by_rows
from .relax.scatters import scatters_as_gathers
from .relax.settled_selections import settled_selections
from .relax.sink_reshapes import sink_reshapes
from .relax.sink_resizes import sink_resizes
from .relax.sink_turns import sink_turns
from .relax.splits_as_slices import splits_as_slices
from .relax.sums_in_steps import sums_in_steps
from .relax.top_k import top_k_of_rows
from .relax.transposed_convolutions import transposed_convolutions
from .relax.volumes_as_images import volumes_as_images
from .relax.weights_by_window import weights_by_window
from .relax.whole_rows import Rows, join_rows
from .relax.widen_fp16 import computes_in_fp16, widen_fp16
from .relax.windows_as_rows import windows_as_rows
from .relax.winograd import winograd, winograd_tiles
from .target import with_llvm_opt_level
from .tir.dead_block_elimination import eliminate_dead_blocks
from .tir.exact_casts import cancel_casts
from .tir.whole_tensors import whole_tensors


def _relax(*passes: Any) -> Callable[[Compilation], None]:
    def run(network: Compilation) -> None:
        network.module = tvm.transform.Sequential(list(passes))(network.module)

    return run


def _relax_on(change: Callable[[Any], Any]) -> Callable[[Compilation], None]:
    def run(network: Compilation) -> None:
        network.module = change(network.module)

    return run


def _joins_moves(network: Compilation) -> bool:
    return network.on_gpu and network.options.join_moves


def _widen_fp16(network: Compilation) -> None:
    # A processor stores what is asked for, and a GPU without such memory cannot.
    stores = network.on_gpu and int(network.target.attrs.get("supports_16bit_buffer", 0))
    if stores and computes_in_fp16(network.module):
        network.options = replace(network.options, precision="fp16")
    network.module = widen_fp16(network.module)


def _repeated_parts(network: Compilation, operators: Collection[str] = LINEAR) -> None:
    # Multiplications that are worth a kernel more: by the models of renoir and tgl 2^20, on a
    # processor fewer; large GPUs do many while a kernel starts.
    least = 1 << (20 if network.on_new_gpu else 24 if network.on_gpu else 17)
    network.module = repeated_parts(network.module, least, operators)


def _transposed_convolutions(network: Compilation) -> None:
    # On processors those with strides have tiles of their own.
    network.module = transposed_convolutions(network.module, phases=network.on_gpu)


def _volumes_as_images(network: Compilation) -> None:
    if network.options.repeated_parts:  # convolutions of three axes are none any more after it
        _repeated_parts(network, {"relax.nn.conv3d"})
    network.module = volumes_as_images(transposed_convolutions(network.module, least=3))


def _blocks_of_channels(network: Compilation) -> None:
    block = channel_block(network.target)
    chosen = winograd_tiles(network.target, network.options, matrices=False)
    _relax(block_channels(block, chosen), relax.transform.DeadCodeElimination())(network)


def _layout_on_gpu(network: Compilation) -> None:
    network.module = layout_on_gpu(
        network.module,
        network.options.layout,
        _matrices(network),
        network.limits.device.measured,
    )


def _winograd(network: Compilation) -> None:
    network.module = winograd(network.module, network.target, network.options, _matrices(network))


def _matrices(network: Compilation) -> bool:
    return network.fp16 and bool(network.limits.matrices)


def _legalize_int8(network: Compilation) -> None:
    limits = network.limits
    # Matrices read the weights of an output side by side, threads those of several.
    words = limits.dp4a and not limits.int8_matrices
    network.module = integer_kernels(network.module, WORD if network.on_gpu else 1, words)


def _norms_in_steps(network: Compilation) -> None:
    if network.on_gpu:
        groups = network.limits.device.enough.groups
        network.module = norms_in_steps(network.module, groups, _is_joined(network))
    else:
        network.module = norms_in_steps(network.module, None)


def _sums_in_steps(network: Compilation) -> None:
    network.module = sums_in_steps(network.module, network.limits.device.enough.groups)


def _windows_as_rows(network: Compilation) -> None:
    terms = max((k for _, _, k in network.limits.matrices), default=1) if network.fp16 else 1
    network.module = windows_as_rows(network.module, terms)


def _scatters(network: Compilation) -> None:
    network.module = scatters_as_gathers(network.module, on_gpu=network.on_gpu)


def _top_k(network: Compilation) -> None:
    network.module = top_k_of_rows(network.module, network.limits.device.units.count)


def _scans(network: Compilation) -> None:
    network.module = scans_by_rows(
        network.module, network.limits.threads if network.on_gpu else None
    )


def _attention(network: Compilation) -> None:
    limits = network.limits
    # Where matrices were measured, what they cannot do in one kernel they do in several, unless
    # these would be little more than launches.
    matrices = _matrices(network) and limits.device.measured

    def fits(form: AttentionForm) -> bool:
        plainly = not matrices or form.keys <= plain_attention.ONE_BLOCK
        return (matrices and attention.fits(form, limits)) or (
            plainly and plain_attention.fits(form, limits)
        )

    network.module = fused_attention(network.module, fits)


def _fold_transposes(network: Compilation) -> None:
    network.module = fold_transposes(network.module, places=network.on_new_gpu)


def _sink_reshapes(network: Compilation) -> None:
    network.module = sink_reshapes(network.module, written=not network.on_gpu)
    _fold_transposes(network)  # of a reshape behind a reshape one is left


def _name_nodes(network: Compilation) -> None:
    network.nodes = NodeNames(network.module).of_calls(network.module)


def _keep_concats_apart(network: Compilation) -> None:
    network.module = keep_apart(network.module)


def _is_joined(network: Compilation) -> Callable[[Rows], bool]:
    """Whether all that is made of some rows becomes one kernel for a GPU."""
    return lambda rows: reduction.worth_joining(
        rows.count, rows.terms, rows.stretch, network.limits
    )


def _join_rows(network: Compilation) -> None:
    network.module, network.joined = join_rows(
        network.module,
        network.limits.tensors,
        worth=_is_joined(network),
        fits=lambda function: can_schedule(reduction.schedule_reduction, function, network.limits),
    )


def _join_chains(network: Compilation) -> None:
    network.module, joined = join_chains(
        network.module,
        network.limits.tensors,
        worth=lambda products: chain.worth_joining(products, network.limits),
        fits=lambda function: can_schedule(chain.schedule_chain, function, network.limits),
    )
    network.joined = {**network.joined, **joined}


def _join_ends_of_sums(network: Compilation) -> None:
    def fits(function: Any) -> bool:
        return schedule_function(function, network.limits)[1] in TEMPLATES

    network.module, joined = join_ends_of_sums(network.module, network.limits.tensors, fits)
    network.joined = {**network.joined, **joined}


def _fuse(network: Compilation) -> None:
    network.module, network.nodes = fuse(network.module, network.limits.tensors, network.joined)


def _fuse_tir(network: Compilation) -> None:
    network.module = cancel_casts(eliminate_dead_blocks(relax.transform.FuseTIR()(network.module)))


def _lower(network: Compilation) -> None:
    network.graph = lower_to_graph(network.module, network.nodes)
    network.module = tvm.IRModule()  # its weights are the graph's now


def _on_graph(change: Callable[[StaticGraph], StaticGraph]) -> Callable[[Compilation], None]:
    def run(network: Compilation) -> None:
        network.graph = change(network.graph)

    return run


def _on_functions(change: Callable[[Any], Any]) -> Callable[[Compilation], None]:
    def run(network: Compilation) -> None:
        functions = network.graph.functions
        network.graph.functions = {name: change(of) for name, of in functions.items()}

    return run


def _bound_kernels(network: Compilation) -> None:
    network.graph = bound_kernels(network.graph, network.limits.tensors)


def _find_concats(network: Compilation) -> None:
    network.concat_axes = concat_axes(network.graph)


def _convert_fp16(network: Compilation) -> None:
    graph, parts = network.graph, network.fp16_parts
    limits = network.limits if network.on_gpu else None
    network.graph = to_fp16(graph, () if parts is None else fp32_roots(graph, parts), limits)


def _concat_in_place(network: Compilation) -> None:
    """Positions are those of results from here on: concatenations in place are kernels no more."""
    graph, axes = network.graph, network.concat_axes
    results = {graph.kernels[position].outputs[0]: axis for position, axis in axes.items()}
    network.graph = concat_in_place(graph, axes)
    made = {kernel.outputs[0]: i for i, kernel in enumerate(network.graph.kernels)}
    network.concat_axes = {made[t]: axis for t, axis in results.items() if t in made}


def _split_kernels(network: Compilation) -> None:
    network.graph = split_kernels(network.graph, network.concat_axes, network.limits.tensors)


def _fuse_data_movement(network: Compilation) -> None:
    network.graph = fuse_data_movement(network.graph, network.limits)


def _known_kernels(network: Compilation) -> None:
    target = network.built_for
    if target.kind.name == "llvm" and "opt-level" not in target.attrs:
        target = with_llvm_opt_level(target, network.options.llvm_opt_level)
    network.kernels = NetworkKernels.of(
        network.graph.functions, target, network.limits, network.choose
    )
    if network.options.kernel_cache and not network.anew:
        network.kernels.look_up()


def _make_beside(network: Compilation) -> None:
    network.kernels.make_beside(network.waiting, keep=network.options.kernel_cache)


def _schedule(network: Compilation) -> None:
    network.module = network.kernels.scheduled()


def _plan_workspaces(network: Compilation) -> None:
    network.module = network.kernels.with_workspaces(network.module)


def _build(network: Compilation) -> None:
    keep = network.options.kernel_cache
    network.library = network.kernels.library(network.module, keep=keep)
    if _runs_on_gpu(network):
        network.graph.add_workspaces(network.kernels.workspaces_of)


def _reorder(network: Compilation) -> None:
    network.graph, network.steps = in_levels(network.graph)


def _runs_on_gpu(network: Compilation) -> bool:
    return "gpu" in network.built_for.keys


DEAD_CODE = relax.transform.DeadCodeElimination()

PHASES: tuple[Phase, ...] = (
    # Operators.
    Phase("widen_fp16", RELAX, _widen_fp16),
    Phase("drop_identities", RELAX, _relax_on(drop_identities), 1),
    Phase("plain_prelus", RELAX, _relax_on(plain_prelus), 1),
    Phase("settled_selections", RELAX, _relax_on(settled_selections), 1),
    Phase("pads_into_windows", RELAX, _relax_on(pads_into_windows), 3),
    Phase("rows_as_images", RELAX, _relax_on(rows_as_images), 3),
    Phase("volumes_as_images", RELAX, _volumes_as_images, 3, lambda n: not n.on_gpu),
    Phase("fold_constants_of_qdq", RELAX, _relax(fold_constants), 3, lambda n: n.int8),
    Phase("qdq_to_int8", RELAX, _relax(in_bytes), 3, lambda n: n.int8),
    Phase("decompose", RELAX, _relax(relax.transform.DecomposeOpsForInference())),
    Phase("items_of_tuples", RELAX, _relax_on(items_of_tuples)),
    Phase("fold_constants", RELAX, _relax(fold_constants), 1),
    # In blocks of channels weights have to be numbers by then, of networks of bytes, too.
    Phase("fold_weights", RELAX, _relax(fold_moves), 1, lambda n: not n.on_gpu and not n.int8),
    Phase("common_subexpressions", RELAX, _relax(relax.transform.EliminateCommonSubexpr()), 1),
    Phase("join_branches", RELAX, _relax_on(join_branches), 3, lambda n: n.options.join_branches),
    Phase("correlations", RELAX, _relax_on(correlations), 3, lambda n: n.on_gpu),
    Phase("fold_scale_axis", RELAX, _relax(fold_scales), 3),
    Phase("transposed_convolutions", RELAX, _transposed_convolutions, 3),
    Phase("windows_as_rows", RELAX, _windows_as_rows, 3,
          lambda n: n.on_gpu and n.options.windows_as_rows),
    Phase("dead_code", RELAX, _relax(DEAD_CODE)),
    Phase("banded_products", RELAX, _relax_on(banded_products), 3),
    Phase("pools_in_steps", RELAX, _relax_on(pools_in_steps), 3),
    Phase("repeated_parts", RELAX, _repeated_parts, 3, lambda n: n.options.repeated_parts),
    Phase("sink_resizes", RELAX, _relax_on(sink_resizes), 3, lambda n: n.options.sink_resizes),
    Phase("norms_of_images", RELAX, _relax_on(norms_of_images), 3, lambda n: n.on_gpu),
    Phase("group_norms", RELAX, _relax_on(group_norms), 3, lambda n: n.on_gpu),
    Phase("layout_nchwc", RELAX, _blocks_of_channels, 3,
          lambda n: n.options.layout == "auto" and channel_block(n.target) > 1),
    Phase("resizes_in_steps", RELAX, _relax_on(resizes_in_steps), 3, lambda n: not n.on_gpu),
    Phase("layout_on_gpu", RELAX, _layout_on_gpu, 3, lambda n: n.on_gpu),
    Phase("sink_turns", RELAX, _relax_on(sink_turns), 3, _joins_moves),
    Phase("norms_in_steps", RELAX, _norms_in_steps),
    Phase("sums_in_steps", RELAX, _sums_in_steps, 3, lambda n: n.on_gpu),
    Phase("scatters_as_gathers", RELAX, _scatters),
    Phase("top_k_of_rows", RELAX, _top_k, 0, lambda n: n.on_gpu),
    Phase("scans_by_rows", RELAX, _scans),
    Phase("pools_before_concats", RELAX, _relax_on(pools_before_concats), 3,
          lambda n: n.on_new_gpu),
    Phase("winograd", RELAX, _winograd, 3, lambda n: n.on_gpu),
    Phase("weights_by_window", RELAX, _relax_on(weights_by_window), 3,
          lambda n: n.on_new_gpu and n.options.weights_by_window),
    Phase("legalize_int8", RELAX, _legalize_int8, 3, lambda n: n.int8),
    Phase("rows_in_order", RELAX, _relax_on(rows_in_order), 3, _joins_moves),
    Phase("join_products", RELAX, _relax_on(join_products), 3,
          lambda n: n.on_gpu and n.options.join_products),
    # What keeps float32 somewhere is decided by kernels; on matrices this one is fp16 or nothing.
    Phase("attention", RELAX, _attention, 3,
          lambda n: n.on_gpu and n.options.attention
          and n.fp16_parts is None and n.runs_on is None),
    Phase("scale_products", RELAX, _relax_on(scale_products), 3, _joins_moves),
    Phase("join_moves", RELAX, _relax_on(join_moves), 3, _joins_moves),
    Phase("splits_as_slices", RELAX, _relax_on(splits_as_slices), 3, _joins_moves),
    Phase("fold_transposes", RELAX, _fold_transposes, 1),
    Phase("common_shapes", RELAX, _relax_on(in_common_shapes), 3,
          lambda n: n.on_gpu and n.options.whole_rows),
    Phase("sink_reshapes", RELAX, _sink_reshapes, 3),
    Phase("fold_moves", RELAX, _relax(fold_moves), 1),
    Phase("parts_of_one", RELAX, _relax_on(parts_of_one), 3,
          lambda n: n.on_new_gpu and n.options.join_moves),
    # Calls of TensorIR functions.
    Phase("exact_quotients", RELAX, _relax_on(exact_quotients)),
    Phase("sorts_and_scans", RELAX, _relax(relax.backend.DispatchSortScan())),
    Phase("own_operators", RELAX, _relax(LegalizeOwnOperators())),
    Phase("legalize", RELAX,
          _relax(legalize_ops(), relax.transform.AnnotateTIROpPattern())),
    Phase("fold_calls", RELAX, _relax(relax.transform.FoldConstant()), 1),
    Phase("dead_calls", RELAX, _relax(DEAD_CODE)),
    Phase("name_nodes", RELAX, _name_nodes, 0, lambda n: n.options.opt_level < 2),
    Phase("keep_concats_apart", RELAX, _keep_concats_apart, 2,
          lambda n: n.options.concat_in_place),
    Phase("whole_rows", RELAX, _join_rows, 3,
          lambda n: n.on_gpu and n.options.whole_rows),
    Phase("chained_products", RELAX, _join_chains, 3,
          lambda n: n.on_gpu and n.options.join_chains),
    Phase("ends_of_sums", RELAX, _join_ends_of_sums, 3, lambda n: n.on_gpu),
    Phase("fuse", RELAX, _fuse, 2),
    Phase("fuse_tir", RELAX, _fuse_tir, 2),
    # Kernels over tensors.
    Phase("lower", GRAPH, _lower),
    Phase("whole_tensors", GRAPH, _on_functions(whole_tensors)),
    Phase("guard_indices", GRAPH, _on_functions(guarded)),
    Phase("bound_kernels", GRAPH, _bound_kernels),
    Phase("find_concats", GRAPH, _find_concats),
    Phase("convert_fp16", GRAPH, _convert_fp16, 0, lambda n: n.fp16),
    Phase("concat_in_place", GRAPH, _concat_in_place, 2, lambda n: n.options.concat_in_place),
    Phase("split_kernels", GRAPH, _split_kernels),
    Phase("slice_in_place", GRAPH, _on_graph(slice_in_place), 2,
          lambda n: n.options.slice_in_place),
    Phase("fuse_data_movement", GRAPH, _fuse_data_movement, 2,
          lambda n: n.on_gpu and n.options.fuse_data_movement),
    Phase("short_names", GRAPH, _on_graph(short_names)),
    Phase("known_kernels", GRAPH, _known_kernels),
    # Their functions, for one device: those that several processes have not made.
    Phase("kernels_beside", GRAPH, _make_beside, 0, lambda n: n.by_several),
    Phase("schedule", TIR, _schedule),
    Phase("plan_workspaces", TIR, _plan_workspaces, 0, _runs_on_gpu),
    Phase("build", TIR, _build),
    Phase("reorder", GRAPH, _reorder, 2, lambda n: n.on_gpu and n.options.reorder),
)  # fmt: skip


def run(
    network: Compilation, first: str = "", last: str = "", dump: Path | None = None
) -> Compilation:
    """Take the steps from ``first`` to ``last``, or all; the same object.

    dump: a folder for the form after each step that was taken.
    """
    keep_types()
    quiet_take()
    exact_functions()
    freed = FreedMemory()
    names = [phase.name for phase in PHASES]
    begin = names.index(first) if first else 0
    end = names.index(last) + 1 if last else len(names)
    for number, phase in list(enumerate(PHASES))[begin:end]:
        if not phase.applies(network):
            continue
        with ExitStack() as stack:
            if phase.ir != GRAPH:
                stack.enter_context(network.built_for)
                stack.enter_context(lowering_context())
            phase.run(network)
        freed.give_back()
        if dump is not None:
            _write(dump / f"{number:02}_{phase.name}.{phase.ir}.txt", phase, network)
    return network


def _write(path: Path, phase: Phase, network: Compilation) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if phase.ir == GRAPH:
        lines: list[str] = list(network.graph.lines())
    elif network.library is not None:
        lines = [network.library.source()]
    else:
        lines = [network.module.script()]
    write_whole(path, ("\n".join(lines) + "\n").encode())
