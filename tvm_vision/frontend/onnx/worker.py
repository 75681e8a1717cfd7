"""The process in which ONNX's own tools look at models: a damaged one can end it, and nothing else.

onnx.checker, onnx.shape_inference, onnx.inliner and onnxsim are C++ that trusts attributes: a
stride of 0 is a division by zero, a function that calls itself has no end. ``tools`` starts
this process and talks to it over a connection; it ends with the connection.
"""

from __future__ import annotations

import contextlib
import json
import math
import resource
import sys
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

import onnx
from onnx import numpy_helper

from ...child_processes import end_without
from .known_sizes import KnownSizes, shape_of

# The first byte of an answer.
DONE, FAILED = b"\1", b"\0"
# Elements; no shape and no list of indices has as many.
LONG = 1 << 16
# What inference lacks a rule for, and what has the same one: the type of its first input.
_ALIKE = {"GroupNormalization": "InstanceNormalization"}
# A domain that inference knows nothing of.
_HIDDEN = "hidden"
# Bytes that a step may take for itself, and for each byte of a model: onnxsim copies it often.
MEMORY = 4 << 30
MEMORY_OF_MODEL = 8


def check(model: onnx.ModelProto) -> None:
    """Raises onnx.checker.ValidationError."""
    onnx.checker.check_model(model)


def infer(model: onnx.ModelProto, strict: bool = False, by_values: bool = True) -> onnx.ModelProto:
    """With the types of all values that follow from the inputs. strict: raise what is wrong.
    by_values: of values that follow from sizes, too, where strict raises what it cannot follow."""
    kinds = {place: n.op_type for place, n in enumerate(model.graph.node) if _lacks_rule(n)}
    for place, kind in kinds.items():
        model.graph.node[place].op_type = _ALIKE[kind]
    made = _inferred(model, strict, by_values)
    for place, kind in kinds.items():
        made.graph.node[place].op_type = model.graph.node[place].op_type = kind
    return made


def _lacks_rule(node: onnx.NodeProto) -> bool:
    return not node.domain and node.op_type in _ALIKE


def _inferred(model: onnx.ModelProto, strict: bool, by_values: bool) -> onnx.ModelProto:
    if strict:
        return onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=by_values)
    plain = onnx.shape_inference.infer_shapes(model)
    hidden = _nodes_of_long_values(plain.graph)
    if not hidden:
        return onnx.shape_inference.infer_shapes(model, data_prop=True)
    for node in hidden:
        node.domain = _HIDDEN
    plain.opset_import.append(onnx.helper.make_opsetid(_HIDDEN, 1))
    made = onnx.shape_inference.infer_shapes(plain, data_prop=True)
    for node in made.graph.node:
        if node.domain == _HIDDEN:
            node.domain = ""
    del made.opset_import[-1]
    return made


def infer_by_values(model: onnx.ModelProto) -> onnx.ModelProto:
    """As ``infer``, where that leaves types open with those that follow from values as well. Its
    weights are the values of nodes that were computed on the way."""
    made = infer(model)
    outputs = {value.name: value for value in made.graph.output}
    typed = {value.name: value.type for value in made.graph.value_info}
    typed |= {name: value.type for name, value in outputs.items()}
    names = [name for node in made.graph.node for name in node.output if name]
    if all(shape_of(typed.get(name)) is not None for name in names):
        del made.graph.initializer[:]
        return made
    found = KnownSizes(made)
    del made.graph.value_info[:]
    for name in names:
        if name in outputs:
            outputs[name].type.CopyFrom(found.types[name])
        elif name in found.types:
            made.graph.value_info.add(name=name, type=found.types[name])
    del made.graph.initializer[:]
    for name, value in found.values.items():
        made.graph.initializer.append(numpy_helper.from_array(value, name))
    return made


def _nodes_of_long_values(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """Nodes of known types that inference by value would compute element by element, in minutes
    and gigabytes: what has as many elements is no shape."""
    values = [*graph.value_info, *graph.input, *graph.output]
    types = {value.name: value.type.tensor_type for value in values}
    sizes = {
        name: math.prod(size.dim_value for size in kind.shape.dim)
        for name, kind in types.items()
        if kind.HasField("shape") and all(size.HasField("dim_value") for size in kind.shape.dim)
    }
    sizes |= {tensor.name: math.prod(tensor.dims) for tensor in graph.initializer}
    return [
        node
        for node in graph.node
        if not node.domain
        and any(sizes.get(name, 0) > LONG for name in (*node.input, *node.output))
        and all(name in sizes for name in node.output if name)
    ]


def inline_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """With the bodies of the functions that the model brings along."""
    import onnx.inliner

    # A function may be of another operator set than the model.
    return onnx.inliner.inline_local_functions(model, convert_version=True)


def expand(model: onnx.ModelProto, operators: list[list[str]]) -> onnx.ModelProto:
    """With ONNX's own bodies in place of operators, each of them a domain and a name."""
    import onnx.inliner

    return onnx.inliner.inline_selected_functions(
        model, [(domain, name) for domain, name in operators], inline_schema_functions=True
    )


def simplify(
    model: onnx.ModelProto, shapes: dict[str, list[int]], without: Sequence[str] = ()
) -> onnx.ModelProto:
    """With constants folded, for these shapes of the inputs.

    without: names of onnxsim's passes to leave out.
    """
    import onnxsim

    result, _ = onnxsim.simplify(
        model, overwrite_input_shapes=shapes, skipped_optimizers=list(without)
    )
    onnx.checker.check_model(result)
    return result


def convert_version(model: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    """In another version of the operator set."""
    from onnx import version_converter

    return version_converter.convert_version(model, opset)


def evaluate(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model without nodes, whose weights are the results of one that has no inputs."""
    from onnx.reference import ReferenceEvaluator

    names = [value.name for value in model.graph.output]
    results = ReferenceEvaluator(model).run(None, {})
    found = onnx.ModelProto()
    for name, result in zip(names, results, strict=True):
        # A scalar of numpy is a result too; a list is a sequence, which no weight is.
        if not hasattr(result, "dtype"):
            raise TypeError(f"{name} is no tensor")
        found.graph.initializer.append(numpy_helper.from_array(result[...], name))
    return found


STEPS: dict[str, Callable[..., Any]] = {
    step.__name__: step
    for step in (
        check,
        infer,
        infer_by_values,
        inline_functions,
        expand,
        simplify,
        convert_version,
        evaluate,
    )
}


def answer(step: str, options: dict[str, Any], model: bytes) -> bytes:
    """What a step makes of a model, or the text of what it raises."""
    try:
        proto = onnx.ModelProto()
        proto.ParseFromString(model)
        result = STEPS[step](proto, **options)
        return DONE + (b"" if result is None else result.SerializeToString())
    except Exception as error:  # C++ raises every kind there is
        return FAILED + (str(error).strip() or type(error).__name__).encode()


def _limit_memory(size: int) -> None:
    """Sizes in a damaged model can be anything: what asks for more bytes fails by itself."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    if most != resource.RLIM_INFINITY:
        size = min(size, most)
    resource.setrlimit(resource.RLIMIT_DATA, (size, most))


def main() -> None:
    """Answers until nobody asks any more; the argument is the number of the connection."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # onnxsim counts operations with it, for tables that nobody prints, and does without. Its import
    # would take nearly as long as all others.
    sys.modules["sympy"] = None  # type: ignore[assignment]
    connection = Connection(int(sys.argv[1]))
    end_without(connection)
    if not connection.poll():
        # Nearly every model comes to it, and until somebody asks there is time.
        with contextlib.suppress(ImportError):
            import onnxsim  # noqa: F401
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            request = json.loads(connection.recv_bytes())
            model = connection.recv_bytes()
            _limit_memory(MEMORY + MEMORY_OF_MODEL * len(model))
            connection.send_bytes(answer(request["step"], request["options"], model))


if __name__ == "__main__":
    main()
