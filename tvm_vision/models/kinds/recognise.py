"""One table of kinds: asked in turn what they make of a network, or one of them alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...errors import InputError
from . import classes, detr, pixels, ssd, ultralytics, yolo
from .facts import Facts, Reading, described, is_real


@dataclass(frozen=True)
class Kind:
    """find: what it makes of a network. form: of its outputs, in words."""

    find: Callable[[Facts], Reading | None]
    form: str


KINDS = {
    "yolo": Kind(yolo.find, yolo.FORM),
    "detr": Kind(detr.find, detr.FORM),
    "ssd": Kind(ssd.find, ssd.FORM),
    "segmenter": Kind(pixels.find_segmenter, pixels.SEGMENTER_FORM),
    "depth": Kind(pixels.find_depth, pixels.DEPTH_FORM),
}


@dataclass(frozen=True)
class Recognised:
    """reading: what the network is taken for; None where that is not clear. candidates: kinds that
    it may be of then."""

    reading: Reading | None
    candidates: tuple[str, ...] = ()


def recognise(facts: Facts) -> Recognised:
    """The kind of a network: by what its file says, else by its outputs where these are of one
    kind alone."""
    facts = facts.without_counts()
    found = ultralytics.find(facts) or classes.find(facts)
    if found is not None:
        return Recognised(found)
    readings = [r for kind in KINDS.values() if (r := kind.find(facts)) is not None]
    sure = [reading for reading in readings if reading.sure]
    if len(sure) == 1 and sure[0].kind == "yolo" and _has_classes_of_pixels(facts):
        # YOEO without the names of its classes: as YOLO it would lose its mask.
        return Recognised(None, ("yoeo", "yolo"))
    if len(sure) == 1:
        return Recognised(sure[0])
    return Recognised(None, tuple(reading.kind for reading in readings))


def _has_classes_of_pixels(facts: Facts) -> bool:
    """Whether an output is an integer for each pixel of the image."""
    return any(
        not spec.dtype.startswith(("float", "bfloat"))
        and not is_real(spec)
        and facts.size is not None
        and tuple(spec.shape) in ((1, *facts.size), (1, 1, *facts.size))
        for spec in facts.outputs
    )


def read_as(kind: str, facts: Facts) -> Reading:
    """The network as one of a kind, among KINDS.

    Raises InputError where its outputs are not of this kind.
    """
    facts = facts.without_counts()
    by_file = ultralytics.find(facts)
    found = by_file if by_file is not None and by_file.kind == kind else KINDS[kind].find(facts)
    if found is None:
        inputs = "" if facts.size else f", inputs {described(facts.inputs)}: no one image"
        raise InputError(
            f"a network of kind {kind} has {KINDS[kind].form}; found outputs "
            f"{described(facts.outputs)}{inputs}: choose another --kind, or network to compile it "
            "as it is"
        )
    return found
