"""The templates as a tuner sees them: what fits a kernel, which parameters, how to apply them.

    for choice in choices(function, limits):          # likeliest first
        scheduled = schedule_with(function, limits, choice)

Each template has a frozen dataclass of plain numbers as parameters; a choice is the name of a
template and one such dataclass, and goes to JSON and back.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.target import Target

from ..errors import InputError
from ..options import CompileOptions
from .common import FAILURES, NotThisKind, TargetLimits, left_to_host, tell_fault
from .cost import coopmat_gemm as coopmat_gemm_cost
from .cost import direct_conv as direct_conv_cost
from .cost import gemm as gemm_cost
from .cost import winograd_conv as winograd_conv_cost
from .cost.gemm_tile import GemmTile
from .coverage import unwritten
from .cpu import templates as cpu
from .cpu.processor import Processor
from .gpu import (
    attention,
    attention_kernel,
    chain,
    contraction,
    direct_conv,
    direct_conv_form,
    elementwise,
    plain_attention,
    reduction,
    trace,
    window,
    window_rows,
    winograd,
    winograd_conv,
)
from .gpu.kernel_marks import SELECT_LOADS, SUBGROUP, with_marks

# What a device has: a GPU, or a processor.
Limits = TargetLimits | Processor


def limits_of(target: Target, options: CompileOptions | None = None) -> Limits:
    """What kernels for a target may have; options: as of ``TargetLimits.of``."""
    return TargetLimits.of(target, options) if "gpu" in target.keys else Processor.of(target)


class FreshSchedule:
    """Schedules of one function, of which a template that did not change its own leaves that to
    the next: to begin one takes as long as most templates need to see that a function is of another
    kind."""

    def __init__(self, function: tirx.PrimFunc) -> None:
        self.function = function
        self._schedule: Schedule | None = None
        self._module: Any = None

    def begun(self) -> Schedule:
        """A schedule in which nothing is done."""
        # A module that somebody holds is replaced by whatever changes it.
        if self._schedule is None or not self._schedule.mod.same_as(self._module):
            self._schedule = Schedule(self.function)
            self._module = self._schedule.mod
        return self._schedule


@dataclass(frozen=True)
class Template:
    """One kind of schedule for GPUs.

    Attributes:
        parameters: the frozen dataclass of what may vary.
        shape_of: what the candidates depend on, of an unscheduled function; raises NotThisKind for
            a function of another kind. Spoils the schedule.
        candidates: all parameters that fit a shape and a device, likeliest first; may be empty.
        apply: schedules a function of that kind; None as parameters takes the likeliest. Returns
            the schedule where it had to begin another one.
        few_registers: whether threads keep few values, so that wide subgroups have room for all;
            a function where a shape and parameters say it.
        takes: whether there are any candidates, where that is quicker to say.
        windows: whether a thread sums up a window of its own, most of whose loads are guarded.
    """

    name: str
    parameters: type
    shape_of: Callable[[Schedule], Any]
    candidates: Callable[[Any, TargetLimits], list[Any]]
    apply: Callable[[Schedule, TargetLimits, Any], Schedule | None]
    few_registers: bool | Callable[[Any, Any], bool] = False
    takes: Callable[[Any, TargetLimits], bool] | None = None
    windows: bool = False

    def offers(self, function: tirx.PrimFunc, limits: TargetLimits) -> bool:
        """Whether there are candidates for a function."""
        shape = self.shape(function)
        return shape is not None and bool((self.takes or self.candidates)(shape, limits))

    def shape(self, function: tirx.PrimFunc) -> Any:
        """What the candidates depend on; None where the function is of another kind."""
        try:
            return self.shape_of(Schedule(function))
        except FAILURES:
            return None
        except Exception as error:
            tell_fault(self.name, error)
            return None

    def applied(
        self,
        function: tirx.PrimFunc | FreshSchedule,
        limits: TargetLimits,
        parameters: Any,
    ) -> tirx.PrimFunc:
        """A function, scheduled and marked.

        Raises:
            NotThisKind, or others of FAILURES: it does not fit.
        """
        fresh = function if isinstance(function, FreshSchedule) else FreshSchedule(function)
        schedule = fresh.begun()
        schedule = self.apply(schedule, limits, parameters) or schedule
        few = bool(limits.wide_subgroup) and self._keeps_few(fresh.function, limits, parameters)
        return marked(schedule, limits, few, self.windows)

    def _keeps_few(self, function: tirx.PrimFunc, limits: TargetLimits, parameters: Any) -> bool:
        if isinstance(self.few_registers, bool):
            return self.few_registers
        shape = self.shape(function)
        if shape is not None and parameters is None:
            parameters = next(iter(self.candidates(shape, limits)), None)
        return parameters is None or shape is None or self.few_registers(shape, parameters)


# In the order in which they are tried where nothing was chosen.
TEMPLATES: dict[str, Template] = {
    template.name: template
    for template in (
        Template(
            "attention",
            attention.AttentionTile,
            attention.shape_of,
            attention.candidates,
            attention.schedule_attention,
        ),
        Template(
            "plain_attention",
            plain_attention.PlainAttentionTile,
            attention_kernel.form_of,
            plain_attention.candidates,
            plain_attention.schedule_attention,
        ),
        Template(
            "winograd_conv",
            winograd_conv_cost.WinogradTile,
            winograd_conv.shape_of,
            winograd_conv_cost.candidates,
            winograd_conv.schedule_convolution,
        ),
        Template(
            "winograd",
            winograd.TransformShape,
            winograd.shape_of,
            winograd.candidates,
            winograd.schedule_transform,
        ),
        Template(
            "elementwise",
            elementwise.ElementwiseShape,
            elementwise.shape_of,
            elementwise.candidates,
            elementwise.schedule_elementwise,
            few_registers=elementwise.keeps_few,
        ),
        Template(
            "chain",
            chain.ChainShape,
            chain.shape_of,
            chain.candidates,
            chain.schedule_chain,
            few_registers=True,
        ),
        Template(
            "direct_conv",
            direct_conv_cost.DirectConvTile,
            direct_conv_form.windows_of,
            direct_conv_cost.candidates,
            direct_conv.schedule_direct_conv,
            takes=direct_conv_cost.takes,
        ),
        Template(
            "coopmat_gemm",
            coopmat_gemm_cost.CoopmatTile,
            contraction.shape_of,
            coopmat_gemm_cost.candidates,
            contraction.schedule_matrices,
            takes=coopmat_gemm_cost.takes,
        ),
        Template(
            "window_rows",
            window_rows.WindowRowShape,
            window_rows.shape_of,
            window_rows.candidates,
            window_rows.schedule_window_rows,
        ),
        Template(
            "contraction",
            GemmTile,
            contraction.shape_of,
            gemm_cost.candidates,
            contraction.schedule_contraction,
        ),
        Template(
            "reduction",
            reduction.RowShape,
            reduction.shape_of,
            reduction.candidates,
            reduction.schedule_reduction,
            few_registers=reduction.keeps_few,
        ),
        Template(
            "window",
            window.WindowShape,
            window.shape_of,
            window.candidates,
            window.schedule_window,
            few_registers=True,
            windows=True,
        ),
        Template(
            trace.TRACE, trace.TraceSteps, trace.shape_of, trace.candidates, trace.schedule_trace
        ),
    )
}
_BY_NAME: Mapping[str, Template | cpu.CpuTemplate] = {**TEMPLATES, **cpu.TEMPLATES}


def _templates(limits: Limits) -> Mapping[str, Template | cpu.CpuTemplate]:
    """Those of the kind of device."""
    return cpu.TEMPLATES if isinstance(limits, Processor) else TEMPLATES


@dataclass(frozen=True)
class ScheduleConfig:
    """A template and its parameters, an instance of the template's dataclass."""

    template: str
    parameters: Any

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"template": self.template, "parameters": dataclasses.asdict(self.parameters)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ScheduleConfig:
        """The choice that ``to_dict`` wrote.

        Raises:
            InputError: a template or parameters that do not exist.
        """
        template = _BY_NAME.get(str(data.get("template")))
        if template is None:
            raise InputError(
                f"a template of {', '.join(_BY_NAME)} is needed, found {data.get('template')!r}"
            )
        given = data.get("parameters")
        if not isinstance(given, dict):
            raise InputError(f"parameters of template {template.name} are needed, found {given!r}")
        # JSON knows no tuples.
        values = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
        try:
            return cls(template.name, template.parameters(**values))
        except TypeError as error:
            raise InputError(
                f"parameters of template {template.name} are needed: {error}"
            ) from None


def choices(function: tirx.PrimFunc, limits: Limits) -> list[ScheduleConfig]:
    """All that may be tried for an unscheduled function, likeliest first within each template.

    A parameter set may still fail to apply: ``schedule_with`` then raises.
    """
    return [choice for offered in _offered(function, limits) for choice in offered]


def likeliest(function: tirx.PrimFunc, limits: TargetLimits) -> ScheduleConfig | None:
    """The first of ``choices``; None where there is none. The templates after it are not asked."""
    return next((offered[0] for offered in _offered(function, limits) if offered), None)


def first_taking(function: tirx.PrimFunc, limits: TargetLimits) -> str | None:
    """The first template with candidates for a function, of those for GPUs in their order; None
    where there is none. That of ``likeliest``, but that of windows and products on matrices, which
    are looked at together, the other one may be likelier."""
    return next((t.name for t in TEMPLATES.values() if t.offers(function, limits)), None)


def _offered(function: tirx.PrimFunc, limits: Limits) -> Iterator[list[ScheduleConfig]]:
    """What each template offers, in their order; on GPUs convolutions of windows and products on
    matrices as one, on processors that of the first that takes the function."""
    if isinstance(limits, Processor):
        of_each = (_of_template(t, function, limits)[1] for t in cpu.TEMPLATES.values())
        yield next((offered for offered in of_each if offered), [])
        return
    for template in TEMPLATES.values():
        if template.name == "direct_conv":
            yield _windows_or_products(function, limits)
        elif template.name != "coopmat_gemm":
            yield _of_template(template, function, limits)[1]


def _windows_or_products(function: tirx.PrimFunc, limits: TargetLimits) -> list[ScheduleConfig]:
    shape, windows = _of_template(TEMPLATES["direct_conv"], function, limits)
    _, products = _of_template(TEMPLATES["coopmat_gemm"], function, limits)
    if windows and not direct_conv_cost.pays(shape, limits):
        windows, products = products, windows
    return _by_turns(windows, products)


def _of_template(
    template: Any, function: tirx.PrimFunc, limits: Limits
) -> tuple[Any, list[ScheduleConfig]]:
    """The shape that a template sees in a function, and what it offers."""
    shape = template.shape(function)
    if shape is None:
        return None, []
    return shape, [ScheduleConfig(template.name, p) for p in template.candidates(shape, limits)]


def shape_of(template: str, function: tirx.PrimFunc) -> Any:
    """What a template's candidates depend on; None where the function is of another kind."""
    return _BY_NAME[template].shape(function)


def _by_turns(one: list[ScheduleConfig], other: list[ScheduleConfig]) -> list[ScheduleConfig]:
    """Both, the first of each before the second: so that a short search tries either way."""
    pairs = itertools.zip_longest(one, other)
    return [choice for pair in pairs for choice in pair if choice is not None]


def is_offered(function: tirx.PrimFunc, limits: Limits, choice: ScheduleConfig) -> bool:
    """Whether a choice is one of those that a device is offered for a function.

    Traces are for nobody else to offer. Of records the answer may be no: limits and switches can
    have changed since, and files can hold anything.
    """
    template: Any = _templates(limits).get(choice.template)
    if template is None:
        return False
    if choice.template == trace.TRACE:
        return True
    shape = template.shape(function)
    return shape is not None and choice.parameters in template.candidates(shape, limits)


def schedule_with(function: tirx.PrimFunc, limits: Limits, choice: ScheduleConfig) -> tirx.PrimFunc:
    """``function`` with the schedule of a choice.

    Raises:
        NotThisKind: the choice does not fit the function or the device.
    """
    template: Any = _templates(limits).get(choice.template)
    if template is None:
        raise NotThisKind(f"{choice.template} is for another kind of device")
    try:
        return template.applied(function, limits, choice.parameters)
    except (*FAILURES, TypeError, ValueError, ArithmeticError, LookupError) as error:
        # The last four where a record holds nonsense.
        raise NotThisKind(f"{choice.template} does not fit: {str(error).strip()[:200]}") from error


def marked(
    schedule: Schedule, limits: TargetLimits, few_registers: bool = False, windows: bool = False
) -> tirx.PrimFunc:
    """The scheduled function, marked as such, and for the code generator.

    Raises:
        NotThisKind: a part of it has no threads, or it leaves a part of a result unwritten.
    """
    function = schedule.mod["main"]
    if left := left_to_host(function):
        raise NotThisKind(f"leaves {', '.join(left)} without threads")
    if missed := unwritten(function):
        raise NotThisKind(f"leaves parts of {', '.join(missed)} unwritten")
    selects = limits.selects_loads or (windows and limits.selects_window_loads)
    marks = {SELECT_LOADS: 1} if selects else {}
    if few_registers and limits.wide_subgroup:
        marks[SUBGROUP] = limits.wide_subgroup
    return with_marks(function, marks).with_attr("tirx.is_scheduled", True)
