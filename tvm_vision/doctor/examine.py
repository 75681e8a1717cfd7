"""All checks, one after the other, each apart from the others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial

from ..error_lines import last_line
from .child import PATIENCE, ask
from .driver_files import VARIABLES, check_driver_files, driver_files
from .finding import FAIL, Finding, Machine
from .gpus import check_groups, check_nodes
from .installation import (
    check_caches,
    check_compiler,
    check_native,
    check_pins,
    check_python,
    check_ros,
)
from .memory import check_memory
from .power import check_gpu_clock, check_power, check_processor_clock, check_temperature

Check = Callable[[Machine], Iterator[Finding]]
REPORT = "report this with the output of tvm-vision doctor --json"


def examine(machine: Machine, patience: float = PATIENCE) -> Iterator[Finding]:
    """What all checks find, as they find it.

    patience: seconds that a child, which calls drivers, may take. Nothing is raised: a check that
    itself fails is a finding.
    """
    for name, check in CHECKS:
        yield from _apart(name, check, machine)
    yield from _apart("driver files", partial(_drivers, patience=patience), machine)
    yield from _apart("self-test", partial(_self_test, patience=patience), machine)


def _apart(name: str, check: Check, machine: Machine) -> Iterator[Finding]:
    """What a check finds; what it raises is a finding, too."""
    try:
        yield from check(machine)
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        words = f"the check needs the package {package}, which is not there"
        yield Finding(name, FAIL, words, f"{sys.executable} -m pip install {package}")
    except Exception as error:  # whatever a machine in disorder makes of the libraries below
        words = f"the check itself failed: {type(error).__name__}: {last_line(error)}"
        yield Finding(name, FAIL, words, REPORT)


def _drivers(machine: Machine, patience: float) -> Iterator[Finding]:
    """Driver files, after a child has loaded their libraries; one that ends it is left out, and
    the others are tried by the next child."""
    _, files = driver_files(machine)
    left = [file.library for file in files if file.library]
    faults: dict[str, str] = {}
    while left:
        told = ask(machine, "libraries", left, patience)
        faults.update({said["library"]: said["fault"] for said in told.said})
        if told.end:
            if told.step not in left:
                raise RuntimeError(told.end)
            faults[told.step] = f"names a library that cannot be loaded: {told.end}"
        left = [library for library in left if library not in faults]
    yield from check_driver_files(machine, faults)


def _self_test(machine: Machine, patience: float) -> Iterator[Finding]:
    told = ask(machine, "self-test", (), patience)
    for said in told.said:
        yield Finding(**said)
    if told.end:
        named = next((name for name in VARIABLES if machine.environment.get(name)), VARIABLES[0])
        remedy = f"name the drivers one by one by {named} to find the one that is damaged"
        if told.step in ("", "backend"):
            remedy = "pip install --force-reinstall tvm_vision and its packages (see above)"
        yield Finding(told.step or "self-test", FAIL, f"{told.end}, in this step", remedy)


CHECKS: tuple[tuple[str, Check], ...] = (
    ("python", check_python),
    ("packages", check_pins),
    ("native library", check_native),
    ("compiler", check_compiler),
    ("cache", check_caches),
    ("ros", check_ros),
    ("memory", check_memory),
    ("power", check_power),
    ("processor clock", check_processor_clock),
    ("GPU clock", check_gpu_clock),
    ("temperature", check_temperature),
    ("device nodes", check_nodes),
    ("groups", check_groups),
)
