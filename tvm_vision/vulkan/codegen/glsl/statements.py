"""Statements of TensorIR in GLSL: one method a node type, found by a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.ir.prim import expr as prim

from tvm_vision.errors import UnsupportedKernelError
from tvm_vision.vulkan.codegen.glsl import cooperative_matrix, types
from tvm_vision.vulkan.codegen.glsl.analysis import (
    BARRIER,
    KEEP_LOOP,
    Access,
    Analysis,
    called,
    handle,
    has_jump,
    is_barrier,
    type_of,
)
from tvm_vision.vulkan.codegen.glsl.emit import Slot
from tvm_vision.vulkan.codegen.glsl.expressions import ExpressionPrinter
from tvm_vision.vulkan.codegen.glsl.storages import Storage
from tvm_vision.vulkan.codegen.glsl.types import INT32, INT64, Type
from tvm_vision.vulkan.codegen.glsl.vector import Code, Value, widths

# Statements that only hold others, or declare.
_CONTAINERS = (tirx.SeqStmt, tirx.AttrStmt, tirx.AllocBuffer, tirx.DeclBuffer)
LONGEST_UNROLLED = 16
MOST_UNROLLED = 4096  # lines that a loop becomes; compilers take minutes for tens of thousands
_IGNORED = ("tirx.assume", "tirx.prefetch", "tirx.type_annotation")


class StatementPrinter(ExpressionPrinter):
    """Prints statements into the current block."""

    def __init__(self, kernel: str, analysis: Analysis, attributes: dict) -> None:
        super().__init__(kernel, analysis, attributes)
        self.unrolls = False  # whether a loop carries [[unroll]] or [[dont_unroll]]
        self._divergence = 0  # how many enclosing statements only some threads enter
        self._shared_pending = False  # some threads wrote shared memory since the last barrier
        self._fragment_shapes: dict[int, tuple[int, int, int]] = {}
        self._declarations: list[tuple[Slot, Storage]] = []

    def arguments(self) -> list[Storage]:
        """The kernel's buffer arguments."""
        return [s for s in self.memory.storages.values() if s.kind == "buffer"]

    def statement(self, stmt: Any) -> None:
        """Prints one statement.

        Raises:
            UnsupportedKernelError: a node that has no form in a shader.
        """
        method = _STATEMENTS.get(type(stmt))
        if method is None:
            raise UnsupportedKernelError(
                f"a {type(stmt).__name__} statement has no form in a Vulkan shader"
            )
        if type(stmt) not in _CONTAINERS and not is_barrier(stmt):
            self._settle()
        if handle(stmt) in self.memory.placed.places.barriers:
            self._barrier()
        method(self, stmt)

    # -- what some threads write to shared memory -----------------------------
    #
    # TVM takes a write and a read at one index for the same thread's. They are not where the index
    # leaves out a thread axis: the result of a reduction, written by one row of threads, is read by
    # all. A barrier goes before the next statement, wherever all threads are.

    @contextmanager
    def _divergent(self) -> Iterator[None]:
        self._divergence += 1
        yield
        self._divergence -= 1

    def _settle(self) -> None:
        if self._shared_pending and self._divergence == 0:
            self._barrier()

    def _sequence(self, stmt: Any) -> None:
        for part in stmt.seq:
            self.statement(part)

    def _attribute(self, stmt: Any) -> None:
        if stmt.attr_key == cooperative_matrix.SHAPE:
            m, n, k = (int(size) for size in str(stmt.value.value).split(","))
            self._fragment_shapes[handle(stmt.node)] = (m, n, k)
        self.statement(stmt.body)

    def _skip(self, stmt: Any) -> None:
        """Asserts are checked on the host."""

    def _evaluate(self, stmt: Any) -> None:
        value = stmt.value
        if type(value) is not ir.Call:
            return
        name = called(value)
        if name == BARRIER:
            self._barrier()
        elif name in ("tirx.thread_return", "tirx.ret"):
            self._return(stmt)
        elif name in ("tirx.break_loop", "tirx.continue_loop"):
            self.emit("break;" if "break" in name else "continue;")
        elif name in cooperative_matrix.CALLS:
            cooperative_matrix.CALLS[name](self, value)
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
        if any(s.use.reads and s.use.writes for s in self.arguments()):
            self.emit("memoryBarrierBuffer();")
        self.emit("barrier();")
        self._shared_pending = False

    def _store(self, stmt: Any) -> None:
        value = self._stored(stmt)
        if handle(stmt) in self.analysis.with_barrier:
            value = self.atomic(value)
            self._barrier()
        self._write(stmt, value)

    def _stored(self, stmt: Any) -> Value:
        """The value to store, in 32 bits where the array holds 32 of 64."""
        if handle(self.analysis.root[handle(stmt.buffer)]) in self.analysis.narrow:
            return self.visit(self.to_32_bits(stmt.value))
        return self.visit(stmt.value)

    def _write(self, stmt: Any, value: Value) -> None:
        access = Access(self.analysis.element(stmt.buffer), type_of(stmt.value), stmt.indices[0])
        self.memory.store(stmt.buffer, access, value)
        # Without a barrier of its own a kernel may return early, and shares nothing.
        if self._divergence and self.analysis.with_barrier and self.memory.is_shared(stmt.buffer):
            self._shared_pending = True

    def _allocate(self, stmt: Any) -> None:
        if str(stmt.buffer.ty.storage_scope) in cooperative_matrix.SCOPES:
            cooperative_matrix.declare(
                self, stmt.buffer, self._fragment_shapes[handle(stmt.buffer)]
            )
            return
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
        if self._has_uniform_rounds(stmt):
            self._loop(stmt, lambda: self._round(stmt.body))
            return
        with self._divergent():
            self._loop(stmt, lambda: self.statement(stmt.body))

    def _round(self, body: Any) -> None:
        """A loop's body; its next round must see what this one shared."""
        self.statement(body)
        self._settle()

    def _has_uniform_rounds(self, stmt: Any) -> bool:
        return self.analysis.uniform(stmt.min) and self.analysis.uniform(stmt.extent)

    def _need_uniform(self, stmt: Any) -> None:
        if not self._has_uniform_rounds(stmt):
            raise UnsupportedKernelError(
                f"a barrier stands in the loop over {stmt.loop_var.name}, whose number of rounds "
                "differs between the threads of a workgroup: make the bounds the same for all"
            )

    def _loop(self, stmt: Any, body: Callable[[], None]) -> None:
        var, extent = stmt.loop_var, stmt.extent
        of = type_of(var)
        narrow = of == INT64 and self.analysis.narrowable(var) and self.analysis.narrowable(extent)
        once = type(extent) is prim.IntImm and int(extent.value) == 1 and stmt.step is None
        if once and not has_jump(stmt.body):
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
        self.name_variable(var, of, name, narrow)
        advance = f"++{name}" if step is None else f"{name} += {step}"
        hint, before = self.slot(), self.statements
        unrolled = stmt.kind == tirx.ForKind.UNROLLED or self._walks_private_array(stmt)
        if unrolled:
            self.sums.unrolled.add(handle(var))
        with self.block(f"for ({types.name(held)} {name} = {first}; {name} < {last}; {advance})"):
            body()
        if unrolled:
            rounds = int(extent.value) if type(extent) is prim.IntImm else 1
            copies = rounds * (self.statements - before)
            if copies > MOST_UNROLLED:
                return
            self.unrolls = True
            self.statements = before + copies
            hint.append("[[unroll]]")
        elif KEEP_LOOP in stmt.annotations or (
            self.analysis.keeps_loops and handle(stmt) in self.analysis.with_barrier
        ):
            self.unrolls = True
            hint.append("[[dont_unroll]]")

    def _walks_private_array(self, stmt: Any) -> bool:
        """Whether a short loop picks elements of a thread's own array, which lies in registers only
        where every index is a constant."""
        extent = stmt.extent
        if not isinstance(extent, prim.IntImm) or int(extent.value) > LONGEST_UNROLLED:
            return False
        found: list[Any] = []

        def see(buffer: Any, indices: Any) -> None:
            root = self.analysis.root.get(handle(buffer), buffer)
            local = isinstance(root.ty, tirx.BufferType)
            if local and str(root.ty.storage_scope) == "local":
                for index in indices:
                    tvm_ffi.structural_walk(index, (ir.Var, found.append))

        tvm_ffi.structural_walk(
            stmt.body,
            [
                (ir.TensorLoad, lambda load: see(load.source, load.indices)),
                (tirx.BufferStore, lambda store: see(store.buffer, store.indices)),
            ],
        )
        return any(stmt.loop_var.same_as(variable) for variable in found)

    def name_variable(self, var: Any, of: Type, name: str, narrow: bool) -> None:
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
        with nullcontext() if self.analysis.uniform(stmt.condition) else self._divergent():
            self._while_loop(stmt)

    def _while_loop(self, stmt: Any) -> None:
        with self.capture() as lines:
            condition = self.scalar(stmt.condition)
        if not lines:
            with self.block(f"while ({condition})"):
                self._round(stmt.body)
            return
        with self.block("while (true)"):
            for line in lines:
                self.emit(line)
            self.emit(f"if (!({condition})) break;")
            self._round(stmt.body)

    def _if(self, stmt: Any) -> None:
        if handle(stmt) in self.analysis.with_barrier and not self.analysis.uniform(stmt.condition):
            self._predicated_if(stmt, self.scalar(stmt.condition))
            return
        with nullcontext() if self.analysis.uniform(stmt.condition) else self._divergent():
            with self.block(f"if ({self.scalar(stmt.condition)})"):
                self.statement(stmt.then_case)
            if stmt.else_case is not None:
                with self.block("else"):
                    self.statement(stmt.else_case)

    # -- barriers under a condition that differs between threads --------------
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
                self.statement(part)
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
        with self._divergent(), self.block(f"if ({active})"):
            for part in run:
                if type(part) is tirx.Bind and isinstance(part.var.ty, ir.PrimType):
                    self._bind_outside(part, slot)
                else:
                    self.statement(part)

    def _store_in_lockstep(self, stmt: Any, active: str) -> None:
        """All threads read before any of them writes."""
        slot = self.slot()
        with self.block(f"if ({active})"):
            value = self._stored(stmt)
            with self.capture() as declarations:
                kept = self.declare(value.type, "kept")
            slot.extend(declarations)
            self.assign(kept, value)
        self._barrier()
        with self._divergent(), self.block(f"if ({active})"):
            self._write(stmt, kept)

    def _bind_outside(self, stmt: Any, slot: Slot) -> None:
        of = type_of(stmt.var)
        value = self.visit(stmt.value)
        names = []
        for part, lanes in zip(value.parts, widths(of.lanes), strict=True):
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


def _emit_line(text: str) -> Callable[[StatementPrinter, Any], None]:
    return lambda printer, stmt: printer.emit(text)


_STATEMENTS: dict[type, Callable[[StatementPrinter, Any], None]] = {
    tirx.SeqStmt: StatementPrinter._sequence,
    tirx.AttrStmt: StatementPrinter._attribute,
    tirx.AssertStmt: StatementPrinter._skip,
    tirx.DeclBuffer: StatementPrinter._declare,
    tirx.AllocBuffer: StatementPrinter._allocate,
    tirx.Bind: StatementPrinter._bind,
    tirx.BufferStore: StatementPrinter._store,
    tirx.For: StatementPrinter._for,
    tirx.While: StatementPrinter._while,
    tirx.IfThenElse: StatementPrinter._if,
    tirx.Evaluate: StatementPrinter._evaluate,
    tirx.stmt.Return: StatementPrinter._return,
    tirx.stmt.Break: _emit_line("break;"),
    tirx.stmt.Continue: _emit_line("continue;"),
}
