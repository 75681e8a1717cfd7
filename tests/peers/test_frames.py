"""The demo's network in the forms that engines take: the same boxes and mask from each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

pytest.importorskip("cv2")

from benchmarks.peers import measure, report
from benchmarks.peers.frames import STAGES, Frames, decoded, photo
from benchmarks.peers.half import to_fp16
from benchmarks.peers.measure import Measurement, Row, Settings
from benchmarks.peers.networks import NETWORKS
from tvm_vision.demo.images import MODEL
from tvm_vision.models.results import Detections, SegmentationMask

FORMS = [name for name, network in NETWORKS.items() if network.of_photos]


def seen(name: str, half: bool) -> tuple[Detections, SegmentationMask]:
    model = NETWORKS[name].model()
    frames = Frames(model)
    prepared, letterbox = frames.prepare(photo())
    written = (to_fp16(model) if half else model).SerializeToString()
    session = onnxruntime.InferenceSession(written, providers=["CPUExecutionProvider"])
    # As ncnn gives them: without the batch.
    outputs = [array[0] for array in session.run(None, {model.graph.input[0].name: prepared})]
    return frames.interpret(outputs, letterbox)


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("name", FORMS)
def test_every_form_sees_the_same(name: str, half: bool) -> None:
    boxes, mask = seen("demo", False)
    assert len(boxes) > 2 and len(np.unique(mask.mask)) == 3
    found, found_mask = seen(name, half)
    np.testing.assert_array_equal(found.class_ids, boxes.class_ids)
    # The device resizes in floats, OpenCV in bytes.
    np.testing.assert_allclose(found.scores, boxes.scores, atol=5e-3)
    np.testing.assert_allclose(found.boxes, boxes.boxes, atol=1.0)
    assert (found_mask.mask == mask.mask).mean() > 0.999


def test_plain_weights_change_nothing() -> None:
    model = decoded(512)
    assert {w.data_type for w in model.graph.initializer} == {1, 7}  # float32, shapes in int64
    image = NETWORKS["demo"].image()
    results = [
        onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"]).run(
            None, {"InputLayer": image}
        )
        for source in (str(MODEL), model.SerializeToString())
    ]
    for found, wanted in zip(results[1], results[0], strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="320 pixels"):
        NETWORKS["demo"].build(320)


def test_a_frame_is_timed_by_stages(tmp_path: Path) -> None:
    measure.write_models(tmp_path, "demo")
    row = Row("ort_cpu", "demo", "fp32", of_photos=True)
    settings = Settings(runs=3, rounds=1, warm_seconds=0.0, answer_seconds=60)
    with Measurement(tmp_path, settings, lambda line: None) as measurement:
        measurement.network([row])
    found = row.to_json()
    assert tuple(found["stages_ms"]) == STAGES and found["error"] < 1e-5
    assert sum(found["stages_ms"].values()) == pytest.approx(found["median_ms"], rel=0.5)
    table = report.stages_table(
        {"rows": [found], "engines": {"ort_cpu": {"title": "ONNX Runtime, CPU"}}}
    )
    assert "| Demo, photo to result | fp32 | ONNX Runtime, CPU |" in table
