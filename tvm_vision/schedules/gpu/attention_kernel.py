"""What both kernels of attention begin with: the function's form."""

from __future__ import annotations

from tvm.s_tir import Schedule

from ...topi.attention import FORM, AttentionForm
from ..common import NotThisKind

LOWEST = -3.4028234663852886e38


def form_of(schedule: Schedule) -> AttentionForm:
    """The form of a function of attention."""
    text = (schedule.mod["main"].attrs or {}).get(FORM)
    if text is None:
        raise NotThisKind("is no attention")
    return AttentionForm.from_json(str(text))
