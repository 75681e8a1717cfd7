"""Which network is in use, which one is being loaded, and which one was refused. Without ROS."""

from __future__ import annotations

from dataclasses import dataclass

from .model_loader import ModelRequest


@dataclass
class Changeover:
    """From one network to the next: a failure stands until what failed works, or is wished away.

    used: the network that runs; None: none is configured. loading: the one that takes its place.
    refused: why the one that the parameters named last is not in use. broken: why the one in use
    could not be loaded again. Both "" where nothing failed.
    """

    used: ModelRequest | None = None
    loading: ModelRequest | None = None
    refused: str = ""
    broken: str = ""

    @property
    def failure(self) -> str:
        """What failed last and was not made good since, in one line; "" for nothing."""
        return self.refused or self.broken

    def configured(self, request: ModelRequest) -> None:
        """It was loaded by a transition, which settles all that was before."""
        self.used, self.loading, self.refused, self.broken = request, None, "", ""

    def released(self) -> None:
        """There is no network any more."""
        self.used, self.loading, self.refused, self.broken = None, None, "", ""

    def wanted(self, request: ModelRequest) -> bool:
        """The parameters were set to it. Returns whether it has to be loaded."""
        # Who goes back to the network in use has seen that the other one was refused.
        self.refused = ""
        if request == (self.loading or self.used):
            return False
        self.loading = request
        return True

    def again(self) -> ModelRequest | None:
        """The network in use is to be loaded once more; None where a load is under way already."""
        if self.loading is not None:
            return None
        self.loading = self.used
        return self.used

    def ended(self, request: ModelRequest, problem: str = "") -> bool:
        """It was loaded, or not because of ``problem``. Returns whether that still counts."""
        if request != self.loading:
            return False
        self.loading = None
        if not problem:
            # Of another network that was refused nothing changes: only the device had failed.
            self.used, self.broken = request, ""
        elif request == self.used:
            self.broken = problem
        else:
            self.refused = problem
        return True
