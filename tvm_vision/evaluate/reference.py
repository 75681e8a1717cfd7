"""The same network by onnxruntime: its outputs, and, for the layers, any value in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..error_lines import first_line
from ..errors import InputError, UnsupportedModelError
from ..file_kinds import TFLITE, kind_of, need_model
from ..frontend.input_values import InputValues, value_array
from .feeds import OTHER_INPUTS, need_inputs, need_shape
from .litert import LiteRtReference, has_litert

if TYPE_CHECKING:
    import onnx

Arrays = dict[str, np.ndarray]


class Reference:
    """An ONNX model, or the ONNX form of a TFLite or .pt2 file, in onnxruntime on the CPU.

    Attributes:
        inputs, outputs: their names.
        quantized: whether the model rounds what is between its operators to int8 or uint8. A sum
            near the middle of two steps may then be rounded either way, and what follows from it
            differs by more than sums in another order do.
        fp16: whether the model itself computes in fp16, of which each engine rounds other sums.
    """

    def __init__(
        self,
        model: Path | onnx.ModelProto,
        *,
        values: Sequence[str] = (),
        optimized: bool = True,
        raw_io: bool = False,
        input_values: InputValues | None = None,
        in_float32: bool = False,
    ) -> None:
        """model: a file, or a model already loaded. values: names to give beside the outputs.
        optimized: whether onnxruntime may fuse and reorder what the model says. raw_io: of a TFLite
        file, see ``tvm_vision.compile``. input_values: of inputs that are no longer asked for.
        in_float32: what the model computes in float16 is computed in float32.

        Raises InputError where onnxruntime or the file is missing, UnsupportedModelError where it
        cannot run the model.
        """
        try:
            import onnxruntime
        except ImportError:
            raise InputError(
                "the reference is onnxruntime, which is not installed: pip install onnxruntime"
            ) from None
        from ..frontend.model import onnx_form
        from ..frontend.onnx.brain_floats import BFLOAT16, computes_in_bfloat16
        from ..frontend.onnx.graph import computes_in_fp16, is_quantized
        from ..frontend.onnx.storage import computed_in_float32
        from .exact_bytes import may_overflow, with_exact_bytes

        if isinstance(model, Path):
            need_model(model)
            form = onnx_form(model, raw_io=raw_io, input_values=input_values)
            # Those of a TFLite file are constants by now.
            input_values = None if kind_of(model) is TFLITE else input_values
            model = form
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # what it raises is said once, by us
        if not optimized:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        known = _nodes_of(model)
        if _adds_up_where_it_writes(known):
            # Its threads lose updates that another thread has for the same place.
            options.intra_op_num_threads = 1
        source = with_exact_bytes(_loaded(model)) if may_overflow(known) else model
        bfloat16 = computes_in_bfloat16(known)
        if bfloat16:  # which it has hardly an operator for
            source = computed_in_float32(_loaded(source), BFLOAT16)
        if in_float32:
            source = computed_in_float32(_loaded(source))
        source = _with_outputs(source, values) if values else source

        def session(source: Path | onnx.ModelProto) -> onnxruntime.InferenceSession:
            return onnxruntime.InferenceSession(
                str(source) if isinstance(source, Path) else source.SerializeToString(),
                options,
                providers=["CPUExecutionProvider"],
                # It makes a Pad of zeros part of a MaxPool, whose own padding is of no value: wrong
                # at the edges where values are negative.
                disabled_optimizers=["Pad_Fusion"],
            )

        try:
            try:
                self._session = session(source)
            except Exception as error:
                if "IR version" not in str(error):
                    raise
                self._session = session(_of_an_older_format(source))
        except Exception as error:  # onnxruntime's exceptions have no base of their own
            raise UnsupportedModelError(
                f"onnxruntime cannot load it ({_reason(error)}): export the model again"
            ) from None
        self.quantized, self.fp16 = is_quantized(known), bfloat16 or computes_in_fp16(known)
        self._fixed = {
            value.name: value_array(value.name, (input_values or {})[value.name], *_kind(value))
            for value in self._session.get_inputs()
            if value.name in (input_values or {})
        }
        given = self._session.get_inputs()
        self._single = {value.name for value in given if value.type == "tensor(float)"}
        names = [value.name for value in given]
        self.inputs = [name for name in names if name not in self._fixed]
        self.outputs = [value.name for value in self._session.get_outputs()]

    def run(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """Outputs by name, a sequence as an output for each of its tensors, as packages have them.

        Raises InputError for inputs that do not fit the model.
        """
        need_inputs(inputs, self.inputs)
        from ..frontend.onnx.sequences import MEMBER

        try:
            values = self._session.run(None, {**self._wide(inputs), **self._fixed})
        except Exception as error:
            self._need_shapes(inputs)
            raise InputError(
                f"onnxruntime cannot run the model ({_reason(error)}): {OTHER_INPUTS}"
            ) from None
        found: Arrays = {}
        for name, value in zip(self.outputs, values, strict=True):
            if isinstance(value, list):
                found |= {MEMBER.format(name, number): one for number, one in enumerate(value)}
            else:
                found[name] = value
        return found

    def _need_shapes(self, inputs: Mapping[str, np.ndarray]) -> None:
        """Raise InputError where an input has not the shape that the model says."""
        for value in self._session.get_inputs():
            if value.name in inputs:
                need_shape(value.name, inputs[value.name].shape, value.shape)

    def _wide(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """Inputs of float16 and bfloat16 as float32, where it is computed in that."""
        return {
            name: value.astype(np.float32)
            if name in self._single and value.dtype.name in ("bfloat16", "float16")
            else value
            for name, value in inputs.items()
        }


def reference_of(
    model: Path,
    *,
    values: Sequence[str] = (),
    raw_io: bool = False,
    input_values: InputValues | None = None,
    optimized: bool = True,
    in_float32: bool = False,
) -> Reference | LiteRtReference:
    """What the results of a file are held to: LiteRT for TFLite files where it is installed and
    gives all that a package does; otherwise onnxruntime, which gives ``values`` beside the outputs,
    ``optimized`` or not, ``in_float32`` or as the file says. input_values: of inputs that are no
    longer asked for. Raises what these raise."""
    if kind_of(model) is TFLITE and has_litert():
        found = LiteRtReference(model, raw_io=raw_io, input_values=input_values)
        if not found.states:
            return found
    return Reference(
        model, values=values, raw_io=raw_io, input_values=input_values, optimized=optimized,
        in_float32=in_float32,
    )  # fmt: skip


def _adds_up_where_it_writes(model: onnx.ModelProto) -> bool:
    """Whether a scatter has a reduction."""
    from ..frontend.onnx.graph import attribute, nodes_in

    return any(
        node.op_type.startswith("Scatter") and attribute(node, "reduction", "none") != "none"
        for node in nodes_in(model.graph)
    )


def _nodes_of(model: Path | onnx.ModelProto) -> onnx.ModelProto:
    """The model, of a file without large values; one without nodes where it cannot be read."""
    if not isinstance(model, Path):
        return model
    import onnx

    from ..frontend.onnx.light import load_light

    try:
        return load_light(model)
    except Exception:  # onnxruntime says what is wrong with it
        return onnx.ModelProto()


def _loaded(model: Path | onnx.ModelProto) -> onnx.ModelProto:
    import onnx

    return onnx.load(model) if isinstance(model, Path) else model


def _kind(value: Any) -> tuple[str, list[int | None]]:
    """Type and sizes of an input as onnxruntime tells them: tensor(float), and names of sizes that
    are open."""
    name = value.type.removeprefix("tensor(").removesuffix(")")
    dtype = {"float": "float32", "double": "float64"}.get(name, name)
    return dtype, [size if isinstance(size, int) else None for size in value.shape]


def _of_an_older_format(model: Path | onnx.ModelProto) -> onnx.ModelProto:
    """A copy that is stamped with the oldest version of the format that has its operators."""
    import onnx

    from ..frontend.onnx.graph import least_ir_version

    copy = onnx.ModelProto()
    copy.CopyFrom(_loaded(model))
    copy.ir_version = least_ir_version(copy)
    return copy


def _with_outputs(model: Path | onnx.ModelProto, values: Sequence[str]) -> onnx.ModelProto:
    """A copy of the model that gives ``values`` too; names that no node makes are left out."""
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(_loaded(model))
    present = {output.name for output in copy.graph.output}
    made = {name for node in copy.graph.node for name in node.output if name}
    for name in values:
        if name in made - present:
            copy.graph.output.add().name = name
            present.add(name)
    return copy


def _reason(error: Exception) -> str:
    return first_line(error)[:300]
