"""Topics and messages of every kind of result, from one table."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from tvm_vision.models.instance_masks import InstanceMasks
from tvm_vision.models.results import (
    Classification,
    DepthMap,
    Detections,
    SegmentationMask,
    Timing,
    VisionResult,
)
from tvm_vision_ros.messages import MessageBuilder
from tvm_vision_ros.result_topics import (
    LABEL_TOPICS,
    RESULT_TOPICS,
    labels_of,
    messages_of,
    topics_of,
)
from tvm_vision_ros.settings import parameters

NAMES = ("ball", "robot")
BUILDER = MessageBuilder(lambda name: lambda **fields: SimpleNamespace(kind=name, **fields), bytes)
TIMING = Timing(1, 1, 1)


def network(*produces):
    return SimpleNamespace(
        produces=produces, class_names=("ball",), segmentation_names=("background", "field")
    )


def with_masks():
    dense = np.zeros((2, 4, 6), np.bool_)
    dense[0, :2, :3] = dense[1, 1:, 2:] = True
    return Detections(
        np.array([[0, 0, 3, 2], [2, 1, 6, 4]], np.float32),
        np.array([0.9, 0.8], np.float32),
        np.array([0, 1], np.int32),
        NAMES,
        masks=InstanceMasks.from_dense(dense),
    )


@pytest.mark.parametrize(
    ("produces", "topics", "labels"),
    [
        (("detections",), ["detections"], {"detections/label_info": ("ball",)}),
        (
            ("detections", "masks", "keypoints"),
            ["detections", "instances"],
            {"detections/label_info": ("ball",)},
        ),
        (
            ("detections", "segmentation"),
            ["detections", "segmentation"],
            {"label_info": ("background", "field"), "detections/label_info": ("ball",)},
        ),
        (("depth",), ["depth"], {}),
        (("classification",), ["classification"], {"label_info": ("ball",)}),
        (("segmentation",), ["segmentation"], {"label_info": ("background", "field")}),
    ],
)
def test_topics_of_what_a_network_produces(produces, topics, labels):
    assert [topic.name for topic in topics_of(network(*produces))] == topics
    assert labels_of(network(*produces)) == labels


def test_each_topic_can_be_left_out_by_a_parameter_that_is_there():
    named = {topic.setting for topic in RESULT_TOPICS if topic.setting}
    assert named <= set(parameters()) and len({t.name for t in RESULT_TOPICS}) == len(RESULT_TOPICS)
    assert not {t.name for t in RESULT_TOPICS} & set(LABEL_TOPICS)


def test_instances_are_numbered_as_the_detections_are():
    result = VisionResult(TIMING, detections=with_masks())
    (_, boxes), (name, image) = messages_of(BUILDER, "header", result)
    assert name == "instances" and (image.encoding, image.header) == ("16UC1", "header")
    ids = np.frombuffer(image.data, np.uint16).reshape(4, 6)
    assert len(boxes.detections) == 2
    assert ids[0, 0] == ids[1, 2] == 1 and ids[3, 5] == 2 and ids[3, 0] == 0


def test_depth_is_an_image_of_floats():
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    ((name, image),) = messages_of(
        BUILDER, "header", VisionResult(TIMING, depth=DepthMap(values, "metres"))
    )
    assert (name, image.encoding, image.step) == ("depth", "32FC1", 16)
    assert np.array_equal(np.frombuffer(image.data, np.float32).reshape(3, 4), values)


def test_results_have_messages_for_what_is_in_them_alone():
    mask = SegmentationMask(np.zeros((2, 2), np.uint8), NAMES)
    found = Classification((0,), ("ball",), (1.0,))
    result = VisionResult(TIMING, segmentation=mask, classification=found)
    assert [name for name, _ in messages_of(BUILDER, "h", result)] == [
        "segmentation",
        "classification",
    ]
    assert messages_of(BUILDER, "h", VisionResult(TIMING)) == []
