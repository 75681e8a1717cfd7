"""A board's network, as seen from the machine that evaluates: in a process of its own, so that a
board that hangs takes nothing with it."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import cv2

from ..error_lines import last_line
from ..errors import DeviceError
from ..models.results import VisionResult
from ..models.vision_model import Image
from ..tuning.measure import MeasureProcess
from ..tuning.worker import Board, session
from .on_board import LOOK, OPEN, unpacked

# Seconds until a board counts as lost: for a package to be sent and loaded, for one image.
LOADING, LOOKING = 300.0, 60.0
# Of the process: its session, and the function that looks at images.
_HELD = ExitStack()
_LOOK: list[Any] = []


class LostBoard(Exception):
    """The connection broke, or nothing came back: the board's failure, not the package's."""


class BoardModel:
    """A package on a board, in the place of a ``VisionModel``. FACTS are its attributes."""

    produces: tuple[str, ...]
    name: str
    kind: str
    class_names: tuple[str, ...]
    segmentation_names: tuple[str, ...]
    device_description: str

    def __init__(self, process: MeasureProcess, board: Board, package: Path) -> None:
        """Raises DeviceError where the package cannot be loaded there, LostBoard."""
        self._process = process
        facts = json.loads(self._call(begin, board, str(package), timeout=LOADING))
        if "error" in facts:
            raise DeviceError(f"on board '{board.key}': {facts['error']}")
        for name, value in facts.items():
            setattr(self, name, tuple(value) if isinstance(value, list) else value)

    def __call__(self, image: Image) -> VisionResult:
        """The results for one frame, with times as the board took them. Raises LostBoard."""
        png = cv2.imencode(".png", image)[1].tobytes()
        content = self._call(frame, png, timeout=LOOKING)
        return unpacked(content, self.class_names, self.segmentation_names)

    def end(self) -> None:
        """Give the board back to the tracker."""
        self._call(finish, timeout=LOOKING)

    def _call(self, function: Any, *arguments: Any, timeout: float) -> Any:
        try:
            return self._process.call(function, *arguments, timeout=timeout)
        except TimeoutError:
            raise LostBoard(f"no answer in {timeout:g} s") from None
        except Exception as error:  # of the connection, or of the process
            raise LostBoard(last_line(error)) from None


def begin(board: Board, package: str) -> str:
    """In the process: a session with a board, the package on it; JSON of ``open_package``."""
    finish()
    remote = _HELD.enter_context(session(board))
    name = Path(package).name
    remote.upload(package)
    _LOOK.append(remote.get_function(LOOK))
    return str(remote.get_function(OPEN)(name))


def frame(png: bytes) -> bytes:
    """In the process: ``look`` on the board."""
    return bytes(_LOOK[0](bytearray(png)))


def finish() -> None:
    """In the process: end the session, with which the board is free."""
    _LOOK.clear()
    _HELD.close()
