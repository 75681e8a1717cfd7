"""What happens to one frame: is it worth the time, decode, run the network, publish. Without ROS.

``Pipeline.process`` runs in the worker's thread; everything else may be called from others.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

from tvm_vision.errors import DeviceError, InputError
from tvm_vision.models.class_options import UNSAID, ClassOptions, ClassRules
from tvm_vision.models.results import VisionResult
from tvm_vision.models.thresholds import Thresholds

from .images import Image, UnknownEncodingError, any_image
from .reasons import one_line
from .settings import Settings
from .sharing import Turns
from .stamps import Stamps
from .statistics import (
    DONE,
    FAILED,
    LIMITED,
    STALE,
    STOPPED,
    UNHEARD,
    UNREADABLE,
    Statistics,
)
from .tracks import CameraTracks

# Frames arrive with some jitter: one that is early by this part of the period is on time.
JITTER = 0.1


class Sink(Protocol):
    """Where results go."""

    def wanted(self) -> bool:
        """Whether anybody listens to any result."""

    def publish(self, header: Any, image: Image, result: VisionResult, times: Times) -> None:
        """Publish what somebody listens to."""


class Log(Protocol):
    """A logger, of rclpy or another."""

    def info(self, message: str) -> Any: ...
    def warning(self, message: str) -> Any: ...
    def error(self, message: str) -> Any: ...


@dataclass(frozen=True)
class Times:
    """Milliseconds: age of the frame when its turn came, decoding it, and the network's stages."""

    age: float
    decode: float
    preprocess: float
    inference: float
    postprocess: float

    @property
    def processing(self) -> float:
        """From the message to the results."""
        return self.decode + self.preprocess + self.inference + self.postprocess


@dataclass(frozen=True)
class CameraFrame:
    """A message with an image. stamp, received: seconds of the node's clock, 0.0: no stamp."""

    message: Any
    stamp: float
    received: float


@dataclass(frozen=True)
class NetworkJob:
    """A network and where its results go; both change together."""

    model: Any
    sink: Sink


class Pipeline:
    """Runs the network in use over frames, one at a time."""

    def __init__(
        self,
        settings: Settings,
        statistics: Statistics,
        clock: Callable[[], float],
        log: Log,
        device_failed: Callable[[DeviceError], object],
        turns: Turns | None = None,
    ) -> None:
        """clock: seconds, that of the stamps. device_failed: told of errors of the device. turns:
        those of all that use the same network."""
        self.settings = settings
        self.class_options: dict[str, ClassOptions] = {}
        self.statistics = statistics
        self._clock = clock
        self._log = log
        self._device_failed = device_failed
        self._turns = turns or Turns()
        self._job: NetworkJob | None = None
        self.tracks = CameraTracks()
        self._applied: tuple[Any, ...] = ()
        self._due = float("-inf")
        self._stamps = Stamps(self._jumped)
        self._warned: set[str] = set()

    @property
    def job(self) -> NetworkJob | None:
        """The network and sink in use. Set, it counts from the next frame on."""
        return self._job

    @job.setter
    def job(self, job: NetworkJob | None) -> None:
        self._job = job

    def process(self, frame: CameraFrame) -> None:
        """Handle one frame; errors end in the log, once a kind. It is counted once, as what became
        of it, whatever happens."""
        outcome = FAILED
        try:
            outcome = self._outcome(frame)
        except Exception as error:
            self.failed(error)
        finally:
            if outcome != DONE:  # those were counted with their times
                self.statistics.count(outcome)

    def failed(self, error: Exception) -> None:
        """Something was raised that nobody expects: the frame is lost, not the node."""
        reason = one_line(error)
        self._warn_once(reason, f"a frame was lost: {reason}")

    def _outcome(self, frame: CameraFrame) -> str:
        job, settings = self._job, self.settings
        if job is None:
            return STOPPED
        now = self._clock()
        age = self._age(frame, now, settings.max_frame_age)
        if settings.max_frame_age and age > settings.max_frame_age:
            self._warn_once(
                "stale",
                f"an image was {age:.3f} s old and passed over, as all above max_frame_age "
                f"({settings.max_frame_age:g} s) are: see /diagnostics for how many",
            )
            return STALE
        if settings.lazy and not job.sink.wanted():
            return UNHEARD
        if not self._is_due(now, settings.max_rate):
            return LIMITED
        try:
            self._run(job, settings, frame, age)
        except InputError as error:
            self._warn_once(self._kind(error, frame), f"{error}; such images are passed over")
            return UNREADABLE
        except DeviceError as error:
            self.statistics.count("device errors")
            self._warn_once("device", f"a frame was lost with its device: {one_line(error)}")
            self._device_failed(error)
            return FAILED
        return DONE

    def _run(self, job: NetworkJob, settings: Settings, frame: CameraFrame, age: float) -> None:
        start = perf_counter()
        image = any_image(frame.message, settings.max_image_pixels)
        decode = 1e3 * (perf_counter() - start)
        with self._turns.take(self) as turn:
            # Waiting for other cameras makes a frame older, and is none of the network's stages.
            age += turn.waited
            if not turn.again:
                self._applied = ()
            self._apply_thresholds(job.model, settings)
            result = job.model(image)
        result = self.tracks.follow(job.model, result, settings, frame.stamp or frame.received)
        timing = result.timing
        times = Times(
            1e3 * age, decode, timing.preprocess_ms, timing.inference_ms, timing.postprocess_ms
        )
        job.sink.publish(frame.message.header, image, result, times)
        self.statistics.finished(timing.total_ms, 1e3 * age)

    def class_rules(self, model: Any) -> ClassRules | None:
        """What counts of each class, as the parameters say; None for a network without boxes."""
        network = getattr(model, "network", model)
        if not isinstance(network, Thresholds):
            return None
        return network.rules_for(_said(self.settings.confidence), self.class_options)

    def _apply_thresholds(self, model: Any, settings: Settings) -> None:
        """Give a detector what the parameters say, from the thread that uses it."""
        network = getattr(model, "network", model)
        if not isinstance(network, Thresholds):
            return
        values = (settings.confidence, settings.iou, settings.max_detections)
        # Weakly: a network that was released must not stay on its device.
        wanted = (weakref.ref(network), *values, self.class_options)
        if wanted == self._applied:
            return
        network.confidence = _said(settings.confidence)
        network.iou = _said(settings.iou)
        network.max_detections = settings.max_detections
        options = self.class_options
        # Set beside this thread: they may be those of the network that comes next.
        network.class_options = {k: v for k, v in options.items() if k in model.class_names}
        self._applied = wanted

    def _age(self, frame: CameraFrame, now: float, limit: float) -> float:
        """Seconds since the stamp; since the arrival where the stamp is of no use."""
        stamps = self._stamps
        age = stamps.age(frame.stamp, frame.received, now, limit)
        self.statistics.tell_clock(stamps.offset, stamps.problem)
        if stamps.problem:
            self._warn_once(_without_numbers(stamps.problem), stamps.problem)
        return age

    def _jumped(self, seconds: float) -> None:
        self.statistics.count("time jumps")
        self._warn_once(
            "jump",
            f"the stamps of the images went back by {seconds:.3f} s: results keep the stamps of "
            "their images",
        )

    def _is_due(self, now: float, max_rate: float) -> bool:
        # A clock at 0 stands still: nothing would ever be due.
        if not max_rate or not now:
            return True
        period = 1.0 / max_rate
        if now < self._due - JITTER * period and self._due - now <= 2 * period:
            return False
        # From where it was due, so that jitter does not add up; a pause is not made up for.
        self._due = max(self._due + period, now + period / 2)
        return True

    def _kind(self, error: InputError, frame: CameraFrame) -> str:
        if isinstance(error, UnknownEncodingError):
            return f"encoding {getattr(frame.message, 'encoding', '')}"
        return _without_numbers(str(error))

    def _warn_once(self, kind: str, message: str) -> None:
        if kind in self._warned or len(self._warned) > 100:
            return
        self._warned.add(kind)
        self._log.warning(message)

    def forget_warnings(self) -> None:
        """Warn again of what was warned of: another camera, or another run."""
        self._warned.clear()
        self._stamps.forget()


def _said(value: float) -> float | None:
    """A parameter's number; None for the one that leaves the choice to the package."""
    return None if value == UNSAID else value


def _without_numbers(problem: str) -> str:
    """The same for all of a kind, whatever the number of seconds, bytes or pixels."""
    return "".join(letter for letter in problem if not letter.isdigit())
