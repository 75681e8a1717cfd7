"""What others' names for results, networks and options are here, for the line that says so."""

from __future__ import annotations

from collections.abc import Iterable

from ..error_lines import use_of

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
    **dict.fromkeys(("cpu", "numpy", "cuda"), "it as it is: all arrays are numpy's"),
    **dict.fromkeys(("orig_img", "path"), "the image and name that stream gives beside it"),
}  # fmt: skip
_DEVICE = "load_model(path, device=...): a package is for one device"
OF_MODELS = {
    **dict.fromkeys(
        ("predict", "infer", "detect", "forward"), "network(image), or stream(source) for files"
    ),
    "track": "tvm_vision.models.tracking.FrameTracker(network), on what stream gives",
    **dict.fromkeys(("names", "labels", "classes"), "class_names"),
    **dict.fromkeys(("to", "cuda", "cpu", "half", "float"), _DEVICE),
    **dict.fromkeys(("eval", "fuse"), "it as it is: a package is compiled for running"),
    "device": "device_description, device_name and device_type",
    "warmup": "warm_up()",
    "task": "kind, and produces",
    "export": "tvm_vision.compile(model, output), which makes packages",
    **dict.fromkeys(("info", "summary"), "the command 'tvm-vision inspect'"),
    **dict.fromkeys(("val", "evaluate"), "the command 'tvm-vision evaluate'"),
    **dict.fromkeys(("benchmark", "profile"), "the commands 'tvm-vision benchmark' and 'profile'"),
}  # fmt: skip
OF_OPTIONS = {
    **dict.fromkeys(("conf", "conf_thres", "threshold", "score_threshold"), "confidence"),
    **dict.fromkeys(("iou_thres", "nms_threshold"), "iou"),
    **dict.fromkeys(("max_det", "max_results"), "max_detections"),
    **dict.fromkeys(("names", "classes", "class_names"), "labels, of classifiers"),
    **dict.fromkeys(("topk", "top_k"), "top"),
}  # fmt: skip


def no_option(name: str, own: Iterable[str]) -> TypeError:
    """That a network has no option of a name, which has ``own``, and which of them is like it."""
    hint = use_of(name, OF_OPTIONS) or f": it has {', '.join(own)}"
    return TypeError(f"load_model has no option '{name}'{hint}")
