"""One lowered kernel of TensorIR as a GLSL compute shader: the frame around its statements."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.ir.prim import expr as prim

from tvm_vision.errors import SharedMemoryError, UnsupportedKernelError
from tvm_vision.vulkan.codegen.glsl import types
from tvm_vision.vulkan.codegen.glsl.analysis import Analysis, handle, is_private, type_of
from tvm_vision.vulkan.codegen.glsl.legalize_types import legalized
from tvm_vision.vulkan.codegen.glsl.statements import StatementPrinter
from tvm_vision.vulkan.codegen.glsl.types import INT64, UINT32, Type
from tvm_vision.vulkan.codegen.glsl.vector import Code, Value, infix

LAUNCH_PARAMS = "tirx.kernel_launch_params"
PUSH_CONSTANT_BYTES = 128  # every Vulkan device has them
SCALAR_BYTES = 8
GRID_LIMIT = 65535  # workgroups along an axis that every Vulkan device takes
FLAG_UNIFORM_BUFFER = 1 << 0
FLAG_FOLDED_GRID = 1 << 8
FLAG_PREFERRED_SUBGROUP = 1 << 9
SUBGROUP_SHIFT = 16
_AXES = "xyz"


@dataclass(frozen=True)
class Shader:
    """What the runtime is told about one kernel, and its source."""

    name: str
    source: str
    arg_types: tuple[str, ...]
    launch_param_tags: tuple[str, ...]
    flags: int


def print_kernel(function: Any, attributes: dict) -> Shader:
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
        raise type(error)(f"kernel {name}: {error}") from None


class KernelPrinter(StatementPrinter):
    """Prints one kernel."""

    def __init__(self, name: str, function: Any, attributes: dict) -> None:
        self._asked = function
        function = legalized(function, attributes)
        super().__init__(name, Analysis(function), attributes)
        self._function = function
        self._scalars: list[tuple[str, Type]] = []
        self._folded = self._must_fold()
        self._local_size = self._workgroup_size()

    # -- the frame ------------------------------------------------------------

    def finish(self) -> Shader:
        """Prints everything."""
        parameters = list(self._function.params)
        buffers = [p for p in parameters if isinstance(p.ty, ir.PointerType)]
        self._check_buffers(len(buffers))
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
        most = int(self.attributes.get("max_shared_memory_per_block", sys.maxsize))
        self.memory.place_shared(self._function.body, self.names.unique("shared_words"), most)
        self.statement(self._function.body)
        self._check_shared_memory()
        body = self.text()
        hidden = 3 if self._folded else 0
        in_uniform = (len(scalars) + hidden) * SCALAR_BYTES > PUSH_CONSTANT_BYTES
        preferred = 0 if self.subgroup_size else self.analysis.preferred_subgroup
        flags = (self.subgroup_size or preferred) << SUBGROUP_SHIFT
        flags |= FLAG_PREFERRED_SUBGROUP if preferred else 0
        flags |= FLAG_FOLDED_GRID if self._folded else 0
        flags |= FLAG_UNIFORM_BUFFER if in_uniform else 0
        return Shader(
            name=self.kernel,
            source=self._assemble(body, in_uniform, len(buffers)),
            arg_types=tuple("handle" for _ in buffers) + self._scalar_types(),
            launch_param_tags=tuple(map(str, self._function.attrs.get(LAUNCH_PARAMS, ()))),
            flags=flags,
        )

    def _scalar_types(self) -> tuple[str, ...]:
        """As the host passes them, whatever the kernel computes in."""
        parameters = self._asked.params
        return tuple(str(p.ty.dtype) for p in parameters if not isinstance(p.ty, ir.PointerType))

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
        for axis, extent in zip(_AXES, size, strict=True):
            most = self.attributes.get(f"max_block_size_{axis}")
            if most is not None and extent > int(most):
                raise UnsupportedKernelError(
                    f"a workgroup of {extent} threads along {axis} exceeds the target's "
                    f"max_block_size_{axis} of {int(most)}: schedule for this target"
                )
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
            self.name_variable(axis.var, of, texts[axis.thread_tag], of == INT64)

    def _assemble(self, body: str, in_uniform: bool, binding: int) -> str:
        coherent = bool(self.analysis.with_barrier)
        blocks = self.memory.buffer_declarations(coherent)
        shared = self.memory.shared_declarations()
        scalars = self._scalar_block(body, in_uniform, binding)
        prelude = self.prelude.text()
        extensions = set(self.requirements.extensions) | self.subgroup_extensions
        if self.unrolls:
            extensions.add("GL_EXT_control_flow_attributes")
        x, y, z = self._local_size
        lines = [
            "#version 450",
            *(f"#extension {name} : require" for name in sorted(extensions)),
            "",
            f"// {self.kernel}",
            f"// grid {self._grid()}, workgroup {x} x {y} x {z}",
            *(f"// binding {s.binding}: {s.name}" for s in self.arguments()),
            "",
            f"layout(local_size_x = {x}, local_size_y = {y}, local_size_z = {z}) in;",
            *blocks,
            *scalars,
            *shared,
            "",
        ]
        return "\n".join(lines) + "\n" + prelude + "void main() {\n" + body + "\n}\n"

    def _grid(self) -> str:
        extents = []
        for axis in _AXES:
            extent = self.analysis.extents.get(f"blockIdx.{axis}")
            constant = extent is None or type(extent) is prim.IntImm
            extents.append("1" if extent is None else str(extent.value if constant else extent))
        return " x ".join(extents) + (", folded" if self._folded else "")

    def _scalar_block(self, body: str, in_uniform: bool, binding: int) -> list[str]:
        """The scalars the body reads; one it ignores shall not ask for its type."""
        used = set(re.findall(r"\w+", body))
        if not any(name in used for name, _ in self._scalars):
            return []
        where = f"std140, set = 0, binding = {binding}" if in_uniform else "push_constant"
        lines = [f"layout({where}) uniform Scalars {{"]
        for number, (name, of) in enumerate(self._scalars):
            if name in used:
                self.requirements.value(of)
                lines.append(f"  layout(offset = {number * SCALAR_BYTES}) {types.name(of)} {name};")
        return [*lines, "};"]

    def _check_buffers(self, used: int) -> None:
        limit = self.attributes.get("max_per_stage_descriptor_storage_buffer")
        if limit is not None and used > int(limit):
            raise UnsupportedKernelError(
                f"reads and writes {used} tensors, the target lets a kernel see {int(limit)} "
                "(max_per_stage_descriptor_storage_buffer): split the operator in the model"
            )

    def _check_shared_memory(self) -> None:
        used = self.memory.shared_bytes()
        limit = self.attributes.get("max_shared_memory_per_block")
        if limit is not None and used > int(limit):
            raise SharedMemoryError(
                f"needs {used} bytes of shared memory, the target has {int(limit)} "
                "(max_shared_memory_per_block): choose a schedule with smaller tiles"
            )
