"""The demo's networks with their ImageNet weights on real photos, beside onnxruntime.

Weights and photos come with `make demo`; where they are not there, these tests skip and say so.
A network whose ONNX file is not in build/models is exported anew, for which PyTorch is needed.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tvm_vision.demo.classify import ClassifyDemoResult, run_demo
from tvm_vision.demo.networks import NETWORKS

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "build" / "demo-data"
# What is to be seen on a photo, as part of the names of ImageNet's classes.
SEEN = {"chelsea.png": "cat", "coffee.png": "espresso", "rocket.jpg": "missile"}

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("device_info")]


@pytest.fixture(params=NETWORKS)
def results(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> dict[str, ClassifyDemoResult]:
    """The demo in both precisions."""
    if not DATA.is_dir():
        pytest.skip("weights and photos are not installed: `make demo-classifier` installs them")
    monkeypatch.syspath_prepend(str(DATA))
    model = ROOT / "build" / "models" / f"{request.param}.onnx"
    if not model.is_file():
        if importlib.util.find_spec("torch") is None:
            pytest.skip("PyTorch, to export the network once, is not installed")
        model = tmp_path_factory.mktemp("model") / model.name
        NETWORKS[request.param].export(model)
    device = request.getfixturevalue("device")
    return {
        precision: run_demo(
            model, network=request.param, precision=precision, device=device, report=print
        )
        for precision in ("fp32", "fp16")
    }


@pytest.mark.parametrize("device", ["cpu", "vulkan"])
def test_classes_are_those_of_onnxruntime_and_of_the_photos(
    device: str, results: dict[str, ClassifyDemoResult]
) -> None:
    for result in results.values():
        assert result.device.kind == device and len(result.photos) == 5
    for photo in results["fp32"].photos:
        assert photo.error < 1e-4
        assert photo.ours.class_ids == photo.reference.class_ids, photo.photo.name
        seen = SEEN.get(photo.photo.name)
        if seen is not None:
            labels = [label for label, _ in photo.ours]
            assert any(seen in label for label in labels), (photo.photo.name, labels)
    for photo in results["fp16"].photos:
        assert photo.ours.class_ids[0] == photo.reference.class_ids[0], photo.photo.name
