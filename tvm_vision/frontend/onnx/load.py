"""ONNX to Relax: load, fix the shapes, simplify, convert, and say in one line what is not possible.

Weights become constants of the module, so that the compiler can fold and pack them.
"""

from __future__ import annotations

import contextlib
import io
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import onnx
from google.protobuf.message import DecodeError

from ...error_lines import first_line
from ...errors import InputError, TvmVisionError, UnsupportedModelError
from ...file_kinds import ONNX, need
from ...interrupts import ctrl_c_as_itself
from ...package.build import image_layout
from ..input_values import InputValues, plain_values
from ..node_names import name_nodes, node_name
from ..refusals import OTHER_SIZES, NodesRefused, Refusal, RefusedNodes, Remedy
from ..signature import OpenShape, Signature, spec_of
from .bounded import ROWS, drop_traced_shapes, undecided
from .brain_floats import without_bfloat16
from .checks import (
    check_inputs_fit,
    check_lists,
    check_outputs,
    check_sizes,
    check_tensors,
    check_text,
    check_type,
    drop_false_shapes,
    load_weights,
)
from .contributed import standard_operators
from .declared import complete_declarations, declared_somehow
from .fixed_inputs import advice, naming_inputs, with_input_values
from .fixed_shape import of_fixed_shape
from .fold import folded
from .functions import without_functions
from .graph import (
    graph_inputs,
    inferred,
    nodes_in,
    opset_of,
    put_domains_plainly,
    with_input_shapes,
)
from .known_operators import check_domains, check_names
from .order import put_in_order
from .parts import ENGINE, behind, has_work, opened, with_possible_cuts
from .reduced_axes import leave_out_no_axes
from .rewrites import expand_functions, rewrite
from .simplify import simplified
from .slices import put_ends_plainly
from .sparse import write_out_sparse
from .tools import ToolError, light_step, without_large_values
from .type_rules import check_types, own_nodes

if TYPE_CHECKING:
    import tvm

# Below this, operators carry attributes (broadcast axes, spatial flags) the importer ignores.
MIN_OPSET = 7
# Of files that have no operator of ONNX's own, as skl2onnx writes classifiers.
OWN_OPSET = 17
# The first version of the file format whose weights need not be among the inputs.
IR_OF_WEIGHTS = 4
# Attributes that onnxruntime compares with 1.
FLAGS = frozenset({"exclusive", "keepdims", "noop_with_empty_axes", "reverse"})

Shapes = Mapping[str, Sequence[int]]


@contextlib.contextmanager
def _refused_in_one_line() -> Iterator[None]:
    """What a node asks for can be impossible in as many ways as it says, and names be no text."""
    try:
        yield
    except TvmVisionError:
        raise
    except Exception as error:
        raise UnsupportedModelError(
            f"the model cannot be imported ({first_line(error)}): check it with onnxruntime"
        ) from error


@_refused_in_one_line()
def import_onnx(
    model: str | os.PathLike[str] | onnx.ModelProto,
    *,
    input_shapes: Shapes | None = None,
    input_values: InputValues | None = None,
) -> tuple[tvm.IRModule, Signature]:
    """Import an ONNX model as a Relax module with the function ``main`` and bound weights.

    model: a file, or a model already loaded (it is not changed).
    input_shapes: input name -> shape, for inputs whose shape is not fixed in the model.
    input_values: input name -> value, for small inputs that are constants of the network then: a
        number for all of its elements, or as many as it has.

    The variables of the module are named after the nodes: see frontend.node_names.

    Raises InputError for a file or shapes that cannot be used, UnsupportedModelError for a model
    that is damaged, dynamic, or uses operators TVM does not have: one line that names each of them.
    """
    values = plain_values(input_values or {})
    whole, shapes = checked_onnx(model, input_shapes or {}, values)
    held = [expand_functions(whole)]
    del whole
    prepared = without_large_values(held[0])

    def again() -> onnx.ModelProto:
        """With its weights, which nobody keeps beside those that are made of them."""
        if held:
            return held.pop()
        return expand_functions(checked_onnx(model, input_shapes or {}, values)[0])

    try:
        module, imported = _convert_first(again, shapes)
        # Last, for others say more of what cannot be imported.
        check_inputs_fit(_of_input_shapes_alone(prepared, shapes))
        try:
            signature = _signature(imported, module)
            _check_sizes_within(module)
        except OpenShape:
            if not (causes := opened(imported)):
                raise
            raise NodesRefused(causes) from None
        return module, replace(signature, input_values=values)
    except NodesRefused as error:
        refusals = naming_inputs(with_possible_cuts(prepared, error.refusals), prepared, shapes)
        raise NodesRefused(_naming_batches(refusals, prepared, input_shapes or {})) from None
    except OpenShape as error:
        remedy = error.remedy
        if not has_work(prepared.graph):
            remedy = remedy.with_engine(ENGINE)
        if decided := advice(prepared, shapes):
            remedy = Remedy(remedy, f"give {decided}")
        raise OpenShape(error.reason, remedy) from None


@_refused_in_one_line()
def checked_onnx(
    model: str | os.PathLike[str] | onnx.ModelProto,
    input_shapes: Shapes,
    input_values: InputValues | None = None,
) -> tuple[onnx.ModelProto, dict[str, list[int]]]:
    """A copy of a model whose nodes all have names, and the shape of each of its inputs.

    Raises what ``import_onnx`` raises for files, shapes and values.
    """
    prepared = named_onnx(model)
    input_shapes = with_input_values(prepared, input_values or {}, input_shapes)
    own = own_nodes(prepared)
    prepared = _of_standard_operators(prepared, input_shapes)
    check_domains(prepared)
    prepared = _of_known_opset(prepared)
    check_names(prepared)
    prepared = complete_declarations(prepared, input_shapes)
    _check(prepared)
    shapes = _fixed_shapes(prepared, input_shapes)
    typed = inferred(_of_input_shapes_alone(without_large_values(prepared), shapes))
    check_sizes(typed)
    check_types(typed, own, prepared)
    drop_false_shapes(prepared, typed)
    drop_traced_shapes(prepared)
    return prepared, shapes


def _of_input_shapes_alone(light: onnx.ModelProto, shapes: Shapes) -> onnx.ModelProto:
    """A copy with these shapes for inputs, and none that the model declares."""
    plain = with_input_shapes(light, shapes)
    plain.graph.ClearField("value_info")
    return plain


def _of_standard_operators(prepared: onnx.ModelProto, input_shapes: Shapes) -> onnx.ModelProto:
    with contextlib.suppress(RefusedNodes):
        return standard_operators(prepared)
    try:
        return standard_operators(prepared, _fixed_shapes(prepared, input_shapes))
    except RefusedNodes as error:
        raise NodesRefused(with_possible_cuts(prepared, error.refusals)) from None


def named_onnx(model: str | os.PathLike[str] | onnx.ModelProto) -> onnx.ModelProto:
    """A copy of a model without functions of its own, whose nodes all have names.

    Raises InputError and UnsupportedModelError for files that cannot be read.
    """
    if isinstance(model, onnx.ModelProto):
        named = onnx.ModelProto()
        named.CopyFrom(model)
    else:
        named = _load(Path(model))
    check_tensors(named.graph)
    named = without_functions(named)
    write_out_sparse(named.graph)
    put_in_order(named.graph)
    named = without_bfloat16(named)
    _put_plainly(named)
    name_nodes(named.graph)
    return named


def as_compiled(model: str | os.PathLike[str] | onnx.ModelProto) -> onnx.ModelProto:
    """A copy of a model whose nodes have the names that a package has of them: its functions and
    onnxruntime's own operators as ONNX's. A node that the compiler refuses, and ``cut`` leaves out,
    is as it was.

    Raises what ``named_onnx`` raises.
    """
    named = named_onnx(model)
    try:
        return standard_operators(named)
    except RefusedNodes:
        return named


def _put_plainly(proto: onnx.ModelProto) -> None:
    """Change what onnxruntime reads as well, and ONNX's own tools or TVM do not: the default domain
    by its other name, lists of nothing as attributes, which stand for attributes left out, flags
    that are neither 0 nor 1, which mean 0, and weights that are listed as inputs, as they had to be
    in old versions of the format; an output that is listed twice, as JAX's exporter lists a state
    that is the result, too; the end of what goes backwards to it; a Squeeze of a list of
    no axes; and the opset of what other
    domains' operators become."""
    put_domains_plainly(proto.opset_import)
    put_domains_plainly(nodes_in(proto.graph))
    for node in nodes_in(proto.graph):
        for entry in [entry for entry in node.attribute if _is_empty_list(entry)]:
            node.attribute.remove(entry)
        for entry in node.attribute:
            if entry.name in FLAGS:
                entry.i = int(entry.i == 1)
    put_ends_plainly(proto.graph)
    leave_out_no_axes(proto.graph)
    domains = {entry.domain for entry in proto.opset_import}
    if "" not in domains and proto.graph.node:
        if all(node.domain in domains for node in nodes_in(proto.graph)):
            proto.opset_import.add(domain="", version=OWN_OPSET)
    inputs = graph_inputs(proto)
    del proto.graph.input[:]
    proto.graph.input.extend(inputs)
    # Results are by name, so that nothing is lost.
    outputs = {value.name: value for value in proto.graph.output}
    del proto.graph.output[:]
    proto.graph.output.extend(outputs.values())
    proto.ir_version = max(proto.ir_version, IR_OF_WEIGHTS)


def _is_empty_list(entry: onnx.AttributeProto) -> bool:
    lists = {entry.INTS: entry.ints, entry.FLOATS: entry.floats, entry.STRINGS: entry.strings}
    # Of a Constant the list is the value.
    return not lists.get(entry.type, [0]) and not entry.name.startswith("value")


def _load(path: Path) -> onnx.ModelProto:
    need(path, "an ONNX file", ONNX)
    try:
        model = onnx.load(path, load_external_data=False)
        load_weights(model, path)
        return model
    except DecodeError as error:
        raise UnsupportedModelError(
            f"'{path}' is not an ONNX model ({error}): export it again"
        ) from None
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise InputError(f"'{path}' cannot be read ({first_line(error)}): check the file") from None


def _of_known_opset(proto: onnx.ModelProto) -> onnx.ModelProto:
    """``proto``, or the same in the oldest operator set of ours where it is in an older one.

    Raises UnsupportedModelError for a newer one, and where ONNX cannot convert it.
    """
    version = opset_of(proto)
    newest = onnx.defs.onnx_opset_version()
    if MIN_OPSET <= version <= newest:
        return proto
    reason = ""
    if 0 < version < MIN_OPSET:
        try:
            return with_node_names(light_step("convert_version", proto, opset=MIN_OPSET))
        except ToolError as error:
            # Behind the place in ONNX's sources where it says so.
            reason = f", which cannot be converted ({str(error).rpartition('failed: ')[2]})"
    raise UnsupportedModelError(
        f"ONNX opset {MIN_OPSET} to {newest} is needed, found opset {version}{reason}: export the "
        "model again"
    )


def with_node_names(proto: onnx.ModelProto) -> onnx.ModelProto:
    """``proto``, whose nodes all have names now."""
    name_nodes(proto.graph)
    return proto


def _check(proto: onnx.ModelProto) -> None:
    """Raise UnsupportedModelError unless the model is valid ONNX."""
    try:
        light_step("check", declared_somehow(proto))
    except ToolError as error:
        raise UnsupportedModelError(
            f"the model is not valid ONNX: {error}; export it again"
        ) from None
    check_lists(proto)
    check_outputs(proto)


def _fixed_shapes(proto: onnx.ModelProto, given: Shapes) -> dict[str, list[int]]:
    """Shape of each input, from the model and, where the model leaves it open, from ``given``."""
    inputs = {value.name: value for value in graph_inputs(proto)}
    unknown = sorted(set(given) - set(inputs))
    if unknown:
        raise InputError(
            f"input_shapes names '{unknown[0]}', and the model's inputs are: "
            f"{', '.join(inputs)}; use their names"
        )
    images = dict.fromkeys(_open_batches(inputs, given), 1)
    named = images | _named_sizes(inputs, given)
    return {name: _fixed_shape(value, given.get(name), named) for name, value in inputs.items()}


def _named_sizes(inputs: Mapping[str, onnx.ValueInfoProto], given: Shapes) -> dict[str, int]:
    """What the given shapes say of sizes that have a name: it means the same in all inputs."""
    found: dict[str, set[int]] = {}
    for name, shape in given.items():
        sizes = inputs[name].type.tensor_type.shape.dim
        for size, number in zip(sizes, shape, strict=False):
            if size.dim_param not in ("", "?"):
                found.setdefault(size.dim_param, set()).add(int(number))
    return {name: numbers.pop() for name, numbers in found.items() if len(numbers) == 1}


def _open_batches(inputs: Mapping[str, onnx.ValueInfoProto], given: Shapes) -> Iterator[str]:
    """Names of the sizes that say how many images are taken at once: one, where nothing else is
    given."""
    for name, value in inputs.items():
        sizes = value.type.tensor_type.shape.dim
        if name not in given and _takes_any_number(value) and sizes[0].dim_param not in ("", "?"):
            yield sizes[0].dim_param


def _naming_batches(
    refusals: Sequence[Refusal], model: onnx.ModelProto, given: Shapes
) -> list[Refusal]:
    """Refusals of shapes, whose remedy says that one image at a time was taken where the model
    leaves open how many: some have another number written into what follows."""
    guessed = [
        value
        for value in graph_inputs(model)
        if value.name not in given and _takes_any_number(value)
    ]
    if not guessed:
        return list(refusals)
    sizes = ",".join(str(d.dim_value or 2) for d in guessed[0].type.tensor_type.shape.dim)
    advice = f"give another number of images than one, as --input-shape {guessed[0].name}:{sizes}"
    return [
        replace(each, remedy=Remedy(advice, each.remedy))
        if "shape" in each.reason or OTHER_SIZES.ways[0] in each.remedy.ways
        else each
        for each in refusals
    ]


def _takes_any_number(value: onnx.ValueInfoProto) -> bool:
    """Whether an input is of images, and all that it leaves open is how many."""
    return _of_one_image([d.dim_value or None for d in value.type.tensor_type.shape.dim])


def _of_one_image(sizes: Sequence[int | None]) -> bool:
    """Whether all that an image leaves open is how many there are."""
    return list(sizes[:1]) == [None] and None not in sizes[1:] and bool(image_layout(sizes))


def _fixed_shape(
    value: onnx.ValueInfoProto, given: Sequence[int] | None, named: Mapping[str, int]
) -> list[int]:
    tensor = value.type.tensor_type
    if not value.type.HasField("tensor_type"):
        kind = value.type.WhichOneof("value")
        raise UnsupportedModelError(
            f"input '{value.name}' must be a tensor, found {kind}: export the model with tensors"
        )
    declared = [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]
    names = [
        (d.dim_param or "?") if size is None else str(size)
        for d, size in zip(tensor.shape.dim, declared, strict=True)
    ]
    shown = f"({', '.join(names)})"
    if given is None:
        known = [named.get(d.dim_param, s) for d, s in zip(tensor.shape.dim, declared, strict=True)]
        if _of_one_image(known):
            known[0] = 1
        fixed = [size for size in known if size is not None]
        if len(fixed) < len(declared):
            # One at a time is what most want; the names of others are to become numbers.
            likely = [str(size or (name if axis else 1)) for axis, (size, name) in
                      enumerate(zip(known, names, strict=True))]  # fmt: skip
            raise UnsupportedModelError(
                f"fixed shapes are needed, and input '{value.name}' is {shown}: pass "
                f"input_shapes={{'{value.name}': ({', '.join(likely)})}} or --input-shape "
                f"{value.name}:{','.join(likely)}, in numbers"
            )
        return fixed
    sizes = [int(size) for size in given]
    fits = len(sizes) == len(declared) and all(
        d is None or d == s for d, s in zip(declared, sizes, strict=True)
    )
    if not fits or any(size < 1 for size in sizes):
        raise InputError(
            f"input '{value.name}' is {shown}, and {tuple(sizes)} does not fit it: pass a "
            "shape that agrees with it, of sizes of at least 1"
        )
    return sizes


def _folded_by_us(proto: onnx.ModelProto, shapes: Shapes) -> onnx.ModelProto:
    """A copy with ``shapes`` for inputs, and all that follows from them folded by ourselves."""
    proto = with_input_shapes(proto, shapes)
    return folded(proto)


def _convert_first(
    prepared: Callable[[], onnx.ModelProto], shapes: dict[str, list[int]]
) -> tuple[tvm.IRModule, onnx.ModelProto]:
    """The module of the simplified model, or else of the model as it is; and which model it was,
    without its large weights. prepared: gives the model.

    Folding makes constants of what TVM wants constant, so the simplified model has fewer
    operators to refuse; but onnxsim may fail, or write what TVM does not read.
    """
    error: UnsupportedModelError | None = None
    for candidate in (simplified, _folded_by_us):
        try:
            # Held by nobody else, so that its weights go as soon as there are others.
            converted = _convert(candidate(prepared(), shapes), shapes)
        except UnsupportedModelError as refused:
            error = error or refused
            continue
        if converted is not None:
            return converted
    assert error is not None
    raise error


def _convert(
    model: onnx.ModelProto | None, shapes: dict[str, list[int]]
) -> tuple[tvm.IRModule, onnx.ModelProto] | None:
    from .importer import convert

    if model is None:
        return None
    try:
        fixed = _of_fixed_shape(model)
        model = None
    except RefusedNodes as error:
        raise NodesRefused(error.refusals) from None
    # The importer prints before it raises, and warns of each name that it makes an identifier.
    light, rewritten = without_large_values(fixed), False
    check_text(light)
    try:
        quiet = contextlib.redirect_stdout(io.StringIO())
        with ctrl_c_as_itself(), warnings.catch_warnings(), quiet:
            warnings.simplefilter("ignore")
            rewrite(fixed)
            rewritten = True
            return convert(fixed, shapes), without_large_values(fixed)
    except RefusedNodes as error:
        # A rule for an operator says more of it than that its shape does not follow.
        own = {} if rewritten else {refusal.node: refusal for refusal in error.refusals}
        first = [own.get(cause.node, cause) for cause in undecided(light)]
        lost = behind(light.graph.node, {refusal.node for refusal in first})
        names = {node.name for node in lost}
        others = [refusal for refusal in error.refusals if refusal.node not in names]
        raise NodesRefused([*first, *others]) from None
    except Exception as error:  # the importer raises every kind there is
        if causes := undecided(light):
            raise NodesRefused(causes) from None
        raise UnsupportedModelError(
            f"TVM cannot import the model ({first_line(error)}): export it with another "
            "exporter or opset"
        ) from None


def _of_fixed_shape(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` with tensors of fixed shape; bodies of branches and loops are nodes of it."""
    fixed = of_fixed_shape(model)
    expanded = expand_functions(fixed)
    return fixed if expanded is fixed else of_fixed_shape(folded(expanded))


def _signature(proto: onnx.ModelProto, module: tvm.IRModule) -> Signature:
    main = module["main"]
    inputs = [
        spec_of(value.name, param.ty)
        for value, param in zip(graph_inputs(proto), main.params, strict=True)
    ]
    outputs = proto.graph.output
    result = main.ret_ty
    types = [result] if len(outputs) == 1 else list(result.fields)
    specs = [
        replace(spec_of(value.name, kind), units=_rows_of(value))
        for value, kind in zip(outputs, types, strict=True)
    ]
    for spec in specs:
        check_type("output", spec.name, spec.dtype)
        if 0 in spec.shape:
            raise UnsupportedModelError(
                f"output '{spec.name}' has no elements: {spec}; pass input_shapes without a size "
                "of 0, or take the output out of the model"
            )
    return Signature(inputs=tuple(inputs), outputs=tuple(specs))


def _check_sizes_within(module: tvm.IRModule) -> None:
    """Raise OpenShape where a tensor that an output needs has an open shape, whatever theirs is."""
    from tvm import relax

    body = module["main"].body
    needed = set(relax.analysis.free_vars(body.body))
    live = []
    for block in reversed(body.blocks):
        for binding in reversed(block.bindings):
            if binding.var in needed:
                needed.update(relax.analysis.free_vars(binding.value))
                live.append(binding.var)
    for var in reversed(live):
        for kind in getattr(var.ty, "fields", [var.ty]):
            if isinstance(kind, relax.TensorType):
                spec_of(node_name(var.name) or var.name, kind)


def _rows_of(value: onnx.ValueInfoProto) -> str:
    """What ``bounded`` says of an output; the words of others say no units."""
    return value.doc_string if value.doc_string.startswith(ROWS) else ""
