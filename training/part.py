"""One part of a training, with renderers beside it: python training/part.py --part 1 --of 2

Starts renderers of scenes with seeds of the part, trains until the part's minutes are over, and
ends the renderers. The parts of a run make one training: the step size falls from the first to the
last, and each goes on with the checkpoint of the one before, in --out. What a part needs: the
panoramas (panoramas.py), the robots' meshes (mesh_files.py) and, for the first, weights to begin
with (of unfold.py, or of another network).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from mesh_files import check_named
from recipes import RECIPES

HERE = Path(__file__).resolve().parent
# Of the seeds: each part and each renderer has its own, none of a held-out set, which begin with 9.
FIRST_SEED, SEEDS = 100, 50
# The training has a core whenever it wants one: a GPU that waits for its next kernels costs more
# than a scene that comes later.
GIVE_WAY = ("nice", "-n", "19")
ENOUGH = 100_000  # images, which no renderer reaches


def renderers(options: argparse.Namespace) -> list[subprocess.Popen[bytes]]:
    """Starts them."""
    first = FIRST_SEED + options.seed * 500 + options.part * SEEDS
    started = []
    for number in range(options.renderers):
        command = [
            *GIVE_WAY, sys.executable, str(HERE / "render.py"), "--count", str(ENOUGH),
            "--seed", str(first + number), "--out", str(options.scenes), "--device", "cpu",
            "--recipe", str(options.recipes[number % len(options.recipes)]),
        ]  # fmt: skip
        for name in ("panoramas", "meshes"):
            if getattr(options, name):
                command += [f"--{name}", str(getattr(options, name))]
        started.append(subprocess.Popen(command))
    return started


def training(options: argparse.Namespace) -> list[str]:
    """The command of train.py for this part."""
    checkpoint = options.out / "checkpoint.pt"
    command = [
        sys.executable, str(HERE / "train.py"), "--shards", str(options.scenes),
        "--out", str(options.out), "--minutes", str(options.of * options.minutes),
        "--pause", str(options.part * options.minutes), "--seed", str(options.part),
    ]  # fmt: skip
    if options.config:
        command += ["--config", str(options.config)]
    if options.part > 1:
        if not checkpoint.is_file():
            raise SystemExit(
                f"'{checkpoint}' of the part before is needed, found none: run part "
                f"{options.part - 1} first, or put its checkpoint there"
            )
        command += ["--resume", str(checkpoint)]
    elif options.start:
        command += ["--start", str(options.start)]
    return command + options.train


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", type=int, required=True)
    parser.add_argument("--of", type=int, required=True, help="how many parts there are")
    parser.add_argument("--minutes", type=float, default=8.3, help="of each part")
    parser.add_argument("--scenes", type=Path, default=Path("build/scenes"))
    parser.add_argument("--panoramas", type=Path)
    parser.add_argument("--meshes", type=Path, help="file of mesh_files.py, from recipe 5 on")
    parser.add_argument("--out", type=Path, default=Path("build/run"))
    parser.add_argument("--start", type=Path, help="weights for the first part to begin with")
    parser.add_argument("--config", type=Path, help="of the network, else the demo's")
    parser.add_argument("--seed", type=int, default=1, help="of the run")
    parser.add_argument(
        "--renderers", type=int, default=max(1, (os.cpu_count() or 2) - 1), help="beside it"
    )
    parser.add_argument(
        "--recipes", type=int, nargs="+", choices=sorted(RECIPES), default=[max(RECIPES)],
        metavar="NUMBER", help="of the scenes, which the renderers take in turn: 7 7 6 5 4 7 1",
    )  # fmt: skip
    parser.add_argument("train", nargs="*", help="after --, options of train.py")
    options = parser.parse_args()
    if not 1 <= options.part <= options.of:
        raise SystemExit(f"a part from 1 to {options.of} is needed, found {options.part}")
    check_named(options.meshes, [RECIPES[number] for number in options.recipes])
    options.out.mkdir(parents=True, exist_ok=True)
    command = training(options)
    beside = renderers(options)
    try:
        code = subprocess.call(command)
    finally:
        for each in beside:
            each.terminate()
        for each in beside:
            each.wait()
    if code:
        raise SystemExit(code)


if __name__ == "__main__":
    main()
