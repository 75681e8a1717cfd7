"""Which variant of a package for several devices is the one for this machine."""

from __future__ import annotations

import platform
from collections.abc import Collection
from typing import TYPE_CHECKING

from .. import vulkan
from ..devices.difference import lacking
from ..errors import DeviceError
from ..package import Fleet, Variant
from ..processors import features_here
from ..processors import lacking as lacking_of

if TYPE_CHECKING:
    from ..vulkan import DeviceInfo


def choose_variant(fleet: Fleet, wanted: str = "auto", target: str = "") -> Variant:
    """The variant for this machine, see ``plan_variant``.

    Raises PackageError for a target that it does not have, DeviceError where none fits.
    """
    if target:
        return fleet.variant(target)
    on_vulkan = wanted != "cpu" and any(variant.is_vulkan for variant in fleet.variants)
    devices = vulkan.devices() if on_vulkan else []
    status = vulkan.status() if on_vulkan and not devices else ""
    device = devices[0] if devices else None
    return plan_variant(fleet, wanted, platform.machine(), device, status, features_here())


def plan_variant(
    fleet: Fleet,
    wanted: str,
    machine: str,
    device: DeviceInfo | None,
    status: str = "",
    features: Collection[str] | None = None,
) -> Variant:
    """The choice as a function of what there is.

    wanted: "auto", "vulkan" or "cpu". machine: the processor. device: the first Vulkan device, None
    where there is none; status says why. features: of the processor, by Linux's names; None where
    nothing is known of it.

    Only those are asked whose code this processor can run: for its kind, and with nothing that it
    lacks. Of these: the variant made for a device of this name; else one whose device had no more
    than this one has, with as many lanes if there is one; else one for a processor, before which
    Vulkan on a processor takes only what was made for it. Of several that are alike in this the
    one that asks most of the processor, where nothing is known of it the one that asks least; else
    the first. The runner without Python decides the same (cpp/src/fleet.cc).

    Raises DeviceError, saying what there is and what to do.
    """
    ranked = [
        (rank, (1 if features is None else -1) * len(variant.processor), number)
        for number, variant in enumerate(fleet.variants)
        if variant.host == machine
        and not lacking_of(variant.processor, features)
        and (rank := _rank(variant, wanted, device)) is not None
    ]
    if ranked:
        return fleet.variants[min(ranked)[2]]
    here = device.describe() if device is not None else (status or "no Vulkan device")
    has = ", ".join(_described(variant, machine, features) for variant in fleet.variants)
    raise DeviceError(
        f"a variant for this machine ({machine}; {here}) is needed, and the package has {has}: "
        "compile one more, or name one with --target"
    )


def _described(variant: Variant, machine: str, features: Collection[str] | None) -> str:
    lacks = lacking_of(variant.processor, features) if variant.host == machine else ()
    without = f", for processors with {', '.join(lacks)}" if lacks else ""
    return variant.describe() + without


def _rank(variant: Variant, wanted: str, device: DeviceInfo | None) -> int | None:
    """How far a variant is from what is here; None for one that does not run."""
    if not variant.is_vulkan:
        return 3 if wanted in ("auto", "cpu") else None
    if wanted == "cpu" or device is None:
        return None
    if variant.device is not None and variant.device.name == device.name:
        return 0
    if lacking(variant.target, device):
        return None
    if device.is_cpu:
        return 4
    return 1 if variant.target.get("thread_warp_size") == device.thread_warp_size else 2
