"""Write networks into a folder; see __init__.py."""

from __future__ import annotations

import argparse
from pathlib import Path

from . import __doc__ as about
from . import write


def main() -> None:
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="the first")
    parser.add_argument("--wide", action="store_true", help="layers as wide as those that are used")
    options = parser.parse_args()
    write(options.folder, range(options.seed, options.seed + options.count), options.wide)


if __name__ == "__main__":
    main()
