"""Memory that is refused to the runner without Python: each of its requests, and a limit of all."""

from __future__ import annotations

import os
import re
import resource
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

import tvm_vision
from support import small_network
from support.failing_new import FOREVER
from support.preloaded import compile_preloaded
from tvm_vision.package import ModelInfo, Preprocessing

SIDE = small_network.SIZE
LABELS = tuple("abcdefghij")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier, an image as a file and as bytes, and what is preloaded."""
    folder = tmp_path_factory.mktemp("memory")
    model = ModelInfo("small", kind="classifier", labels=LABELS, preprocessing=Preprocessing())
    tvm_vision.compile(small_network.model(), folder / "small.tar", target="llvm", model_info=model)
    image = np.full((SIDE, SIDE, 3), 7, np.uint8)
    cv2.imwrite(str(folder / "a.png"), image)
    (folder / "a.bin").write_bytes(image.tobytes())
    compile_preloaded("failing_new", folder)
    return folder


def words(program: str, built: Path, folder: Path) -> list[str | Path]:
    if program == "predict":
        return [built / program, folder / "small.tar", folder / "a.bin", *map(str, [SIDE, SIDE, 3])]
    return [built / program, "small", folder / "small.tar", folder / "a.png"]


def ended(
    command: list[str | Path], folder: Path, limit: Callable[[], None] | None, given: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env={**os.environ, **given}, text=True, capture_output=True,
        timeout=60, preexec_fn=limit,
    )  # fmt: skip


def assert_told(done: Any, program: str, what: object) -> None:
    """It went well, or ended by one line of its own."""
    if done.returncode != 0:
        told = re.fullmatch(rf"{program}: (?!.*bad_alloc)[^\n]+\n", done.stderr)
        assert done.returncode == 1 and told, f"{what}: {done.returncode} {done.stderr}"


@pytest.mark.parametrize("program", ["run_model", "predict"])
@pytest.mark.parametrize("step", [61, pytest.param(1, marks=pytest.mark.slow)])
def test_each_request_may_be_refused(plain: Path, folder: Path, program: str, step: int) -> None:
    command = words(program, plain, folder)
    first, refused = 1, 0
    while True:
        for last in (first, FOREVER):
            failing = {
                "LD_PRELOAD": str(folder / "failing_new.so"), "FAILING_NEW": f"{first}-{last}",
            }  # fmt: skip
            done = ended(command, folder, None, failing)
            assert_told(done, program, (first, last))
            refused += done.returncode
        # Beyond the last there is nothing to refuse.
        if done.returncode == 0:
            break
        first += step
    assert refused > 4


@pytest.mark.parametrize("program", ["run_model", "predict"])
def test_a_limit_of_address_space_is_told(plain: Path, folder: Path, program: str) -> None:
    command = words(program, plain, folder)
    codes = []
    for mib in range(8, 512, 24):
        limit = (mib << 20, mib << 20)
        done = ended(command, folder, partial(resource.setrlimit, resource.RLIMIT_AS, limit), {})
        # Where it is too little to begin with, that is told by the system's loader.
        if done.returncode != 127:
            assert_told(done, program, f"{mib} MiB")
        codes.append(done.returncode)
    assert codes[-1] == 0, done.stderr
