"""A schedule for every GPU kernel, without tuning, as a pass."""

from __future__ import annotations

import tvm
from tvm.target import Target

from ..schedules import schedule_module


def default_schedules() -> tvm.transform.Pass:
    """A pass that schedules each kernel by its structure, for the target in whose scope it runs.

    Raises ValueError when run outside the scope of a target.
    """
    return _default_schedules


@tvm.transform.module_pass(opt_level=0, name="DefaultSchedules")
def _default_schedules(mod: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
    return schedule_module(mod, Target.current(allow_none=False))
