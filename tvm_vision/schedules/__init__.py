"""Schedules for GPU kernels that need no tuning, chosen by the structure of each kernel.

``schedule_module`` gives every kernel of a module one; the files hold one kind of kernel each.
"""

from __future__ import annotations

from .module import schedule_function, schedule_module

__all__ = ["schedule_function", "schedule_module"]
