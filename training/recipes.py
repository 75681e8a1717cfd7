"""What scenes are made of, by number: the scenes of a number and a seed stay what they are.

1 is what the first networks were trained and measured on. 2 adds what photographs showed to be
missing: white humanoids of many builds and poses, far and half hidden ones, small and smeared
balls, posts at the image's edge, the robot's own body as background, rolling shutters, sun on the
carpet, seams, and lines whose labels follow how much of a pixel they cover. 3 adds round things
that are no balls, people behind robots, the robot's own body in more places, white and fallen
robots of the package, and flat pictures without a field. 4 adds what the weights of the third
missed: stout robots with numbered shirts, robots, balls and posts that fill the image or are cut by
it, goals from behind and from the side, towers on wheels, dim, warm and mixed light, and white
uprights, legs and seats that are none of them. 5 adds real humanoids: packages' meshes in other
proportions, colours and poses, in rows, cut by the image and as the robot's own body; a small
robot's camera, its foam ball, people who squat or sit, and floors without a field. 6 adds matches:
two teams of like robots in shirts all over a field that nothing else lies on, mostly seen by a
small robot; goals from behind, through their nets, and nets of rope; balls at the feet of robots
that fill the image, and balls with bands in two colours. 7 adds what small robots' photographs
showed to be missing: sun between the bars of windows, of which edges look like lines, the camera
below a robot's head, whose image begins at the others' feet, robots beside and before the camera in
matches, posts that fill the image's edge, and people all in black. 8 adds what is still missed:
robots of all builds that take most of the image's height, or of which it has head and shoulders or
legs alone, matches of robots on wheels, strips of posts at the image's edge, thin posts far away,
legs of tables, chairs and tripods, and balls in glare. A third of its worlds are the seventh's. 9
adds robots right beside or before each other, of which the eighth's weights make one, and people on
the field, whose legs they take for robots and posts, and whose shoes hide balls. A third of its
worlds are the eighth's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Recipe:
    """Shares are of what is drawn: 0 leaves it out, and draws nothing either.

    smooth: of the humanoids, those with white or coloured shells (smooth_robots.py). trifles: at
    most so many cables, shoes, spots and tripods beside the field. far: of robots, those placed
    where they are 20 to 60 pixels high. hidden: of robots, those with something put before them.
    small: of balls, those placed where they are 8 to 20 pixels wide. smeared: of images, those
    where a ball moves during the exposure. edge: of cameras, those with a goalpost at the image's
    edge. rolling: of images, those of a moving camera with a rolling shutter. sun, seams: of
    images, those with patches of sun, with seams in the carpet. field: how much larger than the
    first recipe's the largest field is. own_is_background: whether the robot's own body is a
    mistake to find, instead of doubtful. covered: whether lines are labelled by the share of a
    pixel that they cover. players: how many more robots a world has, and a shot at most. rounds: at
    most so many round things that are no balls (rounds.py), which are drawn on walls then, too.
    behind: of robots, those with a person or furniture behind or beside them. own: of cameras,
    those that see the robot's own body, wherever they look. white, fallen: of the package's robots,
    those with white shells, those that lie. flat: of images, those of a flat picture without a
    field. stout: of the humanoids, those that are short and stout, with a large head and a numbered
    shirt. wheels: of robots, those with a tower on wheels (wheeled_robots.py). uprights: at most so
    many white poles, columns, doors and seats (uprights.py). pale: of people, those with white
    trousers or socks. close: of cameras, those that look at one robot or ball from near. posts: of
    cameras, those that stand near a goalpost, on any side of it. dim: of images, those in dim,
    coloured or mixed light. shadow: of cameras that look down, those that see the shadow of who
    carries them. fisheye: of cameras, those with a strongly bent image. meshes: of the humanoids,
    those of packages' meshes (humanoids.py). squads: of worlds, those whose meshes are of one kind,
    size and pose. rows: of images, those with robots side by side. cut: of what is shown from near,
    what the image's edge may cut. foam: of balls, those of 10 cm, and of skins, black and white
    ones. low: of cameras, those of a small robot. seated: of people, those who squat or sit. bare:
    of images, those on a floor without a field. match: of images, those as a game has them: robots
    all over the field, one ball, and clutter beside the carpet alone. teams: of worlds, those whose
    robots are of one kind and size, in shirts of two colours. through: of cameras, those that stand
    behind a goal. ropes: of images, those whose nets are of rope with wide meshes. beside: of
    robots that are shown from near, those with a ball at their feet. banded: of balls' skins, those
    with bands that wind around them. bars: of images with sun, those where it falls between bars
    over the whole field. stooped: of small robots' cameras, those that look down so far that the
    image's upper edge cuts what stands on the ground. crowded: of matches, those with robots beside
    and before the camera. touching: of cameras that stand near a post, those that nearly touch it.
    black: of people, those all in black. earlier: of worlds, those of the recipe before. large: of
    images, those with a robot that takes most of the height. parts: of these, those that show its
    head and shoulders alone, or its legs. crews: of worlds, those whose robots are two teams on
    wheels. strips: of cameras, those that see a strip of a post at the image's edge. distant: of
    cameras, those that see a goal from far away. furniture: at most so many pieces that stand on
    legs (furniture.py). glare: of images with balls, those that are too bright about one of them.
    pairs: of robots, those with another right beside, before or behind them. referees: of people in
    matches, how many more stand on the field. kicked: of people, those who stand at a ball.
    """

    number: int
    smooth: float = 0.0
    trifles: int = 0
    far: float = 0.0
    hidden: float = 0.0
    small: float = 0.0
    smeared: float = 0.0
    edge: float = 0.0
    rolling: float = 0.0
    sun: float = 0.0
    seams: float = 0.0
    field: float = 1.0
    own_is_background: bool = False
    covered: bool = False
    players: int = 0
    rounds: int = 0
    behind: float = 0.0
    own: float = 0.0
    white: float = 0.0
    fallen: float = 0.0
    flat: float = 0.0
    stout: float = 0.0
    wheels: float = 0.0
    uprights: int = 0
    pale: float = 0.0
    close: float = 0.0
    posts: float = 0.0
    dim: float = 0.0
    shadow: float = 0.0
    fisheye: float = 0.0
    meshes: float = 0.0
    squads: float = 0.0
    rows: float = 0.0
    cut: float = 0.0
    foam: float = 0.0
    low: float = 0.0
    seated: float = 0.0
    bare: float = 0.0
    match: float = 0.0
    teams: float = 0.0
    through: float = 0.0
    ropes: float = 0.0
    beside: float = 0.0
    banded: float = 0.0
    bars: float = 0.0
    stooped: float = 0.0
    crowded: float = 0.0
    touching: float = 0.0
    black: float = 0.0
    earlier: float = 0.0
    large: float = 0.0
    parts: float = 0.0
    crews: float = 0.0
    strips: float = 0.0
    distant: float = 0.0
    furniture: int = 0
    glare: float = 0.0
    pairs: float = 0.0
    referees: float = 0.0
    kicked: float = 0.0


FIRST = Recipe(1)
SECOND = Recipe(
    2,
    smooth=0.55,
    trifles=7,
    far=0.3,
    hidden=0.15,
    small=0.35,
    smeared=0.12,
    edge=0.2,
    rolling=0.2,
    sun=0.2,
    seams=0.3,
    field=1.3,
    own_is_background=True,
    covered=True,
)
THIRD = replace(
    SECOND,
    number=3,
    smooth=0.62,
    far=0.35,
    players=2,
    rounds=10,
    behind=0.35,
    own=0.25,
    white=0.6,
    fallen=0.12,
    flat=0.06,
)
FOURTH = replace(
    THIRD,
    number=4,
    hidden=0.2,
    field=1.45,
    own=0.28,
    stout=0.5,
    wheels=0.12,
    uprights=6,
    pale=0.2,
    close=0.16,
    posts=0.14,
    dim=0.16,
    shadow=0.7,
    fisheye=0.05,
)
FIFTH = replace(
    FOURTH,
    number=5,
    smeared=0.17,
    rounds=12,
    behind=0.45,
    own=0.33,
    close=0.2,
    posts=0.18,
    dim=0.2,
    meshes=0.55,
    squads=0.3,
    rows=0.12,
    cut=0.5,
    foam=0.45,
    low=0.35,
    seated=0.2,
    bare=0.07,
)
SIXTH = replace(
    FIFTH,
    number=6,
    players=4,
    posts=0.22,
    low=0.4,
    match=0.4,
    teams=0.55,
    through=0.07,
    ropes=0.2,
    beside=0.5,
    banded=0.15,
)
SEVENTH = replace(
    SIXTH,
    number=7,
    sun=0.35,
    match=0.45,
    bars=0.6,
    stooped=0.35,
    crowded=0.4,
    touching=0.35,
    black=0.25,
)
EIGHTH = replace(
    SEVENTH,
    number=8,
    smooth=0.3,
    stout=0.25,
    wheels=0.15,
    meshes=0.4,
    teams=0.35,
    close=0.12,
    dim=0.15,
    posts=0.18,
    through=0.05,
    earlier=0.33,
    large=0.45,
    parts=0.4,
    crews=0.33,
    strips=0.16,
    distant=0.14,
    furniture=7,
    glare=0.18,
)
NINTH = replace(
    EIGHTH,
    number=9,
    black=0.4,
    large=0.25,
    glare=0.25,
    pairs=0.4,
    referees=0.25,
    kicked=0.2,
)
RECIPES = {
    recipe.number: recipe
    for recipe in (FIRST, SECOND, THIRD, FOURTH, FIFTH, SIXTH, SEVENTH, EIGHTH, NINTH)
}
