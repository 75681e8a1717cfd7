"""Times as a figure; what is missing is said before anything is measured."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tvm_vision.errors import InputError
from tvm_vision.runtime.benchmark import BenchmarkResult
from tvm_vision.runtime.figures import draw_times, figure_path

TIMES = [
    ("fp32.tar", BenchmarkResult((0.002,) * 98 + (0.003, 0.2))),
    ("a", BenchmarkResult((1.0,))),
]


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_times_are_drawn(ending: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    draw_times(TIMES, tmp_path / f"times.{ending}")
    assert (tmp_path / f"times.{ending}").stat().st_size > 5_000
    assert [path.name for path in tmp_path.iterdir()] == [f"times.{ending}"]


def test_another_ending() -> None:
    with pytest.raises(InputError, match=r"ends in \.png, \.svg or \.pdf is needed, found 'x.gif'"):
        figure_path("x.gif")


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"not installed: pip install matplotlib$"):
        figure_path("x.png")


def test_the_command_asks_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Before the package is even looked for."""
    from click.testing import CliRunner

    from tvm_vision.tools.cli import main

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    arguments = ["benchmark", str(tmp_path / "none.tar"), "--plot", str(tmp_path / "times.png")]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1
    assert result.output.endswith("not installed: pip install matplotlib\n")
