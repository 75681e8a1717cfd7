"""The same command twice at once, on one file and one cache: both do all of their work."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from support import small_network
from support.tuning_world import record
from tvm_vision.package import read_package
from tvm_vision.tuning.records import Record, read_records

pytestmark = pytest.mark.usefixtures("device_info")
PROCESSES = 2


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "net.onnx"
    onnx.save(small_network.model(), path)
    return path


def together(folder: Path, *commands: list[object]) -> list[str]:
    """What commands wrote on standard error, which run at once, with one cache between them."""
    (folder / "temporary").mkdir()
    environment = {
        **os.environ,
        "TVM_VISION_CACHE_DIR": str(folder / "cache"),
        "TMPDIR": str(folder / "temporary"),
        "TVM_VISION_VULKAN_VALIDATION": "0",
    }
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "tvm_vision", *map(str, command)],
            env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for command in commands
    ]  # fmt: skip
    said = [process.communicate(timeout=300)[1] for process in started]
    assert [process.returncode for process in started] == [0] * len(commands), said
    assert list((folder / "temporary").iterdir()) == []
    return said


def test_two_that_tune_into_one_file(model: Path, tmp_path: Path) -> None:
    records = tmp_path / "r.jsonl"
    options = ["--target", "vulkan", "--trials", 4, "--min-repeat-ms", 0]
    together(tmp_path, *[["tune", model, "-r", records, *options]] * PROCESSES)
    lines = records.read_text().splitlines()
    # Each line is one record to the last character: none is torn, none within another.
    assert [Record.from_json(line).to_json() for line in lines] == lines
    assert len(read_records(records)) == len(lines) > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.jsonl", "temporary"]


@pytest.mark.parametrize("target", ["vulkan", "llvm"])
def test_two_that_compile_into_one_cache(model: Path, tmp_path: Path, target: str) -> None:
    outputs = [tmp_path / f"{number}.tar" for number in range(PROCESSES)]
    together(tmp_path, *[["compile", model, "-o", out, "--target", target] for out in outputs])
    alone = tmp_path / "alone"
    alone.mkdir()
    together(alone, ["compile", model, "-o", alone / "net.tar", "--target", target])
    for path in outputs:
        with read_package(path) as package, read_package(alone / "net.tar") as other:
            assert package.info.graph == other.info.graph

    def kept(folder: Path) -> list[str]:
        files = (path for path in (folder / "cache").rglob("*") if path.is_file())
        return sorted(path.relative_to(folder).as_posix() for path in files)

    # Nothing half-written, no lock: what one alone leaves.
    assert kept(tmp_path) == kept(alone)


def test_two_that_compile_to_one_name(model: Path, tmp_path: Path) -> None:
    """The last to end has its name; it is whole."""
    output = tmp_path / "net.tar"
    together(tmp_path, *[["compile", model, "-o", output, "--target", "llvm"]] * PROCESSES)
    read_package(output).close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "net.tar", "temporary"]


# What another version of tvm_vision has under the same user: an older cache's file, a newer one's,
# and folders that this version does not know.
FOREIGN = {
    "kernels/0123456789abcdef.kernel": b"of an older version",
    "spirv/0123456789abcdef.spv": b"of a newer version",
    "pipelines-10005-0-1-00-0123456789abcdef.bin": b"TVVCACH2" + bytes(64),
    "programs/0123456789abcdef.o": b"",
    "later/entry": b"of a version to come",
    "note.txt": b"of somebody",
}


def test_what_other_versions_have_in_the_cache_stays(model: Path, tmp_path: Path) -> None:
    for name, content in FOREIGN.items():
        path = tmp_path / "cache" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    together(tmp_path, ["compile", model, "-o", tmp_path / "net.tar", "--target", "vulkan"])
    (tmp_path / "temporary").rmdir()
    together(tmp_path, ["run", tmp_path / "net.tar"])
    for name, content in FOREIGN.items():
        assert (tmp_path / "cache" / name).read_bytes() == content, name


def test_records_of_a_later_version_are_refused_and_stay(model: Path, tmp_path: Path) -> None:
    records = tmp_path / "r.jsonl"
    later = record().to_json().replace('"format":1', '"format":2') + "\n"
    records.write_text(later)
    command = [sys.executable, "-m", "tvm_vision", "tune", model, "-r", records]
    done = subprocess.run(
        [*map(str, command), "--target", "vulkan", "--trials", "2"], text=True, capture_output=True
    )
    assert done.returncode == 1 and "expected format 1" in done.stderr.splitlines()[-1]
    assert records.read_text() == later
