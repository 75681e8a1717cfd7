"""Two teams of like robots, as leagues have whose robots are all of one kind."""

from __future__ import annotations

from dataclasses import dataclass, replace

import humanoids
import numpy as np
from robots import TEAM_COLOURS, Colour
from shapes import Part
from smooth_robots import Build, draw_build, draw_stout, smooth_humanoid

# What players do, and the shares of it.
POSES = {"walk": 0.45, "stand": 0.3, "crouch": 0.05, "kneel": 0.03, "sit": 0.03,
         "fall": 0.05, "lie": 0.09}  # fmt: skip


@dataclass(frozen=True)
class Teams:
    """kind: of a package's robots, None where they have shells of `build`. build, finish: what all
    robots share but for their shirts. shirts: of both teams, then of their goalkeepers."""

    kind: str | None
    tall: float
    build: Build
    finish: humanoids.Finish
    shirts: tuple[Colour, ...]

    def player(self, rng: np.random.Generator, number: int, meshes: humanoids.Robots) -> list[Part]:
        """A robot of the team that a number is of, or one without a shirt."""
        goalkeeper = 2 * int(rng.random() < 0.12)
        shirt = self.shirts[number % 2 + goalkeeper] if rng.random() < 0.92 else None
        pose = str(rng.choice(list(POSES), p=list(POSES.values())))
        if self.kind is None:
            return smooth_humanoid(rng, pose, replace(self.build, shirt=shirt))
        finish = replace(self.finish, shirt=shirt)
        return humanoids.humanoid(rng, meshes, self.kind, pose, self.tall, finish=finish)


def draw_teams(rng: np.random.Generator, kinds: list[str]) -> Teams:
    """Teams of one of the packages' kinds, or of a robot that is made up, small and stout ones more
    often than others."""
    made_up = not kinds or rng.random() < 0.5
    build = draw_stout(rng) if rng.random() < 0.75 else draw_build(rng)
    order = rng.permutation(len(TEAM_COLOURS))
    return Teams(
        None if made_up else str(rng.choice(kinds)),
        float(rng.uniform(0.48, 0.75)),
        build,
        humanoids.draw_finish(rng),
        tuple(TEAM_COLOURS[i] for i in order[:4]),
    )
