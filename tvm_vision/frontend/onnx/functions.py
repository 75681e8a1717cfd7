"""Functions that a model brings along, put in place of their calls as onnxruntime does it."""

from __future__ import annotations

import onnx

from ...errors import UnsupportedModelError
from .contributed import is_operator
from .graph import nodes_in, put_domains_plainly
from .tools import ToolError, light_step


def without_functions(proto: onnx.ModelProto) -> onnx.ModelProto:
    """``proto`` with the bodies of its functions in place of their calls; itself where it has none,
    else it is changed on the way.

    What PyTorch's newer exporter and jax2onnx write has functions. ONNX's inliner is stricter than
    onnxruntime: it leaves calls of functions that import another version of a domain of their own
    than the model, and does not know an attribute's default value. Of a function that has the name
    of an operator, onnxruntime takes the operator.

    Raises UnsupportedModelError where a function cannot be put in place of its calls.
    """
    if not proto.functions:
        return proto
    own = [each for each in proto.functions if not is_operator(each.domain, each.name)]
    del proto.functions[:]
    proto.functions.extend(own)
    _import_the_same(proto)
    _give_defaults(proto)
    try:
        inlined = light_step("inline_functions", proto)
    except ToolError:
        inlined = _inlined_as_it_is(proto)
    names = {_name(function) for function in proto.functions}
    if left := sorted({_name(node) for node in nodes_in(inlined.graph)} & names):
        raise _refusal(f"'{'.'.join(filter(None, left[0]))}' is still called")
    del inlined.functions[:]
    return inlined


def _inlined_as_it_is(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Where ONNX cannot convert what functions have in another operator set than the model:
    onnxruntime takes them for the model's, whatever they say."""
    versions = {entry.domain: entry.version for entry in proto.opset_import}
    for function in proto.functions:
        for entry in function.opset_import:
            entry.version = versions[entry.domain]
    try:
        return light_step("inline_functions", proto)
    except ToolError as error:
        raise _refusal(str(error)) from None


def _refusal(reason: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"functions that can be inlined are needed, and the model's are not ({reason}): export it "
        "again"
    )


def _name(of: onnx.FunctionProto | onnx.NodeProto) -> tuple[str, str, str]:
    name = of.name if isinstance(of, onnx.FunctionProto) else of.op_type
    return of.domain, name, of.overload


def _import_the_same(proto: onnx.ModelProto) -> None:
    """Have the model import all that its functions do, and these the model's version of domains
    other than ONNX's. Of ONNX's own, theirs stays, and the inliner converts what differs."""
    of_functions = [entry for function in proto.functions for entry in function.opset_import]
    put_domains_plainly((*proto.opset_import, *of_functions))
    versions = {entry.domain: entry.version for entry in proto.opset_import}
    for entry in sorted(of_functions, key=lambda entry: -entry.version):
        if entry.domain not in versions:
            versions[entry.domain] = entry.version
            proto.opset_import.append(entry)
        if entry.domain:
            entry.version = versions[entry.domain]


def _give_defaults(proto: onnx.ModelProto) -> None:
    """Write attributes that a call leaves out, and its function has a value for, into the call."""
    functions = {_name(function): function for function in proto.functions}
    for part in (proto.graph, *proto.functions):
        for node in nodes_in(part):
            if function := functions.get(_name(node)):
                given = {entry.name for entry in node.attribute}
                node.attribute.extend(e for e in function.attribute_proto if e.name not in given)
