"""The runner without Python under a Vulkan that fails, by the loader of scripts/faults.py."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tvm_vision
from support.faults import write_to_lose
from support.keys import make_keys
from support.runner import run
from tvm_vision.package import PrivateKey, sign_package


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package for Vulkan, one of the same network for the CPU, one of another, and the loader."""
    folder = tmp_path_factory.mktemp("network")
    write_to_lose(folder)
    np.load(folder / "x.npy").tofile(folder / "x.bin")
    return folder


def play(built: Path, folder: Path, scene: str, fallback: str = "") -> tuple[list[str], str, str]:
    """What a scene's frames came to, what there is to tell, and that in a line."""
    loader = folder / "libfaulty_loader.so"
    words = [loader, folder / "network.tar", folder / "x.bin", fallback or folder / "cpu.tar"]
    done = subprocess.run(
        [str(word) for word in (built / "losses", *words, scene)], text=True, capture_output=True,
        env={
            **os.environ, "TVM_VISION_VULKAN_LOADER": str(loader), "TVM_VISION_CACHE_DIR":
            str(folder / "cache"), "ASAN_OPTIONS": "detect_leaks=0",
        },
        timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    *frames, told, line = done.stdout.split("\n")[:-1]
    right = float(np.load(folder / "y.npy").sum())
    judged = []
    for frame in frames:
        ran = frame.startswith("ran ") and abs(float(frame[4:]) - right) < 1e-3 * abs(right)
        judged.append("right" if ran else frame)
    return judged, told, line


def test_a_lost_frame_runs_again(built, folder):
    frames, told, line = play(built, folder, "once")
    assert frames == ["right"] * 3
    assert told.startswith("1 lost, 1 rebuilt, fallback 0, waiting 0, on vulkan(0)")
    assert line.startswith("the device was lost once, loaded anew in 0.")


def test_a_frame_that_hangs_has_a_time_limit(built, folder):
    frames, told, line = play(built, folder, "hang")
    assert frames == ["right"] * 3 and told.startswith("1 lost, 1 rebuilt")
    assert "not done within 0.2 s, the time limit" in line


def test_a_frame_given_in_parts_is_given_anew(built, folder):
    frames, *_ = play(built, folder, "in parts")
    assert "loaded anew" in frames[1] and frames[1].endswith("give the frame anew")
    assert frames[2].startswith("InputError: input input was not set")
    assert frames[0] == frames[3] == "right"


def test_no_two_attempts_at_once(built, folder):
    frames, told, _ = play(built, folder, "again")
    assert frames[0] == frames[3] == "right"
    assert frames[1].startswith("DeviceLostError: the device was lost (")
    assert "), and cannot be opened anew: " in frames[1]
    assert frames[2].startswith("DeviceLostError: the device is lost and opened anew in a moment: ")
    assert told.startswith("1 lost, 1 rebuilt, fallback 0, waiting 0")


def test_after_the_last_attempt_the_cpu_takes_over(built, folder):
    frames, told, line = play(built, folder, "fallback")
    assert frames[0] == frames[-1] == "right"
    assert told.endswith("fallback 1, waiting 0, on cpu(0): the CPU through LLVM")
    assert "the fallback runs: " in line


def test_without_a_fallback_it_waits(built, folder):
    frames, told, line = play(built, folder, "spent")
    assert frames[0] == "right"
    assert "opened 1 times within a minute" in frames[-1] and "waiting 1" in told
    assert "it is not back yet" in line


def test_what_cannot_take_its_place_is_refused_at_once(built, folder, tmp_path):
    """As in Python, in its words; a fallback has to be signed as the network has to be."""
    assert (tmp_path / "image.png").write_bytes(b"none")
    for fallback in ("cpu", str(folder / "other.tar"), "nowhere.tar"):
        with pytest.raises(tvm_vision.errors.TvmVisionError) as met:
            recovery = tvm_vision.Recovery(fallback=fallback)
            tvm_vision.load(folder / "network.tar", recovery=recovery)
        words = (folder / "network.tar", tmp_path / "image.png", "--fallback", fallback)
        done = run(built / "run_model", "t", *words)
        assert done.returncode == 1 and done.stderr == f"run_model: {met.value}\n"
    private, public = make_keys(tmp_path, "ours")
    network = shutil.copy(folder / "network.tar", tmp_path)
    sign_package(network, PrivateKey.read(private))
    words = (network, tmp_path / "image.png", "--fallback", folder / "cpu.tar")
    done = run(built / "run_model", "t", *words, "--verify", public)
    assert done.returncode == 1 and "and the package has none: 'tvm-vision sign'" in done.stderr
    for option, wrong in (("--frame-timeout", "-1"), ("--rebuilds", "61"), ("--rebuilds", "some")):
        assert run(built / "run_model", "t", *words, option, wrong).returncode == 2
