"""What /diagnostics says: from numbers and facts to levels and words. Without ROS."""

from __future__ import annotations

from dataclasses import dataclass, field

from tvm_vision.runtime.recovery import Losses

from . import statistics as frames
from .statistics import OUTCOMES, Snapshot

OK, WARN, ERROR, STALE_LEVEL = 0, 1, 2, 3
# Above this part of the images that were sent, losses are a fault and no accident.
MOST_LOST = 0.2
# What became of images when none got through -> what to do.
REMEDIES = {
    frames.STALE: "raise max_frame_age, or find what delays them",
    frames.LIMITED: "raise max_rate",
    frames.UNREADABLE: "the log says what is wrong with them",
    frames.FAILED: "the log says why",
    frames.DROPPED: "one frame takes the network very long",
    frames.UNHEARD: "subscribe to a result, or set lazy to false",
    frames.STOPPED: "activate the node",
}


@dataclass(frozen=True)
class Status:
    """One line of /diagnostics, as diagnostic_msgs/DiagnosticStatus has it."""

    name: str
    level: int
    message: str
    hardware_id: str = ""
    values: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelFacts:
    """The network in use.

    note: where it was made for another device, what that means and what to do, else "". failure:
    why the last change of it did not work, else "". losses: what became of its device.
    """

    path: str = ""
    name: str = ""
    checksum: str = ""
    device: str = ""
    device_type: str = ""
    note: str = ""
    failure: str = ""
    losses: Losses = field(default_factory=Losses)


@dataclass(frozen=True)
class Conditions:
    """What the node is meant to do now, so that silence can be told from a fault.

    waiting_since: seconds since it subscribed, None while it does not listen to the camera.
    idle: words for why it does not, "" while it does. fault: why it could not, which is an error.
    stall_timeout: in seconds. silence: why no image comes, with what to do, where none does.
    room: what to do where images are lost on the way.
    """

    state: str
    idle: str = ""
    waiting_since: float | None = None
    stall_timeout: float = 2.0
    topic: str = ""
    fault: str = ""
    silence: str = ""
    room: str = ""


def statuses(node: str, model: ModelFacts, numbers: Snapshot, now: Conditions) -> list[Status]:
    """The node's lines: its frames, and its network with the device."""
    return [
        frames_status(f"{node}: frames", model.device, numbers, now),
        network_status(f"{node}: network", model, numbers),
    ]


def is_stalled(silence: float | None, now: Conditions) -> bool:
    """Whether the camera has been silent for longer than it may.

    silence: seconds since the last image, None before the first.
    """
    if now.waiting_since is None:
        return False
    quiet = now.waiting_since if silence is None else min(silence, now.waiting_since)
    return quiet > now.stall_timeout


def frames_status(name: str, device: str, numbers: Snapshot, now: Conditions) -> Status:
    """Rates, counts and latencies; a WARN while the camera is silent or nothing gets through."""
    values: dict[str, object] = {
        "state": now.state,
        "image topic": now.topic,
        "rate in [Hz]": f"{numbers.rate_in:.1f}",
        "rate out [Hz]": f"{numbers.rate_out:.1f}",
        "received": numbers.counts.get("received", 0),
        # What was received is the sum of all outcomes and of those in hand.
        **{outcome: numbers.counts.get(outcome, 0) for outcome in OUTCOMES},
        "in hand": numbers.in_hand,
        frames.LOST: numbers.counts.get(frames.LOST, 0),
        "time jumps": numbers.counts.get("time jumps", 0),
        "clock offset [s]": f"{numbers.clock_offset:.3f}",
    }
    for share, milliseconds in numbers.latency.items():
        values[f"latency p{share} [ms]"] = f"{milliseconds:.2f}"
    for share, milliseconds in numbers.age.items():
        values[f"age p{share} [ms]"] = f"{milliseconds:.2f}"
    level, message = _frames_message(numbers, now)
    return Status(name, level, message, device, values)


def _frames_message(numbers: Snapshot, now: Conditions) -> tuple[int, str]:
    if now.fault:
        return ERROR, now.fault
    if now.idle:
        return OK, now.idle
    if is_stalled(numbers.silence, now):
        return WARN, f"no image on {now.topic} for {now.stall_timeout:g} s: {now.silence}"
    rate = f"{numbers.rate_out:.1f} Hz"
    if numbers.rate_in > 0 and numbers.rate_out == 0 and numbers.silence is not None:
        return WARN, _none_through(numbers)
    problems = [numbers.clock_problem] if numbers.clock_problem else []
    if numbers.rate_lost > MOST_LOST * (numbers.rate_in + numbers.rate_lost):
        words = f"{numbers.rate_lost:.1f} images per second are lost on the way"
        problems.append(f"{words}: {now.room}")
    return (WARN, f"{rate}, and {', and '.join(problems)}") if problems else (OK, rate)


def _none_through(numbers: Snapshot) -> str:
    most = max(REMEDIES, key=lambda outcome: numbers.lately.get(outcome, 0))
    if not numbers.lately.get(most, 0):
        return "images come in, but none gets through: see the counts"
    return f"images come in, but none gets through, most are {most}: {REMEDIES[most]}"


def network_status(name: str, model: ModelFacts, numbers: Snapshot) -> Status:
    """Package and device; another device than it was made for and a CPU are a WARN, device errors
    an ERROR."""
    errors = numbers.counts.get("device errors", 0)
    values: dict[str, object] = {
        "package": model.name,
        "path": model.path,
        "sha256": model.checksum,
        "device": model.device,
        "device type": model.device_type,
        "device errors": errors,
        "device lost": model.losses.lost,
        "device rebuilt": model.losses.rebuilt,
    }
    if model.note:
        values["note"] = model.note
    if model.failure:
        values["last failure"] = model.failure
    if not model.name:
        level, message = (ERROR, model.failure) if model.failure else (OK, "no network loaded")
    elif model.losses.waiting:
        level, message = ERROR, f"{model.name}: {model.losses.describe()}"
    elif errors:
        level, message = ERROR, f"{errors} errors of the device, see the log"
    elif model.failure:
        level, message = WARN, f"still {model.name}, for the new network failed: {model.failure}"
    elif model.losses.lost:
        level, message = WARN, f"{model.name} on {model.device}: {model.losses.describe()}"
    elif model.device_type == "cpu":
        level, message = WARN, f"{model.name} runs on a CPU: {model.device}"
    elif model.note:
        level, message = WARN, f"{model.name}: {model.note}"
    else:
        level, message = OK, f"{model.name} on {model.device}"
    return Status(name, level, message, model.device, values)
