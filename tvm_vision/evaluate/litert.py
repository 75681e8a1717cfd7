"""A TFLite file in LiteRT, TFLite's own interpreter: what it is to give."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..error_lines import first_line
from ..errors import InputError, UnsupportedModelError
from ..frontend.input_values import InputValues, value_array
from .feeds import OTHER_INPUTS, need_inputs

Arrays = dict[str, np.ndarray]


def has_litert() -> bool:
    """Whether LiteRT is installed."""
    import importlib.util

    return importlib.util.find_spec("ai_edge_litert") is not None


class LiteRtReference:
    """A file in LiteRT on the CPU, with the attributes of ``Reference``, and ``states``: names of
    what a streaming network keeps. Every run is of a first frame, as LiteRT keeps these to itself.

    Real numbers for a quantized input are rounded to its integers, and its own are taken as they
    are; outputs are real numbers, but for ``raw_io``.
    """

    def __init__(
        self,
        model: Path,
        *,
        optimized: bool = True,
        raw_io: bool = False,
        input_values: InputValues | None = None,
    ) -> None:
        """optimized: whether its fast kernels compute, or its plain ones. input_values: of inputs
        that are no longer asked for.

        Raises InputError where LiteRT is missing, UnsupportedModelError where it cannot run the
        file.
        """
        from ..frontend.tflite.read import read_tflite
        from ..frontend.tflite.states import state_names

        if not has_litert():
            raise InputError(
                "the reference is LiteRT, which is not installed: pip install ai-edge-litert"
            )
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        def opened(kernels: OpResolverType) -> Interpreter:
            found = Interpreter(str(model), experimental_op_resolver_type=kernels)
            found.allocate_tensors()
            return found

        def open_file() -> Interpreter:
            try:
                return opened(OpResolverType.BUILTIN if optimized else OpResolverType.BUILTIN_REF)
            except Exception as error:
                # Not every operator has a plain kernel.
                if "Didn't find op" not in str(error):
                    raise
                return opened(OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)

        file = read_tflite(model)
        self._open = open_file
        try:
            self._interpreter = self._open()
        except Exception as error:  # it raises every kind there is
            raise UnsupportedModelError(f"LiteRT cannot load it: {first_line(error)}") from None
        self._raw_io = raw_io
        self.states = state_names(file)
        self._names = [tensor.name for tensor in file.inputs]
        self._fixed = {
            tensor.name: value_array(tensor.name, (input_values or {})[tensor.name],
                                     "float32" if tensor.quantization else tensor.dtype,
                                     tensor.shape)
            for tensor in file.inputs
            if tensor.name in (input_values or {})
        }  # fmt: skip
        self.inputs = [name for name in self._names if name not in self._fixed]
        self.outputs = [tensor.name for tensor in file.outputs]
        self.fp16 = False  # weights of fp16 are float32 to its kernels
        self.quantized = any(
            tensor.dtype in ("int8", "uint8", "int16") and tensor.quantization is not None
            for tensor in file.tensors
        )

    def run(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """Outputs by name. Raises InputError for inputs that do not fit the file."""
        inputs = {name: array for name, array in inputs.items() if name not in self.states}
        need_inputs(inputs, self.inputs)
        inputs |= self._fixed
        if self.states:  # which an interpreter keeps as long as it lives
            self._interpreter = self._open()
        self._interpreter.reset_all_variables()
        interpreter = self._interpreter
        try:
            details = interpreter.get_input_details()
            for detail, name in zip(details, self._names, strict=True):
                if tuple(detail["shape"]) != inputs[name].shape:
                    interpreter.resize_tensor_input(detail["index"], inputs[name].shape)
            interpreter.allocate_tensors()
            for detail, name in zip(details, self._names, strict=True):
                interpreter.set_tensor(detail["index"], _integers(inputs[name], detail))
            interpreter.invoke()
        except Exception as error:
            raise InputError(
                f"LiteRT cannot run the model ({first_line(error)}): {OTHER_INPUTS}"
            ) from None
        return {
            name: self._result(interpreter.get_tensor(detail["index"]), detail)
            for name, detail in zip(self.outputs, interpreter.get_output_details(), strict=True)
        }

    def _result(self, found: np.ndarray, detail: dict[str, Any]) -> np.ndarray:
        scale, zero = detail["quantization"]
        if self._raw_io or not scale or found.dtype.kind == "f":
            return found
        return (found.astype(np.float32) - np.float32(zero)) * np.float32(scale)


def _integers(array: np.ndarray, detail: dict[str, Any]) -> np.ndarray:
    """An input in the type of the file."""
    dtype, (scale, zero) = np.dtype(detail["dtype"]), detail["quantization"]
    if array.dtype == dtype or not scale:
        return array
    limits = np.iinfo(dtype)
    return np.clip(np.round(array / np.float32(scale)) + zero, limits.min, limits.max).astype(dtype)
