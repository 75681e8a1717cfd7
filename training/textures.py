"""Procedural images: surface textures, ball patterns, panoramas of halls, and noise.

Everything is uint8 or float32 numpy; the only photographs are those that scikit-image ships and the
panoramas of a folder that the caller names.
"""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
from rounds import paint

Array = np.ndarray
SIZE = 256
NAMES = (
    "plain",
    "noise",
    "cloud",
    "greeble",
    "stripes",
    "plaid",
    "planks",
    "denim",
    "text",
    "perforated",
    "brick",
    "clutter",
    "photo",
)
# Of recipes from the third on.
MORE = ("rounds",)
# Of recipes from the fourth on: numbers, upright on what faces along its x.
DIGITS = ("dark digits", "bright digits")
VARIANTS = 5
PHOTOS = (
    "astronaut.png",
    "brick.png",
    "camera.png",
    "chelsea.png",
    "coffee.png",
    "coins.png",
    "grass.png",
    "gravel.png",
    "motorcycle_left.png",
    "motorcycle_right.png",
    "rocket.jpg",
    "retina.jpg",
    "page.png",
    "text.png",
    "ihc.png",
    "clock_motion.png",
)


def noise(rng: np.random.Generator, size: int, octaves: tuple[tuple[int, float], ...]) -> Array:
    """Tileable noise [size,size] float32 of mean 0: sum of octaves (cells a side, amplitude)."""
    total = np.zeros((size, size), np.float32)
    for cells, amplitude in octaves:
        cells = min(cells, size)
        grid = rng.standard_normal((cells, cells)).astype(np.float32)
        grid = np.pad(grid, 2, mode="wrap")
        scale = size / cells
        big = cv2.resize(grid, None, fx=scale, fy=scale, interpolation=cv2.INTER_CUBIC)
        edge = round(2 * scale)
        total += amplitude * big[edge : edge + size, edge : edge + size]
    return total


def shipped_photos(names: tuple[str, ...] = PHOTOS) -> list[Array]:
    """The photographs in scikit-image's package, BGR uint8; without those that it lacks."""
    import skimage

    folder = Path(skimage.__file__).parent / "data"
    images = [cv2.imread(str(folder / name)) for name in names]
    return [image for image in images if image is not None]


def letters(
    rng: np.random.Generator, canvas: Array, count: int, size: tuple[float, float] = (0.8, 3.0)
) -> None:
    """Writes random words and shapes into a uint8 image."""
    high, wide = canvas.shape[:2]
    alphabet = list("ABCDEFGHIKLMNOPRSTUVWXYZabcdefghiklmnoprstuvwxyz0123456789&.-")
    for _ in range(count):
        colour = (
            tuple(int(v) for v in rng.integers(0, 256, 3)) if rng.random() < 0.6 else (25, 25, 25)
        )
        place = (int(rng.integers(-20, wide)), int(rng.integers(10, high)))
        if rng.random() < 0.7:
            word = "".join(rng.choice(alphabet, rng.integers(2, 11)))
            cv2.putText(
                canvas,
                word,
                place,
                int(rng.integers(0, 8)),
                rng.uniform(*size),
                colour,
                int(rng.integers(1, 8)),
                cv2.LINE_AA,
            )
        elif rng.random() < 0.5:
            cv2.circle(canvas, place, int(rng.integers(5, 40)), colour, -1, cv2.LINE_AA)
        else:
            other = (place[0] + int(rng.integers(10, 90)), place[1] + int(rng.integers(5, 60)))
            cv2.rectangle(canvas, place, other, colour, -1)


def rectangles(rng: np.random.Generator, size: int, count: int, colourful: float) -> Array:
    """Overlapping rectangles, uint8 [size,size,3]: from machine parts to full shelves."""
    canvas = np.full((size, size, 3), rng.integers(60, 220), np.uint8)
    for _ in range(count):
        x, y = rng.integers(-20, size, 2)
        w, h = (rng.uniform(0.02, 0.3, 2) * size).astype(int) + 2
        colour = (
            rng.integers(0, 256, 3)
            if rng.random() < colourful
            else np.full(3, rng.integers(0, 256))
        )
        cv2.rectangle(
            canvas, (int(x), int(y)), (int(x + w), int(y + h)), tuple(int(v) for v in colour), -1
        )
    return canvas


def surface(name: str, rng: np.random.Generator, photos: list[Array]) -> Array:
    """One texture [SIZE,SIZE,3] float32; it multiplies a surface's colour (1 leaves it)."""
    one = np.ones((SIZE, SIZE, 3), np.float32)
    y, x = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32) / SIZE
    if name == "plain":
        return one * (1 + 0.02 * noise(rng, SIZE, ((8, 1), (64, 0.5))))[..., None]
    if name == "noise":
        return (
            one * (1 + rng.uniform(0.08, 0.25) * noise(rng, SIZE, ((128, 1), (32, 0.6))))[..., None]
        )
    if name == "cloud":
        return (
            one
            * (1 + rng.uniform(0.1, 0.3) * noise(rng, SIZE, ((3, 0.7), (9, 0.6), (30, 0.2))))[
                ..., None
            ]
        )
    if name == "denim":
        weave = np.sin((x + y) * 2 * np.pi * 60) * 0.12
        return one * (1 + weave + 0.15 * noise(rng, SIZE, ((5, 1), (60, 0.5))))[..., None]
    if name == "stripes":
        wave = np.sin((x if rng.random() < 0.5 else y) * 2 * np.pi * rng.integers(2, 16))
        other = rng.uniform(0, 1.3, 3).astype(np.float32)
        return np.where((wave > rng.uniform(-0.6, 0.6))[..., None], one, other)
    if name == "plaid":
        bands = [
            np.sin(axis * 2 * np.pi * rng.integers(2, 9)) > rng.uniform(-0.3, 0.8)
            for axis in (x, y, x)
        ]
        return one * np.stack(
            [
                1 - 0.55 * (bands[0] * rng.uniform(0, 1) + bands[1] * rng.uniform(0, 1))
                for _ in range(3)
            ],
            -1,
        )
    if name == "planks":
        count = int(rng.integers(3, 12))
        shade = rng.uniform(0.55, 1.1, count)[(x * count).astype(int)]
        gap = ((x * count) % 1) < 0.06
        return (
            one
            * (shade * np.where(gap, 0.25, 1) + 0.1 * noise(rng, SIZE, ((4, 1), (80, 0.6))))[
                ..., None
            ]
        )
    if name == "text":
        canvas = np.full((SIZE, SIZE, 3), 255, np.uint8)
        letters(rng, canvas, int(rng.integers(1, 7)))
        return canvas.astype(np.float32) / 255
    if name == "perforated":
        holes = np.hypot((x * 16) % 1 - 0.5, (y * 16) % 1 - 0.5) < rng.uniform(0.2, 0.4)
        return one * np.where(holes, rng.uniform(0.1, 0.5), 1)[..., None]
    if name == "brick":
        row = (y * 10).astype(int)
        gap = (((x * 5 + 0.5 * (row % 2)) % 1) < 0.05) | (((y * 10) % 1) < 0.1)
        return (
            one
            * (np.where(gap, 1.15, 0.75) + 0.12 * noise(rng, SIZE, ((20, 1), (90, 0.5))))[..., None]
        )
    if name == "greeble":
        return rectangles(rng, SIZE, 90, 0.06).astype(np.float32) / 160
    if name == "rounds":
        canvas = np.full((SIZE, SIZE, 3), 230, np.uint8)
        canvas[:] = rng.integers(30, 256, 3) if rng.random() < 0.4 else rng.integers(20, 256)
        paint(rng, canvas, int(rng.choice([1, 2, 5, 12])), (0.06, 0.45))
        return canvas.astype(np.float32) / 220
    if name in DIGITS:
        return digits(rng, name == "bright digits")
    if name == "clutter":
        canvas = rectangles(rng, SIZE, 120, 0.7)
        letters(rng, canvas, 3, (0.4, 1.0))
        return canvas.astype(np.float32) / 200
    image = photos[rng.integers(len(photos))]
    side = int(min(image.shape[:2]) * rng.uniform(0.4, 1))
    top = rng.integers(0, image.shape[0] - side + 1)
    left = rng.integers(0, image.shape[1] - side + 1)
    crop = image[top : top + side, left : left + side, ::-1]
    return cv2.resize(crop, (SIZE, SIZE), interpolation=cv2.INTER_AREA).astype(np.float32) / 170


def digits(rng: np.random.Generator, bright: bool) -> Array:
    """A number of one or two digits, dark, or so bright that it is white on any colour."""
    canvas = np.zeros((SIZE, SIZE), np.uint8)
    word = str(int(rng.integers(1, 10 if rng.random() < 0.75 else 30)))
    font, thick = int(rng.choice([0, 2, 4])), int(rng.integers(14, 34))
    (wide, high), _ = cv2.getTextSize(word, font, 1.0, 1)
    scale = min(0.62 * SIZE / wide, 0.72 * SIZE / high)
    place = (round(SIZE / 2 - wide * scale / 2), round(SIZE / 2 + high * scale / 2))
    cv2.putText(canvas, word, place, font, scale, 255, thick, cv2.LINE_AA)
    # Rows of a texture go up.
    share = canvas[::-1, :, None].astype(np.float32) / 255 * np.ones(3, np.float32)
    return 1 + share * (12.0 if bright else rng.uniform(-1.0, -0.8))


def atlas(rng: np.random.Generator, names: tuple[str, ...] = NAMES) -> Array:
    """All surfaces, VARIANTS of each name: float16 [len(names) * VARIANTS, SIZE, SIZE, 3], RGB."""
    photos = shipped_photos()
    return np.stack([surface(name, rng, photos) for name in names for _ in range(VARIANTS)]).astype(
        np.float16
    )


def sphere_directions(high: int = 128) -> Array:
    """Unit vectors [high, 2*high, 3] of an equirectangular image; row 0 looks along +z."""
    polar = (np.arange(high) + 0.5) / high * np.pi
    turn = (np.arange(2 * high) + 0.5) / (2 * high) * 2 * np.pi - np.pi
    sin = np.sin(polar)[:, None]
    return np.stack(
        [sin * np.cos(turn), sin * np.sin(turn), np.repeat(np.cos(polar)[:, None], 2 * high, 1)], -1
    ).astype(np.float32)


def icosahedron() -> Array:
    golden = (1 + 5**0.5) / 2
    corners = [
        p for a in (-1, 1) for b in (-golden, golden) for p in ((0, a, b), (a, b, 0), (b, 0, a))
    ]
    array = np.array(corners, np.float32)
    return array / np.linalg.norm(array, axis=1, keepdims=True)


def patches(rng: np.random.Generator, where: Array, count: int, size: float, long: float) -> Array:
    """A mask [h,w] of count rounded blades on the sphere, spread evenly."""
    mask = np.zeros(where.shape[:2], bool)
    turn, _ = np.linalg.qr(rng.standard_normal((3, 3)))
    centres = icosahedron() if count > 8 else np.concatenate([np.eye(3), -np.eye(3)])
    for centre in (centres @ turn.T)[:count]:
        along = np.cross(centre, rng.standard_normal(3))
        along /= np.linalg.norm(along)
        across = np.cross(centre, along)
        u, v, front = where @ along / long, where @ across * long, where @ centre
        bend = rng.normal(0, 0.8)
        power = rng.uniform(1.2, 4)
        inside = np.abs(u) ** power + np.abs(v - bend * u * u) ** power < size**power
        mask |= inside & (front > 0)
    return mask


def wind(
    rng: np.random.Generator, where: Array, axis: Array, skin: Array, colours: tuple[Array, Array]
) -> None:
    """Paints a band that winds up and down around an axis [3], and its edges, onto a skin."""
    aside = np.cross(axis, rng.standard_normal(3))
    aside /= np.linalg.norm(aside)
    turn = np.arctan2(where @ np.cross(axis, aside), where @ aside)
    waves = rng.uniform(0.15, 0.5) * np.sin(turn * rng.integers(2, 5) + rng.uniform(0, 6.3))
    off, broad = np.abs(where @ axis - waves), rng.uniform(0.06, 0.2)
    skin[off < broad * rng.uniform(1.2, 1.7)] = colours[1]
    skin[off < broad] = colours[0]


STYLES = ("classic", "patches", "blades", "plain", "spots")


def ball(rng: np.random.Generator, style: str | None = None) -> Array:
    """A ball's skin as an equirectangular image, float32 [128,256,3], RGB. style: one of STYLES
    or "bands", else one of STYLES at random."""
    where = sphere_directions()
    drawn = str(rng.choice(STYLES, p=[0.28, 0.3, 0.22, 0.1, 0.1]))
    style = style or drawn
    white = np.clip(rng.uniform(0.82, 1.0) + rng.normal(0, 0.02, 3), 0, 1)
    skin = np.broadcast_to(white, where.shape).astype(np.float32).copy()
    dark = rng.uniform(0.0, 0.15) * np.ones(3) if rng.random() < 0.75 else rng.uniform(0, 0.7, 3)
    if style == "plain":
        bright = np.array(
            [
                (0.95, 0.4, 0.05),
                (0.9, 0.1, 0.08),
                (0.95, 0.85, 0.1),
                (0.9, 0.9, 0.9),
                (0.95, 0.25, 0.5),
            ]
        )
        skin[:] = bright[rng.choice(5, p=[0.45, 0.2, 0.15, 0.15, 0.05])] * rng.uniform(0.8, 1.05)
    elif style == "classic":
        turn, _ = np.linalg.qr(rng.standard_normal((3, 3)))
        near = np.sort(where @ (icosahedron() @ turn.T).T, axis=-1)
        skin[near[..., -1] > rng.uniform(0.9, 0.94)] = dark
        seam = (near[..., -1] - near[..., -2] < 0.015) & (near[..., -1] < 0.92)
        skin[seam] *= rng.uniform(0.5, 1.0)
    elif style == "patches":
        mask = patches(
            rng, where, int(rng.choice([6, 6, 12])), rng.uniform(0.3, 0.5), rng.uniform(1.0, 1.4)
        )
        speck = cv2.resize(
            rng.uniform(0, 1, (24, 48)).astype(np.float32),
            (256, 128),
            interpolation=cv2.INTER_NEAREST,
        )
        skin[mask] = dark + (speck[mask, None] ** 3) * rng.uniform(0, 0.6)
    elif style == "blades":
        for _ in range(rng.integers(1, 4)):
            colour = rng.uniform(0, 1, 3) * (rng.random(3) < 0.7) if rng.random() < 0.7 else dark
            mask = patches(
                rng,
                where,
                int(rng.choice([4, 6, 12])),
                rng.uniform(0.15, 0.45),
                rng.uniform(1.2, 2.2),
            )
            skin[mask] = colour
    elif style == "bands":
        edge = rng.uniform(0, 1, 3)
        for axis in np.linalg.qr(rng.standard_normal((3, 3)))[0][: int(rng.integers(1, 4))]:
            wind(rng, where, axis, skin, (dark, edge))
    else:
        for centre in rng.standard_normal((int(rng.integers(8, 50)), 3)):
            near = where @ (centre / np.linalg.norm(centre)) > rng.uniform(0.9, 0.995)
            skin[near] = dark if rng.random() < 0.7 else rng.uniform(0, 1, 3)
    if rng.random() < 0.4:
        ink = (np.clip(skin, 0, 1) * 255).astype(np.uint8)
        letters(rng, ink, int(rng.integers(1, 5)), (0.3, 0.8))
        skin[:] = ink.astype(np.float32) / 255
    dirt = 1 + 0.05 * noise(rng, 256, ((4, 1), (16, 0.7)))[:128]
    return np.clip(skin * dirt[..., None], 0, 1)


def hall(rng: np.random.Generator, photos: list[Array]) -> Array:
    """A made-up panorama [256,1024,3] uint8 RGB from 45° above the horizon to 45° below it."""
    canvas = np.zeros((256, 1024, 3), np.uint8)
    wall = rng.integers(40, 245, 3) if rng.random() < 0.4 else np.full(3, rng.integers(40, 250))
    canvas[:] = np.clip(wall + np.linspace(rng.normal(0, 40), 0, 256)[:, None, None], 0, 255)
    ceiling = int(rng.integers(0, 90))
    canvas[:ceiling] = np.clip(rng.integers(20, 250) + rng.normal(0, 8, 3), 0, 255)
    for _ in range(rng.integers(0, 14)):  # lamps
        x, y = int(rng.integers(0, 1024)), int(rng.integers(0, max(ceiling, 1)))
        cv2.rectangle(
            canvas,
            (x, y),
            (x + int(rng.integers(8, 60)), y + int(rng.integers(2, 9))),
            (255, 255, 250),
            -1,
        )
    x = 0
    while x < 1024:
        wide = int(rng.integers(8, 130))
        top, bottom = int(rng.integers(20, 128)), int(rng.integers(100, 200))
        kind = rng.random()
        colour = tuple(
            int(v)
            for v in (
                rng.integers(0, 256, 3) if rng.random() < 0.5 else np.full(3, rng.integers(10, 250))
            )
        )
        if kind < 0.25:
            cv2.rectangle(canvas, (x, top), (x + wide, bottom), colour, -1)
        elif kind < 0.4:  # a window with bars
            cv2.rectangle(canvas, (x, top), (x + wide, min(bottom, 128)), (250, 252, 255), -1)
            for bar in range(x, x + wide, max(6, wide // 4)):
                cv2.line(canvas, (bar, top), (bar, min(bottom, 128)), (70, 70, 70), 2)
        elif kind < 0.6:
            crop = photos[rng.integers(len(photos))]
            high = max(bottom - top, 10)
            patch = cv2.resize(crop, (wide, high), interpolation=cv2.INTER_AREA)[..., ::-1]
            cut = canvas[top : top + high, x : x + wide]
            cut[:] = patch[: cut.shape[0], : cut.shape[1]]
        elif kind < 0.75:
            patch = rectangles(rng, 128, 60, 0.6)
            cut = canvas[top:bottom, x : x + wide]
            if cut.size:
                cut[:] = cv2.resize(patch, (cut.shape[1], cut.shape[0]))
        x += int(wide * rng.uniform(0.3, 1.3))
    letters(rng, canvas, int(rng.integers(0, 12)), (0.3, 1.2))
    return canvas


def panoramas(
    rng: np.random.Generator, folder: Path | None, made_up: int = 16, rounds: bool = False
) -> Array:
    """Panoramas [n,256,1024,3] uint8 RGB: made-up halls, and the middle of those in a folder.
    rounds: whether the halls have round things on their walls."""
    photos = shipped_photos()
    result = [hall(rng, photos) for _ in range(made_up)]
    for image in result if rounds else ():
        paint(rng, image, int(rng.integers(3, 30)), (0.01, 0.12))
    for path in sorted(folder.glob("*.jpg")) if folder else []:
        read = cv2.imread(str(path))
        if read is None:
            raise SystemExit(f"an image is needed in {path}, found none")
        whole = read[..., ::-1]
        high = whole.shape[0]
        middle = whole[high // 4 : high - high // 4]
        result.append(cv2.resize(middle, (1024, 256), interpolation=cv2.INTER_CUBIC))
    return np.stack(result)


# Of PHOTOS, those that the flat pictures show whole: none is among the photographs that score.
PIECES = ("brick.png", "gravel.png", "retina.jpg", "page.png", "text.png", "ihc.png")


def pieces(rng: np.random.Generator, folder: Path | None) -> list[Array]:
    """What flat pictures are put together of, RGB uint8: photographs of PIECES, shapes, letters,
    and parts of a folder's panoramas."""
    result = [image[..., ::-1] for image in shipped_photos(PIECES)]
    result += [
        rectangles(rng, SIZE, int(rng.integers(5, 150)), rng.uniform(0, 1)) for _ in range(12)
    ]
    for name in ("noise", "cloud", "planks", "plaid", "stripes", "text", "clutter", "denim"):
        result.append(np.clip(surface(name, rng, []) * rng.uniform(60, 220, 3), 0, 255))
    for path in sorted(folder.glob("*.jpg")) if folder else []:
        whole = cv2.imread(str(path))
        if whole is None:
            raise SystemExit(f"an image is needed in {path}, found none")
        side = whole.shape[0]
        for left in range(0, whole.shape[1], side):
            result.append(whole[:, left : left + side, ::-1])
    return [np.ascontiguousarray(image, np.uint8) for image in result]
