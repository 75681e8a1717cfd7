"""Lives through a network's life again and again while memory is refused: see test_memory.py.

Arguments: the folder of ``faults.write_to_lose``; which network of it; and, once or more often, the
first request for memory that is refused, the last that may be, and by how many each lies behind the
one before, as "1:180:8". Preloaded is failing_new.cc. Prints a line of JSON before each life: what
is refused, one request or all from it on; and one behind it: what each step came to, and each of a
life after it, in which nothing is refused.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import tvm_vision.vulkan as vulkan
from support.failing_new import FOREVER, FailingNew
from support.lives import NetworkLife, Steps


class AnyLife(NetworkLife):
    """That of a network on any device."""

    def __init__(self, folder: str, package: str) -> None:
        super().__init__(folder)
        self._package = f"{folder}/{package}"

    def steps(self) -> Steps:
        """Without a device there are no copies to it."""
        steps = super().steps()
        if self._package.endswith("cpu.tar"):
            del steps["copy"]
        return steps


def tried(life: AnyLife, failing: FailingNew, first: int, last: int) -> dict[str, Any]:
    """What became of a life, and of the one after it."""
    failing.refuse(first, last)
    met = life.live(life.steps())
    refused = failing.end()
    after = life.live(life.short_steps())
    return {"met": met, "after": after, "refused": refused, "said": vulkan.validation_messages()}


def main() -> None:
    folder, package, *stretches = sys.argv[1:]
    life, failing = AnyLife(folder, package), FailingNew()
    for _ in range(2):  # what is made once in a process is made
        first = life.live(life.steps())
        assert set(first.values()) == {"right"}, first
    failing.refuse(FOREVER, FOREVER)
    life.live(life.steps())
    calls = failing.calls()
    failing.end()
    for begin, end, step in (map(int, stretch.split(":")) for stretch in stretches):
        for number in range(begin, min(calls, end) + 1, step):
            for last in (number, FOREVER):
                plan = {"first": number, "last": last, "of": calls}
                print(json.dumps(plan), flush=True)
                print(json.dumps(tried(life, failing, number, last)), flush=True)


main()
