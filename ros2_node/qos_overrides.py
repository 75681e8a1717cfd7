"""``qos_overrides`` as ROS has them: qualities of service by a file of parameters. Without ROS.

rclpy's own way keeps what an endpoint had at first, and would undo ``input_reliability`` later.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tvm_vision.errors import InputError

PREFIX = "qos_overrides."
# Policy -> its values; none: a whole number from 1.
POLICIES: dict[str, tuple[str, ...]] = {
    "history": ("keep_last", "keep_all"),
    "depth": (),
    "reliability": ("reliable", "best_effort"),
    "durability": ("volatile", "transient_local"),
}
MOST_DEPTH = 10_000
_NAME = re.compile(r"qos_overrides\.(/[\w/]+)\.(publisher|subscription)\.(\w+)")


def problem_in(values: Mapping[str, Any]) -> str:
    """Why the overrides among parameters cannot be taken, in one line; "" where they can."""
    for name, value in values.items():
        if not name.startswith(PREFIX):
            continue
        found = _NAME.fullmatch(name)
        if found is None:
            return (
                f"{name} must be qos_overrides./TOPIC.publisher.POLICY or ....subscription.POLICY, "
                "with the topic in full"
            )
        if problem := _problem(name, found[3], value):
            return problem
    return ""


def _problem(name: str, policy: str, value: Any) -> str:
    if policy not in POLICIES:
        return f"{name} must end in one of {', '.join(POLICIES)}"
    choices = POLICIES[policy]
    if choices:
        return "" if value in choices else (
            f"{name} must be one of {', '.join(choices)}, found {value!r}"
        )  # fmt: skip
    whole = type(value) is int and 1 <= value <= MOST_DEPTH
    return "" if whole else f"{name} must be an integer in 1 to {MOST_DEPTH}, found {value!r}"


def overrides_of(values: Mapping[str, Any], topic: str, entity: str) -> dict[str, Any]:
    """What parameters say of one endpoint, by policy.

    topic: in full. entity: "publisher" or "subscription". Raises InputError for what cannot be.
    """
    if problem := problem_in(values):
        raise InputError(problem)
    start = f"{PREFIX}{topic}.{entity}."
    return {name.removeprefix(start): v for name, v in values.items() if name.startswith(start)}


def endpoints_missing(
    values: Mapping[str, Any], publishers: Iterable[str], subscriptions: Iterable[str]
) -> list[str]:
    """What parameters override of endpoints that are not there, as "/TOPIC.publisher".

    publishers, subscriptions: the topics of those that are there, in full.
    """
    found = {f"{topic}.publisher" for topic in publishers}
    found |= {f"{topic}.subscription" for topic in subscriptions}
    given = {
        name.removeprefix(PREFIX).rpartition(".")[0] for name in values if name.startswith(PREFIX)
    }
    return sorted(given - found)
