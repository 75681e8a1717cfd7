"""Which variant of a package for several devices is taken."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace

import pytest

from support import fleets
from support.fleets import V2, V3, V4, variant
from tvm_vision import vulkan
from tvm_vision.devices import DeviceDescription
from tvm_vision.errors import DeviceError, PackageError
from tvm_vision.package import Fleet, Variant
from tvm_vision.runtime.variants import choose_variant, plan_variant


def team(variants: Iterable[Variant]) -> Fleet:
    return Fleet("net", "network", tuple(variants))


@pytest.fixture
def gpu(device_info: vulkan.DeviceInfo) -> vulkan.DeviceInfo:
    """This machine's device, as if it were a GPU."""
    return replace(device_info, type="integrated", name="GPU")


@pytest.fixture
def every(device_info: vulkan.DeviceInfo) -> dict[str, Variant]:
    """For its own device, for others, and for processors."""
    own = DeviceDescription.of(device_info).target_config()
    lanes = int(own["thread_warp_size"])
    return {
        "own": variant("own", {**own, "device_name": "GPU"}),
        "same": variant("same", {**own, "device_name": "Twin"}),
        "wide": variant("wide", {**own, "device_name": "Wide", "thread_warp_size": 2 * lanes}),
        "big": variant("big", {**own, "device_name": "Big", "max_threads_per_block": 1 << 20}),
        "llvm": variant("llvm", {"kind": "llvm", "mcpu": "znver2"}),
        "arm": variant("arm", {"kind": "llvm", "mcpu": "cortex-a76"}, "aarch64"),
    }


@pytest.mark.parametrize(
    ("names", "wanted", "taken"),
    [
        ("llvm wide same own", "auto", "own"),
        ("llvm wide same", "auto", "same"),
        ("big llvm wide", "auto", "wide"),
        ("big llvm arm", "auto", "llvm"),
        ("own llvm", "cpu", "llvm"),
        ("llvm same", "vulkan", "same"),
    ],
)
def test_what_fits_best(every, gpu, names, wanted, taken) -> None:
    fleet = team(tuple(every[name] for name in names.split()))
    assert plan_variant(fleet, wanted, "x86_64", gpu).name == taken


def test_vulkan_on_a_processor_is_for_what_was_made_for_it(every, gpu) -> None:
    lavapipe = replace(gpu, type="cpu")
    fleet = team((every["same"], every["llvm"], every["own"]))
    assert plan_variant(fleet, "auto", "x86_64", lavapipe).name == "own"
    assert plan_variant(team(fleet.variants[:2]), "auto", "x86_64", lavapipe).name == "llvm"
    assert plan_variant(team(fleet.variants[:1]), "auto", "x86_64", lavapipe).name == "same"


def test_without_a_device(every) -> None:
    fleet = team((every["own"], every["arm"], every["llvm"]))
    assert plan_variant(fleet, "auto", "x86_64", None).name == "llvm"
    assert plan_variant(fleet, "auto", "aarch64", None).name == "arm"


@pytest.mark.parametrize(
    ("names", "wanted", "machine", "here"),
    [
        ("big arm", "auto", "x86_64", "vulkan(0): GPU"),
        ("llvm", "vulkan", "x86_64", "vulkan(0): GPU"),
        ("own", "cpu", "x86_64", "vulkan(0): GPU"),
        ("own llvm", "auto", "riscv64", "riscv64; vulkan(0): GPU"),
    ],
)
def test_none_that_fits(every, gpu, names, wanted, machine, here) -> None:
    fleet = team(tuple(every[name] for name in names.split()))
    with pytest.raises(DeviceError) as found:
        plan_variant(fleet, wanted, machine, gpu)
    said = str(found.value)
    assert here in said and "--target" in said and "\n" not in said
    assert all(f"{name} (" in said for name in names.split())


def test_a_name_is_taken_whatever_is_here(every) -> None:
    fleet = team(tuple(every.values()))
    assert choose_variant(fleet, target="arm").name == "arm"
    with pytest.raises(PackageError, match="found 'tgl'"):
        choose_variant(fleet, target="tgl")


@pytest.mark.parametrize(
    ("features", "taken"),
    [
        ({*V4, "avx512_vnni"}, "v4"),
        ({*V3, "avx512f"}, "v3"),
        (V2, "v2"),
        ((), "plain"),
        (None, "plain"),
    ],
)
@pytest.mark.parametrize("order", [1, -1])
def test_the_most_that_a_processor_can_do(features, taken, order) -> None:
    """In whatever order they lie; of one of which nothing is known the least is asked."""
    needs = {"plain": (), "v2": V2, "v3": V3, "v4": V4}
    variants = [variant(name, {"kind": "llvm"}, processor=each) for name, each in needs.items()]
    found = plan_variant(team(variants[::order]), "auto", "x86_64", None, "", features)
    assert found.name == taken


def test_what_a_processor_lacks_is_said() -> None:
    fleet = team((variant("v4", {"kind": "llvm", "mcpu": "x86-64-v4"}, processor=V4),))
    needed = r"v4 \(x86-64-v4, x86_64, fp32\), for processors with avx512bw, avx512f, avx512vl: "
    with pytest.raises(DeviceError, match=needed):
        plan_variant(fleet, "auto", "x86_64", None, "", V3)


def test_whoever_can_run_one_takes_one_that_runs(device_info) -> None:
    """Of every team on every machine; and none is left for one that asks less of the processor."""
    for fleet, machine in itertools.product(
        fleets.fleets(device_info, 10), fleets.machines(device_info)
    ):
        known = machine.features
        able = [
            each
            for each in fleet.variants
            if each.host == machine.processor
            and (known is None or set(each.processor) <= set(known))
        ]
        try:
            found = plan_variant(
                fleet, "auto", machine.processor, machine.device, machine.status, known
            )
        except DeviceError:
            assert all(each.is_vulkan for each in able)
            continue
        assert found in able
        alike = [each for each in able if each.target == found.target]
        counts = [len(each.processor) for each in alike]
        assert len(found.processor) == (min(counts) if known is None else max(counts))
