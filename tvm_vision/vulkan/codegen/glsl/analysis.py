"""What has to be known about a kernel before its first line is printed.

One walk over the lowered function binds every variable's range in an analyzer and notes each use of
each buffer; two small fixpoints then find the control flow that differs between the threads of a
workgroup, and the 64-bit temporaries whose values fit 32 bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import tvm_ffi
from tvm import ir, sym, tirx
from tvm.ir.prim import expr as prim

from tvm_vision.errors import UnsupportedKernelError
from tvm_vision.vulkan.codegen.glsl import races, types
from tvm_vision.vulkan.codegen.glsl.types import INT64, Type

INT32_RANGE = (-(1 << 31), (1 << 31) - 1)
BARRIER = "tirx.tvm_storage_sync"
SHUFFLES = (
    "tirx.tvm_warp_shuffle",
    "tirx.tvm_warp_shuffle_up",
    "tirx.tvm_warp_shuffle_down",
    "tirx.tvm_warp_shuffle_xor",
    "tirx.tvm_warp_activemask",
)
ATOMIC_ADD = "tirx.atomic_add"
ATOMIC_MAX = "tvm_vision_atomic_max"  # a call of it: TVM has no such operator
ATOMICS = (ATOMIC_ADD, ATOMIC_MAX)
# On loops over threads: guarded loads without a branch; lanes that a kernel is best with.
SELECT_LOADS = "pragma_select_loads"
SUBGROUP = "pragma_subgroup"
KEEP_LOOPS = "pragma_keep_loops"
KEEP_LOOP = "keep_loop"  # the same of one loop, which has it as an annotation
MATRIX_MEMORY = ("tirx.tvm_load_matrix_sync", "tirx.tvm_store_matrix_sync")


def handle(node: Any) -> int:
    """Identity of an IR node (equal Python wrappers may differ, the node behind them does not)."""
    return node.__chandle__()


def type_of(expression: Any) -> Type:
    """The scalar or vector type of an expression.

    Raises:
        UnsupportedKernelError: a type no shader has.
    """
    of = expression.ty
    known = _types.get(handle(of))
    if known is None:
        if len(_types) == MOST_TYPES:
            _types.clear()
        known = _types[handle(of)] = of, types.parse(str(of.dtype))
    return known[1]


# By the handles of TVM's types, which nodes share, with the type itself: no other comes to have its
# handle. TVM makes a type's name anew each time that it is asked for.
MOST_TYPES = 4096
_types: dict[int, tuple[Any, Type]] = {}


def operator_name(call: Any) -> str:
    """The name of a call's operator, "" for a call of a function."""
    return call.op.name if isinstance(call.op, ir.Op) else ""


def called(call: Any) -> str:
    """The name of a call's operator, or of the function of ours that it stands for."""
    name = operator_name(call)
    return str(call.args[0].value) if name == "tirx.call_extern" else name


def is_barrier(stmt: Any) -> bool:
    call = getattr(stmt, "value", None)
    return type(stmt) is tirx.Evaluate and type(call) is ir.Call and operator_name(call) == BARRIER


def has_jump(stmt: Any) -> bool:
    """Whether a loop's body contains a break or continue (of any loop)."""
    found: list[Any] = []

    def see(call: Any) -> None:
        if operator_name(call) in ("tirx.break_loop", "tirx.continue_loop"):
            found.append(call)

    tvm_ffi.structural_walk(
        stmt, [(tirx.stmt.Break, found.append), (tirx.stmt.Continue, found.append), (ir.Call, see)]
    )
    return bool(found)


def is_private(root: Any) -> bool:
    """Whether a kernel's parameter is meant as memory of each thread.

    Buffers declared but never allocated (topi.gpu.scan) come as parameters of scope "local".
    """
    return isinstance(root.ty, ir.PointerType) and str(root.ty.storage_scope) == "local"


@dataclass
class Access:
    """One load or store: element type of the view, type of the value, index; ``matrix``: of a whole
    matrix from there on."""

    element: Type
    value: Type
    index: Any
    matrix: bool = False


@dataclass
class BufferUse:
    """All uses of one piece of memory (a kernel's argument or an allocation)."""

    reads: bool = False
    writes: bool = False
    atomic: bool = False
    accesses: list[Access] = field(default_factory=list)


class Analysis:
    """Facts about one kernel; see the module's docstring."""

    def __init__(self, function: Any) -> None:
        self.analyzer = sym.Analyzer()
        self.uses: dict[int, BufferUse] = {}
        self.root: dict[int, Any] = {}  # buffer variable -> the parameter or allocation it views
        self.axes: dict[int, Any] = {}  # thread axes (IterVar) by their variable
        self.extents: dict[str, Any] = {}
        self.with_barrier: set[int] = set()
        self.values: dict[int, Any] = {}  # let-bound variables
        self.divergent: set[int] = set()
        self.selects_loads = False
        self.preferred_subgroup = 0
        self.keeps_loops = False
        self.narrow: set[int] = set()  # allocations of int64 whose values fit int32
        self._bound: dict[int, Any] = {}
        self._matrix_places: set[int] = set()  # loads that only say where a matrix lies
        self._stores: list[tuple[Any, Any]] = []
        self._int64_allocations: list[Any] = []
        self._changed = False
        self._divergence_known = False
        for parameter in function.params:
            if isinstance(parameter.ty, ir.PointerType):
                self.root[handle(parameter)] = parameter
        self._body = function.body
        self._has_barrier = False
        self._walk()
        if self._has_barrier:
            self._note_barriers(self._body, [])
        self._find_narrow()

    # -- the walk -------------------------------------------------------------

    def _walk(self) -> None:
        """Visits all nodes in program order, so that what is used has been bound."""
        tvm_ffi.structural_walk(
            self._body,
            [
                (tirx.AttrStmt, self._attribute),
                (tirx.For, self._for),
                (tirx.Bind, self._bind_statement),
                (tirx.BufferStore, self._store),
                (tirx.AllocBuffer, self._allocate),
                (tirx.DeclBuffer, self._declare),
                (ir.TensorLoad, self._load),
                (ir.Call, self._call),
                (prim.Let, self._let),
            ],
            order="pre",
        )

    def _attribute(self, stmt: Any) -> None:
        if stmt.attr_key == "thread_extent":
            self._thread(stmt.node, stmt.value)
        self.selects_loads |= stmt.attr_key == SELECT_LOADS
        self.keeps_loops |= stmt.attr_key == KEEP_LOOPS
        if stmt.attr_key == SUBGROUP:
            self.preferred_subgroup = int(stmt.value)

    def _for(self, stmt: Any) -> None:
        if stmt.step is None:
            self._bind(stmt.loop_var, ir.Range.from_min_extent(stmt.min, stmt.extent))

    def _bind_statement(self, stmt: Any) -> None:
        if isinstance(stmt.var.ty, ir.PrimType):
            self.values[handle(stmt.var)] = stmt.value
            self._bind(stmt.var, stmt.value)
        else:
            self.root[handle(stmt.var)] = self.root_of(stmt.value)

    def _allocate(self, stmt: Any) -> None:
        self.root[handle(stmt.buffer)] = stmt.buffer
        if str(stmt.buffer.ty.dtype.dtype) == "int64":
            self._int64_allocations.append(stmt.buffer)

    def _declare(self, stmt: Any) -> None:
        root = self.root_of(stmt.data)
        if is_private(root):
            root = stmt.buffer
        self.root[handle(stmt.buffer)] = root

    def _note_barriers(self, stmt: Any, conditions: list[Any]) -> bool:
        """Finds the statements that contain a barrier, or need one between reading and writing.

        ``conditions``: those around the statement, None where a loop makes the threads part.
        """
        node = type(stmt)
        if node is tirx.SeqStmt:
            parts = [self._note_barriers(part, conditions) for part in stmt.seq]
            found = any(parts)
        elif node is tirx.AttrStmt:
            found = self._note_barriers(stmt.body, conditions)
        elif node is tirx.For:
            together = self.uniform(stmt.min) and self.uniform(stmt.extent)
            found = self._note_barriers(stmt.body, conditions if together else [*conditions, None])
        elif node is tirx.While:
            found = self._note_barriers(stmt.body, [*conditions, None])
        elif node is tirx.IfThenElse:
            found = self._note_barriers(stmt.then_case, [*conditions, stmt.condition])
            if stmt.else_case is not None:
                other = [*conditions, prim.Not(stmt.condition)]
                found |= self._note_barriers(stmt.else_case, other)
        elif node is tirx.Evaluate:
            value = stmt.value
            found = isinstance(value, ir.Call) and operator_name(value) == BARRIER
        elif node is tirx.BufferStore:
            found = (
                None not in conditions
                and _scope(self.root[handle(stmt.buffer)]).startswith("shared")
                and races.needs_lockstep(self, stmt, conditions)
            )
        else:
            found = False
        if found:
            self.with_barrier.add(handle(stmt))
        return found

    def _thread(self, axis: Any, extent: Any) -> None:
        self.axes[handle(axis.var)] = axis
        self.extents.setdefault(axis.thread_tag, extent)
        zero = tirx.const(0, str(axis.var.ty.dtype))
        bound = extent if isinstance(extent, prim.IntImm) else None
        if bound is not None:
            extent = tirx.const(int(extent.value), str(axis.var.ty.dtype))
            self._bind(axis.var, ir.Range.from_min_extent(zero, extent))
        else:
            top = tirx.const(INT32_RANGE[1], str(axis.var.ty.dtype))
            self._bind(axis.var, ir.Range.from_min_extent(zero, top))

    def _bind(self, var: Any, value: Any) -> None:
        """Tells the analyzer a variable's value or range.

        Unrolled copies of a loop may share variables and differ in bounds: such a variable keeps
        what holds for all copies, that is nothing.
        """
        of = types.parse(str(var.ty.dtype))
        if not of.is_integer or of.lanes != 1:
            return
        known = self._bound.setdefault(handle(var), value)
        if known is not value and not tvm_ffi.structural_equal(known, value):
            self.values.pop(handle(var), None)
            value = tirx.Var("unknown", str(var.ty.dtype))
            self._bound[handle(var)] = value
        elif not isinstance(value, ir.Range) and self._wraps(value):
            value = tirx.Var("wrapped", str(var.ty.dtype))
        self.analyzer.bind(var, value, True)

    def _store(self, stmt: Any) -> None:
        use = self.use(stmt.buffer)
        use.writes = True
        use.accesses.append(Access(self.element(stmt.buffer), type_of(stmt.value), stmt.indices[0]))
        self._stores.append((stmt.buffer, stmt.value))

    def _let(self, let: Any) -> None:
        if isinstance(let.var.ty, ir.PrimType):
            self._bind(let.var, let.value)

    def _load(self, load: Any) -> None:
        if handle(load) in self._matrix_places:
            return
        use = self.use(load.source)
        use.reads = True
        use.accesses.append(Access(self.element(load.source), type_of(load), load.indices[0]))

    def _call(self, call: Any) -> None:
        name = called(call)
        if name == BARRIER:
            self._has_barrier = True
        elif name in MATRIX_MEMORY:
            self._matrix(call, name)
        elif name in ATOMICS:
            target = call.args[-2]
            if not isinstance(target, ir.Call) or operator_name(target) != "tirx.address_of":
                raise UnsupportedKernelError(f"{name} needs the address of a buffer's element")
            use = self.use(target.args[0].source)
            use.reads = use.writes = use.atomic = True

    def _matrix(self, call: Any, name: str) -> None:
        """A matrix is read or written from an element on."""
        load = call.args[5].args[0]
        self._matrix_places.add(handle(load))
        use = self.use(load.source)
        use.reads |= name == MATRIX_MEMORY[0]
        use.writes |= name == MATRIX_MEMORY[1]
        use.accesses.append(self.matrix_access(call))

    def matrix_access(self, call: Any) -> Access:
        """The first element of a matrix in memory; four, or up to sixteen bytes of them, where all
        rows start at multiples of these."""
        load, stride = call.args[5].args[0], call.args[6]
        element, index = self.element(load.source), load.indices[0]
        rows = int(stride.value) if isinstance(stride, prim.IntImm) else 1
        wide = {8: (16, 8), 16: (8,) if element.kind == "float" else ()}.get(element.bits, ())
        for lanes in (*wide, 4):
            if rows % lanes == 0 and self.multiple_of(index, lanes):
                at = prim.Ramp(index, 1, lanes)
                return Access(element, element.with_lanes(lanes), at, matrix=True)
        return Access(element, element, index, matrix=True)

    @property
    def uses_matrices(self) -> bool:
        """Whether the kernel has cooperative matrices."""
        return bool(self._matrix_places)

    # -- buffers --------------------------------------------------------------

    def root_of(self, data: Any) -> Any:
        """The parameter or allocation behind a pointer expression."""
        if isinstance(data, ir.Call) and operator_name(data) == "tirx.buffer_data":
            data = data.args[0]
        if isinstance(data, ir.Var) and handle(data) in self.root:
            return self.root[handle(data)]
        raise UnsupportedKernelError(f"a buffer views memory by a computed pointer: {data}")

    def element(self, buffer: Any) -> Type:
        """The element type of a buffer variable; may have several lanes."""
        return types.parse(str(buffer.ty.dtype.dtype))

    def scalars(self, buffer: Any) -> int:
        """How many scalars a buffer has; 0 where that is not known."""
        shape = list(buffer.ty.shape)
        if not all(type(extent) is prim.IntImm for extent in shape):
            return 0
        return math.prod(int(extent.value) for extent in shape) * self.element(buffer).lanes

    def use(self, buffer: Any) -> BufferUse:
        """The uses of the memory behind a buffer variable."""
        root = self.root.get(handle(buffer))
        if root is None:
            raise UnsupportedKernelError(f"buffer {buffer.name} is used without a declaration")
        return self.uses.setdefault(handle(root), BufferUse())

    # -- ranges ---------------------------------------------------------------

    def bounds(self, expression: Any) -> tuple[int, int]:
        """Smallest and largest possible value of a scalar integer expression."""
        if self._wraps(expression):
            expression = tirx.Var("wrapped", str(expression.ty.dtype))
        found = self.analyzer.const_int_bound(expression)
        return int(found.min_value), int(found.max_value)

    def _wraps(self, expression: Any) -> bool:
        """Whether there is a part of an expression that goes beyond its type, and is meant to.

        The analyzer reckons with whole numbers: it takes (x & 255) << 24 >> 24, which extends a
        sign, for x & 255, and a large uint32 that becomes an int32 for no less than 0. Sums and
        products of indices are not asked: theirs stay within int32.
        """
        found = False

        def see(node: Any) -> None:
            nonlocal found
            of = types.parse(str(node.ty.dtype))
            source = node.value if type(node) is prim.Cast else node
            if not (
                of.is_integer and of.lanes == 1 and types.parse(str(source.ty.dtype)).is_integer
            ):
                return
            reckoned = self.analyzer.const_int_bound(source)
            most = (1 << (of.bits - (of.kind == "int"))) - 1
            found |= int(reckoned.min_value) >= 0 and int(reckoned.max_value) > most

        tvm_ffi.structural_walk(expression, [(prim.LShift, see), (prim.Cast, see)])
        return found

    def fits_int32(self, expression: Any) -> bool:
        low, high = self.bounds(expression)
        return INT32_RANGE[0] <= low and high <= INT32_RANGE[1]

    def non_negative(self, expression: Any) -> bool:
        return self.bounds(expression)[0] >= 0

    def multiple_of(self, expression: Any, factor: int) -> bool:
        """Whether a scalar index is provably a multiple of ``factor``."""
        found = self.analyzer.modular_set(expression)
        return int(found.coeff) % factor == 0 and int(found.base) % factor == 0

    def variables_of(self, expression: Any) -> list[Any] | None:
        """The variables in an expression; None where it also loads or calls something."""
        leaves = _leaves(expression)
        return leaves if all(isinstance(leaf, ir.Var) for leaf in leaves) else None

    # -- control flow that differs between threads ----------------------------

    def uniform(self, expression: Any) -> bool:
        """Whether all threads of a workgroup compute the same value."""
        leaves = _leaves(expression)
        if not leaves:
            return True
        if any(self._in_workgroup(leaf) for leaf in leaves):
            return False
        self._find_divergence()
        return not any(self._differs(leaf) for leaf in leaves)

    def _in_workgroup(self, leaf: Any) -> bool:
        axis = self.axes.get(handle(leaf))
        return axis is not None and axis.thread_tag.startswith("threadIdx")

    def _differs(self, leaf: Any) -> bool:
        if isinstance(leaf, ir.TensorLoad):
            return handle(self.root[handle(leaf.source)]) in self.divergent
        if isinstance(leaf, ir.Call):
            name = called(leaf)
            return name in SHUFFLES or name in ATOMICS
        return self._in_workgroup(leaf) or handle(leaf) in self.divergent

    def _same(self, expression: Any) -> bool:
        return not any(self._differs(leaf) for leaf in _leaves(expression))

    def _find_divergence(self) -> None:
        if self._divergence_known:
            return
        self._divergence_known = True
        self._changed = True
        while self._changed:
            self._changed = False
            self._spread(self._body, False)

    def _mark(self, var: Any) -> None:
        if handle(var) not in self.divergent:
            self.divergent.add(handle(var))
            self._changed = True

    def _spread(self, stmt: Any, inside: bool) -> None:
        """Marks what differs between threads; ``inside``: within control flow that differs."""
        if type(stmt) is tirx.SeqStmt:
            for part in stmt.seq:
                self._spread(part, inside)
        elif type(stmt) is tirx.AttrStmt:
            self._spread(stmt.body, inside)
        elif type(stmt) is tirx.For:
            differs = inside or not (self._same(stmt.min) and self._same(stmt.extent))
            if differs:
                self._mark(stmt.loop_var)
            self._spread(stmt.body, differs)
        elif type(stmt) is tirx.While:
            self._spread(stmt.body, inside or not self._same(stmt.condition))
        elif type(stmt) is tirx.IfThenElse:
            differs = inside or not self._same(stmt.condition)
            self._spread(stmt.then_case, differs)
            if stmt.else_case is not None:
                self._spread(stmt.else_case, differs)
        elif type(stmt) is tirx.Bind:
            if not self._same(stmt.value):
                self._mark(stmt.var)
        elif type(stmt) is tirx.BufferStore:
            root = self.root[handle(stmt.buffer)]
            # Shared and global memory is the same for all, whoever wrote it, if the index is.
            if _scope(root) == "local" and (inside or not self._same(stmt.value)):
                self._mark(root)

    # -- 64-bit temporaries ---------------------------------------------------

    def _find_narrow(self) -> None:
        candidates = {
            handle(a) for a in self._int64_allocations if not self.uses.get(handle(a), _NONE).atomic
        }
        for variable, root in self.root.items():
            if variable != handle(root):
                candidates.discard(handle(root))
        while True:
            self.narrow = candidates
            bad = {
                handle(self.root[handle(buffer)])
                for buffer, value in self._stores
                if handle(self.root[handle(buffer)]) in candidates and not self.narrowable(value)
            }
            if not bad:
                return
            candidates = candidates - bad

    def narrowable(self, expression: Any) -> bool:
        """Whether an int64 expression can be computed in 32 bits with the same result."""
        if type(expression) is prim.Ramp:
            last = expression.base + expression.stride * (type_of(expression).lanes - 1)
            return all(map(self.narrowable, (expression.base, expression.stride, last)))
        if type(expression) is prim.Broadcast:
            return self.narrowable(expression.value)
        if type_of(expression) != INT64:
            return False
        if isinstance(expression, ir.TensorLoad):
            return handle(self.root[handle(expression.source)]) in self.narrow
        if isinstance(expression, prim.Cast):
            of = type_of(expression.value)
            if of.is_integer:
                return of.bits < 32 or of == types.INT32
            return of.kind == "bool"
        if isinstance(expression, prim.Select):
            return self.narrowable(expression.true_value) and self.narrowable(
                expression.false_value
            )
        if isinstance(expression, ir.Call):
            if operator_name(expression) == "prim.if_then_else":
                return all(self.narrowable(e) for e in list(expression.args)[1:])
            return False
        if isinstance(expression, (prim.Min, prim.Max)):
            return self.narrowable(expression.a) and self.narrowable(expression.b)
        if isinstance(expression, prim.RShift) and isinstance(expression.b, prim.IntImm):
            return self.narrowable(expression.a) and 0 <= int(expression.b.value) < 32
        if isinstance(expression, _QUOTIENTS) and isinstance(expression.b, prim.IntImm):
            # Quotients are no larger than what is divided, remainders than what it is divided by.
            return self.narrowable(expression.a) and 0 < int(expression.b.value) < 1 << 31
        if isinstance(expression, (ir.Var, prim.IntImm)):
            return self.fits_int32(expression)
        if isinstance(expression, _EXACT_IN_32_BITS):
            return (
                self.narrowable(expression.a)
                and self.narrowable(expression.b)
                and self.fits_int32(expression)
            )
        return False


_NONE = BufferUse()
_QUOTIENTS = (prim.Div, prim.Mod, prim.FloorDiv, prim.FloorMod)
_EXACT_IN_32_BITS = (
    prim.Add,
    prim.Sub,
    prim.Mul,
    prim.Div,
    prim.Mod,
    prim.FloorDiv,
    prim.FloorMod,
    prim.BitwiseAnd,
)


def _scope(root: Any) -> str:
    """The memory an allocation lies in; "" for an argument of the kernel."""
    return str(root.ty.storage_scope) if isinstance(root.ty, tirx.BufferType) else ""


def _leaves(expression: Any) -> list[Any]:
    """Loads, variables and calls in an expression."""
    if type(expression) is prim.IntImm:
        return []
    if type(expression) is ir.Var:
        return [expression]
    found: list[Any] = []
    tvm_ffi.structural_walk(
        expression,
        [(ir.TensorLoad, found.append), (ir.Var, found.append), (ir.Call, found.append)],
    )
    return found
