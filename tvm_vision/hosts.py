"""Processors that packages are made for, as LLVM has to know them."""

from __future__ import annotations

from typing import Any

# What Debian and Ubuntu take for granted of a processor where LLVM takes less: on RISC-V, floats in
# registers, in code and in calls.
_BASE: dict[str, dict[str, Any]] = {
    "x86_64": {},
    "aarch64": {},
    "riscv64": {"mcpu": "generic-rv64", "mattr": ["+m", "+a", "+f", "+d", "+c"], "mabi": "lp64d"},
}
HOSTS = tuple(_BASE)
_OTHER_NAMES = {"amd64": "x86_64", "arm64": "aarch64"}


def host_of_triple(triple: str) -> str:
    """The processor of a triple such as aarch64-linux-gnu, or of its first part alone, as
    platform.machine() has it; what is none of HOSTS comes back as it is written."""
    name = triple.partition("-")[0].lower()
    return _OTHER_NAMES.get(name, name)


def host_config(host: str) -> dict[str, Any]:
    """What ``tvm.target.Target`` takes for any processor of a kind, one of HOSTS."""
    return with_base({"kind": "llvm", "mtriple": f"{host}-linux-gnu"})


def with_base(config: dict[str, Any]) -> dict[str, Any]:
    """A target of LLVM, which has a triple, with what its system takes for granted."""
    name, dash, rest = config["mtriple"].partition("-")
    host = host_of_triple(name)
    named = "mcpu" in config or "mattr" in config
    base = {key: value for key, value in _BASE.get(host, {}).items() if key == "mabi" or not named}
    # TVM knows processors by the name that we take.
    return {**base, **config, "mtriple": host + dash + rest}
