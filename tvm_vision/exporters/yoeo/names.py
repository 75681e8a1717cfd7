"""Names of a YOEO network's classes, and groups of classes that stand for one thing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as short
from typing import Any

from ...errors import InputError
from ...models.yaml_file import read_yaml
from ...package import ClassGroup
from .config import YoeoConfig


@dataclass(frozen=True)
class ClassNames:
    """Names of the boxes' and of the pixels' classes, in the order of the network's outputs."""

    detection: tuple[str, ...]
    segmentation: tuple[str, ...]

    @classmethod
    def default(cls, config: YoeoConfig) -> ClassNames:
        """ "class0", "class1", ... of both."""
        return cls(_numbered(config.classes), _numbered(config.segmentation_classes))

    def check(self, config: YoeoConfig) -> None:
        """Raise InputError where there is not one name for each class."""
        for kind, names, classes in (
            ("detection", self.detection, config.classes),
            ("segmentation", self.segmentation, config.segmentation_classes),
        ):
            if len(names) != classes:
                raise InputError(
                    f"{classes} names are needed under '{kind}', one for each class of "
                    f"'{config.name}', found {len(names)} ({', '.join(names) or 'none'})"
                )


def check_groups(groups: Sequence[ClassGroup], names: ClassNames) -> None:
    """Raise InputError where a group has a class that the network lacks, or another group has."""
    taken: dict[str, str] = {}
    for group in groups:
        for name in group.classes:
            if name not in names.detection:
                raise InputError(
                    f"the group '{group.surrogate}' needs classes of the network, which are "
                    f"{', '.join(names.detection) or 'none'}, found '{name}'"
                )
            if name in taken:
                raise InputError(
                    f"'{name}' must be in one group, found it in '{taken[name]}' and "
                    f"'{group.surrogate}'"
                )
            taken[name] = group.surrogate


def read_names(path: Path) -> ClassNames:
    """YOEO's YAML of names: lists under "detection" and "segmentation"; one may be missing.

    A robot's model_config.yaml, with the lists under "classes" in each, is taken too. Raises
    InputError where it cannot be read or is of another form.
    """
    document = _mapping(read_yaml(path), path, "detection", "segmentation")
    return ClassNames(
        _strings(_list_of(document, "detection"), path, "detection"),
        _strings(_list_of(document, "segmentation"), path, "segmentation"),
    )


def _list_of(document: Mapping[str, Any], part: str) -> Any:
    found = document.get(part)
    return found["classes"] if isinstance(found, Mapping) and "classes" in found else found


def read_groups(path: Path) -> tuple[ClassGroup, ...]:
    """YOEO's YAML of one group ("group_classes", "surrogate_class"), or a list of such.

    An empty group, as in YOEO's default file, is none. Raises InputError as ``read_names``.
    """
    content = read_yaml(path)
    groups = []
    for item in content if isinstance(content, list) else [content]:
        document = _mapping(item, path, "group_classes", "surrogate_class")
        classes = _strings(document.get("group_classes"), path, "group_classes")
        surrogate = document.get("surrogate_class")
        if classes and not (isinstance(surrogate, str) and surrogate):
            raise InputError(
                f"'{path}': 'surrogate_class' must be a name, found {short(surrogate)}"
            )
        if classes:
            groups.append(ClassGroup(str(surrogate), classes))
    return tuple(groups)


def _numbered(count: int) -> tuple[str, ...]:
    return tuple(f"class{index}" for index in range(count))


def _mapping(content: Any, path: Path, *keys: str) -> Mapping[str, Any]:
    if not isinstance(content, Mapping) or not any(key in content for key in keys):
        raise InputError(
            f"'{path}' must have the keys {' and '.join(keys)}, found "
            + (", ".join(map(str, content)) if isinstance(content, Mapping) else short(content))
        )
    return content


def _strings(value: Any, path: Path, key: str) -> tuple[str, ...]:
    """A list of names; nothing counts as an empty list."""
    items: Iterable[Any] = value if isinstance(value, list) else [] if value is None else [value]
    names = []
    for item in items:
        if not isinstance(item, str) or not item:
            raise InputError(
                f"'{path}': a list of names is needed under '{key}', found {short(item)}: put "
                "names that YAML reads as something else in quotes"
            )
        if item in names:
            raise InputError(f"'{path}': '{key}' has the name '{item}' twice")
        names.append(item)
    return tuple(names)
