"""What holds a machine's clocks down: battery, power profile, governors, heat.

By the kernel's files (Documentation/ABI of Linux: sysfs-class-power, cpufreq, amdgpu, i915, xe,
thermal).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from .finding import OK, WARN, Finding, Machine, number, read

# Governors of drivers that choose clocks themselves; "powersave" then is the usual one.
OWN_GOVERNOR = ("intel_pstate", "amd-pstate-epp", "amd_pstate_epp")
SAVING_PROFILES = ("low-power", "quiet", "cool")
# A limit below this share of what the hardware can do was set by somebody.
CAPPED = 0.9
# Degrees Celsius, where a zone has no trip of its own.
HOT = 95
BALANCED = "powerprofilesctl set balanced (performance, to measure)"


def check_power(machine: Machine) -> Iterator[Finding]:
    """Battery or mains, and the platform's profile."""
    supplies = machine.glob("/sys/class/power_supply/*")
    draining = [s for s in supplies if read(s / "type") == "Battery" and _drains(s)]
    profile = read(machine.path("/sys/firmware/acpi/platform_profile"))
    words = "runs on its battery" if draining else "on mains" if supplies else "no battery"
    if draining:
        charge = number(draining[0] / "capacity")
        words += f" ({charge} %)" if charge is not None else ""
        yield Finding("power", WARN, f"{words}: clocks are lower", "plug it in before measuring")
    elif profile not in SAVING_PROFILES:
        yield Finding("power", OK, words + (f", profile {profile}" if profile else ""))
    if profile in SAVING_PROFILES:
        yield Finding("power", WARN, f"{words}, and the power profile is {profile}", BALANCED)


def _drains(supply: Path) -> bool:
    # A mouse has a battery, too.
    return read(supply / "status") == "Discharging" and read(supply / "scope") != "Device"


def check_processor_clock(machine: Machine) -> Iterator[Finding]:
    """The governors of all cores, and limits below what they can do."""
    cores = machine.glob("/sys/devices/system/cpu/cpu[0-9]*/cpufreq")
    if not cores:
        yield Finding("processor clock", OK, "not told (a virtual machine, or no cpufreq)")
        return
    driver = read(cores[0] / "scaling_driver")
    governors = sorted({read(core / "scaling_governor") for core in cores})
    preferences = sorted({read(core / "energy_performance_preference") for core in cores} - {""})
    top = [number(core / "scaling_max_freq") or 0 for core in cores]
    most = [number(core / "cpuinfo_max_freq") or 0 for core in cores]
    words = f"governor {', '.join(governors)} of {driver or 'an unnamed driver'}"
    words += f", up to {max(top) / 1e6:.1f} GHz" if max(top) else ""
    if "powersave" in governors and driver not in OWN_GOVERNOR:
        remedy = "sudo cpupower frequency-set -g schedutil (performance, to measure)"
        yield Finding("processor clock", WARN, f"{words}: the lowest clock always", remedy)
    elif "power" in preferences:
        yield Finding("processor clock", WARN, f"{words}, which is to save power", BALANCED)
    elif any(t < CAPPED * m for t, m in zip(top, most, strict=True)):
        remedy = f"sudo cpupower frequency-set -u {max(most)}KHz"
        yield Finding("processor clock", WARN, f"{words} of {max(most) / 1e6:.1f} GHz", remedy)
    else:
        yield Finding("processor clock", OK, words)


def check_gpu_clock(machine: Machine) -> Iterator[Finding]:
    """Limits of each GPU's clock, by what its kernel driver tells."""
    found = []
    for card in machine.glob("/sys/class/drm/card[0-9]*"):
        if "-" not in card.name:
            found += [*_amd(machine, card), *_intel(machine, card)]
    yield from found or [Finding("GPU clock", OK, "not told by a kernel driver")]


def _amd(machine: Machine, card: Path) -> Iterator[Finding]:
    level = card / "device" / "power_dpm_force_performance_level"
    chosen = read(level)
    if not chosen:
        return
    states = re.findall(
        r"(\d+)\s*MHz\s*(\*?)", read(card / "device" / "pp_dpm_sclk"), re.IGNORECASE
    )
    now = next((clock for clock, star in states if star), "")
    clock = f", {now or '?'} of {states[-1][0]} MHz now" if states else ""
    words = f"{card.name}: amdgpu, level {chosen}{clock}"
    if chosen in ("low", "profile_min_sclk", "profile_min_mclk"):
        remedy = f"echo auto | sudo tee {machine.name(level)}"
        yield Finding("GPU clock", WARN, f"{words}: the lowest clock always", remedy)
    else:
        yield Finding("GPU clock", OK, words)


# Where i915 and xe have the clock's limit, what the hardware can do, the clock now, and a reason to
# hold it down.
_INTEL = (
    ("gt_max_freq_mhz", "gt_RP0_freq_mhz", "gt_act_freq_mhz", "gt/gt0/throttle_reason_status"),
    (
        "device/tile0/gt0/freq0/max_freq", "device/tile0/gt0/freq0/rp0_freq",
        "device/tile0/gt0/freq0/act_freq", "device/tile0/gt0/freq0/throttle/status",
    ),
)  # fmt: skip


def _intel(machine: Machine, card: Path) -> Iterator[Finding]:
    for limit, top, now, throttled in _INTEL:
        most, able = number(card / limit), number(card / top)
        if not most or not able:
            continue
        words = f"{card.name}: up to {most} of {able} MHz, {number(card / now) or 0} now"
        if most < CAPPED * able:
            remedy = f"echo {able} | sudo tee {machine.name(card / limit)}"
            yield Finding("GPU clock", WARN, words, remedy)
        elif number(card / throttled):
            yield Finding(
                "GPU clock", WARN, f"{words}, held down by power or heat",
                f"see {machine.name((card / throttled).parent)}; cool it, or raise its power limit",
            )  # fmt: skip
        else:
            yield Finding("GPU clock", OK, words)


def check_temperature(machine: Machine) -> Iterator[Finding]:
    """The warmest zone, and whether one is where it holds clocks down."""
    zones = []
    for zone in machine.glob("/sys/class/thermal/thermal_zone*"):
        thousandths = number(zone / "temp") or 0
        if thousandths > 0:
            zones.append((thousandths / 1e3, _trip(zone), read(zone / "type") or zone.name))
    if not zones:
        yield Finding("temperature", OK, "not told by the kernel")
        return
    held = [zone for zone in zones if zone[0] >= zone[1]]
    degrees, trip, name = max(held or zones)
    if held:
        words = f"{name} has {degrees:.0f} °C, and clocks are held down from {trip:.0f} °C on"
        yield Finding("temperature", WARN, words, "cool it, and look at its fan")
    else:
        yield Finding("temperature", OK, f"{degrees:.0f} °C at the most ({name})")


def _trip(zone: Path) -> float:
    """Degrees from which a zone holds clocks down."""
    trips = [
        (number(kind.with_name(kind.name.replace("_type", "_temp"))) or 0) / 1e3
        for kind in sorted(zone.glob("trip_point_*_type"))
        if read(kind) in ("passive", "hot")
    ]
    return min((trip for trip in trips if trip > 0), default=HOT)
