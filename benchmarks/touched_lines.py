"""Lines of memory that subgroups touch, beside the fewest that hold what they read and write.

    python -m benchmarks.touched_lines --target renoir --precision fp16
    python -m benchmarks.touched_lines network.onnx --target device.json

A load of a subgroup whose threads read numbers far from each other takes a cache a cycle for each
line, though every line may be used up by the loads that follow: a convolution to one channel with a
thread for each pixel took an H200 5.6 times as long as with a workgroup for some of them, where
models of bytes had it faster, and as long as its lines said (schedules/sums.md, "Many short sums").
Lines are counted in the GLSL that is made of kernels, for the first subgroup of a workgroup in the
middle of the grid, in the first turn of each loop; where data say what is read, it is left out.
Without MODELS the operators of ``benchmarks.operators`` are compiled, each by itself.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import onnx

import tvm_vision
from tvm_vision.errors import TvmVisionError
from tvm_vision.tools.table import table
from tvm_vision.whole_files import ScratchFolder

from .operators.cases import CASES

LANES, LINE = 32, 32  # threads of a subgroup, and bytes: a sector of NVIDIA's caches
BYTES = {
    "int8_t": 1, "uint8_t": 1, "float16_t": 2, "int16_t": 2, "uint16_t": 2, "i8vec4": 4,
    "u8vec4": 4, "f16vec2": 4, "int64_t": 8, "uint64_t": 8, "double": 8, "f16vec4": 8,
}  # fmt: skip
HEADER = ("of", "kernel", "lines", "fewest", "times", "the worst access", "lines", "in loops")
_BUFFER = re.compile(r"buffer \w+ \{ (\w+) (\w+)\[\]; \}")
_GRID = re.compile(r"// grid (\d+) x (\d+) x (\d+), workgroup (\d+) x (\d+) x (\d+)")
_FOR = re.compile(r"for \(int (\w+) = (.+?); \1 < (.+?); (?:\+\+\1|\1 \+= (\d+))\) \{")
_SET = re.compile(r"(?:const )?(?:int|bool) (\w+) = ((?!int\(gl_).+);")
_TOKEN = re.compile(r"\s*(\d+)u?|\s*([A-Za-z_]\w*)|\s*(\|\||&&|<<|>>|[<>=!]=|[-+*/%<>&|^!~?:(),])")
# From what binds least on. Indices are not negative, so that quotients are rounded down.
_LEVELS: tuple[dict[str, Callable[[Any, Any], Any]], ...] = (
    {"||": np.logical_or}, {"&&": np.logical_and}, {"|": operator.or_}, {"^": operator.xor},
    {"&": operator.and_}, {"==": operator.eq, "!=": operator.ne},
    {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge},
    {"<<": operator.lshift, ">>": operator.rshift}, {"+": operator.add, "-": operator.sub},
    {"*": operator.mul, "/": operator.floordiv, "%": operator.mod},
)  # fmt: skip
_SIGNS: dict[str, Callable[[Any], Any]] = {
    "-": operator.neg, "!": np.logical_not, "~": operator.invert,
}  # fmt: skip
_CALLS: dict[str, Callable[..., Any]] = {
    "int": lambda x: x, "uint": lambda x: x, "min": np.minimum, "max": np.maximum, "clamp": np.clip,
}  # fmt: skip


class Unknown(Exception):
    """A value that the text alone does not tell."""


@dataclass(frozen=True)
class Access:
    """A load or a store of a kernel.

    Attributes:
        text: as it is written.
        lines: that one subgroup touches, and ``fewest`` that what it moves can lie in.
        times: that a thread does it: turns of the loops around it.
    """

    text: str
    lines: int
    fewest: int
    times: int


@dataclass(frozen=True)
class Touched:
    """A kernel's accesses, and its subgroups."""

    accesses: tuple[Access, ...]
    subgroups: int

    def total(self, of: Callable[[Access], int]) -> int:
        """Of a whole run."""
        return self.subgroups * sum(each.times * of(each) for each in self.accesses)

    @property
    def lines(self) -> int:
        """Of all accesses."""
        return self.total(lambda each: each.lines)

    @property
    def fewest(self) -> int:
        """That they could do with."""
        return self.total(lambda each: each.fewest)


class _Reader:
    """Values of an expression of GLSL, of whole numbers: one for each thread of a subgroup."""

    def __init__(self, text: str, values: dict[str, Any]) -> None:
        self._tokens = list(self._split(text))
        self._values = values

    @staticmethod
    def _split(text: str) -> Iterator[str]:
        place = 0
        while place < len(text.rstrip()):
            found = _TOKEN.match(text, place)
            if found is None:
                raise Unknown(text)
            place = found.end()
            yield found[1] or found[2] or found[3]

    def value(self) -> Any:
        """Of all of it. Raises Unknown."""
        found = self._choice()
        if self._tokens:
            raise Unknown(self._tokens)
        return found

    def _next(self) -> str:
        if not self._tokens:
            raise Unknown("it ends early")
        return self._tokens.pop(0)

    def _take(self, token: str) -> bool:
        if self._tokens[:1] == [token]:
            self._tokens.pop(0)
            return True
        return False

    def _choice(self) -> Any:
        condition = self._level(0)
        if not self._take("?"):
            return condition
        one = self._choice()
        if not self._take(":"):
            raise Unknown("a choice of one")
        return np.where(condition, one, self._choice())

    def _level(self, number: int) -> Any:
        if number == len(_LEVELS):
            return self._single()
        found = self._level(number + 1)
        while self._tokens and self._tokens[0] in _LEVELS[number]:
            found = _LEVELS[number][self._next()](found, self._level(number + 1))
        return found

    def _single(self) -> Any:
        token = self._next()
        if token == "(":
            found = self._choice()
        elif token in ("-", "!", "~"):
            return _SIGNS[token](self._single())
        elif token.isdigit():
            return np.int64(token)
        elif token in _CALLS and self._take("("):
            given = [self._choice()]
            while self._take(","):
                given.append(self._choice())
            found = _CALLS[token](*given)
        elif token in self._values:
            return self._values[token]
        else:
            raise Unknown(token)
        if not self._take(")"):
            raise Unknown("a bracket is left open")
        return found


def touched(source: str, lanes: int = LANES, line: int = LINE) -> Touched:
    """The accesses of a kernel to buffers, by its GLSL. Raises Unknown for another text."""
    grid = _GRID.search(source)
    if grid is None:
        raise Unknown("a grid of constant size is needed, in a comment")
    *groups, wide, high, deep = map(int, grid.groups())
    sizes = {
        name: BYTES.get(kind, 16 if "4" in kind else 4) for kind, name in _BUFFER.findall(source)
    }
    thread = np.arange(lanes)
    values: dict[str, Any] = {
        f"blockIdx_{axis}": n // 2 for axis, n in zip("xyz", groups, strict=True)
    }
    values |= {
        "threadIdx_x": thread % wide, "threadIdx_y": thread // wide % high,
        "threadIdx_z": thread // (wide * high),
    }  # fmt: skip
    turns = [1]
    found: list[Access] = []
    block: set[str] = set()  # what drivers load once, however often it is written
    for text in map(str.strip, source[source.index("void main") :].splitlines()):
        if text.startswith("}"):
            turns.pop()
        if loop := _FOR.match(text):
            turns.append(turns[-1] * _turns(loop, values))
        elif text.endswith("{"):
            turns.append(turns[-1])
        else:
            for access in _accesses(text, sizes, values, turns[-1], line):
                if access.text not in block:
                    block.add(access.text)
                    found.append(access)
            _keep(text, values)
            continue
        block = set()
    return Touched(tuple(found), math.prod(groups) * math.ceil(wide * high * deep / lanes))


def _value(text: str, values: dict[str, Any]) -> Any:
    return _Reader(text, values).value()


def _turns(loop: re.Match[str], values: dict[str, Any]) -> int:
    """Of a loop; 1 where they follow from data. Its variable is what it begins with."""
    values.pop(loop[1], None)
    try:
        begin, end = _value(loop[2], values), _value(loop[3], values)
    except Unknown:
        return 1
    values[loop[1]] = begin
    return max(1, int(np.max(end - begin)) // int(loop[4] or 1))


def _keep(text: str, values: dict[str, Any]) -> None:
    if set_to := _SET.fullmatch(text):
        values.pop(set_to[1], None)
        try:
            values[set_to[1]] = _value(set_to[2], values)
        except Unknown:
            return


def _accesses(
    text: str, sizes: dict[str, int], values: dict[str, Any], times: int, line: int
) -> Iterator[Access]:
    for name, size in sizes.items():
        for begin in (found.end() for found in re.finditer(rf"\b{name}\[", text)):
            index = text[begin : _closed(text, begin)]
            try:
                places = size * np.unique(_value(index, values))
            except Unknown:
                continue
            ends = np.concatenate([places // line, (places + size - 1) // line])
            fewest = math.ceil(size * len(places) / line)
            yield Access(f"{name}[{index}]", len(np.unique(ends)), fewest, times)


def _closed(text: str, begin: int) -> int:
    depth = 1
    for place in range(begin, len(text)):
        depth += {"[": 1, "]": -1}.get(text[place], 0)
        if depth == 0:
            return place
    return len(text)


def lines(found: Sequence[tuple[str, str, Touched]], least: int) -> list[str]:
    """The table of kernels, those with the most lines too many first, of ``least`` at least."""
    rows = []
    for name, kernel, all_of_it in sorted(found, key=lambda each: each[2].fewest - each[2].lines):
        if all_of_it.lines - all_of_it.fewest < least:
            continue
        worst = max(all_of_it.accesses, key=lambda each: each.times * (each.lines - each.fewest))
        rows.append(
            (
                name, kernel, f"{all_of_it.lines:,}", f"{all_of_it.fewest:,}",
                f"{all_of_it.lines / max(1, all_of_it.fewest):.1f}", worst.text[:50],
                str(worst.lines), str(worst.times),
            )
        )  # fmt: skip
    return table(HEADER, rows, left=2)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("models", nargs=-1, type=click.Path(path_type=Path, exists=True))
@click.option("--target", required=True, help="As of 'tvm-vision compile'.")
@click.option("--precision", type=click.Choice(["fp32", "fp16"]), default="fp32", show_default=True)
@click.option("--only", multiple=True, help="Operators with that in their name; several times.")
@click.option(
    "--least", type=click.IntRange(0), default=1_000_000, show_default=True,
    help="Lines that a kernel touches beyond the fewest.",
)  # fmt: skip
def main(
    models: tuple[Path, ...], target: str, precision: str, only: tuple[str, ...], least: int
) -> None:
    """Count the lines that kernels touch, of MODELS or of single operators."""
    given = [(path.stem, onnx.load(path)) for path in models] or [
        (case.name, case.model())
        for case in CASES
        if not only or any(part in case.name for part in only)
    ]
    found = []
    for name, model in given:
        with ScratchFolder() as folder:
            shaders = folder / "shaders"
            try:
                tvm_vision.compile(
                    model, folder / "network.tar", target=target, precision=precision,
                    dump_shaders=shaders, options={"kernel_cache": False},
                )  # fmt: skip
            except TvmVisionError as problem:
                click.echo(f"{name}: {problem}", err=True)
                continue
            for path in sorted(shaders.glob("*.comp")):
                kernel = path.stem.removesuffix("_kernel")
                try:
                    found.append((name, kernel, touched(path.read_text())))
                except Unknown as problem:
                    click.echo(f"{name}: {kernel}: {problem}", err=True)
    click.echo("\n".join(lines(found, least)))


if __name__ == "__main__":
    main(prog_name="benchmarks.touched_lines")
