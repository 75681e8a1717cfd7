"""The node's parameters as one table: defaults, ranges, units, and when a change takes effect.

ros_parameters.py declares what is here, scripts/reference_doc.py makes the table of
docs/reference/node.md.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any

from tvm_vision.models.class_options import UNSAID

from .image_headers import MOST_PIXELS
from .silence import SUFFIX

# When a new value counts.
START = "at start only"
CONFIGURE = "at the next configure"
RELOAD = "at once: the network is loaded beside the old one"
SUBSCRIBE = "at once: a new subscription"
NOW = "at once"

TRANSPORTS = ("raw", "compressed")
DEPTH_TRANSPORTS = ("raw", "compressedDepth")
RELIABILITIES = ("best_effort", "reliable")
DEVICES = ("auto", "vulkan", "cpu")
LOCATE_BY = ("", "depth", "ground", "diameter")
TEAM_COLORS = ("", "blue", "red")
TYPE_NAMES = {bool: "bool", int: "integer", float: "double", str: "string"}

# Parameters that name one.
TOPICS = ("image_topic", "camera_info_topic", "depth_topic")

# ROS puts its own words in for {node}, {ns} and {namespace}, and has the last word on all of it.
_TOPIC = re.compile(r"(~/|/)?(?!\d)(\w|\{\w+\})+(/(?!\d)(\w|\{\w+\})+)*", re.ASCII)
# Of a value in a message.
_MOST_SHOWN = 80


@dataclass(frozen=True)
class Parameter:
    """One parameter. low, high: inclusive. choices: all values there are, where not empty. unsaid:
    a number outside the range that leaves the choice to the package."""

    name: str
    default: Any
    description: str
    effect: str
    unit: str = ""
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    unsaid: float | None = None

    @property
    def span(self) -> tuple[float, float] | None:
        """The least and the largest number that is taken; None where it is no number."""
        if self.low is None or self.high is None:
            return None
        return (self.low if self.unsaid is None else self.unsaid), self.high

    @property
    def kind(self) -> type:
        """bool, int, float or str."""
        return type(self.default)

    @property
    def allowed(self) -> str:
        """The values that are taken, in words."""
        if self.choices:
            return ", ".join(choice or '""' for choice in self.choices)
        other = "" if self.unsaid is None else f", or {self.unsaid:g}"
        return "" if self.low is None else f"{self.low:g} to {self.high:g}{other}"

    def problem(self, value: Any) -> str:
        """Why a value is not taken, in one line; "" where it is."""
        found = f"found {shown(value)}"
        needed = TYPE_NAMES[self.kind]
        if type(value) is not self.kind:
            hint = ""
            if self.kind is float and type(value) is int:
                hint = f": write {value}.0"
            elif self.kind is str:
                hint = ": put it in quotes"
            other = TYPE_NAMES.get(type(value), type(value).__name__)
            return f"{self.name} must be a {needed}, {found} ({other}){hint}"
        return self._range_problem(value, found)

    def _range_problem(self, value: Any, found: str) -> str:
        if self.choices and value not in self.choices:
            return f"{self.name} must be one of {self.allowed}, {found}"
        if self.unsaid is not None and value == self.unsaid:
            return ""
        if self.low is not None and not (math.isfinite(value) and self.low <= value <= self.high):
            unit = f" {self.unit}" if self.unit else ""
            return f"{self.name} must be in {self.allowed}{unit}, {found}"
        if self.name in TOPICS and not is_topic(value):
            return f"{self.name} must be the name of a topic, {found}"
        return ""


def _parameter(default: Any, description: str, effect: str = NOW, **more: Any) -> Any:
    return field(default=default, metadata={"description": description, "effect": effect, **more})


def _seconds(default: float, description: str, low: float = 0.0) -> Any:
    return _parameter(default, description, unit="s", low=low, high=60.0)


def _rate(default: float, description: str) -> Any:
    return _parameter(default, description, unit="Hz", low=0.0, high=1000.0)


@dataclass(frozen=True)
class Settings:
    """The values of all parameters at one moment."""

    model: str = _parameter(
        "",
        "The network: a package (.tar or folder), or a model folder with model_config.yaml.",
        RELOAD,
    )
    device: str = _parameter(
        "auto", "Where it runs; auto: what it was compiled for.", RELOAD, choices=DEVICES
    )
    verify_key: str = _parameter(
        "",
        "A file of public keys (PEM, Ed25519): networks that none of them signed are refused; "
        "empty: whoever made them.",
        START,
    )
    frame_timeout: float = _parameter(
        10.0,
        "The GPU counts as lost where a frame takes longer; 0: it may take any time.",
        RELOAD, unit="s", low=0.0, high=600.0,
    )  # fmt: skip
    rebuilds_per_minute: int = _parameter(
        6, "A GPU that was lost is opened anew at most so often; 0: never.", RELOAD, low=0, high=60
    )
    fallback: str = _parameter(
        "",
        "What runs where that does not help: cpu, the variant for a processor of the same package, "
        "or the path of another package; empty: nothing.",
        RELOAD,
    )
    autostart: bool = _parameter(
        True, "Configure and activate without being told to by a lifecycle manager.", START
    )
    enabled: bool = _parameter(
        True, "Off: the node stays active and lets images pass; the service enable sets it."
    )
    lazy: bool = _parameter(True, "Listen to the camera only while somebody listens to results.")
    camera: str = _parameter(
        "",
        "A camera for the node to open itself, instead of the topic: /dev/video0, a number, a "
        "video file (over and over, at its rate) or an address as rtsp://.",
        SUBSCRIBE,
    )
    camera_width: int = _parameter(
        0, "Asked of that camera; 0: as it is.", SUBSCRIBE, unit="pixels", low=0, high=32768
    )
    camera_height: int = _parameter(
        0, "Asked of that camera; 0: as it is.", SUBSCRIBE, unit="pixels", low=0, high=32768
    )
    camera_rate: float = _parameter(
        0.0, "Asked of that camera, or the rate of a video; 0: as it is.", SUBSCRIBE,
        unit="Hz", low=0.0, high=1000.0,
    )  # fmt: skip
    camera_frame_id: str = _parameter(
        "camera", "frame_id of that camera's images, its optical frame.", SUBSCRIBE
    )
    image_topic: str = _parameter(
        "image", "Topic of the images; with /compressed behind it for those.", SUBSCRIBE
    )
    image_transport: str = _parameter(
        "raw", "Image, or CompressedImage with JPEG or PNG.", SUBSCRIBE, choices=TRANSPORTS
    )
    input_reliability: str = _parameter(
        "best_effort", "QoS of the images; best_effort hears every camera.", SUBSCRIBE,
        choices=RELIABILITIES,
    )  # fmt: skip
    input_depth: int = _parameter(
        1, "QoS of the images: how many are kept before they are read.", SUBSCRIBE,
        unit="images", low=1, high=100,
    )  # fmt: skip
    output_reliability: str = _parameter(
        "reliable", "QoS of the results; reliable serves every subscriber.", CONFIGURE,
        choices=RELIABILITIES,
    )  # fmt: skip
    max_frame_age: float = _seconds(
        0.5,
        "Images older than this when their turn comes are passed over, unless all are so old; "
        "0: none are.",
    )
    max_image_pixels: int = _parameter(
        MOST_PIXELS, "Images of more, width times height, are passed over, undecoded.",
        unit="pixels", low=1, high=1 << 30,
    )  # fmt: skip
    max_rate: float = _rate(0.0, "Images are passed over to stay below this; 0: no limit.")
    confidence: float = _parameter(
        UNSAID, "Detections have a score above this; -1: as the package says, YOEO: 0.5.",
        low=0.0, high=1.0, unsaid=UNSAID,
    )  # fmt: skip
    iou: float = _parameter(
        UNSAID,
        "Of two boxes of one class that overlap by more (intersection over union), one stays; -1: "
        "as the package says, YOEO: 0.4.",
        low=0.0,
        high=1.0,
        unsaid=UNSAID,
    )
    max_detections: int = _parameter(
        300, "Most detections in one image.", unit="boxes", low=1, high=10000
    )
    tracking: bool = _parameter(
        False, "Give objects ids that stay from image to image, in the id of a detection."
    )
    tracking_memory: float = _parameter(
        1.0, "An object that is not seen keeps its id for so long.", unit="s", low=0.1, high=60.0
    )
    tracking_start: float = _parameter(
        0.0, "An object gets a new id with a score of at least this.", low=0.0, high=1.0
    )
    locate_by: str = _parameter(
        "", "How detections get a place in space, on detections_3d; empty: not at all.",
        choices=LOCATE_BY,
    )  # fmt: skip
    locate_frame: str = _parameter(
        "", "Frame of what is located, by /tf; empty: the camera's own, of the image's header."
    )
    ground_frame: str = _parameter(
        "base_footprint", "Frame with z upwards and z = 0 on the ground, by /tf."
    )
    camera_info_topic: str = _parameter("camera_info", "Topic of the images' calibration.")
    image_rectified: bool = _parameter(
        False, "The images have no distortion any more: of the calibration P counts, not K and D."
    )
    depth_topic: str = _parameter(
        "depth/image", "Topic of depth images of the same view, 16UC1 in mm or 32FC1 in m."
    )
    depth_transport: str = _parameter(
        "raw", "Image, or CompressedImage with depth in PNG on /compressedDepth behind the topic.",
        choices=DEPTH_TRANSPORTS,
    )  # fmt: skip
    ball_diameter: float = _parameter(
        0.0, "Of detections of a class ball; 0: not known.", unit="m", low=0.0, high=10.0
    )
    points_step: int = _parameter(
        2, "So many rows and columns of a mask give a point on the ground.", unit="pixels",
        low=1, high=100,
    )  # fmt: skip
    points_range: float = _parameter(
        20.0, "Points on the ground are left out beyond it.", unit="m", low=0.1, high=1000.0
    )
    top: int = _parameter(
        5, "Classes in the result of a classifier.", RELOAD, unit="classes", low=1, high=1000
    )
    publish_detections: bool = _parameter(True, "Have the topic detections.")
    publish_instances: bool = _parameter(
        True, "Have the topic instances, of networks with a mask for each object."
    )
    publish_depth: bool = _parameter(True, "Have the topic depth.")
    publish_segmentation: bool = _parameter(True, "Have the topic segmentation.")
    publish_masks: bool = _parameter(True, "Have a topic mask/CLASS for each class of pixels.")
    publish_debug_image: bool = _parameter(True, "Have the topic debug_image.")
    publish_latency: bool = _parameter(True, "Have the topic latency.")
    publish_soccer_vision: bool = _parameter(
        False, "Have the topics of soccer_vision_2d_msgs and the masks that go with them."
    )
    publish_yolo: bool = _parameter(
        False, "Have the topic yolo_detections, of yolo_msgs, with masks and keypoints."
    )
    own_team_color: str = _parameter(
        "", "Of the robots in soccer_vision_2d_msgs, those of this color are our own.",
        choices=TEAM_COLORS,
    )  # fmt: skip
    debug_rate: float = _rate(10.0, "Debug images are made at most so often; 0: for each image.")
    diagnostics_period: float = _seconds(1.0, "Between messages on /diagnostics.", low=0.1)
    stall_timeout: float = _seconds(
        2.0, "Without an image for so long, the log and /diagnostics warn.", low=0.1
    )


@cache
def parameters() -> dict[str, Parameter]:
    """All parameters by name."""
    return {
        item.name: Parameter(name=item.name, default=item.default, **item.metadata)
        for item in fields(Settings)
    }


def problem_in(values: Mapping[str, Any]) -> str:
    """The first reason why values cannot be taken together, "" where they can. Changes nothing."""
    known = parameters()
    for name, value in values.items():
        if name in known and (problem := known[name].problem(value)):
            return problem
    return ""


def input_topics(settings: Settings) -> dict[str, str]:
    """What the node listens to by the parameter that names it, with what a transport puts behind
    the name."""
    compressed = settings.image_transport == "compressed"
    packed = settings.depth_transport != "raw"
    return {
        "image_topic": settings.image_topic + (SUFFIX if compressed else ""),
        "camera_info_topic": settings.camera_info_topic,
        "depth_topic": settings.depth_topic + (f"/{settings.depth_transport}" if packed else ""),
    }


def is_topic(text: str) -> bool:
    """Whether it is written as the name of a topic; ROS alone knows whether it is one in full."""
    return _TOPIC.fullmatch(text) is not None


def shown(value: Any) -> str:
    """A value in one line of a message, not all of a long one."""
    text = repr(value)
    if len(text) <= _MOST_SHOWN:
        return text
    return f"{text[:_MOST_SHOWN]}... ({len(text)} characters)"


def effects(names: Iterable[str]) -> set[str]:
    """What has to happen after these parameters were changed."""
    known = parameters()
    return {known[name].effect for name in names if name in known}


def widened(name: str, value: Any) -> Any:
    """A whole number as a double where one is wanted: YAML and people write 1 for 1.0; and the
    number of a camera as a word."""
    known = parameters().get(name)
    if name == "camera" and type(value) is int:
        return str(value)
    return widened_to(None if known is None else known.kind, value)


def widened_to(kind: type | None, value: Any) -> Any:
    """The same for a value of which the type is known that is wanted."""
    return float(value) if kind is float and type(value) is int else value


def markdown() -> str:
    """The table of docs/reference/node.md."""
    lines = [
        "| parameter | type | default | range | unit | a change counts | meaning |",
        "|---|---|---|---|---|---|---|",
    ]
    for item in parameters().values():
        default = f'"{item.default}"' if item.kind is str else str(item.default).lower()
        cells = (
            f"`{item.name}`", TYPE_NAMES[item.kind], f"`{default}`", item.allowed, item.unit,
            item.effect, item.description,
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
