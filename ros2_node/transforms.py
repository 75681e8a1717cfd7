"""Transforms between frames at a moment, of the messages of /tf and /tf_static. Without ROS.

tf2 does the same in C++; neither it nor its Python part is on PyPI, where bags are read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from tvm_vision.errors import InputError
from tvm_vision.models.space.poses import Pose

# Seconds of transforms that are kept, as tf2 keeps them.
KEPT = 10.0
# Seconds by which a moment may lie outside of what is known of a moving frame.
SLACK = 0.25
# Frames in a chain; more is a circle.
LONGEST = 100
Stamped = tuple[float, npt.NDArray[np.float64], npt.NDArray[np.float64]]


class Transforms:
    """A tree of frames. ``take`` and ``pose`` may be called from different threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._parents: dict[str, str] = {}
        self._moving: dict[str, list[Stamped]] = defaultdict(list)
        self._fixed: dict[str, Stamped] = {}

    def take(self, message: Any, *, fixed: bool) -> None:
        """A TFMessage of /tf, or of /tf_static: ``fixed``. What is no transform is left out."""
        with self._lock:
            for item in message.transforms:
                self._take(item, fixed)

    def _take(self, item: Any, fixed: bool) -> None:
        child, parent = _name(item.child_frame_id), _name(item.header.frame_id)
        place, turn = item.transform.translation, item.transform.rotation
        values = np.array([place.x, place.y, place.z]), np.array([turn.x, turn.y, turn.z, turn.w])
        length = float(np.linalg.norm(values[1]))
        if not (child and parent and np.isfinite(values[0]).all() and length > 1e-9):
            return
        stamp = item.header.stamp.sec + 1e-9 * item.header.stamp.nanosec
        entry = (stamp, values[0], values[1] / length)
        self._parents[child] = parent
        if fixed:
            self._fixed[child] = entry
            return
        entries = self._moving[child]
        if entries and stamp < entries[-1][0] - KEPT:
            entries.clear()  # a bag or a simulation that began anew
        at = bisect_left(entries, stamp, key=lambda kept: kept[0])
        entries.insert(at, entry)
        first = bisect_left(entries, entries[-1][0] - KEPT, key=lambda kept: kept[0])
        del entries[:first]

    def pose(self, target: str, source: str, seconds: float) -> Pose:
        """The frame ``source`` in ``target`` at a moment.

        Between two messages places change linearly, and rotations along the shortest arc (slerp;
        Shoemake 1985). Raises InputError where the frames are not joined, or nothing is known of
        that moment.
        """
        target, source = _name(target), _name(source)
        with self._lock:
            upwards = self._chain(source, seconds)
            downwards = self._chain(target, seconds)
        common = next((name for name in upwards if name in downwards), None)
        if common is None:
            known = ", ".join(sorted({*self._parents, *self._parents.values()})[:12]) or "none"
            raise InputError(
                f"a transform from {source} to {target} is needed on /tf, and the frames are not "
                f"joined; known are {known}"
            )
        return downwards[common].inverse @ upwards[common]

    def _chain(self, frame: str, seconds: float) -> dict[str, Pose]:
        """The frame in each of its ancestors, itself first."""
        found, pose = {frame: Pose.none()}, Pose.none()
        while frame in self._parents and len(found) < LONGEST:
            pose = self._at(frame, seconds) @ pose
            frame = self._parents[frame]
            if frame in found:
                raise InputError(f"a tree of frames is needed on /tf, and {frame} is in a circle")
            found[frame] = pose
        return found

    def _at(self, child: str, seconds: float) -> Pose:
        entries = self._moving.get(child)
        if not entries:
            _, place, turn = self._fixed[child]
            return Pose.from_quaternion(place, turn)
        first, last = entries[0][0], entries[-1][0]
        if not first - SLACK <= seconds <= last + SLACK:
            away = max(first - seconds, seconds - last)
            raise InputError(
                f"a transform of {child} at the time of the image is needed on /tf, and what there "
                f"is lies {away:.3f} s {'before' if seconds > last else 'after'} it: synchronise "
                "the clocks, or publish it more often"
            )
        at = bisect_left(entries, seconds, key=lambda kept: kept[0])
        if at == 0 or at == len(entries):
            _, place, turn = entries[min(at, len(entries) - 1)]
            return Pose.from_quaternion(place, turn)
        before, after = entries[at - 1], entries[at]
        share = (seconds - before[0]) / (after[0] - before[0])
        place = (1 - share) * before[1] + share * after[1]
        return Pose.from_quaternion(place, _slerp(before[2], after[2], share))


def _slerp(
    one: npt.NDArray[np.float64], other: npt.NDArray[np.float64], share: float
) -> npt.NDArray[np.float64]:
    cosine = float(one @ other)
    other, cosine = (-other, -cosine) if cosine < 0 else (other, cosine)
    angle = float(np.arccos(min(cosine, 1.0)))
    if angle < 1e-6:
        return one
    between: npt.NDArray[np.float64] = (
        np.sin((1 - share) * angle) * one + np.sin(share * angle) * other
    ) / np.sin(angle)
    return between


def _name(frame: str) -> str:
    # ROS 1 had them with a slash in front, and drivers still do.
    return frame.lstrip("/")
