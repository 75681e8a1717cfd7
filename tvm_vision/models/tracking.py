"""Ids of objects that stay from frame to frame: ByteTrack over the boxes of each frame.

The work is edgefirst-tracker's, which is installed beside (numpy alone, without PyTorch): Zhang et
al., "ByteTrack: Multi-Object Tracking by Associating Every Detection Box", 2022.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..error_lines import last_line
from ..errors import InputError
from .results import Detections, VisionResult

if TYPE_CHECKING:
    from ..runtime.sources import Frame
    from .vision_model import VisionModel

PACKAGE = "edgefirst-tracker"
# Of objects that move by their own size between two frames boxes hardly meet.
LEAST_IOU = 0.05
# By how much a track follows what was seen last. Of 170 drawn objects that cross, ids changed 1923
# times with the package's own 0.25, and 171 with this; 180 times with the package trackers.
FOLLOW = 0.85
#: Seconds for which an object that is not seen keeps its id.
MEMORY = 1.0
# Frames a second of what does not say.
USUAL_RATE = 30.0


def need_tracker() -> Any:
    """The package's module. Raises InputError, with what to install, where it is not there."""
    try:
        return import_module("edgefirst.tracker")
    except ImportError as error:
        raise InputError(
            f"tracking needs the package {PACKAGE}, which cannot be imported "
            f"({last_line(error)}): pip install 'tvm_vision[track]'"
        ) from None


class Tracker:
    """Gives the objects of one camera ids, from frame to frame, in one thread at a time.

    Objects of one group of classes share their tracks: a robot whose team is seen as another for a
    moment keeps its id. An id is a number from 1 on and is never given twice, not after ``reset``
    either.
    """

    def __init__(
        self, groups: Sequence[int], *, start: float = 0.0, memory: float = MEMORY
    ) -> None:
        """groups: for each class the number of its group. start: objects get a new id with a score
        of at least this, 0 to 1; those below keep an id, or have none. memory: see MEMORY.

        Raises InputError where the package for it is not installed, or for other values.
        """
        if not 0.0 <= start <= 1.0:
            raise InputError(f"a score to start tracks from 0 to 1 is needed, found {start}")
        if not 0.0 < memory <= 60.0:
            raise InputError(f"a memory for tracks up to 60 seconds is needed, found {memory}")
        self._make = need_tracker().ByteTrack
        self._groups = np.asarray(groups, np.int64)
        self._start, self._memory = start, memory
        self._given = 0
        self.reset()

    def reset(self) -> None:
        """Forget all objects: what is seen next is new."""
        self._trackers: dict[int, Any] = {}
        self._numbers: dict[str, int] = {}
        self._last = -np.inf

    def __call__(self, found: Detections, seconds: float) -> Detections:
        """The same objects with their ``track_ids``.

        seconds: when the frame was taken, by any clock. Where it goes back, or jumps by more than
        the memory, all objects are new.
        """
        if not 0.0 <= seconds - self._last <= self._memory:
            self.reset()
        self._last = seconds
        ids = np.zeros(len(found), np.int64)
        groups = self._groups[found.class_ids]
        for group in sorted({*self._trackers, *groups.tolist()}):
            some = np.flatnonzero(groups == group)
            ids[some] = self._follow(group, found.boxes[some], found.scores[some], seconds)
        return replace(found, track_ids=ids)

    def _follow(
        self,
        group: int,
        boxes: npt.NDArray[np.float32],
        scores: npt.NDArray[np.float32],
        seconds: float,
    ) -> list[int]:
        """Ids of the objects of one group, 0 for none."""
        tracker = self._trackers.get(group)
        if tracker is None:
            tracker = self._trackers[group] = self._make(
                high_conf=self._start,
                iou=LEAST_IOU,
                update=FOLLOW,
                lifespan_ns=round(1e9 * self._memory),
            )
        # It takes labels of this type alone, and they count for nothing.
        labels = np.zeros(len(scores), np.uintp)
        tracks = tracker.update(boxes, scores, labels, round(1e9 * max(seconds, 0.0)))
        ids = [0 if track is None else self._number(track.uuid) for track in tracks]
        self._forget()
        return ids

    def _number(self, name: str) -> int:
        if name not in self._numbers:
            self._given += 1
            self._numbers[name] = self._given
        return self._numbers[name]

    def _forget(self) -> None:
        """Let go of the names of tracks that are over, now and then."""
        if len(self._numbers) < 1000:
            return
        trackers = self._trackers.values()
        active = {t.info.uuid for tracker in trackers for t in tracker.get_active_tracks()}
        if len(active) < len(self._numbers) // 2:
            self._numbers = {name: i for name, i in self._numbers.items() if name in active}


def class_groups(model: VisionModel | Any) -> list[int]:
    """For each class of a network the number of its group: classes whose boxes suppress each other
    are one thing to a tracker, too."""
    network = getattr(model, "network", model)
    groups = getattr(network, "class_groups", None)
    return list(range(len(model.class_names))) if groups is None else [int(g) for g in groups]


def tracker_of(model: VisionModel | Any, **options: Any) -> Tracker:
    """A tracker for a network's objects. options: of Tracker.

    Raises InputError as it does, and for a network that finds no boxes.
    """
    if "detections" not in model.produces:
        raise InputError(f"tracking needs a network that finds boxes, not {model.name}")
    return Tracker(class_groups(model), **options)


class FrameTracker:
    """A tracker for each video or camera among frames of several sources."""

    def __init__(self, model: VisionModel, **options: Any) -> None:
        """options, and what is raised: see ``tracker_of``."""
        self._tracker = tracker_of(model, **options)
        self._stream: str | None = None
        self._count = 0

    def __call__(self, frame: Frame, result: VisionResult) -> VisionResult:
        """The result with ids. A stream has as many frames a second as it says, or 30; images that
        are no stream are taken for one."""
        if frame.stream != self._stream:
            self._tracker.reset()
            self._stream, self._count = frame.stream, 0
        seconds = self._count / (frame.rate or USUAL_RATE)
        self._count += 1
        return tracked(result, self._tracker, seconds)


def tracked(result: VisionResult, tracker: Tracker, seconds: float) -> VisionResult:
    """A result with ids, where it has objects; ``seconds`` as in Tracker."""
    if result.detections is None:
        return result
    return replace(result, detections=tracker(result.detections, seconds))
