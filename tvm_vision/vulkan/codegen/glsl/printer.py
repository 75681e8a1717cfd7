"""What the parts of the printer share: state, and the methods that they call of each other."""

from __future__ import annotations

from typing import Any, NamedTuple

from tvm_vision.vulkan.codegen.glsl import types
from tvm_vision.vulkan.codegen.glsl.analysis import Analysis
from tvm_vision.vulkan.codegen.glsl.emit import Emitter
from tvm_vision.vulkan.codegen.glsl.prelude import Prelude
from tvm_vision.vulkan.codegen.glsl.types import Type
from tvm_vision.vulkan.codegen.glsl.vector import Value


class Choice(NamedTuple):
    """The name of an index that is 0 where a guard fails, and the constant in it where it holds."""

    name: str
    offset: int


class Printer(Emitter):
    """The printer of one kernel, as its rules see it; ``StatementPrinter`` is the whole.

    Attributes:
        attributes: of the target.
        subgroup_extensions: of GLSL, that the kernel needs.
        mutable: names whose value changes.
        guard: what must hold for the loads under way to be of their own index; "" for nothing.
        choices: the first guarded index of a place: its guard and the place but for a constant.
        fragments: handle of a buffer of cooperative matrices -> its name and type.
    """

    def __init__(self, kernel: str, analysis: Analysis, attributes: dict) -> None:
        super().__init__()
        self.kernel = kernel
        self.analysis = analysis
        self.attributes = attributes
        self.requirements = types.Requirements(kernel, attributes)
        self.prelude = Prelude(self.requirements)
        self.subgroup_extensions: set[str] = set()
        self.mutable: set[str] = set()
        self.guard = ""
        self.choices: dict[tuple[str, str], Choice] = {}
        self.fragments: dict[int, tuple[str, str]] = {}

    def visit(self, expression: Any) -> Value:
        """The GLSL of an expression."""
        raise NotImplementedError

    def plain(self, expression: Any) -> Value:
        """As visit, but an int64 expression stays one."""
        raise NotImplementedError

    def scalar(self, expression: Any) -> str:
        """The text of an expression of one lane."""
        raise NotImplementedError

    def index(self, expression: Any) -> str:
        """A buffer index in 32 bits."""
        raise NotImplementedError

    def atom(self, text: str, of: Type, hint: str) -> str:
        """Text that is cheap to repeat: a constant that holds the expression, one in its scope."""
        raise NotImplementedError

    def stays(self, text: str) -> bool:
        """Whether an expression has one value as long as what it mentions is in scope."""
        raise NotImplementedError

    def indices(self, expression: Any, first: int) -> list[str]:
        """One index a lane, less ``first``."""
        raise NotImplementedError

    def convert(self, value: Value, of: Type) -> Value:
        """A value as another type."""
        raise NotImplementedError

    def require_subgroup(self, size: int) -> None:
        """The kernel counts on subgroups of so many lanes."""
        raise NotImplementedError
