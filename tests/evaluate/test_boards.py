"""Packages on boards, of which some are lost; the boards are stand-ins.

tests/tuning/test_rpc.py has real ones.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tvm_vision.errors import DeviceError, InputError
from tvm_vision.evaluate import boards as module
from tvm_vision.evaluate.board_session import LostBoard
from tvm_vision.evaluate.boards import Boards
from tvm_vision.evaluate.on_board import packed, unpacked
from tvm_vision.models.results import (
    Classification,
    Detections,
    SegmentationMask,
    Timing,
    VisionResult,
)


class Field:
    """As many boards as it is told, the packages that bring boards down, and what was begun."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, count: int, *deadly: str) -> None:
        self.said: list[str] = []
        self.begun: list[str] = []
        self._deadly = list(deadly)

        class Model:
            def __init__(model, process: object, board: object, package: Path) -> None:
                self.begun.append(package.name)
                if package.name in self._deadly:
                    self._deadly.remove(package.name)
                    raise LostBoard("no answer in 60 s")

            def end(model) -> None:
                pass

        class Process:
            def __init__(process, folder: Path) -> None:
                pass

            def close(process) -> None:
                pass

        monkeypatch.setattr(module, "BoardModel", Model)
        monkeypatch.setattr(module, "MeasureProcess", Process)
        monkeypatch.setattr(module, "count_boards", lambda *where: count)

    def boards(self) -> Boards:
        return Boards(("host", 1, "nuc"), 10, self.said.append)


def one(model: Any) -> dict[str, Any]:
    return {"done": True}


@pytest.mark.parametrize("count", [1, 2, 3])
def test_work_of_a_lost_board_is_done_by_another(monkeypatch, count) -> None:
    field = Field(monkeypatch, count, "a")
    with field.boards() as boards:
        results = [boards.submit(name, Path(name), one) for name in "abcd"]
        assert [result.result(5) for result in results] == [{"done": True}] * 4
    assert field.said == [
        "a board 'nuc' was lost during a, and it begins again on another (no answer in 60 s)"
    ]
    assert sorted(field.begun) == ["a", *"abcd"]


def test_what_loses_every_board_is_given_up_and_the_rest_is_done(monkeypatch) -> None:
    field = Field(monkeypatch, 2, "a", "a", "a")
    with field.boards() as boards:
        bad, good = (boards.submit(name, Path(name), one) for name in "ab")
        with pytest.raises(DeviceError, match="3 were lost during it"):
            bad.result(5)
        assert good.result(5) == {"done": True}
    assert len(field.said) == 3 and "given up" in field.said[-1]


def test_a_fault_of_the_package_costs_no_board(monkeypatch) -> None:
    def wrong(model: Any) -> dict[str, Any]:
        raise InputError("another kind")

    field = Field(monkeypatch, 1)
    with field.boards() as boards:
        first, second = boards.submit("a", Path("a"), wrong), boards.submit("b", Path("b"), one)
        with pytest.raises(InputError, match="another kind"):
            first.result(5)
        assert second.result(5) == {"done": True} and field.said == []


def test_all_boards_work_at_once(monkeypatch) -> None:
    meeting = threading.Barrier(3)

    def together(model: Any) -> dict[str, Any]:
        meeting.wait(5)
        return {"done": True}

    with Field(monkeypatch, 3).boards() as boards:
        results = [boards.submit(name, Path(name), together) for name in "abc"]
        assert [result.result(5) for result in results] == [{"done": True}] * 3


@pytest.mark.parametrize(
    "result",
    [
        VisionResult(
            Timing(1, 2, 3), classification=Classification((2, 0), ("b", "a"), (0.7, 0.25))
        ),
        VisionResult(Timing(0.5, 2.25, 3), Detections.none(("a", "b"))),
        VisionResult(
            Timing(1, 2, 3),
            Detections(
                np.array([[1, 2, 3.5, 4]], np.float32),
                np.array([0.3], np.float32),
                np.array([1], np.int32),
                ("a", "b"),
            ),
            SegmentationMask(np.eye(3, dtype=np.uint8), ("x", "y")),
        ),
    ],
)
def test_results_come_back_as_they_were(result: VisionResult) -> None:
    again = unpacked(packed(result), ("a", "b"), ("x", "y"))
    assert again.timing == result.timing and again.classification == result.classification
    if result.detections is not None:
        assert again.detections is not None and again.detections.class_names == ("a", "b")
        for name in ("boxes", "scores", "class_ids"):
            have, want = getattr(again.detections, name), getattr(result.detections, name)
            assert have.dtype == want.dtype and np.array_equal(have, want)
    if result.segmentation is not None:
        assert again.segmentation is not None
        assert np.array_equal(again.segmentation.mask, result.segmentation.mask)
