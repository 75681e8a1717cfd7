"""The templates of processors: what a function's loops may be, and how it gets them.

The first that takes a function is the only one that is asked. What none takes stays as it is,
which is slow but right.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import s_tir, tirx

from ..common import NotThisKind
from ..coverage import unwritten
from . import gather, nests, pieces, pools, products, rows, tiles, transposes, windows, winograd
from .casts import cast_by_steps
from .extremes import new_first
from .loops import NotWritten
from .processor import Processor

LOGGER = logging.getLogger(__name__)
SCOPE = "pragma_scope"


@dataclass(frozen=True)
class CpuTemplate:
    """One kind of loops.

    Attributes:
        parameters: the frozen dataclass of what may vary.
        shape_of: what the candidates depend on, of an unscheduled function; raises NotWritten for
            a function of another kind.
        candidates: all parameters for a shape and a processor, likeliest first.
        write: the function with loops; None as parameters takes the likeliest. Raises NotWritten.
    """

    name: str
    parameters: type
    shape_of: Callable[[tirx.PrimFunc], Any]
    candidates: Callable[[Any, Processor], list[Any]]
    write: Callable[[tirx.PrimFunc, Processor, Any], tirx.PrimFunc]

    def shape(self, function: tirx.PrimFunc) -> Any:
        """``shape_of``, or None where the function is of another kind."""
        try:
            return self.shape_of(function)
        except NotWritten:
            return None

    def applied(
        self, function: tirx.PrimFunc, processor: Processor, parameters: Any
    ) -> tirx.PrimFunc:
        """A function with these loops. Raises NotThisKind where they do not fit it."""
        shape = self.shape(function)
        if shape is None or parameters not in self.candidates(shape, processor):
            raise NotThisKind(f"{parameters} is nothing that this processor is offered")
        made = new_first(self.write(cast_by_steps(function), processor, parameters))
        if missed := unwritten(made):
            raise NotThisKind(f"leaves parts of {', '.join(missed)} unwritten")
        return made


# In the order in which they are asked.
TEMPLATES: dict[str, CpuTemplate] = {
    template.name: template
    for template in (
        CpuTemplate(
            "cpu_window",
            tiles.WindowTile,
            windows.window_of,
            tiles.candidates,
            windows.write_window,
        ),
        CpuTemplate(
            "cpu_winograd",
            winograd.TransformLoop,
            winograd.transform_of,
            winograd.candidates,
            winograd.write_transform,
        ),
        CpuTemplate("cpu_pool", pools.PoolLoop, pools.pool_of, pools.candidates, pools.write_pool),
        CpuTemplate(
            "cpu_product",
            products.ProductTile,
            products.product_of,
            products.candidates,
            products.write_product,
        ),
        CpuTemplate("cpu_rows", rows.RowLoop, rows.rows_of, rows.candidates, rows.write_rows),
        CpuTemplate(
            "cpu_gather",
            gather.GatherLoop,
            gather.gather_of,
            gather.candidates,
            gather.write_gather,
        ),
        CpuTemplate(
            "cpu_pieces",
            pieces.PieceLoop,
            pieces.pieces_of,
            pieces.candidates,
            pieces.write_pieces,
        ),
        CpuTemplate(
            "cpu_transpose",
            transposes.TransposeLoop,
            transposes.transpose_of,
            transposes.candidates,
            transposes.write_transpose,
        ),
        CpuTemplate(
            "cpu_nest", nests.NestShape, nests.nests_of, nests.candidates, nests.schedule_nests
        ),
    )
}


def scheduled(function: Any, processor: Processor) -> Any:
    """A function with the loops that it gets without tuning."""
    if not is_open(function):
        return function
    function = cast_by_steps(function)
    for template in TEMPLATES.values():
        try:
            return new_first(template.write(function, processor, None))
        except NotWritten as error:
            LOGGER.debug("not written by %s: %s", template.name, error)
    return new_first(_without_scopes(function))


def _without_scopes(function: Any) -> Any:
    """A function without marks of TVM's scatters for statements in order, which they are without
    one: TVM warns people that LLVM has nothing for it."""
    body = tvm_ffi.structural_map(function.body, (tirx.AttrStmt, _unmarked), order="post")
    if body.same_as(function.body):
        return function
    return tirx.PrimFunc(function.params, body, function.ret_type, function.attrs, function.span)


def _unmarked(statement: Any) -> Any:
    return statement.body if str(statement.attr_key) == SCOPE else statement


def is_open(function: Any) -> bool:
    """Whether a function is one of blocks that has no schedule yet."""
    plain = isinstance(function, tirx.PrimFunc) and isinstance(function.body, s_tir.SBlockRealize)
    return plain and not (function.attrs or {}).get("tirx.is_scheduled", False)
