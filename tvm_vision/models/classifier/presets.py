"""Preprocessing of families of classifiers by name, as numbers of published reference code."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

from ...errors import InputError
from ...file_kinds import JSON, TEXT, need
from ...package import Preprocessing
from ...package.fields import naming, parse_object
from ...plain_files import read_plain

REMEDY = "write what the docs say of --preprocess"
# torchvision and most others: pixels in 0..1, then mean and deviation of ImageNet's channels; the
# shorter side to 256 and a centre crop of 224, which is a crop of 224 / 256 first.
IMAGENET_MEAN = (0.485 * 255, 0.456 * 255, 0.406 * 255)
IMAGENET_STD = (0.229 * 255, 0.224 * 255, 0.225 * 255)
PRESETS: dict[str, Preprocessing] = {
    "imagenet": Preprocessing(crop=224 / 256, mean=IMAGENET_MEAN, std=IMAGENET_STD),
    # TensorFlow TPU models, efficientnet/lite: (pixel - 127) / 128, a crop of 224 / (224 + 32).
    "efficientnet-lite": Preprocessing(crop=224 / 256, mean=(127.0,) * 3, std=(128.0,) * 3),
    # TensorFlow's "inception" preprocessing: -1..1.
    "inception": Preprocessing(crop=0.875, mean=(127.5,) * 3, std=(127.5,) * 3),
    "unit": Preprocessing(std=(255.0,) * 3),
    "pixels": Preprocessing(),
}


def preset(
    name: str, size: tuple[int, int] = (0, 0), usual: Preprocessing = PRESETS["pixels"]
) -> Preprocessing:
    """The preset for a tensor of ``size`` (height, width; (0, 0): as the network has it).

    name: one of PRESETS, or the path of a JSON file that has their fields. usual: what counts for
    those that are missing there; a file that says how an image is fitted says all of that.

    Raises InputError for another name, or another form of the file.
    """
    found = PRESETS.get(name)
    if found is not None:
        fields = asdict(found)
    elif name.endswith(".json"):
        said = _read(Path(name))
        if not said.keys().isdisjoint(("crop", "letterbox", "stretch")):
            usual = replace(usual, crop=1.0, letterbox=False, stretch=False)
        if said.get("color_order") == "gray":
            usual = usual.in_gray()
        fields = {**asdict(usual), **said}
    else:
        raise InputError(
            f"a preprocessing of {', '.join(PRESETS)} or a .json file is needed, found '{name}'"
        )
    # Checked with a size that is valid, since (0, 0) stands for none.
    document = json.loads(json.dumps({**fields, "size": [1, 1]}))
    with naming(name, REMEDY):
        return replace(Preprocessing.from_json(document, "preprocessing"), size=size)


def _read(path: Path) -> dict[str, object]:
    need(path, "a .json file of preprocessing", JSON, TEXT)
    try:
        with naming(path, REMEDY):
            content = parse_object(read_plain(path))
    except OSError as error:
        raise InputError(f"'{path}' cannot be read ({error.strerror}): check the path") from None
    if not isinstance(content, dict):
        raise InputError(f"'{path}' must be a JSON object, found {type(content).__name__}")
    return content
