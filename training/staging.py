"""What stands where in a shot: things are placed at random, but as a game has them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from cameras import Camera
from recipes import Recipe
from shapes import rotation
from world import Thing, World


def lying(rng: np.random.Generator) -> np.ndarray:
    """The orientation [3,3] of a robot that lies on its front, back or side."""
    axis = str(rng.choice(["x", "y", "y"]))
    flat = rotation(axis, rng.choice([-1, 1]) * (np.pi / 2 + rng.normal(0, 0.15)))
    return rotation("z", rng.uniform(0, 2 * np.pi)) @ flat


def turned_anyhow(rng: np.random.Generator) -> np.ndarray:
    """An orientation [3,3] at random."""
    turn, _ = np.linalg.qr(rng.standard_normal((3, 3)))
    return turn * np.sign(np.linalg.det(turn))


@dataclass(frozen=True)
class Stray:
    """Where a kind of thing stands that is no part of a game, in metres: the share of images with
    it; the share of these where it stands anywhere in view, nearest to farthest away; how far off
    the carpet the others are, least and most; and the room that it takes (0: its own)."""

    share: float
    near: float
    nearest: float
    farthest: float
    least: float
    most: float
    room: float = 0.0


STRAYS = {
    "person": Stray(0.8, 0.3, 0.6, 7.0, -0.15, 3.0, 0.35),
    "trifle": Stray(0.7, 0.4, 0.6, 7.0, -0.4, 2.5, 0.2),
    "upright": Stray(0.8, 0.12, 1.0, 7.0, -0.2, 3.0, 0.3),
    "round": Stray(0.6, 0.55, 0.4, 6.0, -0.3, 2.5),
    "furniture": Stray(0.45, 0.12, 0.8, 4.0, -0.1, 1.0, 0.35),
}
# What stands beside the carpet: how far off its edge in metres, least and most, and whether it
# faces the field.
BESIDE = {
    "banner": (0.0, 0.8, True),
    "fence": (0.6, 5.0, True),
    "board": (0.1, 3.0, True),
    **dict.fromkeys(("table", "chair", "pole", "bin", "heap", "stand"), (0.15, 4.0, False)),
}
# How much higher a robot is than the middle of its highest part.
OVER_MIDDLE = 1.08
# Of people in a match, those who stand on the field: a referee, or somebody else.
REFEREES = 0.06


def _of_shot(recipe: Recipe, match: bool) -> Recipe:
    """What a match has of a recipe, and what any other shot has."""
    if match:
        return replace(recipe, close=0.0, rows=0.0, far=0.0, hidden=0.0, behind=0.0)
    return replace(recipe, crowded=0.0)


class Director:
    """Arranges the things of a world for one shot."""

    def __init__(self, world: World, rng: np.random.Generator) -> None:
        self.world, self.rng = world, rng
        self.taken: list[tuple[np.ndarray, float]] = []
        self.contacts: list[tuple[np.ndarray, float, float]] = []
        self.feet: list[np.ndarray] = []  # where robots stand
        self.lit: list[np.ndarray] = []  # where balls lie that the sun may shine on
        self.glare: np.ndarray | None = None  # where one of them is too bright
        self.match = False
        self.recipe: Recipe  # of the shot, from ``arrange`` on

    def _free(self, at: np.ndarray, radius: float) -> bool:
        return all(
            np.linalg.norm(at[:2] - other) > 0.7 * (radius + reach) for other, reach in self.taken
        )

    def _spot(self, camera: Camera, near: float, far: float) -> np.ndarray:
        rng = self.rng
        if rng.random() < 0.4:
            point = camera.ground_point(rng.uniform(0.02, 0.98), rng.uniform(0.05, 0.98))
            if point is not None and np.linalg.norm(point[:2] - camera.at[:2]) > near:
                return point
        distance = float(np.exp(rng.uniform(np.log(near), np.log(far))))
        bearing = camera.yaw + rng.uniform(-0.52, 0.52) * camera.across
        return np.array(
            [*(camera.at[:2] + distance * np.array([np.cos(bearing), np.sin(bearing)])), 0.0]
        )

    def _at_distance(self, camera: Camera, distance: float, aside: float = 0.47) -> np.ndarray:
        """A place so far away, in view. aside: how far from the image's middle at most, in
        widths."""
        bearing = camera.yaw + self.rng.uniform(-aside, aside) * camera.across
        way = np.array([np.cos(bearing), np.sin(bearing)])
        return np.array([*(camera.at[:2] + distance * way), 0.0])

    def _beyond(self, camera: Camera, low: float, high: float) -> np.ndarray:
        """A place off the carpet, in view."""
        bearing = camera.yaw + self.rng.uniform(-0.55, 0.55) * camera.across
        way = np.array([np.cos(bearing), np.sin(bearing)])
        edge = np.array(self.world.field.half) + self.world.field.border
        reach = min(
            (np.sign(way[i]) * edge[i] - camera.at[i]) / way[i] if abs(way[i]) > 1e-3 else 99.0
            for i in (0, 1)
        )
        distance = max(reach, 0.4) + self.rng.uniform(low, high)
        return np.array([*(camera.at[:2] + distance * way), 0.0])

    def _put(self, thing: Thing, at: np.ndarray, facing: float) -> None:
        self.world.put(thing, at, rotation("z", facing))
        self.taken.append((at[:2].copy(), thing.radius))

    def _put_robot(self, thing: Thing, at: np.ndarray, facing: float, fallen: float = 0.0) -> None:
        """With its shadow, and its feet noted. fallen: of the package's robots, those that lie."""
        rng = self.rng
        self._put(thing, at, facing)
        if fallen and thing.kind == "packaged" and rng.random() < fallen:
            self.world.put(thing, at, lying(rng))
        self.contacts.append((at[:2].copy(), 0.2, rng.uniform(0, 0.45)))
        self.feet.append(at)

    def _on_field(self, camera: Camera) -> np.ndarray:
        """A place on the carpet, mostly one in view."""
        half, border = np.array(self.world.field.half), self.world.field.border
        place = np.zeros(3)
        anywhere = self.rng.random() < 0.15
        for _ in range(12):
            place[:2] = self.rng.uniform(-1, 1, 2) * (half + 0.5 * border)
            gap = place[:2] - camera.at[:2]
            turn = np.arctan2(gap[1], gap[0]) - camera.yaw
            if anywhere or abs((turn + np.pi) % (2 * np.pi) - np.pi) < 0.48 * camera.across:
                break
        return place

    def arrange(self, camera: Camera, match: bool = False) -> None:
        """match: as a game has them, with nothing on the carpet that does not belong there."""
        rng, world = self.rng, self.world
        self.match, self.recipe = match, _of_shot(world.recipe, match)
        for thing in world.things:
            world.hide(thing)
        self.taken.append((camera.at[:2], 0.45))
        self._put_goals()
        self._put_players(camera)
        for thing in world.things:
            if thing.kind in STRAYS:
                self._put_stray(thing, camera)
            elif thing.kind == "lure" and rng.random() < (0.0 if match else 0.35):
                self._put(thing, self._spot(camera, 0.6, 6.0), rng.uniform(0, 6.3))
            elif thing.kind in BESIDE and rng.random() < 0.8:
                self._put_beside(thing, camera)
        if self.recipe.hidden:
            self._hide_some(camera)
        if self.recipe.behind:
            self._put_behind(camera)
        self._show_carrier(camera)
        shown = [at for at in self.lit if camera.sees(at)]
        if self.recipe.glare and shown and rng.random() < self.recipe.glare:
            self.glare = shown[int(rng.integers(len(shown)))]

    def _put_goals(self) -> None:
        rng, world = self.rng, self.world
        for side, thing in zip((-1, 1), (t for t in world.things if t.kind == "goal"), strict=True):
            if rng.random() < 0.93:
                at = np.array([side * world.field.half[0], 0.0, 0.0])
                world.put(thing, at, rotation("z", 0.0 if side > 0 else np.pi))
                self.taken += [(at[:2] + np.array([0, y]), 0.05) for y in (-1, 1)]

    def _put_players(self, camera: Camera) -> None:
        """Places robots and balls: those that are shown in a way of their own, then the others."""
        rng, recipe = self.rng, self.recipe
        many = rng.integers(0, 6) + (recipe.players and rng.integers(recipe.players + 1))
        players = [t for t in self.world.things if t.kind in ("robot", "packaged")]
        balls = [t for t in self.world.things if t.kind == "ball"]
        if self.match:
            many = rng.integers(3, len(players) + 1)
            balls = balls[: int(rng.random() < 0.8)]
        if recipe.crowded and rng.random() < recipe.crowded:
            self._crowd(camera, players)
        if recipe.large and rng.random() < recipe.large:
            self._show_large(camera, players, balls)
        elif recipe.close and rng.random() < recipe.close:
            self._show_close(camera, players, balls)
        if recipe.rows and rng.random() < recipe.rows:
            self._line_up(camera, players)
        rest = list(rng.permutation(np.array(players, dtype=object)))[:many]
        while rest:
            thing = rest.pop(0)
            at = self._free_place(thing, camera)
            if at is not None:
                facing = rng.uniform(0, 2 * np.pi)
                self._put_robot(thing, at, facing, recipe.fallen)
                if rest and recipe.pairs and rng.random() < recipe.pairs:
                    self._put_next_to(camera, thing, at, facing, rest.pop(0))
        for thing in balls:
            if self.match or rng.random() < 0.5:
                self._place_ball(thing, camera)

    def _free_place(self, thing: Thing, camera: Camera) -> np.ndarray | None:
        """A place on the carpet where a robot may stand; None where a few that were tried are
        taken."""
        rng, recipe, field = self.rng, self.recipe, self.world.field
        for _ in range(6):
            if self.match:
                at = self._on_field(camera)
            else:
                at = self._spot(camera, 1.3 if rng.random() < 0.8 else 0.6, 8.5)
            if recipe.far and rng.random() < recipe.far:
                pixels = float(np.exp(rng.uniform(np.log(20), np.log(60))))
                at = self._at_distance(camera, camera.distance_for(thing.high, pixels))
            on_carpet = all(abs(at[i]) < field.half[i] + field.border + 0.3 for i in (0, 1))
            if on_carpet and self._free(at, thing.radius):
                return at
        return None

    def _put_beside(self, thing: Thing, camera: Camera) -> None:
        """Places what stands beside the carpet, where there is room."""
        rng, (least, most, faces_field) = self.rng, BESIDE[thing.kind]
        at = self._beyond(camera, least, most)
        if self._free(at, 0.3):
            turn = rng.normal(0, 0.1) if faces_field else rng.uniform(0, 6.3)
            self._put(thing, at, self._inward(at) + turn)

    def _show_carrier(self, camera: Camera) -> None:
        """The body that carries the camera, and its shadows, where the camera sees them."""
        rng, recipe = self.rng, self.recipe
        own = next(t for t in self.world.things if t.kind == "own")
        down = camera.pitch > 0.3 and rng.random() < 0.4
        if down or (recipe.own and rng.random() < recipe.own):
            ahead = camera.at * [1, 1, 0] + 0.05 * np.array(
                [np.cos(camera.yaw), np.sin(camera.yaw), 0]
            )
            if recipe.own:  # the body is made for one height of the eye; hands follow others
                low = min(0.1, camera.at[2] - 0.6) if camera.pitch > 0.3 else camera.at[2] - 0.6
                ahead[2] = low + (rng.uniform(0.0, 0.25) if camera.pitch < 0.3 else 0.0)
            self.world.put(own, ahead, rotation("z", camera.yaw + rng.normal(0, 0.15)))
        if recipe.shadow and camera.pitch > 0.2 and rng.random() < recipe.shadow:
            for _ in range(rng.integers(1, 4)):
                place = camera.at[:2] + rng.normal(0, 0.25, 2)
                self.contacts.append((place, rng.uniform(0.15, 0.6), rng.uniform(0.2, 0.7)))

    def _put_stray(self, thing: Thing, camera: Camera) -> None:
        """Places a person or clutter, or leaves it away."""
        rng, stray, person = self.rng, STRAYS[thing.kind], thing.kind == "person"
        if rng.random() >= stray.share:
            return
        if person and self.lit and self.recipe.kicked and rng.random() < self.recipe.kicked:
            self._put_at_ball(thing, camera)
            return
        near, least = stray.near, stray.least
        if self.match:
            near, least = REFEREES + self.recipe.referees if person else 0.0, 0.0
        if rng.random() < near:
            at = self._spot(camera, stray.nearest, stray.farthest)
        else:
            at = self._beyond(camera, least, stray.most)
        if self._free(at, stray.room or thing.radius):
            self._put(thing, at, rng.uniform(0, 2 * np.pi if person else 6.3))
            if person:
                self.contacts.append((at[:2], 0.22, rng.uniform(0, 0.4)))

    def _put_at_ball(self, thing: Thing, camera: Camera) -> None:
        """Places a person with a shoe by one of the balls, beside or behind it."""
        rng = self.rng
        ball = self.lit[int(rng.integers(len(self.lit)))]
        bearing = camera.yaw + rng.uniform(-1.8, 1.8)
        place = ball + rng.uniform(0.16, 0.42) * np.array([np.cos(bearing), np.sin(bearing)])
        if np.linalg.norm(place - camera.at[:2]) > 0.9:
            self._put(thing, np.array([*place, 0.0]), rng.uniform(0, 2 * np.pi))
            self.contacts.append((place, 0.22, rng.uniform(0, 0.4)))

    def _show_close(self, camera: Camera, players: list[Thing], balls: list[Thing]) -> None:
        """Takes one of the robots or balls and shows it nearly as large as the image, or larger."""
        rng = self.rng
        cut = self.recipe.cut
        aside = 0.52 if cut and rng.random() < cut else 0.3
        if not players or rng.random() < 0.3:
            thing = balls.pop(int(rng.integers(len(balls))))
            at = camera.close_up(2 * thing.radius, rng.uniform(70, 330), rng, aside)
            self.world.put(thing, at, turned_anyhow(rng))
            self.taken.append((at[:2], thing.radius))
            self.contacts.append((at[:2], thing.radius * 1.3, rng.uniform(0.1, 0.75)))
            return
        thing = players.pop(int(rng.integers(len(players))))
        pixels = rng.uniform(130, 500 if cut else 430)
        at = camera.close_up(max(thing.high, thing.radius), pixels, rng, aside)
        self._put_robot(thing, at, rng.uniform(0, 2 * np.pi), fallen=0.4)
        self._put_ball_beside(camera, thing, at, balls)

    def _show_large(self, camera: Camera, players: list[Thing], balls: list[Thing]) -> None:
        """Takes one of the robots and lets it fill 40 to 95 % of the image's height, whole or a
        part of it; perhaps a second one stands beside it."""
        rng, recipe = self.rng, self.recipe
        if not players:
            return
        thing = players.pop(int(rng.integers(len(players))))
        upright = thing.high > 0.8 * thing.radius
        part = "whole"
        parts = recipe.parts * (0.3 if self.world.crews else 1.0)
        if upright and rng.random() < parts:
            part = str(rng.choice(["upper", "lower"]))
        share = rng.uniform(0.2, 0.9) if part == "upper" else rng.uniform(0.4, 0.95)
        size = max(OVER_MIDDLE * thing.high, thing.radius)
        cut = rng.random() < 0.5 * recipe.cut
        at = camera.fill_with(size, thing.radius, share, rng, part, cut)
        gap = at[:2] - camera.at[:2]
        self.taken += [(camera.at[:2] + gap * way, 0.3) for way in (0.4, 0.7)]  # nobody between
        self._put_robot(thing, at, rng.uniform(0, 2 * np.pi), fallen=0.25)
        self._put_ball_beside(camera, thing, at, balls)
        if players and rng.random() < 0.3:
            far = float(np.linalg.norm(gap)) * rng.uniform(0.9, 2.2)
            place = self._at_distance(camera, far, aside=0.55)
            if self._free(place, 0.1):
                other = players.pop(int(rng.integers(len(players))))
                self._put_robot(other, place, rng.uniform(0, 2 * np.pi), fallen=0.25)

    def _put_ball_beside(
        self, camera: Camera, thing: Thing, at: np.ndarray, balls: list[Thing]
    ) -> None:
        """Takes one of the balls and puts it at the feet of a robot, or leaves it."""
        rng = self.rng
        if self.recipe.beside and balls and rng.random() < self.recipe.beside:
            ball = balls.pop(int(rng.integers(len(balls))))
            bearing = camera.yaw + np.pi + rng.uniform(-1.6, 1.6)
            gap = rng.uniform(0.35, 0.9) * max(thing.radius, 0.15) + ball.radius
            place = at + gap * np.array([np.cos(bearing), np.sin(bearing), 0])
            self._set_ball(ball, place, 0.0)

    def _crowd(self, camera: Camera, players: list[Thing]) -> None:
        """Takes one or two of the robots and puts them right beside or before the camera, where the
        image's edges may cut them."""
        rng = self.rng
        for _ in range(min(int(rng.integers(1, 3)), len(players))):
            thing = players.pop(int(rng.integers(len(players))))
            distance = rng.uniform(0.45, 1.4) + 0.5 * thing.radius
            at = self._at_distance(camera, distance, aside=0.6)
            if self._free(at, 0.0):
                self._put_robot(thing, at, rng.uniform(0, 2 * np.pi))

    def _line_up(self, camera: Camera, players: list[Thing]) -> None:
        """Puts two to five of the robots side by side in view, mostly all facing one way."""
        rng = self.rng
        row = list(rng.permutation(np.array(players, dtype=object)))[: int(rng.integers(2, 6))]
        if not row:
            return
        size = float(np.median([thing.high for thing in row]))
        pixels = float(np.exp(rng.uniform(np.log(50), np.log(260))))
        distance = max(camera.distance_for(size, pixels), 0.7)
        middle = self._at_distance(camera, distance)
        gap = middle[:2] - camera.at[:2]
        slant = np.arctan2(gap[1], gap[0]) + np.pi / 2 + rng.normal(0, 0.35)
        way, facing = np.array([np.cos(slant), np.sin(slant), 0.0]), slant + np.pi / 2
        if rng.random() < 0.25:
            facing = rng.uniform(0, 2 * np.pi)
        at = middle - way * sum(thing.radius for thing in row) * 0.75
        for thing in row:
            at = at + way * thing.radius * rng.uniform(0.7, 1.0)
            if np.linalg.norm(at[:2] - camera.at[:2]) > 0.4:
                players.remove(thing)
                self._put_robot(thing, at, facing + rng.normal(0, 0.25))
            at = at + way * thing.radius * rng.uniform(0.7, 1.0)

    def _put_next_to(
        self, camera: Camera, thing: Thing, at: np.ndarray, facing: float, other: Thing
    ) -> None:
        """Puts another robot right beside a robot that stands at a place [3], as the camera sees
        them, or before or behind it: shoulder to shoulder, face to face, or anyhow."""
        rng = self.rng
        gap = at[:2] - camera.at[:2]
        slant = np.arctan2(gap[1], gap[0]) + rng.choice([-1, 1]) * np.pi / 2 + rng.normal(0, 0.6)
        reach = (thing.radius + other.radius) * rng.uniform(0.55, 1.05)
        place = at + reach * np.array([np.cos(slant), np.sin(slant), 0.0])
        turn = facing + float(rng.choice([0.0, np.pi, rng.uniform(0, 2 * np.pi)]))
        if np.linalg.norm(place[:2] - camera.at[:2]) > 0.4:
            self._put_robot(other, place, turn + rng.normal(0, 0.25), self.recipe.fallen)

    def _hide_some(self, camera: Camera) -> None:
        """Puts a person or a stool that is not yet placed before some of the robots."""
        rng = self.rng
        rest = [t for t in self.world.things if t.kind in ("person", "trifle")]
        for at in self.feet:
            if rest and rng.random() < self.recipe.hidden:
                gap = at[:2] - camera.at[:2]
                aside = np.array([-gap[1], gap[0]]) / (np.linalg.norm(gap) + 1e-6)
                near = camera.at[:2] + gap * rng.uniform(0.6, 0.9)
                place = near + aside * rng.normal(0, 0.22)
                if np.linalg.norm(place - camera.at[:2]) > 1.2:
                    thing = rest.pop(int(rng.integers(len(rest))))
                    self._put(thing, np.array([*place, 0.0]), rng.uniform(0, 6.3))

    def _put_behind(self, camera: Camera) -> None:
        """Puts people and furniture close behind or beside some of the robots."""
        rng = self.rng
        kinds = ("person", "chair", "trifle", "stand", "heap")
        rest = [t for t in self.world.things if t.kind in kinds]
        for at in self.feet:
            if rest and rng.random() < self.recipe.behind:
                gap = at[:2] - camera.at[:2]
                way = gap / (np.linalg.norm(gap) + 1e-6)
                place = at[:2] + way * rng.uniform(0.15, 1.2)
                place = place + np.array([-way[1], way[0]]) * rng.normal(0, 0.3)
                thing = rest.pop(int(rng.integers(len(rest))))
                self._put(thing, np.array([*place, 0.0]), rng.uniform(0, 6.3))

    def _inward(self, at: np.ndarray) -> float:
        half = np.array(self.world.field.half)
        gap = np.abs(at[:2]) - half
        axis = int(np.argmax(gap))
        return (
            (np.pi if at[0] > 0 else 0.0) if axis == 0 else (-np.pi / 2 if at[1] > 0 else np.pi / 2)
        )

    def _place_ball(self, thing: Thing, camera: Camera) -> None:
        rng = self.rng
        if self.feet and rng.random() < 0.3:
            turn = rng.uniform(0, 2 * np.pi)
            at = self.feet[rng.integers(len(self.feet))] + rng.uniform(0.16, 0.35) * np.array(
                [np.cos(turn), np.sin(turn), 0]
            )
        else:
            at = self._spot(camera, 0.35, 9.0)
        small = self.recipe.small
        if small and rng.random() < small:
            pixels = float(np.exp(rng.uniform(np.log(8), np.log(20))))
            at = self._at_distance(camera, camera.distance_for(2 * thing.radius, pixels))
        if np.linalg.norm(at[:2] - camera.at[:2]) < 0.2:
            return
        self._set_ball(thing, at, rng.uniform(0.02, 0.6) if rng.random() < 0.06 else 0.0)

    def _set_ball(self, thing: Thing, at: np.ndarray, lift: float) -> None:
        """Turns a ball anyhow and puts it so high in metres above a place [3] of the ground."""
        rng = self.rng
        self.world.put(thing, at + np.array([0, 0, lift]), turned_anyhow(rng))
        if not lift:
            self.lit.append(at[:2].copy())
            self.contacts.append(
                (at[:2], thing.radius * rng.uniform(0.9, 1.6), rng.uniform(0.1, 0.75))
            )
