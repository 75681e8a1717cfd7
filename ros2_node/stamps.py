"""How old an image is, whatever clock its stamp is of. Without ROS."""

from __future__ import annotations

from collections.abc import Callable

# By how much the clocks of two synchronised machines may differ.
CLOCK_TOLERANCE_SECONDS = 0.1
# A stamp that differs from the node's clock by more is one of another clock, whatever is allowed
# and whatever was right before.
OTHER_CLOCK_SECONDS = 3600.0
# Where stamps were right before: old ones are a backlog for so long, then those of another clock.
BACKLOG_SECONDS = 2.0


class Stamps:
    """Tells old images from stamps of another clock, such as those of a bag.

    An image is old by its stamp while younger ones come, too. Where all are old, nothing would be
    gained by waiting for a better one: then ages count from the arrival, and ``problem`` says so.
    offset: by how many seconds the stamps are behind the node's clock then, else 0.
    """

    def __init__(self, jumped: Callable[[float], object]) -> None:
        """jumped: told by how many seconds the stamps went back."""
        self._jumped = jumped
        self.forget()

    def forget(self) -> None:
        """Begin anew: another camera, or another run."""
        self.offset = 0.0
        self.problem = ""
        self._last_stamp = 0.0
        self._last_received = 0.0
        self._agreed = False
        self._old_since: float | None = None

    def age(self, stamp: float, received: float, now: float, limit: float) -> float:
        """Seconds since the stamp, or since the arrival where the stamp is of no use.

        stamp: 0.0 for none. limit: what is old, 0.0: nothing is. All in seconds, the first three of
        the node's clock.
        """
        limit = limit or OTHER_CLOCK_SECONDS
        self._notice_jumps(stamp, received, limit)
        delay = received - stamp
        if stamp and -CLOCK_TOLERANCE_SECONDS <= delay <= limit:
            self._agreed, self._old_since = True, None
            self.offset, self.problem = 0.0, ""
            return max(now - stamp, 0.0)
        if stamp and self._is_backlog(delay, received):
            return now - stamp
        self._agreed = False
        self.offset = delay if stamp else 0.0
        self.problem = _problem(stamp, delay, now, limit)
        return max(now - received, 0.0)

    def _notice_jumps(self, stamp: float, received: float, limit: float) -> None:
        back = self._last_stamp - stamp if stamp and self._last_stamp else 0.0
        if back > 0:
            self._jumped(back)
        if back > limit or received < self._last_received:
            # Another round of a bag or a simulation: no backlog goes back.
            self._agreed = False
        self._last_stamp, self._last_received = stamp, received

    def _is_backlog(self, delay: float, received: float) -> bool:
        # Nobody keeps images for so long: one of the clocks was set.
        if not (self._agreed and 0 <= delay <= OTHER_CLOCK_SECONDS):
            return False
        if self._old_since is None:
            self._old_since = received
        return received - self._old_since < BACKLOG_SECONDS


def _problem(stamp: float, delay: float, now: float, limit: float) -> str:
    counted = "their age counts from their arrival"
    if not now:
        return (
            "this node's clock stands at 0, for use_sim_time is set and nothing comes on /clock: "
            "play the bag with --clock, or start the simulation"
        )
    if not stamp:
        if now <= limit:
            return ""  # a simulation begins with it
        return (
            f"the images have no stamp (it is 0), and so have the results; {counted}: stamp them "
            "where they are made"
        )
    direction = "behind" if delay > 0 else "ahead of"
    return (
        f"the stamps of the images are {abs(delay):.1f} s {direction} this node's clock; "
        f"{counted}: synchronise the clocks, or, for a bag or a simulation, set use_sim_time and "
        "have a /clock"
    )
