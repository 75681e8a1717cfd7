"""Renders training scenes: python training/render.py --count 2000 --out scenes --seed 1

One process renders; start several with different seeds. A shard holds images uint8
[n,512,512,3] (RGB, the image centred on black), classes uint8 [n,512,512] (255 is padding), boxes
float32 [n,40,5] (class, x1, y1, x2, y2 in pixels of the 512; class -1 ends the list, class 9 marks
a region that counts neither as object nor as background).
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

os.environ.setdefault("MUJOCO_GL", "egl")

import cv2
import numpy as np
import torch
from mesh_files import check_named, load
from recipes import RECIPES
from studio import Studio


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=200, help="how many images")
    parser.add_argument("--per-world", type=int, default=16, help="how many shots of each world")
    parser.add_argument("--out", type=Path, required=True, help="folder for the shards")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--recipe", type=int, choices=sorted(RECIPES), default=max(RECIPES), help="of the scenes"
    )
    parser.add_argument("--panoramas", type=Path, help="folder of equirectangular .jpg backgrounds")
    parser.add_argument("--meshes", type=Path, help="file of mesh_files.py, from recipe 5 on")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    recipe = RECIPES[options.recipe]
    check_named(options.meshes, [recipe])
    meshes = load(options.meshes) if recipe.meshes else None
    rng = np.random.default_rng(options.seed)
    options.out.mkdir(parents=True, exist_ok=True)
    studio = Studio(rng, options.panoramas, options.device, recipe, meshes)
    began, done, shard = time.perf_counter(), 0, 0
    while done < options.count:
        studio.open_world()
        shots = [studio.shot() for _ in range(min(options.per_world, options.count - done))]
        studio.close_world()
        images, masks, boxes = (np.stack(column) for column in zip(*shots, strict=True))
        name = options.out / f"{options.seed:04d}_{shard:04d}"
        partial = name.with_suffix(".part")
        with partial.open("wb") as file:
            np.savez(file, images=images, masks=masks, boxes=boxes)
        partial.rename(name.with_suffix(".npz"))
        done, shard = done + len(shots), shard + 1
        if shard % 10 == 0:
            rate = done / (time.perf_counter() - began)
            print(
                f"seed {options.seed}: {done} of {options.count} images, {rate:.1f} a second",
                flush=True,
            )


if __name__ == "__main__":
    main()
