"""One lowered kernel of TensorIR as a GLSL compute shader: statements and the frame around them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.ir.prim import expr as prim

from tvm_vision.errors import UnsupportedKernelError
from tvm_vision.vulkan import glsl_types as types
from tvm_vision.vulkan.glsl_analysis import (
    BARRIER,
    Access,
    Analysis,
    handle,
    is_private,
    operator_name,
    type_of,
)
from tvm_vision.vulkan.glsl_emit import Slot
from tvm_vision.vulkan.glsl_expr import ExpressionPrinter
from tvm_vision.vulkan.glsl_memory import Storage
from tvm_vision.vulkan.glsl_types import INT32, INT64, UINT32, Type
from tvm_vision.vulkan.glsl_vector import Code, Value, infix, widths

PUSH_CONSTANT_BYTES = 128  # every Vulkan device has them
SCALAR_BYTES = 8
GRID_LIMIT = 65535  # workgroups along an axis that every Vulkan device takes
FLAG_UNIFORM_BUFFER = 1 << 0
FLAG_FOLDED_GRID = 1 << 8
SUBGROUP_SHIFT = 16
_AXES = "xyz"
_IGNORED = ("tirx.assume", "tirx.prefetch", "tirx.type_annotation")


@dataclass(frozen=True)
class Kernel:
    """What the runtime is told about one kernel, and its source."""

    name: str
    source: str
    arg_types: tuple[str, ...]
    launch_param_tags: tuple[str, ...]
    flags: int


def print_kernel(function: Any, attributes: dict) -> Kernel:
    """Writes one PrimFunc, lowered for a device, as GLSL.

    Args:
        function: explicit thread axes, flat buffers, attribute tirx.kernel_launch_params.
        attributes: the target's attributes; see Requirements for what a missing one means.

    Raises:
        UnsupportedKernelError: something in the kernel has no form in a shader of that target.
    """
    name = str(function.attrs["global_symbol"])
    try:
        return KernelPrinter(name, function, attributes).finish()
    except UnsupportedKernelError as error:
        if str(error).startswith("kernel "):
            raise
        raise UnsupportedKernelError(f"kernel {name}: {error}") from None


class KernelPrinter(ExpressionPrinter):
    """Prints the statements of one kernel."""

    def __init__(self, name: str, function: Any, attributes: dict) -> None:
        super().__init__(name, Analysis(function), attributes)
        self.subgroup_extensions: set[str] = set()
        self._subgroup_size = 0
        self._function = function
        self._unrolls = False
        self._declarations: list[tuple[Slot, Storage]] = []
        self._scalars: list[tuple[str, Type]] = []
        self._folded = self._must_fold()
        self._local_size = self._workgroup_size()

    # -- the frame ------------------------------------------------------------------------------------

    def finish(self) -> Kernel:
        """Prints everything."""
        parameters = list(self._function.params)
        buffers = [p for p in parameters if isinstance(p.ty, ir.PointerType)]
        scalars = [p for p in parameters if not isinstance(p.ty, ir.PointerType)]
        names = self._buffer_names()
        for binding, parameter in enumerate(buffers):
            if is_private(parameter):
                continue
            wanted = names.get(handle(parameter), parameter.name)
            self.memory.add_argument(parameter, self.names.unique(wanted), binding)
        for parameter in scalars:
            self._scalar_argument(parameter)
        self._axes()
        self._statement(self._function.body)
        self._check_shared_memory()
        body = self.text()
        hidden = 3 if self._folded else 0
        in_uniform = (len(scalars) + hidden) * SCALAR_BYTES > PUSH_CONSTANT_BYTES
        flags = self._subgroup_size << SUBGROUP_SHIFT
        flags |= FLAG_FOLDED_GRID if self._folded else 0
        flags |= FLAG_UNIFORM_BUFFER if in_uniform else 0
        return Kernel(
            name=self.kernel,
            source=self._assemble(body, in_uniform, len(buffers)),
            arg_types=tuple("handle" for _ in buffers)
            + tuple(str(p.ty.dtype) for p in scalars),
            launch_param_tags=tuple(
                str(tag) for tag in self._function.attrs["tirx.kernel_launch_params"]
            ),
            flags=flags,
        )

    def _buffer_names(self) -> dict[int, str]:
        """Names of the declared buffers ("A") for their parameters ("A_ptr")."""
        found: dict[int, str] = {}

        def see(declared: Any) -> None:
            root = self.analysis.root.get(handle(declared.buffer))
            if root is not None:
                found.setdefault(handle(root), declared.buffer.name)

        tvm_ffi.structural_walk(self._function.body, (tirx.DeclBuffer, see))
        return found

    def _must_fold(self) -> bool:
        for tag, extent in self.analysis.extents.items():
            if tag.startswith("blockIdx"):
                if type(extent) is not prim.IntImm or int(extent.value) > GRID_LIMIT:
                    return True
        return False

    def _workgroup_size(self) -> tuple[int, int, int]:
        size = [1, 1, 1]
        for tag, extent in self.analysis.extents.items():
            kind, _, axis = tag.partition(".")
            if kind == "threadIdx":
                if type(extent) is not prim.IntImm:
                    raise UnsupportedKernelError(
                        f"{tag} needs a constant extent, as Vulkan fixes the workgroup size in the "
                        f"shader, got {extent}"
                    )
                size[_AXES.index(axis)] = int(extent.value)
            elif kind != "blockIdx":
                raise UnsupportedKernelError(f"thread axis {tag} has no form in a Vulkan shader")
        limit = self.attributes.get("max_threads_per_block")
        total = size[0] * size[1] * size[2]
        if limit is not None and total > int(limit):
            raise UnsupportedKernelError(
                f"a workgroup of {size[0]} x {size[1]} x {size[2]} = {total} threads exceeds the "
                f"target's max_threads_per_block of {int(limit)}: schedule for this target"
            )
        return size[0], size[1], size[2]

    def _scalar_argument(self, parameter: Any) -> None:
        of = type_of(parameter)
        name = self.names.unique(parameter.name)
        held = of if of.bits >= 32 else UINT32  # small ones would need features of their own
        self._scalars.append((name, held))
        value: str = Code(name)
        if of.kind == "bool":
            value = infix("!=", Code(f"({name} & 255u)"), "0u")
        elif of == types.FLOAT16:
            value = Code(f"float16_t(unpackHalf2x16({name}).x)")
        elif of != held:
            value = Code(f"{types.name(of)}({name})")
        self.requirements.value(held)
        self.variables[handle(parameter)] = Value(of, [value])

    def _axes(self) -> None:
        """Defines blockIdx and threadIdx; a folded grid is unfolded with x fastest."""
        if self._folded:
            for axis in _AXES:
                self._scalars.append((self.names.unique(f"grid_{axis}"), UINT32))
            x, y, z = (name for name, _ in self._scalars[-3:])
            linear = self.names.unique("workgroup")
            self.emit(
                f"const uint {linear} = gl_WorkGroupID.x + gl_NumWorkGroups.x * "
                "(gl_WorkGroupID.y + gl_NumWorkGroups.y * gl_WorkGroupID.z);"
            )
            self.emit(f"if ({linear} >= {x} * {y} * {z}) return;")
            places = {
                "x": f"{linear} % {x}",
                "y": f"{linear} / {x} % {y}",
                "z": f"{linear} / ({x} * {y})",
            }
        texts = {}
        for tag, extent in self.analysis.extents.items():
            kind, _, axis = tag.partition(".")
            if type(extent) is prim.IntImm and int(extent.value) == 1:
                texts[tag] = "0"
                continue
            if kind == "threadIdx":
                source = f"gl_LocalInvocationID.{axis}"
            else:
                source = places[axis] if self._folded else f"gl_WorkGroupID.{axis}"
            texts[tag] = self.names.unique(tag)
            self.emit(f"const int {texts[tag]} = int({source});")
        for axis in self.analysis.axes.values():
            of = type_of(axis.var)
            self._name_variable(axis.var, of, texts[axis.thread_tag], of == INT64)

    def _assemble(self, body: str, in_uniform: bool, binding: int) -> str:
        coherent = bool(self.analysis.with_barrier)
        blocks = self.memory.buffer_declarations(coherent)
        shared = self.memory.shared_declarations()
        prelude = self.prelude.text()
        extensions = set(self.requirements.extensions) | self.subgroup_extensions
        if self._unrolls:
            extensions.add("GL_EXT_control_flow_attributes")
        x, y, z = self._local_size
        lines = [
            "#version 450",
            *(f"#extension {name} : require" for name in sorted(extensions)),
            "",
            f"// {self.kernel}",
            f"// grid {self._grid()}, workgroup {x} x {y} x {z}",
            *(f"// binding {s.binding}: {s.name}" for s in self._arguments()),
            "",
            f"layout(local_size_x = {x}, local_size_y = {y}, local_size_z = {z}) in;",
            *blocks,
            *self._scalar_block(in_uniform, binding),
            *shared,
            "",
        ]
        return "\n".join(lines) + "\n" + prelude + "void main() {\n" + body + "\n}\n"

    def _arguments(self) -> list:
        return [s for s in self.memory.storages.values() if s.kind == "buffer"]

    def _grid(self) -> str:
        extents = []
        for axis in _AXES:
            extent = self.analysis.extents.get(f"blockIdx.{axis}")
            constant = extent is None or type(extent) is prim.IntImm
            extents.append("1" if extent is None else str(extent.value if constant else extent))
        return " x ".join(extents) + (", folded" if self._folded else "")

    def _scalar_block(self, in_uniform: bool, binding: int) -> list[str]:
        if not self._scalars:
            return []
        where = f"std140, set = 0, binding = {binding}" if in_uniform else "push_constant"
        lines = [f"layout({where}) uniform Scalars {{"]
        for number, (name, of) in enumerate(self._scalars):
            lines.append(f"  layout(offset = {number * SCALAR_BYTES}) {types.name(of)} {name};")
        return [*lines, "};"]

    def _check_shared_memory(self) -> None:
        used = self.memory.shared_bytes()
        limit = self.attributes.get("max_shared_memory_per_block")
        if limit is not None and used > int(limit):
            raise UnsupportedKernelError(
                f"needs {used} bytes of shared memory, the target has {int(limit)} "
                "(max_shared_memory_per_block): choose a schedule with smaller tiles"
            )

    def require_subgroup(self, size: int) -> None:
        """Notes that the kernel is right only with subgroups of ``size`` lanes."""
        found = self.attributes.get("thread_warp_size")
        if self._subgroup_size not in (0, size) or (found is not None and int(found) != size):
            raise UnsupportedKernelError(
                f"its schedule assumes subgroups of {size} lanes, the target has "
                f"{found if found is not None else self._subgroup_size} (thread_warp_size): "
                "schedule for this target"
            )
        self._subgroup_size = size

    def call_function(self, call: Any) -> Value:
        """A call of another function of the module."""
        raise UnsupportedKernelError(
            f"calls the function {call.op}: a kernel must be self-contained, inline it before "
            "building (tirx.transform.InlinePrivateFunctions)"
        )

    # -- statements -----------------------------------------------------------------------------------

    def _statement(self, stmt: Any) -> None:
        method = _STATEMENTS.get(type(stmt))
        if method is None:
            raise UnsupportedKernelError(
                f"a {type(stmt).__name__} statement has no form in a Vulkan shader"
            )
        method(self, stmt)

    def _sequence(self, stmt: Any) -> None:
        for part in stmt.seq:
            self._statement(part)

    def _attribute(self, stmt: Any) -> None:
        self._statement(stmt.body)

    def _skip(self, stmt: Any) -> None:
        """Asserts are checked on the host."""

    def _evaluate(self, stmt: Any) -> None:
        value = stmt.value
        if type(value) is not ir.Call:
            return
        name = operator_name(value)
        if name == BARRIER:
            self._barrier()
        elif name in ("tirx.thread_return", "tirx.ret"):
            self._return(stmt)
        elif name in ("tirx.break_loop", "tirx.continue_loop"):
            self.emit("break;" if "break" in name else "continue;")
        elif name not in _IGNORED:
            self.visit(value)

    def _return(self, stmt: Any) -> None:
        if self.analysis.with_barrier:
            raise UnsupportedKernelError(
                "a thread returns early from a kernel with barriers: guard the work by a condition"
            )
        self.emit("return;")

    def _barrier(self) -> None:
        """All threads of the workgroup meet; what they wrote before is seen by all after.

        barrier() orders shared memory; buffers that the workgroup both writes and reads need more.
        """
        if any(s.use.reads and s.use.writes for s in self._arguments()):
            self.emit("memoryBarrierBuffer();")
        self.emit("barrier();")

    def _store(self, stmt: Any) -> None:
        value = self.visit(stmt.value)
        if handle(stmt) in self.analysis.with_barrier:
            value = self.atomic(value)
            self._barrier()
        self._write(stmt, value)

    def _write(self, stmt: Any, value: Value) -> None:
        access = Access(self.analysis.element(stmt.buffer), type_of(stmt.value), stmt.indices[0])
        self.memory.store(stmt.buffer, access, value)

    def _allocate(self, stmt: Any) -> None:
        storage = self.memory.add_allocation(stmt.buffer, self.names.unique(stmt.buffer.name))
        if storage.kind == "local":
            self._declarations.append((self.slot(), storage))

    def text(self) -> str:
        for slot, storage in self._declarations:
            slot.extend(self.memory.local_declarations(storage))
        return super().text()

    def _declare(self, stmt: Any) -> None:
        """A view was resolved by the analysis, unless it stands for memory of its own."""
        if self.analysis.root[handle(stmt.buffer)].same_as(stmt.buffer):
            self._allocate(stmt)

    def _bind(self, stmt: Any) -> None:
        if isinstance(stmt.var.ty, ir.PrimType):
            self.bind(stmt.var, stmt.value)

    def _for(self, stmt: Any) -> None:
        if handle(stmt) in self.analysis.with_barrier:
            self._need_uniform(stmt)
        self._loop(stmt, lambda: self._statement(stmt.body))

    def _need_uniform(self, stmt: Any) -> None:
        if not (self.analysis.uniform(stmt.min) and self.analysis.uniform(stmt.extent)):
            raise UnsupportedKernelError(
                f"a barrier stands in the loop over {stmt.loop_var.name}, whose number of rounds "
                "differs between the threads of a workgroup: make the bounds the same for all"
            )

    def _loop(self, stmt: Any, body: Callable[[], None]) -> None:
        var, extent = stmt.loop_var, stmt.extent
        of = type_of(var)
        narrow = of == INT64 and self.analysis.narrowable(var) and self.analysis.narrowable(extent)
        once = type(extent) is prim.IntImm and int(extent.value) == 1 and stmt.step is None
        if once and not _has_jump(stmt.body):
            self.bind(var, stmt.min)
            body()
            return
        held = INT32 if narrow else of
        convert = self.to_32_bits if narrow else lambda e: e
        zero = type(stmt.min) is prim.IntImm and int(stmt.min.value) == 0
        end = extent if zero else self.analysis.analyzer.simplify(stmt.min + extent)
        first = self.scalar(convert(stmt.min))
        last = self.scalar(convert(end)) if type(end) is prim.IntImm else None
        if last is None:
            last = self.atom_text(self.scalar(convert(end)), held)
        step = None if stmt.step is None else self.scalar(convert(stmt.step))
        name = self.names.unique(var.name)
        self.requirements.value(held)
        self._name_variable(var, of, name, narrow)
        if stmt.kind == tirx.ForKind.UNROLLED:
            self._unrolls = True
            self.emit("[[unroll]]")
        advance = f"++{name}" if step is None else f"{name} += {step}"
        with self.block(
            f"for ({types.name(held)} {name} = {first}; {name} < {last}; {advance})"
        ):
            body()

    def _name_variable(self, var: Any, of: Type, name: str, narrow: bool) -> None:
        """``narrow``: an int64 variable that GLSL holds in 32 bits."""
        if narrow:
            self.narrow_names[handle(var)] = name
            self.variables[handle(var)] = Value(of, [Code(f"int64_t({name})")])
        else:
            self.variables[handle(var)] = Value(of, [Code(name)])

    def _while(self, stmt: Any) -> None:
        if handle(stmt) in self.analysis.with_barrier and not self.analysis.uniform(stmt.condition):
            raise UnsupportedKernelError(
                "a barrier stands in a while loop whose condition differs between the threads of a "
                "workgroup: make the condition the same for all"
            )
        with self.capture() as lines:
            condition = self.scalar(stmt.condition)
        if not lines:
            with self.block(f"while ({condition})"):
                self._statement(stmt.body)
            return
        with self.block("while (true)"):
            for line in lines:
                self.emit(line)
            self.emit(f"if (!({condition})) break;")
            self._statement(stmt.body)

    def _if(self, stmt: Any) -> None:
        if handle(stmt) in self.analysis.with_barrier and not self.analysis.uniform(stmt.condition):
            self._predicated_if(stmt, self.scalar(stmt.condition))
            return
        with self.block(f"if ({self.scalar(stmt.condition)})"):
            self._statement(stmt.then_case)
        if stmt.else_case is not None:
            with self.block("else"):
                self._statement(stmt.else_case)

    # -- barriers under a condition that differs between threads ----------------------------------------
    #
    # TVM puts barriers inside ``if (threadIdx.x < 16)``, counting on subgroups in lockstep. Vulkan
    # leaves a barrier that some threads miss undefined. Such a statement is taken apart: everything
    # but the barriers runs under the condition, the barriers run for all.

    def _predicated_if(self, stmt: Any, condition: str) -> None:
        taken = self.temporary(condition, types.BOOL, "taken")
        self._predicated(stmt.then_case, taken)
        if stmt.else_case is not None:
            self._predicated(stmt.else_case, self.temporary(f"!{taken}", types.BOOL, "not_taken"))

    def _predicated(self, stmt: Any, active: str) -> None:
        """Runs a statement for the threads whose ``active`` holds, its barriers for all."""
        parts = list(stmt.seq) if type(stmt) is tirx.SeqStmt else [stmt]
        run: list[Any] = []
        for part in parts:
            if isinstance(part, (tirx.AllocBuffer, tirx.DeclBuffer)):
                self._statement(part)
            elif handle(part) not in self.analysis.with_barrier:
                run.append(part)
            else:
                self._guarded(run, active)
                run = []
                self._with_barrier(part, active)
        self._guarded(run, active)

    def _guarded(self, run: list[Any], active: str) -> None:
        """Statements without barriers under the condition; what they name is declared before."""
        if not run:
            return
        slot = self.slot()
        with self.block(f"if ({active})"):
            for part in run:
                if type(part) is tirx.Bind and isinstance(part.var.ty, ir.PrimType):
                    self._bind_outside(part, slot)
                else:
                    self._statement(part)

    def _store_in_lockstep(self, stmt: Any, active: str) -> None:
        """All threads read before any of them writes."""
        kept = self.declare(type_of(stmt.value), "kept")
        with self.block(f"if ({active})"):
            self.assign(kept, self.visit(stmt.value))
        self._barrier()
        with self.block(f"if ({active})"):
            self._write(stmt, kept)

    def _bind_outside(self, stmt: Any, slot: Slot) -> None:
        of = type_of(stmt.var)
        value = self.visit(stmt.value)
        names = []
        for part, lanes in zip(value.parts, widths(of.lanes)):
            name = self.names.unique(stmt.var.name)
            slot.append(f"{types.name(of.with_lanes(lanes))} {name};")
            self.emit(f"{name} = {part};")
            names.append(name)
        self.variables[handle(stmt.var)] = Value(of, names)

    def _with_barrier(self, stmt: Any, active: str) -> None:
        if type(stmt) is tirx.Evaluate:
            self._barrier()
        elif type(stmt) is tirx.BufferStore:
            self._store_in_lockstep(stmt, active)
        elif type(stmt) is tirx.AttrStmt:
            self._predicated(stmt.body, active)
        elif type(stmt) is tirx.SeqStmt:
            self._predicated(stmt, active)
        elif type(stmt) is tirx.For:
            self._need_uniform(stmt)
            self._loop(stmt, lambda: self._predicated(stmt.body, active))
        elif type(stmt) is tirx.IfThenElse:
            inner = self.names.unique("taken")
            self.emit(f"bool {inner} = false;")
            with self.block(f"if ({active})"):
                self.emit(f"{inner} = {self.scalar(stmt.condition)};")
            self._predicated(stmt.then_case, inner)
            if stmt.else_case is not None:
                other = self.temporary(f"{active} && !{inner}", types.BOOL, "not_taken")
                self._predicated(stmt.else_case, other)
        else:
            raise UnsupportedKernelError(
                f"a barrier stands in a {type(stmt).__name__} loop that only some threads enter"
            )


def _has_jump(stmt: Any) -> bool:
    """Whether a loop's body contains a break or continue (of any loop)."""
    found: list[Any] = []

    def see(call: Any) -> None:
        if operator_name(call) in ("tirx.break_loop", "tirx.continue_loop"):
            found.append(call)

    tvm_ffi.structural_walk(
        stmt, [(tirx.stmt.Break, found.append), (tirx.stmt.Continue, found.append), (ir.Call, see)]
    )
    return bool(found)


def _emit_line(text: str) -> Callable[[KernelPrinter, Any], None]:
    return lambda printer, stmt: printer.emit(text)


_STATEMENTS: dict[type, Callable[[KernelPrinter, Any], None]] = {
    tirx.SeqStmt: KernelPrinter._sequence,
    tirx.AttrStmt: KernelPrinter._attribute,
    tirx.AssertStmt: KernelPrinter._skip,
    tirx.DeclBuffer: KernelPrinter._declare,
    tirx.AllocBuffer: KernelPrinter._allocate,
    tirx.Bind: KernelPrinter._bind,
    tirx.BufferStore: KernelPrinter._store,
    tirx.For: KernelPrinter._for,
    tirx.While: KernelPrinter._while,
    tirx.IfThenElse: KernelPrinter._if,
    tirx.Evaluate: KernelPrinter._evaluate,
    tirx.stmt.Return: KernelPrinter._return,
    tirx.stmt.Break: _emit_line("break;"),
    tirx.stmt.Continue: _emit_line("continue;"),
}
