"""What others' names for parts of a result are called here, for the line that says so. A leaf."""

from __future__ import annotations

# Functions here, for any result, that are methods elsewhere.
_CONVERTERS = {
    **{name: f"tvm_vision.{name}(result)" for name in ("to_supervision", "to_pandas")},
    **dict.fromkeys(("pandas", "to_df"), "tvm_vision.to_pandas(result)"),
    **dict.fromkeys(
        ("to_coco", "tojson", "to_json", "to_dict", "summary"),
        "tvm_vision.to_coco(result, image_id)",
    ),
}

# Names of ultralytics and supervision -> what has the same here.
OF_OBJECTS = {
    **dict.fromkeys(("xyxy", "xywh"), "boxes, float32 [n, 4], each x1, y1, x2, y2"),
    **dict.fromkeys(("conf", "confidence", "score"), "scores"),
    **dict.fromkeys(("cls", "class_id", "classes", "labels"), "class_ids, with their class_names"),
    "names": "class_names",
    "mask": "masks",
    **dict.fromkeys(("obb", "xyxyxyxy", "xywhr"), "oriented_boxes, and corners()"),
    "kpts": "keypoints",
    **dict.fromkeys(("id", "ids", "tracker_id"), "track_ids"),
    **_CONVERTERS,
}  # fmt: skip
_DRAW = "tvm_vision.models.draw.draw_result(image, result), an image to write or show with OpenCV"
OF_RESULTS = {
    **{name: f"detections.{words}" for name, words in OF_OBJECTS.items()},
    **dict.fromkeys(("conf", "confidence", "score"), "scores"),
    **{name: f"detections.{name}" for name in ("boxes", "masks", "keypoints", "class_names")},
    **_CONVERTERS,
    "probs": "classification",
    "speed": "timing",
    "verbose": "describe()",
    **dict.fromkeys(("plot", "show", "save"), _DRAW),
    **dict.fromkeys(("cpu", "numpy", "cuda"), "nothing to do: all arrays are numpy's"),
}  # fmt: skip


def no_attribute(of: str, name: str, others: dict[str, str]) -> AttributeError:
    """That ``of`` has no attribute of a name, and what has it here where others have it."""
    known = f": use {others[name]}" if name in others else ""
    return AttributeError(f"a {of} has no '{name}'{known}")
