"""What becomes of commands whose GPU is lost or hangs: some go on, the others end with one line."""

from __future__ import annotations

import json
from typing import Any

import cv2
import numpy as np
import pytest

import tvm_vision
from support.kind_networks import write
from support.loaders import compile_loader, run_with_faults
from tvm_vision.package import ModelInfo, Preprocessing

IMAGES = 6
GO_ON = ("detect", "classify", "bag", "evaluate")
MEASURE = ("benchmark", "profile")


@pytest.fixture(scope="module")
def met(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each command came to, by its name and the fault."""
    pytest.importorskip("rosbags", reason="rosbags is not installed: pip install rosbags")
    from support.ros.bags import record

    folder = tmp_path_factory.mktemp("commands")
    model = write(folder / "network.onnx", {"scores": np.array([[0.1, 3.0]], np.float32)})
    info = ModelInfo("seer", "classifier", ("cat", "dog"), Preprocessing((32, 32)))
    tvm_vision.compile(str(model), folder / "network.tar", target="vulkan", model_info=info)
    compile_loader("faulty_loader", folder)
    for index in range(IMAGES):
        path = folder / "images" / ("cat", "dog")[index % 2] / f"{index}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), np.full((32, 32, 3), 20 * index, np.uint8))
    (record(folder / "in") / "in.mcap").rename(folder / "in.mcap")
    found: dict[str, Any] = run_with_faults("command_faults_program.py", folder)
    return found


@pytest.mark.parametrize("fault", ["once", "hang"])
@pytest.mark.parametrize("command", GO_ON)
def test_who_shows_what_a_network_sees_goes_on(met: Any, command: str, fault: str) -> None:
    end = met[command][fault]
    assert end["code"] == 0, end
    if command == "detect":
        assert len(end["out"]) == IMAGES
    elif command == "bag":
        assert "12 images, 13 messages" in end["out"][-1]
    elif command == "evaluate":
        (row,) = json.loads("\n".join(end["out"]))
        assert row["scores"]["top1"] == 0.5
        assert "the device was lost once, loaded anew" in row["warnings"][-1]


@pytest.mark.parametrize("fault", ["once", "hang", "for good"])
@pytest.mark.parametrize("command", MEASURE)
def test_who_measures_ends_with_one_line(met: Any, command: str, fault: str) -> None:
    end = met[command][fault]
    assert (end["code"], end["out"]) == (1, []), end
    (line,) = [line for line in end["err"] if not line.startswith("device: ")]
    assert line.startswith("Error: ") and "lost" in line


@pytest.mark.parametrize("command", GO_ON)
def test_a_device_that_does_not_come_back_ends_it_with_one_line(met: Any, command: str) -> None:
    end = met[command]["for good"]
    assert end["code"] == 1
    if command == "evaluate":  # of each variant
        (row,) = json.loads("\n".join(end["out"]))
        assert "cannot be opened anew" in row["error"]
        return
    assert "Error: the device was lost" in end["err"][-1]
    assert not any("Traceback" in line for line in end["err"])
