"""What is kept of TVM's look at types: the same arguments are taken and refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tvm_ffi
from tvm import te, tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import _type_checker

from tvm_vision.tvm_compat.kept_types import keep_types


def doubled() -> tirx.PrimFunc:
    a = te.placeholder((8,), "float32", "a")
    return te.create_prim_func([a, te.compute((8,), lambda i: a[i] * 2.0)])


@pytest.fixture(autouse=True)
def kept() -> None:
    keep_types()
    assert hasattr(_type_checker._dispatcher, "cache_info")


def test_schedules_still_check_their_arguments() -> None:
    schedule = Schedule(doubled())
    loops = schedule.get_loops(schedule.get_child_blocks(schedule.get_sblock("root"))[0])
    for _ in range(2):
        with pytest.raises(TypeError, match="wrong type"):
            schedule.split(loops[0], 3)
    assert len(schedule.split(loops[0], [None, 2])) == 2


def test_walks_meet_the_classes_that_they_ask_for() -> None:
    for _ in range(2):
        met: list[object] = []
        tvm_ffi.structural_walk(doubled(), (tirx.BufferStore, met.append))
        assert [type(node) for node in met] == [tirx.BufferStore]
        with pytest.raises(TypeError):
            tvm_ffi.structural_walk(doubled(), (Schedule.split, met.append))


def test_arrays_are_gone_through_as_they_are_read() -> None:
    a = te.placeholder((2, 3, 5), "float32", "a")
    shape = a.op.output(0).shape
    assert [int(size) for size in shape] == [int(shape[place]) for place in range(3)] == [2, 3, 5]
    assert list(tvm_ffi.Array([])) == []
    elements = iter(tvm_ffi.Array(["x", 1]))
    assert (next(elements), next(elements)) == ("x", 1)
    with pytest.raises(StopIteration):
        next(elements)


@pytest.mark.parametrize("order", ["pre", "post", tvm_ffi.structural.WalkOrder.PREORDER])
def test_walks_and_maps_take_callbacks_in_every_form(order: Any) -> None:
    function, stores = doubled(), (tirx.BufferStore, tirx.For)

    def met(form: Callable[[Any], Any], **named: Any) -> list[type]:
        found: list[type] = []
        tvm_ffi.structural_walk(function, form(lambda node: found.append(type(node))), **named)
        return found

    def by_kind(kind: Any) -> list[type]:
        return met(lambda see: (kind, see), order=order)

    both = by_kind(stores)
    loop_and_store = [tirx.For, tirx.BufferStore]
    assert both == (loop_and_store[::-1] if order == "post" else loop_and_store)
    assert met(lambda see: [(tirx.BufferStore, see), (tirx.For, see)], order=order) == both
    assert met(lambda see: ((tirx.BufferStore, see), (tirx.For, see)), order=order) == both
    assert set(met(lambda see: see, order=order)) > set(both)
    kinds: list[Any] = []
    tvm_ffi.structural_walk(
        function, with_def_region_kind=(tirx.BufferStore, lambda node, kind: kinds.append(kind))
    )
    assert len(kinds) == 1
    with pytest.raises(TypeError, match="callbacks"):
        tvm_ffi.structural_walk(function, [tirx.BufferStore])
    with pytest.raises(ValueError, match="order"):
        tvm_ffi.structural_walk(function, (tirx.BufferStore, print), order="in")
    halved = tvm_ffi.structural_map(
        function, (tirx.FloatImm, lambda node: tirx.FloatImm("float32", node.value / 4))
    )
    constants: list[float] = []
    tvm_ffi.structural_walk(halved, (tirx.FloatImm, lambda node: constants.append(node.value)))
    assert constants == [0.5]
