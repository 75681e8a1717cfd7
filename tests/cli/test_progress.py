"""The sign of life: on a terminal, after a while, and gone afterwards."""

import time

import pytest

from tvm_vision.tools import progress as module
from tvm_vision.tools.progress import progress


def test_nothing_where_nobody_looks(capfd, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.0)
    with progress("working") as tell:
        tell("still working")
        time.sleep(0.1)
    assert capfd.readouterr().err == ""


def test_on_a_terminal(capfd, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.05)
    with progress("working") as tell:
        time.sleep(0.3)
        tell("nearly done")
        time.sleep(0.3)
    text = capfd.readouterr().err
    assert text.index("working") < text.index("nearly done")


def test_what_is_quick_shows_nothing(capfd, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress("working"):
        pass
    assert "working" not in capfd.readouterr().err


def test_an_error_goes_through(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with pytest.raises(ValueError, match="wrong"), progress("working"):
        raise ValueError("wrong")
