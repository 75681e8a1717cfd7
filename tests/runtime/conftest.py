"""The small graph on a device, for every module that runs it."""

from __future__ import annotations

import json
from typing import Any

import pytest
import tvm
from tvm.target import Target

from support.lowering import HOST
from support.small_graph import MOD_JSON, functions, loaded
from tvm_vision.runtime import graph_executor
from tvm_vision.schedules import schedule_module


@pytest.fixture(scope="module", params=["vulkan", "cpu"])
def built(request: pytest.FixtureRequest, device_info: Any) -> tuple[Any, Any]:
    """The library and the device."""
    if request.param == "cpu":
        return tvm.compile(functions(), target=Target(HOST)), tvm.cpu(0)
    target = Target({"kind": "vulkan", "from_device": 0}, Target(HOST))
    with target:
        scheduled = schedule_module(functions(), target)
    return tvm.compile(scheduled, target=target), tvm.vulkan(0)


@pytest.fixture
def executor(built: tuple[Any, Any]) -> graph_executor.GraphExecutor:
    return loaded(built, json.dumps(MOD_JSON))
