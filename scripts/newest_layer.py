"""Runs Python under the newest validation layer that Debian has, on its newest lavapipe.

  python scripts/newest_layer.py -m pytest tests/vulkan tests/runtime

Both are unpacked from Debian's unstable suite into build/newest the first time, about 60 MB;
nothing is installed. What follows is given to Python as scripts/on_driver.py does it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tvm_vision.errors import TvmVisionError
from tvm_vision.offline import unpacked

ROOT = Path(__file__).resolve().parents[1]
# A cache of its own: on_driver.py takes the drivers of the user's.
CACHE = ROOT / "build" / "newest"
LAYER = "vulkan-validationlayers"


def main() -> None:
    """Becomes the command."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    os.environ["XDG_CACHE_HOME"] = str(CACHE)
    root = unpacked.folder()
    if unpacked.find() is None:
        packages = (*unpacked.PACKAGES, LAYER)
        unpacked.unpack(root, packages, (*unpacked.SUITES, "sid"), print)
    found = unpacked.find()
    if found is None:
        sys.exit(f"no driver was unpacked into '{root}'")
    print(f"{LAYER} {found.versions.get(LAYER)}", flush=True)
    os.environ["VK_LAYER_PATH"] = str(root / "usr/share/vulkan/explicit_layer.d")
    os.environ["TVM_VISION_NEWEST_LAYER"] = "1"
    script = str(Path(__file__).with_name("on_driver.py"))
    os.execv(sys.executable, [sys.executable, script, "lavapipe", *sys.argv[1:]])


if __name__ == "__main__":
    try:
        main()
    except TvmVisionError as error:
        sys.exit(str(error))
