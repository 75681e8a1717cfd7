"""Cooperative matrices: TVM's matrix fragments ("wmma") as GL_KHR_cooperative_matrix.

TVM allocates an array of fragments as a buffer of scope wmma.matrix_a, wmma.matrix_b or
wmma.accumulator, whose shape "m, n, k" stands in an attribute, and calls an operator for whole
fragments, chosen by a constant index. Here each is an element of an array of coopmat.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import ir
from tvm.ir.prim import expr as prim

from tvm_vision.errors import UnsupportedKernelError
from tvm_vision.vulkan.codegen.glsl import types
from tvm_vision.vulkan.codegen.glsl.analysis import MATRIX_MEMORY, handle, operator_name
from tvm_vision.vulkan.codegen.glsl.narrow import NarrowingPrinter
from tvm_vision.vulkan.codegen.glsl.types import FLOAT16, FLOAT32, INT8, INT32

SCOPES = {"wmma.matrix_a": "A", "wmma.matrix_b": "B", "wmma.accumulator": "Accumulator"}
SHAPE = "fragment_shape"
ATTRIBUTE = "supports_cooperative_matrix"
EXTENSIONS = ("GL_KHR_cooperative_matrix", "GL_KHR_memory_scope_semantics")
# Each number of a matrix times that of another: ours, as TVM has no such operator.
SCALE = "tvm_vision_scale_matrix"
_LAYOUTS = {"row_major": "RowMajor", "col_major": "ColumnMajor"}


def declare(printer: NarrowingPrinter, buffer: Any, shape: tuple[int, int, int]) -> None:
    """Declares the array of fragments that a buffer stands for.

    Raises:
        UnsupportedKernelError: the target has no cooperative matrices, or not of this type.
    """
    found = printer.attributes.get(ATTRIBUTE)
    if found is not None and not found:
        raise UnsupportedKernelError(
            "its schedule needs cooperative matrices (VK_KHR_cooperative_matrix), which the "
            f"target says are missing ({ATTRIBUTE} is false): schedule for this target"
        )
    element = printer.analysis.element(buffer)
    if element not in (FLOAT16, FLOAT32, INT8, INT32):
        raise UnsupportedKernelError(f"a cooperative matrix of {element} has no form here")
    printer.subgroup_extensions.update(EXTENSIONS)
    printer.requirements.value(element)
    printer.require_subgroup(_lanes(printer))
    use = SCOPES[str(buffer.ty.storage_scope)]
    m, n, k = shape
    rows, columns = {"A": (m, k), "B": (k, n), "Accumulator": (m, n)}[use]
    count = 1
    for extent in buffer.ty.shape:
        count *= int(extent.value)
    count //= rows * columns
    typed = (
        f"coopmat<{types.name(element)}, gl_ScopeSubgroup, {rows}, {columns}, gl_MatrixUse{use}>"
    )
    name = printer.names.unique(buffer.name)
    printer.fragments[handle(buffer)] = (name, typed)
    printer.emit(f"{typed} {name}[{count}];")


def factors_of(source: str) -> str | None:
    """What a kernel's GLSL multiplies as matrices, "float16" or "int8"; None if it does not."""
    if "coopMatMulAdd(" not in source:
        return None
    found = INT8 if f"coopmat<{types.name(INT8)}," in source else FLOAT16
    return f"{found.kind}{found.bits}"


def _lanes(printer: NarrowingPrinter) -> int:
    """Threads of a subgroup: as many as along threadIdx.x, so that a row of threads is one."""
    extent = printer.analysis.extents.get("threadIdx.x")
    if not isinstance(extent, prim.IntImm):
        raise UnsupportedKernelError("cooperative matrices need a constant extent of threadIdx.x")
    return int(extent.value)


def _fill(printer: NarrowingPrinter, call: Any) -> None:
    """Arguments: fragments, m, n, k, index, value."""
    fragment, typed = _fragment(printer, call.args[0], call.args[4])
    printer.emit(f"{fragment} = {typed}({printer.scalar(call.args[5])});")


def _load(printer: NarrowingPrinter, call: Any) -> None:
    """Arguments: fragments, m, n, k, index, place, stride, layout."""
    fragment, _ = _fragment(printer, call.args[0], call.args[4])
    printer.emit(f"coopMatLoad({fragment}, {_place(printer, call)});")


def _store(printer: NarrowingPrinter, call: Any) -> None:
    """Arguments: fragments, m, n, k, index, place, stride, layout."""
    fragment, _ = _fragment(printer, call.args[0], call.args[4])
    printer.emit(f"coopMatStore({fragment}, {_place(printer, call)});")


def _multiply(printer: NarrowingPrinter, call: Any) -> None:
    """Arguments: D, its index, A, its index, B, its index, C, its index; D = A B + C."""
    result, a, b, start = (
        _fragment(printer, call.args[i], call.args[i + 1])[0] for i in (0, 2, 4, 6)
    )
    printer.emit(f"{result} = coopMatMulAdd({a}, {b}, {start});")


def _scale(printer: NarrowingPrinter, call: Any) -> None:
    """Arguments: its name, fragments, index, fragments of the factors, their index."""
    result, by = (_fragment(printer, call.args[i], call.args[i + 1])[0] for i in (1, 3))
    at = printer.names.unique("at")
    each = f"{result}[{at}] = {result}[{at}] * {by}[{at}];"
    # Each thread its own: glslang's copy of SPIRV-Tools ends the process at matrix * matrix.
    printer.emit(f"for (int {at} = 0; {at} < {result}.length(); ++{at}) {each}")


CALLS: dict[str, Callable[[NarrowingPrinter, Any], None]] = {
    "tirx.tvm_fill_fragment": _fill,
    MATRIX_MEMORY[0]: _load,
    MATRIX_MEMORY[1]: _store,
    "tirx.tvm_mma_sync": _multiply,
    SCALE: _scale,
}


def _fragment(printer: NarrowingPrinter, data: Any, index: Any) -> tuple[str, str]:
    """One fragment and its type."""
    if isinstance(data, ir.Call) and operator_name(data) == "tirx.buffer_data":
        data = data.args[0]
    found = printer.fragments.get(handle(data))
    if found is None:
        raise UnsupportedKernelError(f"a matrix fragment is used without a declaration: {data}")
    name, typed = found
    return f"{name}[{printer.scalar(index)}]", typed


def _place(printer: NarrowingPrinter, call: Any) -> str:
    """Array, first element, elements from row to row and order of a matrix in memory."""
    access = printer.analysis.matrix_access(call)
    array, place, width = printer.memory.element(call.args[5].args[0].source, access)
    stride = int(call.args[6].value)
    layout = _LAYOUTS[str(call.args[7].value)]
    return f"{array}, {place}, {stride // width}, gl_CooperativeMatrixLayout{layout}"
