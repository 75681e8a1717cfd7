"""ONNX to ONNX: the same network with int8 weights and activations, by onnxruntime's quantizer.

Static quantization in the QDQ form: weights by output channel, symmetric; activations by the values
that they have on sample inputs. What comes after a path's last convolution or product (the decoding
of boxes, soft max, arg max) stays float32, and so do the results of these last sums, and of sums
before their activation: nothing is rounded that a kernel does not hand to another. Nor are
attention, normalizations and activations that are written out: there products by weights alone are
of int8.
"""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

import numpy as np
import onnx

from ...error_lines import first_line
from ...errors import InputError, UnsupportedModelError
from ...whole_files import ScratchFolder, temporary_files_in
from ..input_values import InputValues
from ..node_names import name_nodes
from ..signature import Signature, TensorSpec
from .fold import folded
from .graph import (
    computes_in_fp16,
    graph_inputs,
    inferred,
    is_quantized,
    least_ir_version,
    makers_of,
    opset_of,
    readers_of,
    with_input_shapes,
)
from .load import Shapes, checked_onnx
from .shared_scales import share_scales
from .simplify import simplified
from .storage import computed_in_float32, file_bytes, shorten_names, store_as_fp16
from .tools import ToolError, run

SUMS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
# What a kernel of sums goes on to compute, where nothing else reads them.
ACTIVATIONS = frozenset(
    {"Clip", "Elu", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "PRelu", "Relu"}
    | {"Selu", "Sigmoid", "Softplus", "Tanh"}
)
# What else is of int8 between sums: bytes are moved, or rounded in the kernel that computes it.
BETWEEN_SUMS = ACTIVATIONS | frozenset(
    {"Add", "AveragePool", "BatchNormalization", "Concat", "GlobalAveragePool", "MaxPool", "Mul"}
    | {"Flatten", "Pad", "Reshape", "Resize", "Slice", "Split", "Squeeze", "Transpose"}
    | {"Unsqueeze"}
)
# Scales by channel need opset 13.
LEAST_OPSET, NEW_OPSET = 13, 17
# How the range of an activation is chosen -> onnxruntime's name for it.
CALIBRATIONS = {"percentile": "Percentile", "minmax": "MinMax", "entropy": "Entropy"}
# What numpy says of values that lie closer together than a histogram of them has bins for: of
# networks that ignore their image, mostly.
NO_BINS = "Too many bins"

Arrays = Mapping[str, np.ndarray]
Tell = Callable[[str], object]


def check_smaller(made: onnx.ModelProto, path: Path) -> None:
    """Raise UnsupportedModelError where a quantized network takes more than the file that it was
    made of: that kept its weights in few bytes already, or has few beside their scales."""
    before, after = file_bytes(path), made.ByteSize()
    if after > before:
        raise UnsupportedModelError(
            f"a network that int8 makes smaller is needed, and the {before} bytes of '{path}' "
            f"would become {after}: compile it as it is"
        )


def _name(model: Path | onnx.ModelProto) -> str:
    return f"'{model}'" if isinstance(model, Path) else "the model"


def plain_onnx(
    model: Path | onnx.ModelProto, input_shapes: Shapes, input_values: InputValues | None = None
) -> onnx.ModelProto:
    """The network of an ONNX model as it is quantized: shapes fixed, constants folded, of an opset
    that has scales by channel, every node with a name, metadata as in the file; in float32, also
    where the file computes in float16.

    Raises InputError and UnsupportedModelError as ``import_onnx`` does.
    """
    proto, shapes = checked_onnx(model, input_shapes, input_values)
    if is_quantized(proto):
        raise InputError(
            f"a network in float32 is needed, and {_name(model)} is quantized already: compile it "
            "as it is"
        )
    given = {spec.dtype for spec in _specs(proto.graph.input)}
    if computes_in_fp16(proto) or "float16" in given:
        proto = computed_in_float32(proto)  # onnxruntime counts what it sees in float32 alone
    # ONNX's checker wants shapes of outputs, which files need not declare.
    plain = inferred(simplified(proto, shapes) or folded(with_input_shapes(proto, shapes)))
    opset = opset_of(plain)
    if opset < LEAST_OPSET:
        try:
            plain = run("convert_version", plain, opset=NEW_OPSET)
        except ToolError as error:
            raise UnsupportedModelError(
                f"opset {LEAST_OPSET} is needed, found {opset}, and ONNX cannot convert the model "
                f"({error}): export it again"
            ) from None
    name_nodes(plain.graph)
    plain.ir_version = least_ir_version(plain)
    del plain.metadata_props[:]
    plain.metadata_props.extend(proto.metadata_props)
    return plain


def plain_signature(model: onnx.ModelProto) -> Signature:
    """Inputs and outputs of a network of ``plain_onnx``; sizes of outputs that depend on the data
    are 0."""
    return Signature(_specs(graph_inputs(model)), _specs(model.graph.output))


def _specs(values: Iterable[onnx.ValueInfoProto]) -> tuple[TensorSpec, ...]:
    found = []
    for value in values:
        tensor = value.type.tensor_type
        if not tensor.elem_type:  # a sequence, which no kind of network has
            continue
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
        found.append(TensorSpec(value.name, tuple(d.dim_value for d in tensor.shape.dim), dtype))
    return tuple(found)


def quantized(
    plain: onnx.ModelProto,
    samples: Sequence[Arrays],
    *,
    keep: Sequence[str] = (),
    calibration: str = "percentile",
    tell: Tell = lambda words: None,
) -> onnx.ModelProto:
    """A network of ``plain_onnx`` in the QDQ form.

    samples: the inputs by name, of each sample. keep: names of nodes that stay float32, beside
    those after the last sums. calibration: one of CALIBRATIONS. tell: called with a few words
    before each step.

    Raises InputError where onnxruntime is missing, a name is of no node or there is no sample,
    UnsupportedModelError for networks without sums of products or that onnxruntime cannot quantize.
    """
    sums = [node for node in plain.graph.node if node.op_type in SUMS]
    if not sums:
        raise UnsupportedModelError(
            "a network with convolutions or products is needed, and this one has none: compile "
            "it as it is"
        )
    _check_names(plain, keep)
    if not samples:
        raise InputError(
            "samples are needed to calibrate with, found none: give what the network is to see"
        )
    if calibration not in CALIBRATIONS:
        known = ", ".join(CALIBRATIONS)
        raise InputError(
            f"a calibration of {known} is needed, found {calibration!r}: use one of them"
        )
    leading = nodes_before_sums(plain)
    rest = {node.name for node in plain.graph.node if node.name not in leading}
    rest |= nodes_of_real_numbers(plain)
    made = _by_onnxruntime(plain, samples, [*rest, *keep], calibration, tell)
    _keep_real(made, rest)
    share_scales(made)
    store_as_fp16(made)
    shorten_names(made, plain)
    del made.metadata_props[:]
    made.metadata_props.extend(plain.metadata_props)
    onnx.checker.check_model(made)
    return made


def nodes_before_sums(model: onnx.ModelProto) -> set[str]:
    """Names of the convolutions and products, and of all nodes that lead to one."""
    makers = makers_of(model.graph)
    found = {node.name for node in model.graph.node if node.op_type in SUMS}
    open_ends = [name for node in model.graph.node if node.name in found for name in node.input]
    while open_ends:
        node = makers.get(open_ends.pop())
        if node is not None and node.name not in found:
            found.add(node.name)
            open_ends.extend(node.input)
    return found


def nodes_of_real_numbers(model: onnx.ModelProto) -> set[str]:
    """Names of nodes that int8 does not reach: those that no kernel computes of bytes, products of
    two tensors that are both computed among them, and what lies between one of those and a sum."""
    nodes = model.graph.node
    constants = {constant.name for constant in model.graph.initializer}
    makers, readers = makers_of(model.graph), readers_of(model.graph)
    sums = {node.name for node in nodes if node.op_type in SUMS and node.input[1] in constants}
    between = [node for node in nodes if node.op_type in BETWEEN_SUMS]
    found = {node.name for node in nodes} - sums - {node.name for node in between}
    grew = True
    while grew:
        size = len(found)
        for node in between:
            made_of = {makers[name].name for name in node.input if name in makers}
            read_by = {reader.name for name in node.output for reader in readers.get(name, [])}
            if made_of & found or (read_by and read_by <= found):
                found.add(node.name)
        grew = len(found) > size
    return found


def _check_names(model: onnx.ModelProto, names: Sequence[str]) -> None:
    known = [node.name for node in model.graph.node]
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, 3) or known[:3]
            raise InputError(
                f"the name of a node is needed, and '{name}' is of none: try {', '.join(near)}; "
                "'tvm-vision inspect --kernels' of the compiled network lists them"
            )


class _Reader:
    """Samples as onnxruntime's calibration asks for them."""

    def __init__(self, samples: Sequence[Arrays], tell: Tell) -> None:
        self._samples, self._tell = samples, tell
        self._range = range(len(samples))

    def __len__(self) -> int:
        return len(self._samples)

    def set_range(self, start_index: int, end_index: int) -> None:
        self._range = range(start_index, end_index)

    def get_next(self) -> dict[str, np.ndarray] | None:
        if not self._range:
            return None
        place, self._range = self._range[0], self._range[1:]
        self._tell(f"calibrating: sample {place + 1} of {len(self)}")
        return dict(self._samples[place])


def _by_onnxruntime(
    plain: onnx.ModelProto, samples: Sequence[Arrays], exclude: list[str], calibration: str,
    tell: Tell,
) -> onnx.ModelProto:  # fmt: skip
    try:
        from onnxruntime.quantization import (
            CalibrationMethod,
            QuantFormat,
            QuantType,
            quantize_static,
        )
    except ImportError:
        raise InputError(
            "onnxruntime quantizes, and it is not installed: pip install onnxruntime"
        ) from None
    # onnxruntime leaves its temporary files where it is killed.
    with ScratchFolder() as folder, temporary_files_in(folder), _quiet():
        source, target = folder / "plain.onnx", folder / "quantized.onnx"
        onnx.save(plain, source)

        def quantize_by(calibration: str) -> onnx.ModelProto:
            quantize_static(
                str(source),
                str(target),
                _Reader(samples, tell),
                quant_format=QuantFormat.QDQ,
                per_channel=True,
                # Of int8, no kernel of onnxruntime cuts sums short as it does for uint8 on
                # processors without an instruction for them.
                activation_type=QuantType.QInt8,
                weight_type=QuantType.QInt8,
                nodes_to_exclude=exclude,
                calibrate_method=getattr(CalibrationMethod, CALIBRATIONS[calibration]),
                # One sample at a time: the values of all tensors on all samples would fill memory.
                extra_options={"CalibStridedMinMax": 1},
            )
            return onnx.load(target)

        try:
            try:
                return quantize_by(calibration)
            except ValueError as error:
                if NO_BINS not in str(error):
                    raise
                tell("calibrating by all values: those of a tensor hardly differ")
                return quantize_by("minmax")
        except Exception as error:  # onnxruntime raises every kind there is
            raise UnsupportedModelError(
                f"onnxruntime cannot quantize the network ({first_line(error)}): check that it runs"
            ) from None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what onnxruntime prints and advises while it quantizes."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(before)


def _keep_real(model: onnx.ModelProto, rest: set[str]) -> None:
    """Take out the quantization of what only ``rest``, nodes of float32, or the caller reads, and
    of sums that one activation alone reads."""
    graph = model.graph
    outputs = {value.name for value in graph.output}
    makers, readers = makers_of(graph), readers_of(graph)
    taken: list[onnx.NodeProto] = []
    for node in list(graph.node):
        before = makers.get(node.input[0]) if node.op_type == "DequantizeLinear" else None
        if before is None or before.op_type != "QuantizeLinear":
            continue
        (result,) = node.output
        used = readers.get(result, [])
        alone = len(readers[before.output[0]]) == 1 and before.output[0] not in outputs
        real = before.input[0]
        maker = makers.get(real)
        activated = (
            [reader.op_type in ACTIVATIONS for reader in used] == [True]
            and maker is not None
            and maker.op_type in SUMS
            and result not in outputs
        )
        if not alone or not (activated or all(reader.name in rest for reader in used)):
            continue
        if result in outputs:
            if maker is None:  # an input of the network
                continue
            maker.output[:] = [result if name == real else name for name in maker.output]
            used = readers[real]
        old, new = (real, result) if result in outputs else (result, real)
        for reader in used:
            reader.input[:] = [new if name == old else name for name in reader.input]
        taken += [before, node]
    for node in taken:
        graph.node.remove(node)
    left = {name for node in graph.node for name in node.input}
    for constant in [c for c in graph.initializer if c.name not in left | outputs]:
        graph.initializer.remove(constant)
