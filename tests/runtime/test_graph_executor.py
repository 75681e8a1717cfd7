"""The graph executor on Vulkan and on the CPU, with a small network made by hand from TensorIR."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

from support.small_graph import (
    MOD_JSON,
    WEIGHTS,
    N,
    assert_frame,
    damaged,
    expected,
    frame,
    library_module,
    loaded,
)
from tvm_vision.errors import InputError, PackageError
from tvm_vision.runtime import graph_executor
from tvm_vision.runtime.other_names import OF_EXECUTORS


def test_inputs_by_name_number_and_keyword(executor: graph_executor.GraphExecutor) -> None:
    executor.set_input("x", frame(1))
    executor.run()
    assert_frame(executor, frame(1))
    executor.set_input(0, frame(2))
    executor.run()
    assert_frame(executor, frame(2))
    executor.set_input(x=frame(3))
    executor.run()
    assert_frame(executor, frame(3))
    executor.run(x=frame(4))
    assert_frame(executor, frame(4))
    assert executor.num_inputs == 1
    assert executor.output_names == ("y", "z")
    assert set(executor.outputs()) == {"y", "z"}


def test_what_is_printed_and_what_others_names_are(executor: graph_executor.GraphExecutor) -> None:
    assert re.match(r"<GraphExecutor of x -> y, z on (vulkan|cpu)\(0\): ", repr(executor))
    executor.run(x=frame(1))
    assert re.match(
        r"\d+ kernels on .*: span [\d.]+ us of a frame", str(executor.profile(repeat=1))
    )
    for other, words in OF_EXECUTORS.items():
        with pytest.raises(AttributeError, match=f"a GraphExecutor has no '{other}': use "):
            getattr(executor, other)
        first = re.split("[^a-z_]", words)[0]
        assert first in (*dir(executor), "load_model"), words


def test_inputs_stay_set(executor: graph_executor.GraphExecutor) -> None:
    executor.set_input(0, frame(5))
    for _ in range(5):
        executor.run()
        assert_frame(executor, frame(5))


@pytest.mark.parametrize("key", [0, "x"])
def test_inputs_are_written_in_place(executor: graph_executor.GraphExecutor, key: Any) -> None:
    array = executor.input_array(key)
    assert (array.shape, array.dtype) == (frame(1).shape, np.float32)
    for seed in (1, 2):
        array[...] = frame(seed)
        executor.run()
        assert_frame(executor, frame(seed))
    # What is set otherwise lies there, too.
    executor.run(x=frame(3))
    np.testing.assert_array_equal(array, frame(3))


def test_frames_are_written_in_place(executor: graph_executor.GraphExecutor) -> None:
    found = executor.frame({"x": lambda array: np.copyto(array, frame(4))})
    assert_frame(executor, frame(4))
    np.testing.assert_array_equal(found["y"], executor.get_output("y").numpy())


def test_inputs_in_place_of_two_frames_in_flight(executor: graph_executor.GraphExecutor) -> None:
    tickets = []
    for seed in range(8):
        executor.input_array(0)[...] = frame(seed)
        tickets.append(executor.submit())
        if seed:
            executor.wait(tickets[seed - 1])
            assert_frame(executor, frame(seed - 1))


def test_an_array_of_an_input_keeps_its_memory(built: tuple[Any, Any]) -> None:
    array = loaded(built, json.dumps(MOD_JSON)).input_array(0)
    array[...] = frame(1)
    np.testing.assert_array_equal(array, frame(1))


@pytest.mark.parametrize("key", [1, -1, "y"])
def test_unknown_inputs_have_no_array(executor: graph_executor.GraphExecutor, key: Any) -> None:
    with pytest.raises(InputError, match="input"):
        executor.input_array(key)


def test_outputs_are_copies(executor: graph_executor.GraphExecutor) -> None:
    executor.run(x=frame(6))
    first = executor.get_output(1).numpy()
    kept = first.copy()
    executor.run(x=frame(7))
    np.testing.assert_array_equal(first, kept)


def test_two_frames_in_flight(executor: graph_executor.GraphExecutor) -> None:
    tickets = []
    for seed in range(2):
        executor.set_input(0, frame(seed))
        tickets.append(executor.submit())
    for seed in range(2, 30):
        executor.wait(tickets.pop(0))
        assert_frame(executor, frame(seed - 2))
        executor.set_input(0, frame(seed))
        tickets.append(executor.submit())
    executor.wait(tickets[1])
    assert_frame(executor, frame(29))


def test_third_frame_and_unknown_ticket_are_refused(executor: graph_executor.GraphExecutor) -> None:
    for seed in range(2):
        executor.set_input(0, frame(seed))
        executor.submit()
    with pytest.raises(InputError, match="2 frames are in flight; wait for the oldest"):
        executor.submit()
    with pytest.raises(InputError, match="frame 99 is not in flight"):
        executor.wait(99)


@pytest.mark.parametrize("margin", ["0", "200", "1000000"])
def test_polling_gives_the_same(
    built: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch, margin: str
) -> None:
    monkeypatch.setenv("TVM_VISION_VULKAN_POLL_US", margin)
    polling = loaded(built, MOD_JSON)
    for seed in range(20):
        polling.run(x=frame(seed))
        assert_frame(polling, frame(seed))
    test_two_frames_in_flight(polling)


@pytest.mark.parametrize("threads", ["1", "3"])
def test_kernels_compiled_at_once_or_one_after_the_other(
    built: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch, threads: str
) -> None:
    monkeypatch.setenv("TVM_VISION_VULKAN_COMPILE_THREADS", threads)
    made = loaded(built, MOD_JSON)
    made.run(x=frame(3))
    assert_frame(made, frame(3))


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("TVM_VISION_VULKAN_COMPILE_THREADS", "0", 'from 1 to 1000, found "0"'),
        ("TVM_VISION_VULKAN_COMPILE_THREADS", "all", 'found "all"; unset it for the default'),
        ("TVM_VISION_VULKAN_POLL_US", "soon", 'from 0 .never poll. to 1000000, found "soon"'),
        ("TVM_VISION_VULKAN_INPUT", "direct", 'mapped or staged, found "direct"'),
        ("TVM_VISION_VULKAN_MEMORY", "mine", 'auto or separate, found "mine"'),
    ],
)
def test_wrong_environment_is_refused(
    built: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch, variable: str, value: str, message: str
) -> None:
    library, device = built
    monkeypatch.setenv(variable, value)
    with pytest.raises(InputError, match=f"^{variable} must be .*{message}"):
        graph_executor.create(MOD_JSON, library_module(library), device)


def test_inputs_in_any_order_of_memory(executor: graph_executor.GraphExecutor) -> None:
    twice = np.repeat(frame(15), 2)
    for value in (twice[::2], np.asfortranarray(frame(15))):
        executor.run(x=value)
        assert_frame(executor, frame(15))
    fixed = frame(16)
    fixed.flags.writeable = False
    executor.run(x=fixed)
    assert_frame(executor, fixed)


def test_outputs_belong_to_the_caller(executor: graph_executor.GraphExecutor) -> None:
    executor.run(x=frame(17))
    kept = executor.outputs()
    executor.run(x=frame(18))
    _, z = expected(frame(17), WEIGHTS)
    np.testing.assert_allclose(kept["z"], z, rtol=1e-5)
    kept["z"][:] = 0
    assert_frame(executor, frame(18))


@pytest.mark.usefixtures("unpoisoned")
def test_recorded_once(built: tuple[Any, Any]) -> None:
    executor = loaded(built, json.dumps(MOD_JSON))
    for seed in range(5):
        executor.run(x=frame(seed))
    recorded = executor.device.type == "vulkan"
    assert executor.recordings == (1 if recorded else 0)
    # Between the three kernels, and around them where a card has to copy inputs or outputs.
    assert executor.barriers in ((2, 3, 4) if recorded else (0,))


def test_tensor_on_the_device_is_read_in_place(executor: graph_executor.GraphExecutor) -> None:
    on_device = tvm.runtime.tensor(frame(8), executor.device)
    for seed in (8, 9):
        on_device.copyfrom(frame(seed))
        executor.run(x=on_device)
        assert_frame(executor, frame(seed))
    if executor.device.type == "vulkan":
        assert executor.recordings == 1
    executor.run(x=frame(10))
    assert_frame(executor, frame(10))
    executor.run(x=on_device)
    assert_frame(executor, frame(9))


def test_tensor_of_another_device(executor: graph_executor.GraphExecutor) -> None:
    other = tvm.cpu(0) if executor.device.type == "vulkan" else tvm.vulkan(0)
    executor.run(x=tvm.runtime.tensor(frame(12), other))
    assert_frame(executor, frame(12))


def test_two_executors_share_a_library(built: tuple[Any, Any]) -> None:
    library, device = built
    pair = [graph_executor.create(MOD_JSON, library_module(library), device) for _ in range(2)]
    for i, made in enumerate(pair):
        made.load_params({"w": WEIGHTS * i})
    for i, made in enumerate(pair):
        made.run(x=frame(i))
    for i, made in enumerate(pair):
        y, _ = expected(frame(i), WEIGHTS * i)
        np.testing.assert_allclose(made.get_output(0).numpy(), y, rtol=1e-5)


def test_params_as_saved_bytes(executor: graph_executor.GraphExecutor) -> None:
    doubled = tvm.runtime.tensor(WEIGHTS * 2, device=tvm.cpu(0))
    executor.load_params(tvm.runtime.save_param_dict({"w": doubled}))
    executor.run(x=frame(13))
    y, _ = expected(frame(13), WEIGHTS * 2)
    np.testing.assert_allclose(executor.get_output(0).numpy(), y, rtol=1e-5)


def test_profile(executor: graph_executor.GraphExecutor) -> None:
    executor.set_input(0, frame(14))
    executor.run()
    report = executor.profile(repeat=5, warmup=1)
    assert [k.nodes for k in report.kernels] == [("Mul_0", "Add_0"), ("Mul_1", "Add_1"), ("Add_2",)]
    assert all(k.median_us > 0 for k in report.kernels)
    assert sum(k.share for k in report.kernels) == pytest.approx(1)
    assert report.sum_us == pytest.approx(sum(k.median_us for k in report.kernels))
    assert report.wall_us > 0
    assert report.kernels[0].device == f"{executor.device.type}0"
    # Of one frame each: what a frame waits for is never less than what the device did of it.
    for one in (executor.profile(repeat=1, warmup=0) for _ in range(20)):
        # Of one frame, whatever the machine does beside it; two clocks may differ a little.
        parts = one.upload_us + one.span_us + one.readback_us
        assert one.unexplained_us >= 0 and one.wall_us >= 0.999 * parts - 0.1
        assert one.wall_us == pytest.approx(parts + one.unexplained_us, rel=1e-3, abs=0.1)
    assert json.dumps(report.to_dict())
    executor.run()
    assert_frame(executor, frame(14))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.zeros(N - 1, "float32"), r"input x must be \(1000\) float32, found \(999\) float32"),
        (np.zeros((1, N), "float32"), r"found \(1, 1000\) float32"),
        (np.zeros(N, "float64"), "found .* float64"),
        ([1.0, 2.0], "input x must be a numpy array or a tensor, found list"),
    ],
)
def test_wrong_inputs(executor: graph_executor.GraphExecutor, value: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        executor.set_input("x", value)


def test_missing_things_are_named(built: tuple[Any, Any]) -> None:
    library, device = built
    made = graph_executor.create(MOD_JSON, library_module(library), device)
    with pytest.raises(InputError, match="no outputs before the first run"):
        made.get_output(0)
    with pytest.raises(InputError, match='has no input "q"; it has x'):
        made.set_input("q", frame(0))
    with pytest.raises(InputError, match="has 2 outputs, numbered from 0; found number 2"):
        made.get_output(2)
    made.set_input(0, frame(0))
    with pytest.raises(InputError, match="call load_params first"):
        made.run()
    with pytest.raises(PackageError, match="the parameters lack w"):
        made.load_params({})
    made.load_params({"w": WEIGHTS})
    made.run()
    fresh = graph_executor.create(MOD_JSON, library_module(library), device)
    fresh.load_params({"w": WEIGHTS})
    with pytest.raises(InputError, match="input x was not set"):
        fresh.run()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g: g["kernels"][0].update(function="nothing"), "mod.so has no function nothing"),
        (lambda g: g["kernels"][0].update(args=[0, 99]), "an argument of scale_add is no number"),
        (lambda g: g["tensors"][0].update(storage=9), "tensor 0's storage is no number"),
        (lambda g: g["tensors"][0].update(shape=[1 << 20]), "runs past the end of its storage"),
        (lambda g: g["tensors"][0].update(shape=[1 << 39, 1 << 39]), "too large"),
        (lambda g: g["tensors"][0].update(shape=[-1]), "extent is no number"),
        (lambda g: g["tensors"][0].update(offset=4), "no multiple of 256"),
        (lambda g: g["tensors"][0].update(dtype="float33x"), "unknown dtype|too large|damaged"),
        (lambda g: g.update(outputs=[0, 5]), "shares its memory with input x"),
        (lambda g: g.update(params={"w": 0}), "shares its memory"),
        (lambda g: g.update(outputs=[4]), "names and tensors"),
        (lambda g: g.pop("storages"), 'has no "storages"'),
        (lambda g: g.update(kernels=5), '"kernels" is no list'),
    ],
)
def test_damaged_graphs_are_refused(built: tuple[Any, Any], change: Any, message: str) -> None:
    library, device = built
    with pytest.raises(PackageError, match=message):
        graph_executor.create(damaged(change), library_module(library), device)


def test_no_json(built: tuple[Any, Any]) -> None:
    library, device = built
    with pytest.raises(PackageError, match="found no JSON"):
        graph_executor.create("{", library_module(library), device)
    with pytest.raises(InputError, match="runs on cpu or vulkan, found opencl"):
        graph_executor.create(MOD_JSON, library_module(library), tvm.opencl(0))


HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def _flags(address: int) -> list[str]:
    """What Linux was told of the memory at an address of this process: VmFlags of proc(5)."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if span := re.match("([0-9a-f]+)-([0-9a-f]+) ", line):
            inside = int(span[1], 16) <= address < int(span[2], 16)
        elif inside and line.startswith("VmFlags:"):
            return line.split()[1:]
    return []


def _marked() -> int:
    """Mappings of this process that Linux may give in huge pages."""
    text = Path("/proc/self/smaps").read_text()
    return len(re.findall(r"^VmFlags:.* hg\b", text, re.MULTILINE))


@pytest.mark.skipif(not HUGE_PAGES.exists(), reason="this Linux has no huge pages")
@pytest.mark.parametrize("built", ["cpu"], indirect=True)
def test_a_large_network_lies_in_huge_pages(built: tuple[Any, Any]) -> None:
    large = damaged(lambda graph: graph["storages"].__setitem__(1, 5 << 20))
    executor = loaded(built, json.dumps(large))
    executor.run(x=frame(1))
    assert_frame(executor, frame(1))
    # The input is the first of the storages, which lie in one piece.
    address = executor.input_array(0).ctypes.data
    assert "hg" in _flags(address)
    # It goes with the network: malloc would hand pages that are marked so to whoever asks next,
    # once it has taken back more than the next network asks for.
    addresses = [address]
    for mib in (24, 12, 6, 3):
        del executor
        large = damaged(lambda graph, bytes=mib << 20: graph["storages"].__setitem__(1, bytes))
        executor = loaded(built, json.dumps(large))
        addresses.append(executor.input_array(0).ctypes.data)
    del executor
    # Whoever maps something else there meanwhile has not these pages.
    assert not any("hg" in _flags(address) for address in addresses)
    # Small ones share theirs with all else that the process has.
    before = _marked()
    small = loaded(built, json.dumps(MOD_JSON))
    assert _marked() == before
    del small
