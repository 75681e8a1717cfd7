"""Tracking in the node and over bags: a tracker as the parameters want it, ids in messages.

Without ROS.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

import numpy as np

from tvm_vision.models.results import Detections, VisionResult, box_corners
from tvm_vision.models.tracking import Tracker, tracked, tracker_of

from .messages import Message
from .settings import Settings


class CameraTracks:
    """The tracker of one camera; ``follow`` for the thread with the results, ``reset`` for any."""

    def __init__(self) -> None:
        self._tracker: Tracker | None = None
        self._made_for: tuple[Any, ...] = ()
        self._reset = threading.Event()

    def reset(self) -> None:
        """Have the objects of the next frame be new."""
        self._reset.set()

    def follow(
        self, model: Any, result: VisionResult, settings: Settings, seconds: float
    ) -> VisionResult:
        """The result with ids where the parameters say so; ``seconds`` as in Tracker.

        Another network, or other parameters of tracking, begin anew. Raises InputError as Tracker.
        """
        if not settings.tracking or result.detections is None:
            self._tracker = None
            return result
        # Weakly: a network that was released must not stay on its device.
        wanted = (weakref.ref(model), settings.tracking_start, settings.tracking_memory)
        if self._tracker is None or wanted != self._made_for:
            self._tracker = tracker_of(
                model, start=settings.tracking_start, memory=settings.tracking_memory
            )
            self._made_for = wanted
        if self._reset.is_set():
            self._reset.clear()
            self._tracker.reset()
        return tracked(result, self._tracker, seconds)


class MessageTracks:
    """Ids for messages of detections that are there already: those of a bag, in their order."""

    def __init__(self, model: Any, memory: float) -> None:
        """Raises InputError as ``tracker_of`` does."""
        self._tracker = tracker_of(model, memory=memory)
        self._names = {name: index for index, name in enumerate(model.class_names)}

    def set_ids(self, message: Message) -> Message:
        """The Detection2DArray with ``id`` set in each of its detections."""
        stamp = message.header.stamp
        found = self._detections(message)
        named = self._tracker(found, stamp.sec + 1e-9 * stamp.nanosec).track_names()
        for detection, name in zip(message.detections, named, strict=True):
            detection.id = name
        return message

    def _detections(self, message: Message) -> Detections:
        rows = [
            (b.center.position.x, b.center.position.y, b.size_x, b.size_y, b.center.theta)
            for b in (item.bbox for item in message.detections)
        ]
        corners = box_corners(np.array(rows, np.float32).reshape(-1, 5))
        edges = np.concatenate((corners.min(axis=1), corners.max(axis=1)), axis=1)
        hypotheses = [item.results[0].hypothesis for item in message.detections]
        return Detections(
            edges,
            np.array([item.score for item in hypotheses], np.float32),
            np.array([self._names[item.class_id] for item in hypotheses], np.int32),
            tuple(self._names),
        )
