"""What a tuner is told of the templates."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from support.schedule_runs import fused, noise, run, target
from tvm_vision.errors import InputError
from tvm_vision.schedules import (
    TEMPLATES,
    ScheduleConfig,
    TargetLimits,
    choices,
    first_taking,
    likeliest,
    schedule_with,
)
from tvm_vision.schedules.common import NotThisKind

LIMITS = TargetLimits(threads=256, shared_bytes=32768, subgroup=32)


def kernel(mod: tvm.IRModule) -> tirx.PrimFunc:
    return next(f for f in mod.functions.values() if isinstance(f, tirx.PrimFunc))


def convolution() -> tvm.IRModule:
    return fused(lambda x, w: relax.op.nn.conv2d(x, w, padding=1), [(1, 8, 9, 9), (12, 8, 3, 3)])


def test_choices_go_to_json_and_back() -> None:
    found = choices(kernel(convolution()), LIMITS)
    assert {choice.template for choice in found} == {"contraction", "reduction", "window"}
    for choice in found:
        assert ScheduleConfig.from_dict(json.loads(json.dumps(choice.to_dict()))) == choice


def test_a_tuple_survives_json() -> None:
    parameters = TEMPLATES["coopmat_gemm"].parameters(32, 32, 32, 1, 1)
    choice = ScheduleConfig("coopmat_gemm", parameters)
    assert ScheduleConfig.from_dict(json.loads(json.dumps(choice.to_dict()))) == choice


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"template": "magic", "parameters": {}}, "found 'magic'"),
        ({"template": "window", "parameters": {"rows": 3}}, "parameters of template window"),
        ({"template": "window", "parameters": [3]}, r"are needed, found \[3\]"),
        ({"template": "window"}, "are needed, found None"),
        ({"template": ["window"]}, "found .'window'."),
    ],
)
def test_unknown_choices_are_refused(data: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ScheduleConfig.from_dict(data)


def test_a_choice_of_another_kind_is_refused() -> None:
    shape = TEMPLATES["elementwise"].parameters(64, 1)
    with pytest.raises(NotThisKind, match="elementwise does not fit"):
        schedule_with(kernel(convolution()), LIMITS, ScheduleConfig("elementwise", shape))


@pytest.mark.usefixtures("device_info")
def test_choices_agree() -> None:
    """The likeliest and the unlikeliest of each template compute the same."""
    mod, inputs = convolution(), noise([(1, 8, 9, 9), (12, 8, 3, 3)])
    name = next(n for n, f in mod.functions_items() if isinstance(f, tirx.PrimFunc))
    limits = TargetLimits.of(target())
    found = choices(mod[name], limits)
    assert likeliest(mod[name], limits) == found[0]
    assert first_taking(mod[name], limits) == found[0].template
    results = []
    for template in TEMPLATES:
        own = [choice for choice in found if choice.template == template]
        for choice in {own[0], own[-1]} if own else ():
            scheduled = tvm.IRModule(dict(mod.functions_items()), attrs=mod.attrs)
            scheduled[name] = schedule_with(mod[name], limits, choice)
            results.append(run(scheduled, inputs))
    assert len(results) > 4
    for result in results[1:]:
        np.testing.assert_allclose(result, results[0], rtol=1e-4, atol=1e-4)
