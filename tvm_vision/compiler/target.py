"""Targets: what TVM's compiler has to know of the device it compiles for."""

from __future__ import annotations

import json
import logging
import os
import platform
import re
import shlex
from typing import Any, TypeAlias

import tvm
from tvm.target import Target, codegen

from ..devices import described_device
from ..devices.kept import described_here
from ..error_lines import first_line
from ..errors import DeviceError, InputError
from ..hosts import HOSTS, host_config, host_of_triple, with_base
from ..processors import hidden_here

LOGGER = logging.getLogger(__name__)
AUTO = "auto"
# A description's file may be a path; a tvm.target.Target is taken as it is.
TargetLike: TypeAlias = "str | os.PathLike[str] | dict[str, Any] | Target"
TARGET_KINDS = ("vulkan", "llvm")
EXAMPLES = (
    '"auto", "vulkan", "vulkan --from_device 0", "llvm", "llvm -mcpu=x86-64-v3", JSON, '
    "\"renoir\" (see 'tvm-vision devices --known') or a file of 'tvm-vision devices --export'"
)
DESCRIBED = "what 'tvm-vision devices --export' writes there, or a name of 'devices --known'"


def parse_target(target: TargetLike, host: str | None = None) -> Target:
    """The target that ``target`` spells, as TVM wants it.

    "auto" is the first Vulkan device, or this processor where there is none, of which the log has a
    warning: see ``choose_target``. "vulkan" asks device 0
    for its limits, "vulkan --from_device N" device N; with attributes of its own
    ("vulkan -max_threads_per_block=256") it asks none. "llvm" is this processor, as is
    "-mcpu=native"; "-mcpu" and "-mtriple" name others. An option is -key=value, --key=value or
    --key value. JSON and dicts go to TVM, with a plain host for Vulkan where none is given.
    "renoir" and other names of ``tvm_vision.devices.known_devices``, and a description's .json
    file, are devices that need not be here.

    host: the processor that launches a GPU's kernels, see ``parse_host``; None for this one, or
    that of a description. "vulkan --host aarch64" says it, too.

    Raises InputError for a target that is not one, DeviceError for a device that is not there.
    """
    if host is not None:
        return _with_host(target, host)
    if target == AUTO:
        chosen, why = choose_target(target)
        LOGGER.log(logging.INFO if "gpu" in chosen.keys else logging.WARNING, "target: %s", why)
        return chosen
    if isinstance(target, Target):
        return target
    if not isinstance(target, str | os.PathLike | dict):
        raise InputError(
            f"a target such as {EXAMPLES} is needed, found a value of type {type(target).__name__}"
        )
    config: dict[str, Any] = (
        dict(target) if isinstance(target, dict) else _config(os.fspath(target).strip())
    )
    kind = config.get("kind")
    if kind not in TARGET_KINDS:
        raise InputError(f"a target such as {EXAMPLES} is needed, found kind {kind!r}")
    config = _vulkan(config) if kind == "vulkan" else _llvm(config)
    try:
        return Target(config)
    except (ValueError, TypeError, tvm.error.InternalError) as error:
        raise InputError(f"TVM does not take the target {target!r}: {first_line(error)}") from None


def _with_host(target: TargetLike, host: str) -> Target:
    if target == AUTO:
        raise InputError(
            f"a target is needed for the host '{host}', since auto is what this machine has: "
            "'vulkan', or the device there by its description: " + DESCRIBED
        )
    chosen = parse_target(target)
    if chosen.kind.name != "vulkan":
        raise InputError(
            f"a target 'vulkan' or a device is needed with the host '{host}', found "
            f"'{chosen.kind.name}': a processor is its own host, as in "
            "'llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76'"
        )
    return chosen.with_host(parse_host(host))


def parse_host(host: str | dict[str, Any]) -> Target:
    """The processor that launches kernels: "aarch64", another of ``tvm_vision.hosts.HOSTS``, a
    triple, or a target of LLVM such as "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76".

    Raises InputError for anything else.
    """
    if isinstance(host, dict) or " " in host or host == "llvm":
        config = dict(host) if isinstance(host, dict) else _config(host)
        if config.get("kind") != "llvm":
            raise InputError(f"a host of kind llvm is needed, found '{host}'")
        return Target(_checked(config))
    config = host_config(host) if "-" not in host else with_base({"kind": "llvm", "mtriple": host})
    return Target(_checked(config))


def choose_target(target: TargetLike, host: str | None = None) -> tuple[Target, str]:
    """``parse_target``, and a line for people where it was left to this machine ("auto"): what was
    chosen, why, and what brings the other; else "".

    Raises DeviceError where TVM_VISION_VULKAN_DEVICE names a device that is not there.
    """
    if target != AUTO or host is not None:
        return parse_target(target, host), ""
    devices = _vulkan_devices()
    if devices or _device_is_named():  # who names a device does not want another one
        chosen = parse_target("vulkan")
        other = "'llvm' is this machine's processor"
        if devices[0].is_cpu:
            other += ", which it computes on many times faster"
        return chosen, f"auto is {devices[0].describe()}; {other}"
    chosen = parse_target("llvm")
    return chosen, (
        f"auto is this machine's processor (llvm -mcpu={chosen.attrs['mcpu']}), without Vulkan: "
        f"{_vulkan_status()}; for a device that is elsewhere name its description: {DESCRIBED}"
    )


def host_of(target: Target) -> Target:
    """The processor that calls kernels for a target, or is the target."""
    if target.host is not None:
        return target.host
    return target if "cpu" in target.keys else Target({"kind": "llvm"})


def with_llvm_opt_level(target: Target, level: int) -> Target:
    """The same processor, for which LLVM does as much for its code as ``level`` says, 0 to 3."""
    return Target({**json.loads(str(target)), "opt-level": level})


def what_is_elsewhere(target: Target) -> str:
    """What of a target this machine has not: a Vulkan device, by its name, or the processor of its
    host; "" where it has all, or the target names no device."""
    name = str(target.attrs.get("device_name", "")) if target.kind.name == "vulkan" else ""
    if name and all(device.name != name for device in _vulkan_devices()):
        return name
    machine = machine_of(target)
    return "" if machine == platform.machine() else f"a processor of {machine}"


def machine_of(target: Target) -> str:
    """The processor that a target's host code is for, as platform.machine() has it."""
    triple = str(host_of(target).attrs.get("mtriple", ""))
    return host_of_triple(triple) if triple else platform.machine()


def _config(text: str) -> dict[str, Any]:
    described = described_device(text)
    if described is not None:
        return described.target_config()
    if text.startswith("{"):
        try:
            return dict(json.loads(text))
        except json.JSONDecodeError as error:
            raise InputError(f"a target in JSON is needed, found {text!r}: {error}") from None
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(
            f"a target such as {EXAMPLES} is needed, found {text!r}: {error}"
        ) from None
    if not words:
        raise InputError(f"a target such as {EXAMPLES} is needed, found an empty string")
    kind = "llvm" if words[0] == "cpu" else words[0]
    return {"kind": kind, **_options(words[1:], text)}


def _options(words: list[str], text: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        match = re.fullmatch(r"--?([A-Za-z][\w.-]*)(?:=(.*))?", word)
        if match is None:
            raise InputError(
                f"an option such as -mcpu=native is needed in the target {text!r}, found {word!r}"
            )
        name, value = match[1], match[2] if match[2] is not None else next(rest, None)
        if value is None:
            raise InputError(f"the option {word} of the target {text!r} needs a value")
        options[name] = _option_value(name, value)
    return options


def _option_value(name: str, value: str) -> Any:
    if name in ("mattr", "keys", "libs"):
        return value.split(",")
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    return int(value) if re.fullmatch(r"-?\d+", value) else value


def _vulkan(config: dict[str, Any]) -> dict[str, Any]:
    # Code on the host only launches kernels: any processor of the kind will do.
    config["host"] = _host_config(config.get("host", {"kind": "llvm"}))
    if set(config) <= {"kind", "host"}:
        config["from_device"] = 0
    if "from_device" in config:
        wanted, found = config["from_device"], _vulkan_devices()
        if not isinstance(wanted, int) or not 0 <= wanted < len(found):
            have = f"{len(found)} found" if found else _vulkan_status()
            raise DeviceError(
                f"Vulkan device {wanted} is needed to read its limits: {have}; for a device that "
                f"is elsewhere name its description: {DESCRIBED}"
            )
        # What the device tells, and what a calibration measured on it.
        config.setdefault("keys", ["vulkan", "gpu", *described_here(found[wanted]).all_keys()])
    return config


def _host_config(host: Any) -> Any:
    """The host of a target as TVM takes it; words are one of ours."""
    return json.loads(str(parse_host(host))) if isinstance(host, str) else host


def _llvm(config: dict[str, Any]) -> dict[str, Any]:
    config = _checked(config)
    native = codegen.llvm_get_system_cpu()
    is_native = config.get("mcpu") == "native" or not {"mcpu", "mtriple", "mattr"} & set(config)
    if is_native:
        config["mcpu"] = native
    if "mcpu" in config and not codegen.llvm_is_valid_cpu(
        config["mcpu"], config.get("mtriple") or codegen.llvm_get_system_triple()
    ):
        raise InputError(
            f"a processor that LLVM knows is needed, found -mcpu={config['mcpu']}: "
            f"this one is {native}"
        )
    if is_native:
        model = Target({key: config[key] for key in ("kind", "mcpu", "mtriple") if key in config})
        if hidden := hidden_here(map(str, codegen.llvm_get_cpu_features(model))):
            config["mattr"] = [*(f"-{name}" for name in hidden), *config.get("mattr", ())]
    return config


def _checked(config: dict[str, Any]) -> dict[str, Any]:
    """A target of LLVM with what its triple takes for granted. Raises InputError for a processor
    that packages are not made for."""
    triple = config.get("mtriple")
    if triple is None:
        return config
    if host_of_triple(str(triple)) not in HOSTS:
        raise InputError(
            f"a processor of {', '.join(HOSTS)} is needed, as in -mtriple=aarch64-linux-gnu, found "
            f"'{triple}'"
        )
    return with_base(config)


def _vulkan_devices() -> list[Any]:
    from tvm_vision import vulkan

    return vulkan.devices()


def _device_is_named() -> bool:
    from tvm_vision import vulkan

    return bool(vulkan.device_options()["TVM_VISION_VULKAN_DEVICE"])


def _vulkan_status() -> str:
    from tvm_vision import vulkan

    return vulkan.status()
