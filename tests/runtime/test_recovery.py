"""A network whose device is lost is loaded anew, so often as it may be, and then on the CPU."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import tvm_vision
from support.faults import write_to_lose
from support.keys import make_keys
from support.loaders import run_with_faults
from tvm_vision.errors import InputError, PackageError
from tvm_vision.package import PrivateKey, sign_package
from tvm_vision.runtime.recovering import RecoveringExecutor
from tvm_vision.runtime.recovery import Attempts, Losses, Recovery, Turn


def test_attempts_are_so_many_a_minute_and_not_at_once() -> None:
    now = 100.0
    attempts = Attempts(2, lambda: now)
    assert attempts.turn() is Turn.NOW
    assert attempts.turn() is Turn.LATER
    now += 1.0
    assert attempts.turn() is Turn.NOW
    now += 1.0
    assert attempts.turn() is Turn.SPENT
    now = 160.0
    assert attempts.turn() is Turn.NOW


def test_none_a_minute_is_none() -> None:
    assert Attempts(0).turn() is Turn.SPENT


@pytest.mark.parametrize(
    "wrong",
    [
        {"frame_timeout": -1.0},
        {"frame_timeout": float("nan")},
        {"rebuilds_per_minute": -1},
        {"rebuilds_per_minute": 61},
    ],
)
def test_wrong_numbers_are_refused(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(InputError, match=f"{name} must be"):
        Recovery(**wrong)


@pytest.mark.parametrize(
    ("losses", "words"),
    [
        (Losses(), ""),
        (Losses(1, 1, "why", 0.25), "the device was lost once, loaded anew in 0.25 s: why"),
        (Losses(3, 2, "why", waiting=True), "the device was lost 3 times, it is not back yet: why"),
        (Losses(2, 1, "why", on_fallback=True), "lost 2 times, the fallback runs: why"),
    ],
)
def test_what_happened_in_a_line(losses: Losses, words: str) -> None:
    assert losses.describe().endswith(words) and bool(words) == bool(losses.describe())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package for Vulkan, one of the same network for the CPU, one of another, and the loader."""
    folder = tmp_path_factory.mktemp("network")
    write_to_lose(folder)
    return folder


@pytest.fixture(scope="module")
def met(folder: Path) -> dict[str, Any]:
    """What each scene of recovery_program.py came to."""
    found: dict[str, Any] = run_with_faults("recovery_program.py", folder, TVM_USE_RUNTIME_LIB="1")
    return found


def test_a_lost_frame_runs_again(met: dict[str, Any]) -> None:
    scene = met["once"]
    assert scene["frames"] == ["right"] * 5
    assert (scene["lost"], scene["rebuilt"], scene["devices"]) == (1, 1, 1)
    assert scene["seconds"] < 1.0


def test_thirty_losses_leave_nothing_behind(met: dict[str, Any]) -> None:
    scene = met["often"]
    assert set(scene["frames"]) == {"right"}
    assert (scene["rebuilt"], scene["devices"]) == (30, 1)


def test_a_frame_that_hangs_has_a_time_limit(met: dict[str, Any]) -> None:
    scene = met["hang"]
    assert scene["frames"] == ["right"] * 3
    assert "not done within 0.2 s, the time limit" in scene["reason"]
    assert scene["rebuilt"] == 1


def test_two_frames_in_flight_are_given_anew(met: dict[str, Any]) -> None:
    scene = met["in flight"]
    assert "loaded anew" in scene["frames"][0] and scene["frames"][0].endswith("the frame anew")
    assert scene["frames"][1:] == ["right"]


def test_after_the_last_attempt_the_cpu_takes_over(met: dict[str, Any]) -> None:
    scene = met["fallback"]
    assert scene["frames"][-1] == "right" and scene["on_fallback"]
    assert scene["device"] == "cpu"
    assert all("DeviceLostError" in frame for frame in scene["frames"][:-1])
    assert len(scene["frames"]) < 6


def test_without_a_fallback_it_waits_until_the_device_is_back(met: dict[str, Any]) -> None:
    scene = met["back"]
    assert "opened 2 times within a minute" in scene["frames"][-2]
    assert scene["frames"][-1] == "right"


def test_the_layer_has_nothing_to_say(met: dict[str, Any]) -> None:
    assert met["said"] == []


def test_what_cannot_take_its_place_is_refused_at_once(folder: Path) -> None:
    for fallback, words in (
        ("cpu", "a package for several devices is needed to fall back to the cpu"),
        (str(folder / "other.tar"), "a fallback with the inputs of the network"),
    ):
        with pytest.raises(InputError, match=words):
            tvm_vision.load(folder / "network.tar", recovery=Recovery(fallback=fallback))
    with pytest.raises(PackageError, match="cannot be opened"):
        tvm_vision.load(folder / "network.tar", recovery=Recovery(fallback="nowhere.tar"))


def test_a_fallback_is_signed_as_the_network_has_to_be(folder: Path, tmp_path: Path) -> None:
    private, public = make_keys(tmp_path, "ours")
    network, cpu = (
        Path(shutil.copy(folder / name, tmp_path)) for name in ("network.tar", "cpu.tar")
    )
    sign_package(network, PrivateKey.read(private))
    recovery = Recovery(fallback=str(cpu))
    with pytest.raises(PackageError, match="sign"):
        tvm_vision.load(network, verify=public, recovery=recovery)
    sign_package(cpu, PrivateKey.read(private))
    tvm_vision.load(network, verify=public, recovery=recovery)


def test_a_package_that_was_replaced_is_not_loaded_anew(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "network.tar"
    path.write_bytes((folder / "network.tar").read_bytes())
    executor = tvm_vision.load(path)
    assert isinstance(executor, RecoveringExecutor)
    path.write_bytes((folder / "cpu.tar").read_bytes())
    with pytest.raises(PackageError, match="is another by now"):
        executor._parts.weights()
