"""Frames in, input tensors out; output tensors in, results (results.py) out.

Needs numpy, OpenCV and TVM's runtime: never its compiler, so that a robot runs with that alone.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..package import Package
    from ..runtime.recovery import Recovery
    from .class_options import Given
    from .vision_model import VisionModel


class ModelOptions(TypedDict, total=False):
    """What ``load_model`` passes on, each to the classes that have it: the first four to those
    that find boxes, the others to an ImageClassifier, which say what they mean."""

    confidence: float | None
    iou: float | None
    max_detections: int | None
    class_options: Given | None
    labels: Sequence[str] | None
    top: int


def load_model(
    path: str | os.PathLike[str] | Package,
    device: str = "auto",
    target: str = "",
    verify: str | os.PathLike[str] | None = None,
    recovery: Recovery | None = None,
    **options: Unpack[ModelOptions],
) -> VisionModel:
    """The network of a package, as the class that is made for its kind.

    path: of the package, tar or folder, or the package as it was read. device, target, verify,
    recovery: see ``tvm_vision.load``. options: of that class, for example ``confidence`` of one
    that finds boxes; those of other classes say nothing about this one and are passed over where
    their values are what those classes take.

    Raises PackageError and DeviceError as ``tvm_vision.load`` does; InputError where the package
    is of a kind that looks at no frames, or lacks what its class needs, or an option is out of its
    range; TypeError for an option that no class has.
    """
    import inspect

    from ..runtime.loader import opened

    known = ModelOptions.__annotations__
    if unknown := [name for name in options if name not in known]:
        from .other_names import no_option

        raise no_option(unknown[0], known)
    if options:
        from .thresholds import check_options

        check_options(options)

    package = opened(path, device, target, verify)
    # OpenCV and TVM's Python, while the device is being opened.
    from .registry import predictor

    cls = predictor(package.info)
    taken = inspect.signature(cls).parameters
    # None is as good as unsaid: the package decides, or the class.
    own = {k: v for k, v in options.items() if k in taken and v is not None}
    return cls.load(package, device, "", None, recovery, **own)
