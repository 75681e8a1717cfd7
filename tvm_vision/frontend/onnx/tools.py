"""ONNX's own tools, run in a process of their own: see ``worker``.

Weights stay here. What the tools look at is a model whose large weights are inputs of the same name
and type, so that models of more than the 2 GB that a message can have pass, and quickly.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import EncodeError

from ...child_processes import start_python
from ...errors import InputError, UnsupportedModelError
from .worker import DONE

# Seconds for one step. Folding a network of thousands of nodes takes one of a slow processor.
LIMIT = 600.0
# Without weights and their values, it takes a second.
LIGHT_LIMIT = 60.0
# Weights of more elements say nothing about shapes.
SMALL = 1024
# What protobuf writes at the most.
LARGEST_MESSAGE = (1 << 31) - 1
_NAMES = {
    "check": "checker",
    "infer": "shape inference",
    "infer_by_values": "shape inference",
    "inline_functions": "inliner of functions",
    "expand": "inliner of functions",
    "convert_version": "version converter",
}


class ToolError(Exception):
    """A tool refuses a model; the text is its first line."""


class ToolDied(ToolError):
    """A tool ended its process, or had to be ended; the text says how."""


def start() -> None:
    """Have the process made, which takes some time, while there is other work to do.

    Raises InputError where none can be started.
    """
    _WORKER.start()


def light_step(step: str, model: onnx.ModelProto, **options: Any) -> onnx.ModelProto:
    """What ``check``, ``infer``, ``inline_functions`` or ``expand`` makes of a model.

    Raises ToolError where it refuses the model, UnsupportedModelError where the model ends it.
    """
    return _light_step(step, model, **options)[0]


def typed_by_values(model: onnx.ModelProto) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """What ``infer_by_values`` makes of a model, and the small results of nodes that it computed.

    Raises as ``light_step``.
    """
    made, computed = _light_step("infer_by_values", model)
    return made, {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in computed}


def _light_step(
    step: str, model: onnx.ModelProto, **options: Any
) -> tuple[onnx.ModelProto, list[onnx.TensorProto]]:
    """What a step makes of a model, with that one's weights; and the weights that it gave."""
    light, added = _without_weights(model)
    try:
        made = run(step, light, limit=LIGHT_LIMIT, **options)
    except ToolDied as death:
        where = _culprit(light) if step.startswith("infer") else ""
        raise UnsupportedModelError(
            f"a model that ONNX's {_NAMES[step]} can read is needed, and it {death}{where}: "
            "correct what is impossible in the model, or export it again"
        ) from None
    if step == "check":
        return model, []
    given = list(made.graph.initializer)
    kept = [value for value in made.graph.input if value.name not in added]
    del made.graph.input[:]
    made.graph.input.extend(kept)
    del made.graph.initializer[:]
    for tensor in model.graph.initializer:
        # ``extend`` would make a message of each, which has at most 2 GB.
        made.graph.initializer.add().CopyFrom(tensor)
    return made, given


def run(step: str, model: onnx.ModelProto, *, limit: float = LIMIT, **options: Any) -> Any:
    """What a step of ``worker`` makes of a whole model.

    limit: seconds after which it is ended.

    Raises ToolError, ToolDied.
    """
    # Asking protobuf for the size of a message makes the message.
    size = sum(len(tensor.raw_data) for tensor in model.graph.initializer)
    try:
        message = model.SerializeToString() if size < LARGEST_MESSAGE else b""
    except EncodeError:
        size = LARGEST_MESSAGE
    if size >= LARGEST_MESSAGE or len(message) > LARGEST_MESSAGE:
        raise ToolError("the model has more than 2 GB")
    request = json.dumps({"step": step, "options": options}).encode()
    reply = _WORKER.ask(request, message, limit)
    if reply[:1] != DONE:
        lines = reply[1:].decode(errors="replace").splitlines()
        raise ToolError(lines[0].strip() if lines else "no reason given")
    made = onnx.ModelProto()
    made.ParseFromString(reply[1:])
    return made


def bare(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy without weights."""
    graph = model.graph
    return onnx.ModelProto(
        ir_version=model.ir_version,
        opset_import=model.opset_import,
        functions=model.functions,
        producer_name=model.producer_name,
        producer_version=model.producer_version,
        domain=model.domain,
        model_version=model.model_version,
        doc_string=model.doc_string,
        metadata_props=model.metadata_props,
        graph=onnx.GraphProto(
            name=graph.name,
            node=graph.node,
            input=graph.input,
            output=graph.output,
            value_info=graph.value_info,
            sparse_initializer=graph.sparse_initializer,
            doc_string=graph.doc_string,
            quantization_annotation=graph.quantization_annotation,
        ),
    )


def without_large_values(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy in which large weights have their name, type and shape alone."""
    light = bare(model)
    for tensor in model.graph.initializer:
        if math.prod(tensor.dims) <= SMALL:
            light.graph.initializer.append(tensor)
        else:
            light.graph.initializer.append(
                onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
            )
    return light


def _without_weights(model: onnx.ModelProto) -> tuple[onnx.ModelProto, set[str]]:
    """The model with inputs in place of large weights, and the names of those that are new."""
    light = bare(model)
    listed = {value.name for value in model.graph.input}
    added = set()
    for tensor in model.graph.initializer:
        if math.prod(tensor.dims) <= SMALL:
            light.graph.initializer.append(tensor)
        elif tensor.name not in listed:
            added.add(tensor.name)
            light.graph.input.append(
                onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            )
    return light, added


def _culprit(model: onnx.ModelProto) -> str:
    """The first node that shape inference dies of, in words; nothing where it takes several."""
    low, high = 0, len(model.graph.node)
    part = onnx.ModelProto()
    part.CopyFrom(model)
    del part.graph.output[:]
    while high - low > 1:
        middle = (low + high) // 2
        del part.graph.node[:]
        part.graph.node.extend(model.graph.node[:middle])
        try:
            run("infer", part, limit=LIGHT_LIMIT)
            low = middle
        except ToolDied:
            high = middle
        except ToolError:
            return ""
    node = model.graph.node[high - 1]
    given = (f"{a.name} {onnx.helper.get_attribute_value(a)}" for a in node.attribute)
    return f" of {node.op_type} '{node.name}' ({', '.join(given)})"[:300]


class _Worker:
    """The process, started when it is needed, and anew after it died."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Any = None
        self._owner = 0

    def start(self) -> None:
        with self._lock:
            self._open()

    def ask(self, request: bytes, model: bytes, limit: float) -> bytes:
        """The answer to a request. Raises ToolDied, InputError where no process can be started."""
        with self._lock:
            try:
                connection = self._open()
                try:
                    connection.send_bytes(request)
                    connection.send_bytes(model)
                    if not connection.poll(limit):
                        raise ToolDied(f"takes more than {limit:.0f} s")
                    return connection.recv_bytes()
                except (EOFError, OSError):
                    raise ToolDied(f"dies ({self._cause()})") from None
            except BaseException:
                # Whoever asks next must not get the answer to this.
                self.close()
                raise

    def _open(self) -> Any:
        # A process that was forked from this one must not share the connection.
        running = self._process is not None and self._process.poll() is None
        if running and self._owner == os.getpid():
            return self._connection
        self.close()
        try:
            self._process, self._connection = start_python(f"{__package__}.worker")
        except OSError as error:
            raise InputError(
                f"a second process of Python is needed to look at ONNX models, and "
                f"'{sys.executable}' cannot be started ({error.strerror}): check that file"
            ) from None
        self._owner = os.getpid()
        return self._connection

    def _cause(self) -> str:
        assert self._process is not None
        try:
            code = self._process.wait(10)
        except subprocess.TimeoutExpired:
            return "without an answer"
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"

    def close(self) -> None:
        """End the process if it runs."""
        if self._connection is not None:
            self._connection.close()
        if self._process is not None and self._owner == os.getpid():
            self._process.kill()
            # One that waits in the system, for a disk that is gone, is left to it.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(10)
        self._process = self._connection = None


_WORKER = _Worker()
atexit.register(_WORKER.close)
