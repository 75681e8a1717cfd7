"""An executor that outlives its device: what is lost is loaded anew, or on the CPU."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from .. import vulkan
from ..error_lines import last_line
from ..errors import DeviceError, DeviceLostError
from .graph_executor import GraphExecutor, Key, Value
from .recovery import Attempts, Recovery, Turn

LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class Parts:
    """What an executor is made of: mod.json, mod.so as it was loaded, the device, and what reads
    the weights, by name or as the content of mod.params."""

    graph_json: str
    library: Any
    device: Any
    weights: Callable[[], Any]


class RecoveringExecutor(GraphExecutor):
    """A graph executor for which a lost device is opened anew.

    ``run`` and ``frame`` with all inputs given run the frame again, and nobody notices but by
    the time it takes. Any other call raises DeviceLostError, whose frame is lost; the next one
    finds the network loaded anew, without inputs. DeviceLostError comes, too, while the device
    cannot be opened, and once ``Recovery`` allows no more.
    """

    def __init__(
        self, parts: Parts, recovery: Recovery, fallback: Callable[[], Parts] | None = None
    ) -> None:
        """parts: of the network. fallback: gives those of the one that runs if nothing helps."""
        self._parts = parts
        self._recovery = recovery
        self._fallback = fallback
        self._attempts = Attempts(recovery.rebuilds_per_minute)
        super().__init__(parts.graph_json, parts.library, parts.device)
        self._load()

    def _load(self) -> None:
        self._module["set_time_limit"](round(1e9 * self._recovery.frame_timeout))
        self.load_params(self._parts.weights())

    def run(self, **by_name: Value) -> None:
        """As of GraphExecutor; with all inputs given, a frame whose device is lost runs again."""
        if set(by_name) != set(self.input_names):
            super().run(**by_name)
        else:
            self._run_again_if_lost(lambda: super(RecoveringExecutor, self).run(**by_name))

    def frame(self, inputs: Mapping[Key, Value]) -> dict[str, np.ndarray]:
        """As of GraphExecutor; a frame whose device is lost runs again."""
        return self._run_again_if_lost(lambda: super(RecoveringExecutor, self).frame(inputs))

    def _run_again_if_lost(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except DeviceLostError:
            if self.losses.waiting:
                raise
            return work()

    def _invoke(self, name: str, *arguments: Any) -> Any:
        """Call a function of the native module; a device that is lost on the way is opened anew."""
        if self.losses.waiting:
            self._recover(self.losses.reason)
            # Nothing of a frame is lost: it begins here.
            if name in ("set_input", "write_input", "input_memory"):
                return super()._invoke(name, *arguments)
            raise DeviceLostError(f"{self.losses.describe()}; set the inputs of a frame anew")
        try:
            return super()._invoke(name, *arguments)
        except DeviceLostError as error:
            reason = last_line(error)
            self.losses = replace(self.losses, lost=self.losses.lost + 1, reason=reason)
            self._recover(reason)
            raise DeviceLostError(
                f"{reason}; {self.losses.describe().partition(':')[0]}: give the frame anew"
            ) from None

    def _recover(self, reason: str) -> None:
        """Load the network anew, or the fallback. Raises DeviceLostError where neither may be."""
        turn = self._attempts.turn() if not self.losses.on_fallback else Turn.SPENT
        # Its memory goes before the new one takes as much.
        self._close()
        self.losses = replace(self.losses, waiting=True)
        if turn is Turn.NOW:
            self._reopen(reason)
        elif turn is Turn.SPENT and self._fallback is not None:
            self._fall_back(reason, self._fallback)
        elif turn is Turn.SPENT:
            most = self._recovery.rebuilds_per_minute
            raise DeviceLostError(
                f"the device is lost for now, it was opened {most} times within a minute: {reason}"
            )
        else:
            raise DeviceLostError(f"the device is lost and opened anew in a moment: {reason}")

    def _reopen(self, reason: str) -> None:
        start = perf_counter()
        try:
            if self._parts.device.type == "vulkan":
                vulkan.open_device(self._parts.device.index)
            self._open(self._parts.graph_json, self._parts.library, self._parts.device)
            self._load()
            self.prepare()
        except DeviceError as error:
            self._close()
            raise DeviceLostError(
                f"the device was lost ({reason}), and cannot be opened anew: {last_line(error)}"
            ) from None
        seconds = perf_counter() - start
        rebuilt = self.losses.rebuilt + 1
        self.losses = replace(self.losses, rebuilt=rebuilt, seconds=seconds, waiting=False)
        LOGGER.warning("%s", self.losses.describe())

    def _fall_back(self, reason: str, fallback: Callable[[], Parts]) -> None:
        self._parts = fallback()
        self._open(self._parts.graph_json, self._parts.library, self._parts.device)
        self._load()
        self.prepare()
        self.losses = replace(self.losses, on_fallback=True, waiting=False)
        LOGGER.error("%s", self.losses.describe())
