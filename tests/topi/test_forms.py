"""What operators of our own are told as text."""

from __future__ import annotations

import pytest

from tvm_vision.topi.attention import AttentionForm, View
from tvm_vision.topi.deformed_taps import TapForm
from tvm_vision.topi.forms import TextForm
from tvm_vision.topi.placed_max import PoolForm
from tvm_vision.topi.recurrence.form import Activation, RecurrentForm
from tvm_vision.topi.regions import AVERAGE, RegionForm

VIEW = View(1, 4, (8, 1))
ATTENTION = AttentionForm((2,), 3, 4, 5, 6, 0.5, VIEW, VIEW, VIEW)
FORMS = [
    ATTENTION,
    AttentionForm((), 1, 1, 1, 1, 1.0, VIEW, VIEW, VIEW, (VIEW, View(0, 0, ())), turned=True),
    TapForm((3, 3), (1, 1), (2, 2), (1, 0), 2),
    PoolForm((2,), (2,), (1,), (0,), (8,), columns_first=True),
    RecurrentForm("GRU", (1, -1), (Activation("Sigmoid"), Activation("Elu", 0.5)), ended=True),
    RegionForm(AVERAGE, 7, 5, 0.0625, 2, is_shifted=True),
]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: type(form).__name__)
def test_forms_are_what_their_text_says(form: TextForm) -> None:
    """Hashable, too: sequences come back as tuples, within other dataclasses as well."""
    found = type(form).from_json(form.to_json())
    assert found == form and hash(found) == hash(form)
    assert found.to_json() == form.to_json()


def test_all_forms_are_tried() -> None:
    assert {type(form) for form in FORMS} == set(TextForm.__subclasses__())


def test_the_text_of_attention_stays_what_it_is() -> None:
    """Tuned kernels are known by it."""
    view = '{"offset": 4, "source": 1, "strides": [8, 1]}'
    assert ATTENTION.to_json() == (
        f'{{"added": [], "batch": [2], "k": {view}, "keys": 4, "q": {view}, "queries": 3, '
        f'"scale": 0.5, "v": {view}, "value_width": 6, "width": 5}}'
    )
