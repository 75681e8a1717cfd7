"""What a kernel's function becomes for one device: machine code for the host, and shaders.

It does not depend on what a network calls the kernel. In what is kept a placeholder stands for that
name, longer than any, which says what the kernel is made of; ``named`` puts a name in its place.
Machine code has names in strings of C alone (symbols, the kernels that it launches, messages), so a
shorter one ends earlier and nothing moves.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from ...errors import UnsupportedKernelError
from ...vulkan.codegen.glsl.cooperative_matrix import factors_of
from ...vulkan.codegen.glsl.kernel import Shader
from ...vulkan.codegen.spirv import with_entry_point

# Of a tensor that one launch of a kernel hands to the next: its shape and type.
Workspace = tuple[tuple[int, ...], str]
PLACEHOLDER_LENGTH = 128
_FAST = 1  # zlib's level: half the time of the others, for a tenth more bytes


@dataclass(frozen=True)
class KernelShader:
    """One launch of a kernel: what the runtime is told of it, with its GLSL, and its SPIR-V."""

    told: Shader
    spirv: bytes


@dataclass(frozen=True)
class KernelCode:
    """What a kernel's function became.

    Attributes:
        name: of the function; a placeholder in what is kept.
        host: an object file with the function that is called, for the linker.
        shaders: what it launches on a GPU.
        workspaces: tensors that its launches share, after its results.
        tuned: whether its schedule came from a record.
    """

    name: str
    host: bytes
    shaders: tuple[KernelShader, ...] = ()
    workspaces: tuple[Workspace, ...] = ()
    tuned: bool = False

    @property
    def matrices(self) -> str | None:
        """The factors of the cooperative matrices that it multiplies, "float16" or "int8"."""
        return next(filter(None, (factors_of(s.told.source) for s in self.shaders)), None)

    def named(self, name: str) -> KernelCode:
        """The same under another name. Raises UnsupportedKernelError for one that is too long."""
        old, new = self.name.encode(), name.encode()
        if len(new) > len(old):
            raise UnsupportedKernelError(
                f"names of kernels have at most {len(old)} letters, found {len(new)}: {name}"
            )
        host = re.sub(
            re.escape(old) + rb"([^\0]*)\0",
            lambda found: (new + found[1]).ljust(len(found[0]), b"\0"),
            self.host,
        )
        shaders = tuple(self._named(shader, name) for shader in self.shaders)
        return replace(self, name=name, host=host, shaders=shaders)

    def _named(self, shader: KernelShader, name: str) -> KernelShader:
        called, source = (
            text.replace(self.name, name) for text in (shader.told.name, shader.told.source)
        )
        told = replace(shader.told, name=called, source=source)
        return KernelShader(told, with_entry_point(shader.spirv, called))

    def to_bytes(self) -> bytes:
        """For a file: the length of a description in JSON, that, and after it sources and code."""
        parts = [self.host]
        described: list[dict[str, Any]] = []
        for shader in self.shaders:
            parts += [shader.told.source.encode(), shader.spirv]
            described.append({**asdict(shader.told), "source": ""})
        head = json.dumps(
            {
                "name": self.name,
                "tuned": self.tuned,
                "workspaces": self.workspaces,
                "shaders": described,
                "parts": [len(part) for part in parts],
            }
        ).encode()
        return zlib.compress(b"".join([len(head).to_bytes(4, "little"), head, *parts]), _FAST)

    @classmethod
    def from_bytes(cls, content: bytes) -> KernelCode:
        """What ``to_bytes`` wrote. Raises ValueError for anything else."""
        try:
            plain = zlib.decompress(content)
            end = 4 + int.from_bytes(plain[:4], "little")
            head = json.loads(plain[4:end])
            host, *rest = _cut(plain[end:], head["parts"])
            shaders = tuple(
                KernelShader(_shader(told, source), spirv)
                for told, source, spirv in zip(head["shaders"], rest[::2], rest[1::2], strict=True)
            )
            workspaces = tuple((tuple(shape), dtype) for shape, dtype in head["workspaces"])
            return cls(head["name"], host, shaders, workspaces, head["tuned"])
        except (zlib.error, KeyError, TypeError, IndexError) as error:
            raise ValueError(f"no kernel: {error}") from None


def _shader(told: dict[str, Any], source: bytes) -> Shader:
    arguments, launch = (tuple(told[name]) for name in ("arg_types", "launch_param_tags"))
    return Shader(told["name"], source.decode(), arguments, launch, told["flags"])


def _cut(content: bytes, lengths: Iterable[int]) -> list[bytes]:
    parts, at = [], 0
    for length in lengths:
        parts.append(content[at : at + length])
        at += length
    if at != len(content):
        raise ValueError(f"parts of {at} bytes are needed, found {len(content)}")
    return parts
