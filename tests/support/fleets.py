"""Packages for several devices, and machines that choose of them: a table for every reader."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from tvm_vision.devices import DeviceDescription
from tvm_vision.package import Fleet, PackageDevice, Variant
from tvm_vision.package.container import Extent
from tvm_vision.vulkan import DeviceInfo

PLACE = Extent(0, 1)
V2 = ("popcnt", "sse4_1", "sse4_2")
V3 = tuple(sorted((*V2, "avx", "avx2", "bmi1", "f16c", "fma")))
V4 = tuple(sorted((*V3, "avx512bw", "avx512f", "avx512vl")))
MATRIX_SHAPE = (16, 16, 16, "float16", "float16", "float32", "float32")
WANTED = ("auto", "vulkan", "cpu")
_PROCESSORS = {
    "x86_64": (None, frozenset(), frozenset(V2), frozenset(V3), frozenset((*V4, "avx512_vnni"))),
    "aarch64": (None, frozenset({"asimd"}), frozenset({"asimd", "asimddp"})),
    "riscv64": (None,),
    "loongarch64": (None,),
}


def variant(
    name: str,
    target: dict[str, Any],
    host: str = "x86_64",
    processor: tuple[str, ...] = (),
    precision: str = "fp32",
) -> Variant:
    """One whose members lie anywhere."""
    device = None
    if target["kind"] == "vulkan":
        device = PackageDevice(target["device_name"], "")
    return Variant(name, host, target, device, precision, {}, (PLACE,), (PLACE,), PLACE, processor)


@dataclass(frozen=True)
class Machine:
    """What ``plan_variant`` is told, but for the fleet and what is wanted."""

    processor: str
    features: Collection[str] | None
    device: DeviceInfo | None
    status: str = ""

    def to_json(self) -> dict[str, Any]:
        """As the program cpp/tests/variants.cc reads it."""
        device = self.device
        return {
            "processor": self.processor,
            "features": None if self.features is None else sorted(self.features),
            "device": None if device is None else device.properties,
            "words": self.status if device is None else device.describe(),
        }


def device_like(device: DeviceInfo, **changes: Any) -> DeviceInfo:
    """One that differs in some properties."""
    return replace(device, properties={**device.properties, **changes}, **changes)


def machines(device: DeviceInfo) -> list[Machine]:
    """Each processor beside no device and devices that are like one in some respects."""
    gpu = device_like(device, type="integrated", name="GPU")
    narrow = device_like(gpu, name="Narrow", thread_warp_size=2 * device.thread_warp_size)
    shapes = (MATRIX_SHAPE,)
    devices = [
        gpu,
        narrow,
        device_like(gpu, type="cpu"),
        device_like(narrow, supports_int64=False),
        device_like(gpu, name="Matrices too", cooperative_matrix_shapes=shapes),
    ]
    return [
        Machine(processor, features, found, status)
        for processor, known in _PROCESSORS.items()
        for features in known
        for found, status in [(None, ""), (None, "no driver"), *((d, "") for d in devices)]
    ]


def fleets(device: DeviceInfo, count: int) -> list[Fleet]:
    """Each variant of a team alone, all of them, and ``count`` drawn from it, in any order."""
    own = {**DeviceDescription.of(device).target_config(), "device_name": "GPU"}
    wide = {**own, "device_name": "Wide", "thread_warp_size": 2 * device.thread_warp_size}
    # Its keys are of matrices that lavapipe has not.
    keys = [*own.get("keys", ()), "cooperative_matrix_16x16x16"]
    llvm: dict[str, Any] = {"kind": "llvm"}
    team = [
        variant("plain", llvm),
        variant("v2", {**llvm, "mcpu": "x86-64-v2"}, processor=V2),
        variant("v3", {**llvm, "mcpu": "x86-64-v3"}, processor=V3),
        variant("v3 fp16", {**llvm, "mcpu": "haswell"}, processor=V3, precision="fp16"),
        variant("v4", {**llvm, "mcpu": "x86-64-v4"}, processor=V4),
        variant("arm", llvm, "aarch64"),
        variant("a76", {**llvm, "mcpu": "cortex-a76"}, "aarch64", ("asimddp",)),
        variant("rv", llvm, "riscv64"),
        variant("arm32", llvm, "armv7l"),
        variant("own", own),
        variant("own v4", own, processor=V4),
        variant("twin", {**own, "device_name": "Twin"}, processor=V2),
        variant("wide", wide, processor=V3),
        variant("big", {**own, "device_name": "Big", "max_threads_per_block": 1 << 20}),
        variant("matrices", {**own, "device_name": "Matrices", "keys": keys}),
        variant("jetson", {**own, "device_name": "Jetson"}, "aarch64"),
    ]
    rng = random.Random(5)
    drawn = [rng.sample(team, rng.randint(2, len(team))) for _ in range(count)]
    alone = [[each] for each in team]
    return [Fleet("net", "network", tuple(each)) for each in itertools.chain(alone, [team], drawn)]


def table(fleets: list[Fleet], machines: list[Machine]) -> str:
    """The text that cpp/tests/variants.cc reads."""
    document = {
        "fleets": [{"variants": [each.to_json() for each in one.variants]} for one in fleets],
        "machines": [machine.to_json() for machine in machines],
    }
    return json.dumps(document, default=list)
