"""The static graph of mod.json: storages, tensors in them, kernels in order; and its consistency.

A graph that passes ``Graph.check`` never makes an executor read or write outside a storage, read
what nobody wrote, or overwrite an input or a weight.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..errors import PackageError
from .fields import REMEDY, Fields, integer, text, wrong
from .tensors import ITEM_BYTES, TensorInfo, read_shape

# A tensor may begin at such an offset on every device (minStorageBufferOffsetAlignment <= 256).
ALIGNMENT = 256
# How much larger than its tensors a storage may be: room for rounding, not for a slip of the pen.
STORAGE_SLACK = 65536


@dataclass(frozen=True)
class PlannedTensor:
    """A tensor in planned memory: ``offset`` bytes into ``storages[storage]``."""

    shape: tuple[int, ...]
    dtype: str
    storage: int
    offset: int = 0

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * ITEM_BYTES[self.dtype]

    @classmethod
    def from_json(cls, value: Any, where: str) -> PlannedTensor:
        fields = Fields(value, where)
        tensor = cls(
            shape=read_shape(fields.take("shape"), fields.path("shape")),
            dtype=fields.text("dtype", among=ITEM_BYTES),
            storage=fields.integer("storage"),
            offset=fields.integer("offset"),
        )
        fields.done()
        return tensor


@dataclass(frozen=True)
class PlannedKernel:
    """A call of ``function(*inputs, *outputs)``.

    args: tensor ids; the last ``num_outputs`` are written, the others read.
    nodes: names of the network's nodes that it computes. operations: of arithmetic in one call, a
    multiply-add being two; None where nobody counted. matrices: "float16" or "int8" where it
    multiplies cooperative matrices of these.
    """

    function: str
    args: tuple[int, ...]
    num_outputs: int
    nodes: tuple[str, ...]
    operations: int | None = None
    matrices: str | None = None

    @property
    def reads(self) -> tuple[int, ...]:
        return self.args[: len(self.args) - self.num_outputs]

    @property
    def writes(self) -> tuple[int, ...]:
        return self.args[len(self.args) - self.num_outputs :]

    @classmethod
    def from_json(cls, value: Any, where: str) -> PlannedKernel:
        fields = Fields(value, where)
        args = fields.items("args", integer)
        kernel = cls(
            function=fields.text("function"),
            args=args,
            num_outputs=fields.integer("num_outputs", 1, max(1, len(args))),
            nodes=fields.items("nodes", text),
            operations=fields.optional("operations", integer),
            matrices=fields.optional("matrices", text),
        )
        if not args:
            wrong(fields.path("args"), "a list of at least one tensor", [])
        fields.done()
        return kernel


@dataclass(frozen=True)
class PlannedGraph:
    """A network as a list of kernels over planned memory; ids are positions in the lists.

    storages: bytes of each. params: name in mod.params -> tensor id. inputs, outputs: tensor ids.
    """

    storages: tuple[int, ...]
    tensors: tuple[PlannedTensor, ...]
    params: dict[str, int]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    kernels: tuple[PlannedKernel, ...]

    @classmethod
    def from_json(cls, value: Any, where: str = "graph") -> PlannedGraph:
        """Raises PackageError for another form; ``check`` looks at what the numbers mean."""
        fields = Fields(value, where)
        graph = cls(
            storages=fields.items("storages", integer),
            tensors=fields.items("tensors", PlannedTensor.from_json),
            params=fields.mapping("params", integer),
            inputs=fields.items("inputs", integer),
            outputs=fields.items("outputs", integer),
            kernels=fields.items("kernels", PlannedKernel.from_json),
        )
        fields.done()
        return graph

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def check(self, inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]) -> None:
        """Raise PackageError unless the graph is consistent and serves these inputs and outputs."""
        self._check_ids()
        self._check_storages()
        _check_signature("inputs", inputs, [self.tensors[i] for i in self.inputs])
        _check_signature("outputs", outputs, [self.tensors[i] for i in self.outputs])
        self._check_owners()
        self._check_order()

    def _check_ids(self) -> None:
        uses: list[tuple[str, Iterable[int]]] = [
            ("graph.inputs", self.inputs),
            ("graph.outputs", self.outputs),
            ("graph.params", self.params.values()),
            *((f"graph.kernels[{i}].args", kernel.args) for i, kernel in enumerate(self.kernels)),
        ]
        for where, ids in uses:
            for tensor in ids:
                if tensor >= len(self.tensors):
                    wrong(where, f"ids below {len(self.tensors)}, one a tensor", tensor)

    def _check_storages(self) -> None:
        needed = [0] * len(self.storages)
        for index, tensor in enumerate(self.tensors):
            where = f"graph.tensors[{index}]"
            if tensor.storage >= len(self.storages):
                wrong(f"{where}.storage", f"below {len(self.storages)}", tensor.storage)
            if tensor.offset % ALIGNMENT:
                wrong(f"{where}.offset", f"a multiple of {ALIGNMENT}", tensor.offset)
            end = tensor.offset + tensor.nbytes
            if end > self.storages[tensor.storage]:
                wrong(
                    f"graph.storages[{tensor.storage}]",
                    f"at least {end} bytes, for tensor {index}",
                    self.storages[tensor.storage],
                )
            needed[tensor.storage] = max(needed[tensor.storage], end)
        for index, (size, used) in enumerate(zip(self.storages, needed, strict=True)):
            if size > used + STORAGE_SLACK:
                wrong(f"graph.storages[{index}]", f"{used} bytes, as its tensors need", size)

    def _check_owners(self) -> None:
        """Inputs, weights and outputs have storages of their own; only outputs' are written."""
        owner: dict[int, str] = {}
        named = [
            *((f"graph.inputs[{i}]", tensor) for i, tensor in enumerate(self.inputs)),
            *((f"graph.params.{name}", tensor) for name, tensor in self.params.items()),
            *((f"graph.outputs[{i}]", tensor) for i, tensor in enumerate(self.outputs)),
        ]
        for name, tensor in named:
            storage = self.tensors[tensor].storage
            if storage in owner:
                wrong(name, f"in a storage other than that of {owner[storage]}", storage)
            owner[storage] = name
        for index, kernel in enumerate(self.kernels):
            for tensor in kernel.writes:
                name = owner.get(self.tensors[tensor].storage, "graph.outputs")
                if not name.startswith("graph.outputs"):
                    wrong(f"graph.kernels[{index}]", f"without a write to {name}", tensor)

    def _check_order(self) -> None:
        """Everything is written before it is read, and no kernel overwrites its own inputs."""
        given = [*self.inputs, *self.params.values()]
        written = {self.tensors[tensor].storage for tensor in given}
        for index, kernel in enumerate(self.kernels):
            for tensor in kernel.reads:
                if self.tensors[tensor].storage not in written:
                    where = f"graph.kernels[{index}].args"
                    wrong(where, "tensors that an earlier kernel wrote", tensor)
            for position, tensor in enumerate(kernel.writes):
                for other in (*kernel.reads, *kernel.writes[:position]):
                    if self._overlap(tensor, other):
                        raise PackageError(
                            f"mod.json: graph.kernels[{index}] writes tensor {tensor} over its own "
                            f"argument {other}: {REMEDY}"
                        )
                written.add(self.tensors[tensor].storage)
        for index, tensor in enumerate(self.outputs):
            if self.tensors[tensor].storage not in written:
                wrong(f"graph.outputs[{index}]", "written by a kernel", tensor)

    def _overlap(self, first: int, second: int) -> bool:
        a, b = self.tensors[first], self.tensors[second]
        apart = a.offset + a.nbytes <= b.offset or b.offset + b.nbytes <= a.offset
        return a.storage == b.storage and not apart


def _check_signature(
    name: str, specs: Sequence[TensorInfo], tensors: Sequence[PlannedTensor]
) -> None:
    if len(specs) != len(tensors):
        wrong(f"graph.{name}", f"a list of {len(specs)}, as many as '{name}'", len(tensors))
    for index, (spec, tensor) in enumerate(zip(specs, tensors, strict=True)):
        if (spec.shape, spec.dtype) != (tensor.shape, tensor.dtype):
            wrong(
                f"graph.{name}[{index}]",
                f"{spec.dtype} {list(spec.shape)}, as '{spec.name}' is",
                f"{tensor.dtype} {list(tensor.shape)}",
            )
