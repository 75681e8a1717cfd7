"""Node tests in other versions of the operator set and with other element types, as onnxruntime has
them: what the page says about opsets and types comes from these.

A variant is called by its test and what is other: "test_relu@opset=13", "test_relu@type=float16",
"test_relu@seed=3" for changes at random, "test_relu@type=float16@scale=300" for other numbers.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from tvm_vision.frontend.onnx.graph import is_plain, least_ir_version, opset_of
from tvm_vision.frontend.onnx.load import MIN_OPSET
from tvm_vision.frontend.onnx.tools import ToolError, light_step

from .mutations import Mutator
from .onnx_cases import TYPES, Case, as_type, node_cases

SIGN = "@"


# Numbers whose sums, squares and powers leave the type, some of which the result does not; those
# that are little beside their mean; and the smallest.
NUMBERS = {
    "float16": ("scale=5000", "scale=300", "scale=1e-4", "offset=200"),
    "float32": ("scale=1e19", "scale=5000", "scale=1e-6", "offset=3000"),
}
TESTS_OF_NUMBERS = 3


class NoReference(Exception):
    """onnxruntime does not run it; the text says why."""


def case_named(name: str) -> Case:
    """A node test or a variant of one. Raises NoReference where onnxruntime has no result."""
    base, *changes = name.split(SIGN)
    case = node_cases()[base]
    if not changes or case.skipped:
        return case
    for change in changes:
        key, _, value = change.partition("=")
        if key == "seed":
            case = Mutator(int(value), base).changed(case)
        elif key == "opset":
            case = _at_opset(case, int(value))
        elif key == "type":
            case = _of_type(case, value)
        else:
            case = _with_numbers(case, key, float(value))
    return judged(replace(case, name=name))


def variant_names() -> list[str]:
    """A variant of each operator's first test for each older version and each type that it has."""
    found, seen = [], set()
    for name, case in node_cases().items():
        if case.skipped or case.operator in seen or "_expanded" in name:
            continue
        seen.add(case.operator)
        found += [f"{name}{SIGN}opset={version}" for version in _older_versions(case)]
        found += [f"{name}{SIGN}type={kind}" for kind in _other_types(case)]
    return found


def number_names() -> list[str]:
    """Each operator's first tests with numbers of NUMBERS, in each type of floating point."""
    found, seen = [], Counter[str]()
    for name, case in node_cases().items():
        if case.skipped or seen[case.operator] == TESTS_OF_NUMBERS or "_expanded" in name:
            continue
        if not any(array.dtype.kind == "f" for array in case.inputs.values()):
            continue
        seen[case.operator] += 1
        others = [kind for kind in _other_types(case) if kind == "float16"]
        for kind, numbers in NUMBERS.items():
            if kind not in types_of(case) + others:
                continue
            of_type = f"{SIGN}type={kind}" if kind in others else ""
            found += [f"{name}{of_type}{SIGN}{number}" for number in numbers]
    return found


def mutation_names(seeds: Iterable[int]) -> list[str]:
    """Changes of each test at random, those of one seed beside each other."""
    names = [name for name, case in node_cases().items() if not case.skipped]
    return [f"{name}{SIGN}seed={seed}" for seed in seeds for name in names]


def judged(case: Case) -> Case:
    """The case with onnxruntime's outputs. Raises NoReference."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    # As ``evaluate.reference`` has it: that pass changes the values of pads.
    disabled = ["Pad_Fusion"]
    try:
        session = onnxruntime.InferenceSession(
            case.model.SerializeToString(),
            options,
            providers=["CPUExecutionProvider"],
            disabled_optimizers=disabled,
        )
        found = session.run(None, dict[str, Any](case.inputs))
    except Exception as error:  # onnxruntime's exceptions have no base of their own
        raise NoReference(f"onnxruntime: {str(error).splitlines()[0][:200]}") from None
    if not all(isinstance(value, np.ndarray) and value.dtype != object for value in found):
        raise NoReference("onnxruntime gives no tensors of numbers")
    return replace(case, outputs=tuple(found))


def types_of(case: Case) -> list[str]:
    """Element types of the inputs."""
    return sorted({array.dtype.name for array in case.inputs.values()})


def _node(case: Case) -> onnx.NodeProto:
    return next(n for n in case.model.graph.node if n.op_type == case.operator)


def _older_versions(case: Case) -> list[int]:
    """Versions of the operator set, the oldest of each form that the operator had."""
    found = set()
    for version in range(MIN_OPSET, opset_of(case.model)):
        with contextlib.suppress(onnx.defs.SchemaError):
            schema = onnx.defs.get_schema(case.operator, version, _node(case).domain)
            found.add(max(schema.since_version, MIN_OPSET))
    return sorted(found)


def _at_opset(case: Case, version: int) -> Case:
    """Raises NoReference where there is no such form of the model."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    for entry in model.opset_import:
        if is_plain(entry.domain):
            entry.version = version
    model.ir_version = least_ir_version(model)
    try:
        light_step("check", model)
        return replace(case, model=model)
    except ToolError:
        pass
    try:
        model = light_step("convert_version", case.model, opset=version)
        light_step("check", model)
    except ToolError as error:
        raise NoReference(f"no such form: {error}") from None
    return replace(case, model=model)


def _typed_inputs(case: Case) -> tuple[list[str], list[str]]:
    """The inputs of the first input's type variable, and the types that it may have."""
    node = _node(case)
    schema = onnx.defs.get_schema(node.op_type, opset_of(case.model), node.domain)
    if not schema.inputs:
        return [], []
    variable = schema.inputs[0].type_str
    names = [
        name
        for index, name in enumerate(node.input)
        if schema.inputs[min(index, len(schema.inputs) - 1)].type_str == variable
    ]
    kinds = next((c.allowed_type_strs for c in schema.type_constraints
                  if c.type_param_str == variable), [variable])  # fmt: skip
    plain = [kind.removeprefix("tensor(").removesuffix(")") for kind in kinds]
    spelled = {"float": "float32", "double": "float64"}
    return names, sorted({spelled.get(kind, kind) for kind in plain} & TYPES.keys())


def _other_types(case: Case) -> list[str]:
    try:
        names, kinds = _typed_inputs(case)
    except (StopIteration, onnx.defs.SchemaError):
        return []
    taken = {case.inputs[name].dtype.name for name in names if name in case.inputs}
    return [kind for kind in kinds if kind not in taken] if taken else []


def _with_numbers(case: Case, key: str, value: float) -> Case:
    """Inputs of floating point times a scale, or with an offset added."""
    inputs = {}
    for name, array in case.inputs.items():
        if array.dtype.kind == "f":
            wide = array.astype(np.float64)
            wide = wide * value if key == "scale" else wide + value
            limits = np.finfo(array.dtype)
            array = np.clip(wide, limits.min, limits.max).astype(array.dtype)
        inputs[name] = array
    return replace(case, inputs=inputs)


def _of_type(case: Case, kind: str) -> Case:
    names, _ = _typed_inputs(case)
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    inputs = dict(case.inputs)
    for value in model.graph.input:
        if value.name in names:
            value.type.tensor_type.elem_type = TYPES[kind]
            inputs[value.name] = as_type(inputs[value.name], kind)
    for tensor in model.graph.initializer:
        if tensor.name in names:
            value = as_type(onnx.numpy_helper.to_array(tensor), kind)
            tensor.CopyFrom(onnx.numpy_helper.from_array(value, tensor.name))
    for value in model.graph.output:
        value.type.tensor_type.elem_type = TensorProto.UNDEFINED
    try:
        typed = light_step("infer", model)
    except ToolError as error:
        raise NoReference(f"no such form: {error}") from None
    return replace(case, model=typed, inputs=inputs)
