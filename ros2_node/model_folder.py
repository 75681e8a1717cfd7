"""Which package the parameter ``model`` means: a package, or a folder as bit-bots' robots have it.

Such a folder holds ``model_config.yaml`` with the names of the classes, and the network beside it
or in ``tvm/``. The names count over those of the package.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from reprlib import repr as short
from typing import Any

from tvm_vision.errors import InputError, PackageError
from tvm_vision.models.results import VisionResult
from tvm_vision.models.thresholds import Thresholds
from tvm_vision.models.yaml_file import read_yaml

CONFIG = "model_config.yaml"
# What TVM's former graph executor loads.
FORMER = ("yoeo.so", "yoeo.json", "yoeo.params")


@dataclass(frozen=True)
class ModelSource:
    """A package to load. detection, segmentation: names instead of its own, or None."""

    package: Path
    detection: tuple[str, ...] | None = None
    segmentation: tuple[str, ...] | None = None


def find_model(model: str) -> ModelSource:
    """The package behind the value of the parameter ``model``; nothing of it is loaded yet.

    Raises InputError, with what to do, where there is none.
    """
    if not model:
        raise InputError(
            "the parameter model is needed and empty: give the path of a package, for example "
            "model:=/path/to/yoeo.tar"
        )
    try:
        return _find(Path(model).expanduser())
    except (OSError, RuntimeError) as error:
        # No permission, a name that is too long, the home of somebody who is not known.
        reason = getattr(error, "strerror", None) or error
        found = f"{model!r:.200} cannot be read ({reason})"
        raise InputError(f"a package is needed, and {found}: check model") from None


def _find(path: Path) -> ModelSource:
    if not path.exists():
        raise InputError(f"a package is needed, and '{path}' does not exist: check model")
    if not path.is_dir() or (path / "mod.json").exists():
        return ModelSource(path)
    package = _package_in(path)
    config = path / CONFIG
    if not config.is_file():
        return ModelSource(package)
    detection, segmentation = read_config(config)
    return ModelSource(package, detection, segmentation)


def _package_in(folder: Path) -> Path:
    places = [folder, folder / "tvm"]
    found = [place for place in places[1:] if (place / "mod.json").exists()]
    for place in places:
        found += sorted(place.glob("*.tar"))
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(str(path.relative_to(folder)) for path in found)
        raise InputError(f"one package is needed in '{folder}', found {names}: name one in model")
    former = all((folder / "tvm" / name).exists() for name in FORMER)
    command = _command(folder, former)
    if former:
        raise InputError(
            f"'{folder / 'tvm'}' holds a network for TVM's former graph executor "
            f"({', '.join(FORMER)}), which TVM no longer has: compile its ONNX file anew with "
            f"{command}"
        )
    raise InputError(
        f"a package (.tar, or a folder with mod.json) is needed, and '{folder}' has none: compile "
        f"one with {command}"
    )


def _command(folder: Path, former: bool) -> str:
    """What makes the package of a folder, to be pasted into a shell."""
    networks = sorted(folder.glob("*.onnx")) + sorted(folder.glob("onnx/*.onnx"))
    network = networks[0] if networks else Path("yoeo.onnx" if former else "network.onnx")
    if network.stem != "yoeo" and not former:
        return shlex.join(["tvm-vision", "compile", str(network), "-o", f"{folder}/model.tar"])
    config = folder / CONFIG
    names = ["--names", str(config)] if config.is_file() else []
    target = str(folder / "yoeo.tar")
    return shlex.join(["tvm-vision", "yoeo-onnx-to-tvm", str(network), *names, "-o", target])


def read_config(path: Path) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    """Names of the detected and of the segmented classes, None for what is not in the file.

    Raises InputError where it is not ``detection: {classes: [...]}, segmentation: {...}``.
    """
    content = read_yaml(path)
    if not isinstance(content, dict):
        raise InputError(f"'{path}' must have detection and segmentation, found {short(content)}")
    return _classes(content, "detection", path), _classes(content, "segmentation", path)


def _classes(content: dict[str, Any], part: str, path: Path) -> tuple[str, ...] | None:
    section = content.get(part)
    if section is None:
        return None
    names = section.get("classes") if isinstance(section, dict) else None
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise InputError(
            f"'{path}': {part}: classes: must be a list of names, found {short(section)}"
        )
    if len(set(names)) != len(names):
        raise InputError(f"'{path}': {part}: classes: has a name twice, found {short(names)}")
    return tuple(names)


class RenamedModel:
    """A network whose classes have other names; everything else is the network's own."""

    def __init__(self, model: Any, source: ModelSource) -> None:
        """Raises PackageError where there are not as many names as classes."""
        self._model = model
        self.class_names = _names(source.detection, model.class_names, "detection")
        self.segmentation_names = _names(
            source.segmentation, model.segmentation_names, "segmentation"
        )
        if isinstance(model, Thresholds):
            model.call_classes(self.class_names)

    def __call__(self, image: Any) -> VisionResult:
        result = self._model(image)
        if result.detections is not None:
            named = replace(result.detections, class_names=self.class_names)
            result = replace(result, detections=named)
        if result.segmentation is not None:
            mask = replace(result.segmentation, class_names=self.segmentation_names)
            result = replace(result, segmentation=mask)
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    @property
    def network(self) -> Any:
        """The network itself, whose thresholds can be set."""
        return self._model


def _names(wanted: tuple[str, ...] | None, own: tuple[str, ...], part: str) -> tuple[str, ...]:
    if wanted is None:
        return own
    if len(wanted) != len(own):
        raise PackageError(
            f"{len(own)} names are needed under {part} in {CONFIG}, one for each class of the "
            f"package ({', '.join(own) or 'none'}), found {len(wanted)} ({', '.join(wanted)})"
        )
    return wanted
