"""``tvm-vision bag``: thresholds reach the network, losses and progress are told."""

from types import SimpleNamespace

import pytest
from click.testing import CliRunner

pytest.importorskip("rosbags", reason="rosbags is not installed: pip install rosbags")

from support.ros import fakes
from support.ros.bags import IMAGES, record
from support.ros.space_bags import record_space
from tvm_vision.tools.bag import seconds_left
from tvm_vision.tools.cli import main
from tvm_vision_ros import model_loader


class Run:
    """Runs the command with a network that is not loaded."""

    def __init__(self, folder):
        self.network = fakes.FakeModel()
        self.package = folder / "model.tar"
        self.package.touch()

    def __call__(self, *arguments):
        given = ["bag", *map(str, arguments), "-m", str(self.package)]
        return CliRunner().invoke(main, given)


@pytest.fixture
def run(monkeypatch, tmp_path):
    made = Run(tmp_path)
    monkeypatch.setattr(model_loader, "load_and_warm", lambda request, target="": made.network)
    return made


def test_thresholds_reach_the_network(run, tmp_path):
    source = record(tmp_path / "in")
    result = run(source, tmp_path / "out.mcap", "--iou", "0.3", "--confidence", "0.7")
    assert result.exit_code == 0, result.output
    assert (run.network.iou, run.network.confidence) == (0.3, 0.7)
    assert f"{IMAGES} images" in result.output


@pytest.mark.parametrize("option", ["--iou", "--confidence"])
def test_a_threshold_that_means_nothing_is_refused(run, tmp_path, option):
    source = record(tmp_path / "in")
    run.network = fakes.FakeClassifier()
    result = run(source, tmp_path / "out.mcap", option, "0.3")
    assert (result.exit_code, f"{option} is for networks that find boxes" in result.output) == (
        2,
        1,
    )
    run.network = SimpleNamespace(name="fake", produces=("detections",), device_description="none")
    result = run(source, tmp_path / "out.mcap", option, "0.3")
    assert (result.exit_code, f"{option} means nothing to fake" in result.output) == (2, True)


def test_what_a_power_cut_took_is_told(run, tmp_path):
    path = record(tmp_path / "in") / "in.mcap"
    path.write_bytes(path.read_bytes()[:20000])
    result = run(path, tmp_path / "out.mcap", "--results-only")
    assert result.exit_code == 0, result.output
    assert "note: 'in.mcap' was cut off, as by a power cut: " in result.output


def test_places_in_space(run, tmp_path):
    source = record_space(tmp_path / "in", without=("/tf",))
    given = (source, tmp_path / "out.mcap", "--topic", "/camera/image", "--ball-diameter", "0.14")
    result = run(*given)
    assert (result.exit_code, "count with --locate-by" in result.output) == (2, True)
    result = run(*given, "--locate-by", "depth", "--locate-frame", "odom", "--results-only")
    assert result.exit_code == 0, result.output
    assert "images have no places; image 0: a transform from eye to odom is nee" in result.output
    result = run(*given[:1], tmp_path / "x.mcap", *given[2:], "--locate-by", "diameter")
    assert result.exit_code == 0 and "no places" not in result.output


def test_images_above_the_limit_have_no_results(run, tmp_path):
    result = run(record(tmp_path / "in"), tmp_path / "out.mcap", "--max-image-pixels", "700")
    assert (
        f"note: {IMAGES} images have no results; image 0: an image of at most 700" in result.output
    )


@pytest.mark.parametrize(
    ("done", "words"),
    [(100, ""), (101, ""), (150, ", 85 s left"), (600, ", 40 s left"), (1000, ", 0 s left")],
)
def test_the_time_that_is_left_is_of_this_run(done, words):
    """Of 1000 images an earlier run did 100; this one takes a tenth of a second for each."""
    assert seconds_left(done, 1000, first=100, elapsed=(done - 100) / 10) == words
