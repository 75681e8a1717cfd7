"""Runs a compiled network: one recorded submission a frame on Vulkan, function calls on the CPU.

The names are those of TVM's former graph executor, so that code written for it needs one changed
import. It needs TVM's runtime library alone (``TVM_USE_RUNTIME_LIB=1``).
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import vulkan
from ..devices.difference import difference
from ..error_lines import no_attribute
from ..errors import InputError, PackageError
from ..tvm_compat.ffi import tvm_ffi
from .benchmark import WARM_SECONDS, BenchmarkResult, Pace, measure, warm_up
from .other_names import OF_EXECUTORS
from .profiler import KernelInfo, ProfileReport, kernel_infos, summarise
from .recovery import Losses
from .tracing import Trace, trace_frames

Value = Any  # numpy array or tensor
Key = int | str


def create(graph_json: Any, lib: Any, device: Any) -> GraphExecutor:
    """An executor for a network.

    graph_json: content of mod.json, as text, bytes or parsed. lib: the loaded mod.so
    (``tvm.runtime.load_module``). device: ``tvm.vulkan(i)`` or ``tvm.cpu(0)``.

    Raises PackageError when graph and library do not belong together, DeviceError when the device
    is absent, too small or lacks a feature.
    """
    if isinstance(graph_json, Mapping):
        graph_json = json.dumps(graph_json)
    elif not isinstance(graph_json, str):
        graph_json = _content(graph_json, "mod.json").decode(errors="replace")
    return GraphExecutor(graph_json, lib, device)


def made_for_another(target: Mapping[str, Any], device: Any) -> str:
    """Name of the device that a package was made for, where that is another than this one."""
    if device.type == "cpu" or not difference(target, vulkan.devices()[device.index]):
        return ""
    return str(target["device_name"])


class GraphExecutor:
    """A network on a device, ready to take frames.

    One object serves one thread at a time, and threads may take turns (one submits, another waits).
    Raises InputError where a call begins while another thread's is running, and where a thread's
    input or output was replaced by another thread before it was used: give each thread its own.
    """

    #: What became of its device so far.
    losses = Losses()

    def __init__(self, graph_json: str, lib: Any, device: Any) -> None:
        self._open(graph_json, lib, device)

    def __repr__(self) -> str:
        takes, gives = ", ".join(self.input_names), ", ".join(self.output_names)
        return f"<{type(self).__name__} of {takes} -> {gives} on {self.device_description}>"

    if not TYPE_CHECKING:  # for which no name would be a wrong one

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(type(self).__name__, name, OF_EXECUTORS)

    def _open(self, graph_json: str, lib: Any, device: Any) -> None:
        make = tvm_ffi.get_global_func("tvm_vision.graph_executor.create")
        self.device = device
        try:
            self.info: dict[str, Any] = json.loads(graph_json)
        except json.JSONDecodeError as error:
            raise PackageError(
                f"the content of mod.json was needed, found no JSON ({error}); compile the network "
                "again"
            ) from None
        self._module = make(graph_json, lib, device)
        self._call = {
            name: self._module[name]
            for name in (
                "set_input", "write_input", "input_memory", "run", "submit", "wait", "get_output",
                "profile", "trace",
            )
        }  # fmt: skip
        for name in ("run", "submit", "profile", "trace"):
            self._call[name] = _of_one_compilation(self._call[name])
        self.input_names = tuple(str(name) for name in self._module["names"](True))
        self.output_names = tuple(str(name) for name in self._module["names"](False))
        self._direct = _direct_inputs(self.info, self.input_names)

    def _invoke(self, name: str, *arguments: Any) -> Any:
        """Call a function of the native module."""
        return self._call[name](*arguments)

    def _close(self) -> None:
        """Let go of the native module and its memory."""
        self._module, self._call = None, {}

    def _told(self, name: str) -> int:
        """A number that the native module tells; 0 without one."""
        return int(self._module[name]()) if self._module is not None else 0

    @property
    def num_inputs(self) -> int:
        """Number of inputs."""
        return len(self.input_names)

    @property
    def num_outputs(self) -> int:
        """Number of outputs."""
        return len(self.output_names)

    @property
    def memory_bytes(self) -> int:
        """Bytes that the network holds on its device: weights, activations, inputs and outputs."""
        return self._told("memory_bytes")

    @property
    def recordings(self) -> int:
        """How often the network was recorded; it is again only when inputs are bound anew."""
        return self._told("recordings")

    @property
    def barriers(self) -> int:
        """How often a frame waits on the device until everything before is done; 0 on the CPU."""
        return self._told("barriers")

    @property
    def device_description(self) -> str:
        """One line that names the device and says when it is a CPU."""
        if self.device.type == "cpu":
            return "cpu(0): the CPU through LLVM"
        return vulkan.devices()[self.device.index].describe()

    @property
    def device_note(self) -> str:
        """One line where the package was made for another device than this one, with what that
        means and what to do; else ""."""
        if self.device.type == "cpu":
            return ""
        return difference(self.info.get("target", {}), vulkan.devices()[self.device.index])

    def prepare(self) -> None:
        """Compile the pipelines and record the network, which the first frame would wait for.

        Raises DeviceError naming kernel and feature where the device cannot run the network,
        PackageError where the graph calls a kernel with other tensors than it takes.
        """
        _of_one_compilation(self._module["prepare"])()

    def load_params(self, params: Any) -> None:
        """Load the weights: the content of mod.params, or arrays by name.

        params: bytes, bytearray, memoryview, numpy array, mmap or whatever else has a buffer, or a
        mapping.

        Raises PackageError when they are damaged or one is missing, InputError for a wrong shape or
        type.
        """
        arrays = params if hasattr(params, "items") else _stored_arrays(params)
        self._module["load_params"](
            {str(k): _tensor(v, f"parameter {k}") for k, v in arrays.items()}
        )

    def set_input(self, key: Key | None = None, value: Value = None, **by_name: Value) -> None:
        """Set inputs of the next frame by number, name or keyword; they stay set for later runs.

        A value is a numpy array or tensor of the input's shape and dtype. It is copied, unless it
        is a tensor on the executor's own device: that is read in place and must keep its content
        until the frame is done.
        Raises InputError for an unknown input, a wrong shape or dtype.
        """
        if key is not None:
            self._set(key, value)
        for name, item in by_name.items():
            self._set(name, item)

    def _set(self, key: Key, value: Value) -> None:
        form = self._direct.get(key) if isinstance(value, np.ndarray) else None
        if form is None:
            self._invoke("set_input", key, _tensor(value, f"input {key}"))
            return
        index, shape, dtype = form
        # Not left to TVM, which has no words for many of numpy's types.
        if value.shape != shape or value.dtype != dtype:
            raise InputError(
                f"input {self.input_names[index]} must be {_form(shape, dtype)}, found "
                f"{_form(value.shape, value.dtype)}"
            )
        array = np.asarray(value, order="C")
        self._invoke("write_input", index, ctypes.c_void_p(array.ctypes.data))

    def input_array(self, key: Key) -> np.ndarray:
        """The memory of an input of the next frame, to write in the place of ``set_input``.

        An array of the input's shape and dtype, of which all has to be written: what is in it
        before is left from any frame. The input counts as set. Frames of ``run`` have the same
        array, so that one call serves for all of them; before each ``submit`` ask for it anew. It
        must not be written while its frame is on the way, and is nobody's once the device was
        lost. It may lie in a card's memory, where reading it back is slow.
        Raises InputError for an unknown input, and for one whose type numpy has not.
        """
        form = self._direct.get(key)
        if form is None and (key in self.input_names or key in range(self.num_inputs)):
            raise InputError(f"input {key} is of a type that numpy has not: use set_input")
        address = int(self._invoke("input_memory", key if form is None else form[0]))
        assert form is not None
        return np.asarray(_Memory(self._module, address, form[1], form[2]))

    def run(self, **by_name: Value) -> None:
        """Run one frame, from the inputs that are set to finished outputs.

        Raises PackageError where the graph calls a kernel with other tensors than it takes.
        """
        self.set_input(**by_name)
        self._invoke("run")

    def frame(self, inputs: Mapping[Key, Value]) -> dict[str, np.ndarray]:
        """One frame: all its inputs, by number or name, in, and all outputs by name out.

        An input may be a function, too, which writes the ``input_array`` that it is given.
        """
        for key, value in inputs.items():
            if callable(value):
                value(self.input_array(key))
            else:
                self._set(key, value)
        self._invoke("run")
        return self.outputs()

    def submit(self) -> int:
        """Start the frame whose inputs are set; returns its ticket for ``wait``.

        Two frames may be in flight: while one is on the device, set the inputs of the next one and
        submit it. Inputs must be set for each frame. Raises InputError for a third frame.
        """
        return int(self._invoke("submit"))

    def wait(self, ticket: int) -> None:
        """Wait for a submitted frame; ``get_output`` then gives its outputs."""
        self._invoke("wait", ticket)

    def get_output(self, key: Key) -> Any:
        """A copy of an output of the last finished frame, a tensor on the CPU (``.numpy()``).

        It is the caller's to keep: later frames leave it alone.
        """
        return self._invoke("get_output", key)

    def outputs(self) -> dict[str, np.ndarray]:
        """All outputs of the last finished frame by name, each an array of its own that the caller
        may keep and change: they are copied from the device once, and never again."""
        return {name: _array(self.get_output(i)) for i, name in enumerate(self.output_names)}

    def benchmark(
        self,
        repeat: int = 10,
        number: int = 1,
        warmup: int = 3,
        rate: float = 0.0,
        most_seconds: float = math.inf,
    ) -> BenchmarkResult:
        """Time whole frames by the host's clock: ``repeat`` times the mean of ``number`` runs.

        warmup: runs before, a quarter of a second of them at least without a rate; 0 for none.
        rate: measurements that begin in a second, as frames of a camera do; 0 for one after the
        other. most_seconds: fewer are taken where it is over. Inputs must be set. Raises InputError
        for counts below 1 (``warmup``, ``rate``: below 0).
        """
        return measure(
            self.run, repeat=repeat, number=number, warmup=warmup, rate=rate,
            most_seconds=most_seconds, warm_seconds=WARM_SECONDS,
        )  # fmt: skip

    def profile(self, repeat: int = 30, warmup: int = 5, rate: float = 0.0) -> ProfileReport:
        """Time each kernel and each stage on the device, over ``repeat`` frames.

        The kernels are timed in a recording of its own, with a timestamp between any two; span,
        upload, read-back and wall time are of one frame without those. On the CPU the host's clock
        is read. Inputs must be set. rate: as of ``benchmark``; all recordings of a frame run at
        once. warmup: frames before, as of ``benchmark``.
        """
        if repeat < 1:
            raise InputError(f"a profile needs at least 1 run, found repeat={repeat}")
        pace = Pace(rate)

        def frame() -> list[float]:
            return list(self._invoke("profile"))

        warm_up(frame, warmup, pace)
        taken = []
        for _ in range(repeat):
            pace.wait()
            taken.append(frame())
        samples = np.array(taken, np.float64)
        return summarise(self._kernels(), samples, self._device_name(), self.device_description)

    def trace(self, frames: int = 3, inputs: Mapping[str, Value] | None = None) -> Trace:
        """When what of some frames ran, on the host and on the device, by one clock.

        In a recording of its own, with a timestamp between any two kernels. inputs: set before each
        frame, as a program does; without them those that are set serve for all. Raises InputError
        for fewer than one frame, DeviceError for a device without timestamps.
        """

        def set_inputs() -> None:
            for key, value in (inputs or {}).items():
                self.set_input(key, value)

        on_host = self.device.type == "cpu"
        traced = trace_frames(
            partial(self._invoke, "trace"), set_inputs, self.outputs, frames, on_host
        )
        return Trace(self._device_name(), self.device_description, self._kernels(), traced)

    def _kernels(self) -> tuple[KernelInfo, ...]:
        return kernel_infos(self.info.get("graph", self.info))

    def _device_name(self) -> str:
        return f"{self.device.type}{self.device.index}"


class _Memory:
    """Memory of an executor as numpy takes it; arrays of it keep the executor."""

    def __init__(
        self, owner: Any, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        self._owner = owner
        self.__array_interface__ = {
            "version": 3, "data": (address, False), "shape": shape, "typestr": dtype.str,
        }  # fmt: skip


def _of_one_compilation(function: Callable[[], Any]) -> Callable[[], Any]:
    """``function``, with what kernels say of tensors that do not fit them as a PackageError."""

    def call() -> Any:
        try:
            return function()
        except (ValueError, TypeError) as error:
            # What is wrong, the kernel's signature, and what was expected: a line each.
            first, *rest = [line.strip() for line in str(error).splitlines()] or [""]
            kernel = rest[0].partition("(")[0].strip("` ") if rest else "a kernel"
            expected = f", {rest[-1]}" if len(rest) > 1 else ""
            raise PackageError(
                "mod.json and mod.so must be of one compilation, and the graph does not fit "
                f"{kernel}: {first.removesuffix(' when calling:')}{expected}; compile the network "
                "again"
            ) from None

    return call


def _stored_arrays(content: Any) -> Mapping[str, Any]:
    """The tensors in the content of mod.params, by name."""
    from ..package.params import list_params

    data = _content(content, "mod.params")
    list_params(io.BytesIO(data))  # says what is wrong where TVM has an error of its own
    return tvm_ffi.get_global_func("runtime.LoadParams")(bytearray(data))


def _content(content: Any, name: str) -> bytes:
    """The bytes of whatever has a buffer of them."""
    try:
        with memoryview(content) as view:
            return view.tobytes()
    except TypeError:
        raise InputError(
            f"the content of {name} is needed, found {type(content).__name__}: pass "
            "open(path, 'rb').read()"
        ) from None


def _direct_inputs(
    info: Mapping[str, Any], names: tuple[str, ...]
) -> dict[Key, tuple[int, tuple[int, ...], np.dtype[Any]]]:
    """By number and by name: number, shape and type of each input whose type numpy has."""
    graph = info.get("graph", info)
    forms: dict[Key, tuple[int, tuple[int, ...], np.dtype[Any]]] = {}
    for index, tensor in enumerate(graph["inputs"]):
        described = graph["tensors"][tensor]
        try:
            dtype = np.dtype(described["dtype"])
        except TypeError:
            continue
        forms[index] = forms[names[index]] = (index, tuple(described["shape"]), dtype)
    return forms


def _array(tensor: Any) -> np.ndarray:
    """An output as numpy array: its own memory where numpy can take it over, else a copy."""
    try:
        array = np.from_dlpack(tensor)
    except (BufferError, RuntimeError, TypeError):
        return np.asarray(tensor.numpy())
    # Older numpy gives arrays that cannot be written, which outputs() never were.
    return array if array.flags.writeable else array.copy()


def _form(shape: tuple[int, ...], dtype: np.dtype[Any]) -> str:
    """Shape and type as the native library writes them."""
    return f"({', '.join(map(str, shape))}) {dtype}"


def _tensor(value: Value, what: str) -> Any:
    """A tensor over an array's memory, or over that of a copy where it has another order.

    Raises InputError, beginning with ``what`` it is for, for a type that TVM does not have.
    """
    if isinstance(value, np.ndarray):
        # Not ascontiguousarray: that gives a scalar a dimension.
        array = np.asarray(value, order="C")
        try:
            return tvm_ffi.from_dlpack(array if array.flags.writeable else array.copy())
        except (BufferError, TypeError, RuntimeError, ValueError):
            return _tensor_of_other_type(array, what)
    if isinstance(value, tvm_ffi.Tensor):
        return value
    raise InputError(
        f"{what} must be a numpy array or a tensor, found {type(value).__name__}; "
        "convert it with numpy.asarray"
    )


def _tensor_of_other_type(array: np.ndarray, what: str) -> Any:
    """A tensor of a type that numpy does not hand on, such as ml_dtypes' bfloat16."""
    if array.dtype.kind == "V" and array.dtype.names is None:
        from tvm.runtime import tensor

        with contextlib.suppress(TypeError, ValueError, RuntimeError):
            return tensor(array)
    raise InputError(
        f"{what} must be an array of numbers in this machine's order of bytes, found "
        f"{array.dtype}; convert it with astype"
    )
