"""The child's program, whose arguments are PIPE STEPS ROOT ..., see child.py.

Each step says beforehand that it begins, so that the parent knows where the process ended.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from ..error_lines import last_line
from .finding import FAIL, WARN, Finding, Machine, worst
from .self_test import MAKES_NETWORK, STEPS

# What dlopen says of libraries for another processor, which the loader passes over, too.
OTHER_PROCESSOR = "wrong ELF class"


def libraries(pipe: int, paths: list[str]) -> None:
    """Load each driver's library; say of each what is wrong with it."""
    for path in paths:
        say(pipe, {"begins": path})
        fault = ""
        try:
            ctypes.CDLL(path)
        except OSError as error:
            fault = f"names a library that cannot be loaded: {last_line(error)}"
            if OTHER_PROCESSOR in fault:
                fault = ""
        say(pipe, {"library": path, "fault": fault})


def self_test(pipe: int, machine: Machine) -> None:
    """All steps in order, up to the first without which the next ones mean nothing."""
    for name, step in STEPS:
        say(pipe, {"begins": name})
        findings = list(found_by(name, step(machine)))
        for finding in findings:
            say(pipe, finding.as_json())
        state = worst(findings)
        if state == FAIL or (state == WARN and name == MAKES_NETWORK):
            return


def found_by(name: str, findings: Iterator[Finding]) -> Iterator[Finding]:
    """What a step finds; an exception is its last finding."""
    try:
        yield from findings
    except Exception as error:  # a broken installation raises every kind there is
        yield Finding.of_message(name, FAIL, last_line(error))


def say(pipe: int, line: dict[str, str]) -> None:
    """One line for the parent."""
    os.write(pipe, json.dumps(line).encode() + b"\n")


def main() -> None:
    """What the parent asked for."""
    pipe, steps, root, *arguments = sys.argv[1:]
    if steps == "libraries":
        libraries(int(pipe), arguments)
    else:
        self_test(int(pipe), Machine(root=Path(root)))
