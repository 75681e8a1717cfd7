"""Pictures of the pages that ``profile --html`` and ``show`` write of the demo's network, for docs.

    python scripts/page_pictures.py docs/images

Needs Chromium: ``apt install chromium-headless-shell``. What the pages say is of the device here.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import cv2

import tvm_vision
from tvm_vision.demo.images import MODEL

BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")
COMMAND = (sys.executable, "-m", "tvm_vision")
# Width and height of the window in pixels, and the rows that are kept.
PAGES = {"profile": (1100, 1500, 1330), "show": (1100, 760, 760)}


def screenshot(browser: str, page: Path, picture: Path, width: int, height: int) -> None:
    """The page as it is seen in a window of that size."""
    subprocess.run(
        [
            browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
            f"--user-data-dir={page.parent / 'user'}", f"--window-size={width},{height}",
            f"--screenshot={picture}", page.as_uri(),
        ],
        check=True,
        capture_output=True,
        timeout=120,
    )  # fmt: skip


def main() -> None:
    """Write FOLDER/profile.png and FOLDER/show.png."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise SystemExit("Chromium is needed: apt install chromium-headless-shell")
    with tempfile.TemporaryDirectory() as scratch:
        package, pages = Path(scratch, "demo.tar"), {n: Path(scratch, f"{n}.html") for n in PAGES}
        tvm_vision.compile(MODEL, package, target="vulkan")
        for words in (
            ["profile", package, "--repeat", "3", "--warmup", "1", "--html", pages["profile"]],
            ["show", package, "--model", MODEL, "-o", pages["show"]],
        ):
            subprocess.run([*COMMAND, *map(str, words)], check=True, stdout=subprocess.DEVNULL)
        for name, (width, height, rows) in PAGES.items():
            taken = Path(scratch, f"{name}.png")
            screenshot(browser, pages[name], taken, width, height)
            kept = cv2.imread(str(taken))
            assert kept is not None, taken
            cv2.imwrite(str(folder / f"{name}.png"), kept[:rows], [cv2.IMWRITE_PNG_COMPRESSION, 9])
            print(f"wrote {folder / f'{name}.png'}")


if __name__ == "__main__":
    main()
