"""Files changed at random, by a seed: bytes, lines, values in JSON, and what parsers trip over."""

from __future__ import annotations

import random
from collections.abc import Iterator

# Numbers and texts that are valid JSON, or nearly, and seldom thought of.
ODD = (
    "1" + "0" * 400, "-1" + "0" * 400, "1e400", "1e308", "1e-320", "0", "-1", "1.5", "true",
    "null",
    "NaN", "Infinity", "9" * 5000, "[" * 100_000, "[" * 900 + "]" * 900,
    '{"a":' * 900 + "1" + "}" * 900,
    "[]", "{}", '""', r'"\ud800"', r'"\u0000"', '"' + "x" * 70_000 + '"', "[[1]]", '{"a":1,"a":2}',
    "\ufeff", "\u0663", "\x00", "\x1b[2J", "&a [*a]", "*a", "!!python/object:os.system {}",
    "2001-99-99", "!!float x", "!!binary x", "? [a]", "<<: 1", "=", "\t", "---\n---\n", "0b",
    "1:99:99",
)  # fmt: skip


def mutated(sample: bytes, seed: int, count: int) -> Iterator[bytes]:
    """``count`` variants of a file, each with one to three changes; the same for the same seed."""
    chance = random.Random(seed)
    for _ in range(count):
        data = sample
        for _ in range(chance.randint(1, 3)):
            data = chance.choice(CHANGES)(data, chance)
        yield data


def _flip(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data or b"\0")
    changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def _cut(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randint(0, len(data))]


def _drop(data: bytes, chance: random.Random) -> bytes:
    begin, end = sorted(chance.randint(0, len(data)) for _ in range(2))
    return data[:begin] + data[min(end, begin + 20) :]


def _repeat(data: bytes, chance: random.Random) -> bytes:
    begin, end = sorted(chance.randint(0, len(data)) for _ in range(2))
    return data[:end] + data[begin:end] + data[end:]


def _insert(data: bytes, chance: random.Random) -> bytes:
    at = chance.randint(0, len(data))
    return data[:at] + chance.choice(ODD).encode() + data[at:]


def _replace_value(data: bytes, chance: random.Random) -> bytes:
    """Something odd where a value of JSON, YAML or a cfg stood."""
    begins = [i + 1 for i, byte in enumerate(data) if byte in b":=[, "]
    if not begins:
        return _insert(data, chance)
    begin = chance.choice(begins)
    ends = [i for i in range(begin, len(data)) if data[i] in b",]}\n"] or [len(data)]
    return data[:begin] + chance.choice(ODD).encode() + data[ends[0] :]


CHANGES = (_flip, _cut, _drop, _repeat, _insert, _replace_value, _replace_value)
