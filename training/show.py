"""Renders the demo's four images and its clip: python training/show.py --panoramas panoramas

None of these scenes is in the training: the seeds are others. The images are those of the shots
that the list names; the clip is one world in which the camera walks and the ball rolls.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

os.environ.setdefault("MUJOCO_GL", "egl")

import cv2
import numpy as np
import torch
from appearance import draw_lights
from cameras import Camera
from shapes import rotation
from staging import Director
from studio import Studio

DEMO = Path(__file__).resolve().parents[1] / "tvm_vision" / "demo"
WIDE, HIGH = 640, 480
SEED = 9501
# Of the shots of this seed, two of each world, those that the demo shows.
SHOWN = (1, 5, 8, 10)
CLIP_SEED, FRAMES, RATE = 9601, 45, 15


def develop(
    image: torch.Tensor, rng: np.random.Generator, noise: float = 0.012, soft: float = 0.6
) -> np.ndarray:
    """A rendering as a camera gives it, a little soft and noisy: uint8 [480,640,3], BGR."""
    image = image.clamp(0, 1).cpu().numpy()
    image = cv2.resize(image, (WIDE, HIGH), interpolation=cv2.INTER_AREA)
    image = cv2.GaussianBlur(image, (0, 0), soft)
    image = image + rng.normal(0, noise, image.shape)
    return (image.clip(0, 1) * 255).round().astype(np.uint8)[..., ::-1]


def images(folder: Path, panoramas: Path | None, seed: int, shown: tuple[int, ...]) -> None:
    """Writes the shots of a seed that are shown as 1.jpg, 2.jpg, ..."""
    rng = np.random.default_rng(seed)
    studio = Studio(rng, panoramas, "cpu")
    folder.mkdir(parents=True, exist_ok=True)
    for index in range(max(shown) + 1):
        if index % 2 == 0:
            world = studio.open_world()
        camera, director = Camera(rng, world.field.half, 576), Director(world, rng)
        director.arrange(camera)
        draw_lights(rng, world.model, camera)
        image, _, _ = studio.take(camera, studio.appearance(director), studio.coat())
        if index in shown:
            name = folder / f"{shown.index(index) + 1}.jpg"
            cv2.imwrite(str(name), develop(image, rng), [cv2.IMWRITE_JPEG_QUALITY, 88])
        if index % 2 == 1:
            studio.close_world()


def clip(path: Path, panoramas: Path | None, seed: int) -> None:
    """Writes a clip of one world: the camera walks and turns, the first ball rolls to the goal."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    studio = Studio(rng, panoramas, "cpu")
    world = studio.open_world()
    half = world.field.half
    camera = Camera(rng, half, 576)
    camera.at = np.array([half[0] - 3.4, -1.1, 0.75])
    camera.aim(np.array([half[0] - 0.4, 0.2]), 0.24, np.radians(72), 0.0)
    director = Director(world, rng)
    director.arrange(camera)
    draw_lights(rng, world.model, camera)
    look, coat = studio.appearance(director), studio.coat()
    ball = next(thing for thing in world.things if thing.kind == "ball")
    start, end = np.array([half[0] - 1.9, -0.9]), np.array([half[0] + 0.15, 0.35])
    rest = list(look.contacts)
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"mp4v"), RATE, (WIDE, HIGH))
    for frame in range(FRAMES):
        done = frame / (FRAMES - 1)
        here = start + (end - start) * (1 - (1 - done) ** 2)
        way = float(np.linalg.norm(here - start))
        heading = float(np.arctan2(*(end - start)[::-1]))
        turn = rotation("z", heading) @ rotation("y", way / ball.radius)
        world.put(ball, np.array([*here, 0.0]), turn)
        spot = torch.tensor(here, dtype=torch.float32)
        look.contacts = [*rest, (spot, ball.radius * 1.2, 0.5)]
        sway = np.sin(done * 4 * np.pi)
        camera.at = np.array([half[0] - 3.4 + 0.8 * done, -1.1 + 0.25 * done, 0.75 + 0.012 * sway])
        aim = np.array([half[0] - 0.4, 0.2 + 0.5 * np.sin(done * np.pi)])
        camera.aim(aim, 0.24 + 0.05 * done, np.radians(72), 0.012 * sway)
        image, _, _ = studio.take(camera, look, coat)
        # Noise and blades of grass would be most of what the file holds.
        writer.write(develop(image, rng, noise=0.0, soft=0.95))
    writer.release()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--panoramas", type=Path, help="folder of equirectangular .jpg backgrounds")
    parser.add_argument("--out", type=Path, default=DEMO)
    parser.add_argument("--seed", type=int, default=SEED, help="of the images")
    parser.add_argument("--shots", type=int, nargs="+", default=list(SHOWN))
    parser.add_argument("--clip-seed", type=int, default=CLIP_SEED)
    parser.add_argument("--only", choices=("images", "clip"))
    options = parser.parse_args()
    if options.only != "clip":
        shots = tuple(options.shots)
        images(options.out / "images", options.panoramas, options.seed, shots)
    if options.only != "images":
        clip(options.out / "images" / "clip.mp4", options.panoramas, options.clip_seed)


if __name__ == "__main__":
    main()
