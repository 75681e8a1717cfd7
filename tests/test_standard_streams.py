"""Programs that begin without standard streams, as some supervisors start them."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import pytest

from support import handmade

CLOSED = [
    closed for count in (1, 2, 3) for closed in itertools.combinations((0, 1, 2), count)
]  # fmt: skip


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return handmade.write_package_file(tmp_path_factory.mktemp("package") / "tiny.tar")


@pytest.mark.parametrize("closed", CLOSED, ids=str)
def test_a_command_does_its_work_without_them(
    closed: tuple[int, ...], package: Path, tmp_path: Path
) -> None:
    words = ["run", str(package), "-o", str(tmp_path / "y.npz")]
    # Preexec would close what subprocess itself needs.
    ways = " ".join({0: "<&-", 1: ">&-", 2: "2>&-"}[number] for number in closed)
    command = ["sh", "-c", f'exec "$0" -m tvm_vision "$@" {ways}', sys.executable, *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "y.npz").read_bytes()[:2] == b"PK"
    assert (1 in closed) == (done.stdout == "")


def test_no_file_gets_the_number_of_one(tmp_path: Path) -> None:
    code = (
        "import os, sys; from tvm_vision.standard_streams import open_closed; open_closed()\n"
        "kept = open(sys.argv[1], 'w'); os.write(1, b'printed'); print('more')\n"
        "print(kept.fileno(), file=kept)"
    )
    command = ["sh", "-c", 'exec "$0" -c "$@" <&- >&- 2>&-', sys.executable, code]
    done = subprocess.run([*command, str(tmp_path / "kept")])
    assert done.returncode == 0
    assert int((tmp_path / "kept").read_text()) > 2
