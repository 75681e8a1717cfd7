"""The search for garbage is made seldom in a block, and as before behind it."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

from tvm_vision.collecting import SELDOM, collected_seldom


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(500, 5, 5)
    yield
    gc.set_threshold(*before)


def test_seldom_within_and_as_before_behind() -> None:
    with pytest.raises(ValueError), collected_seldom():
        assert gc.get_threshold() == SELDOM
        with collected_seldom():
            pass
        assert gc.get_threshold() == SELDOM
        raise ValueError
    assert gc.get_threshold() == (500, 5, 5)


def test_blocks_that_overlap_in_threads() -> None:
    """The one that began first ends first."""
    inside, ended = threading.Event(), threading.Event()

    def other() -> None:
        with collected_seldom():
            inside.set()
            assert ended.wait(60)

    thread = threading.Thread(target=other)
    with collected_seldom():
        thread.start()
        assert inside.wait(60)
    assert gc.get_threshold() == SELDOM
    ended.set()
    thread.join(60)
    assert gc.get_threshold() == (500, 5, 5)


def test_who_has_switched_it_off_has_it_off() -> None:
    gc.set_threshold(0, 5, 5)
    with collected_seldom():
        assert gc.get_threshold()[0] == 0
    assert gc.get_threshold() == (0, 5, 5)
