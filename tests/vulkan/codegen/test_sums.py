"""Sums and divisions of what threads add and what a workgroup has in common: the same numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm.script import tirx as T

from support import lowering

BLOCKS, ROUNDS, COPIES, THREADS = 3, 5, 4, 32
Expression = Callable[[Any, Any, Any, Any], Any]


def kernel(f: list[Expression]) -> Any:
    """Writes eight expressions of workgroup, round, copy of an unrolled loop, and thread."""

    @T.prim_func(s_tir=True)
    def made(out: T.Buffer((8, BLOCKS, ROUNDS, COPIES, THREADS), "int32")):
        for b in T.thread_binding(BLOCKS, "blockIdx.x"):
            for t in T.thread_binding(THREADS, "threadIdx.x"):
                for k in T.serial(ROUNDS):
                    for u in T.unroll(COPIES):
                        out[0, b, k, u, t] = f[0](b, k, u, t)
                        out[1, b, k, u, t] = f[1](b, k, u, t)
                        out[2, b, k, u, t] = f[2](b, k, u, t)
                        out[3, b, k, u, t] = f[3](b, k, u, t)
                        out[4, b, k, u, t] = f[4](b, k, u, t)
                        out[5, b, k, u, t] = f[5](b, k, u, t)
                        out[6, b, k, u, t] = f[6](b, k, u, t)
                        out[7, b, k, u, t] = f[7](b, k, u, t)

    return made


def drawn(random: np.random.Generator, depth: int) -> Expression:
    """A random expression: sums, differences and multiples, and quotients and remainders."""
    if depth == 0:
        at = int(random.integers(4))
        return lambda *values: values[at]
    first, second = drawn(random, depth - 1), drawn(random, depth - 1)
    # Most divisors and factors of schedules have many divisors in common.
    factor = int(random.choice([2, 4, 8, 16, 3, 24]))
    divisor = int(random.choice([4, 8, 16, 32, 72, 24, 9, 176]))
    constant = int(random.integers(-40, 40))
    of_what: list[Expression] = [
        lambda *values: first(*values) * factor + second(*values),
        lambda *values: first(*values) * factor - second(*values) + constant,
        lambda *values: (first(*values) * factor + second(*values) + constant) % divisor,
        lambda *values: (first(*values) * factor + second(*values)) // divisor,
        lambda *values: (first(*values) * divisor + second(*values) // factor) % divisor,
        lambda *values: first(*values) * factor + second(*values) % factor,
    ]
    return of_what[int(random.integers(len(of_what)))]


def expected(f: list[Expression]) -> np.ndarray:
    values = np.meshgrid(*map(np.arange, (BLOCKS, ROUNDS, COPIES, THREADS)), indexing="ij")
    return np.stack([np.broadcast_to(each(*values), values[0].shape) for each in f])


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize("seed", range(8))
def test_random_expressions(seed: int) -> None:
    random = np.random.default_rng(seed)
    f = [drawn(random, 1 + place % 3) for place in range(8)]
    (found,) = lowering.execute(kernel(f), np.zeros(expected(f).shape, "int32"))
    np.testing.assert_array_equal(found, expected(f))


def divided(text: str) -> list[str]:
    """What is divided by 72, with the names of constants replaced by their values."""
    named = dict(re.findall(r"const int (\w+) = (.*);", text))
    found = re.findall(r"uint\((.*?)\) [%/] 72u", text)
    for _ in named:
        found = [re.sub(r"\w+", lambda name: named.get(name[0], name[0]), each) for each in found]
    return found


@pytest.mark.usefixtures("device_info")
def test_what_threads_add_below_a_common_divisor_is_not_divided() -> None:
    f: list[Expression] = [
        lambda b, k, u, t: (k * 32 + u * 4 + t // 8) % 72,
        lambda b, k, u, t: (b * 96 + t // 4 + k * 8) % 72 * 64 + t,
        lambda b, k, u, t: (k * 24 + t % 3 + 48) % 72,
        lambda b, k, u, t: (k * 32 + u * 8 + t % 8) // 72 + t,
        # These are: the threads' part reaches a common divisor, there is none, or it is negative.
        lambda b, k, u, t: (k * 32 + u * 4 + t // 4) % 72,
        lambda b, k, u, t: (k * 7 + t) % 72,
        lambda b, k, u, t: (k * 32 + 31 - t) % 72,
        lambda b, k, u, t: (k * 8 - t // 8 + 3) // 72,
    ]
    (shader,) = lowering.kernels(kernel(f))
    of_threads = ["threadIdx" in each for each in divided(shader.source)]
    assert len(of_threads) >= 6 and sum(of_threads) <= 4
    (found,) = lowering.execute(kernel(f), np.zeros(expected(f).shape, "int32"))
    np.testing.assert_array_equal(found, expected(f))


@T.prim_func(s_tir=True)
def rows(a: T.Buffer((64, 32), "float32"), out: T.Buffer((8, 4, 32), "float32")):
    for b in T.thread_binding(4, "blockIdx.x"):
        for t in T.thread_binding(32, "threadIdx.x"):
            for k in T.serial(8):
                out[k, b, t] = a[k * 8 + t // 16 + b * 2, t] + a[t // 16 + k * 8, t]


def test_terms_of_threads_stand_before_those_in_common() -> None:
    (shader,) = lowering.kernels(rows)
    assert "blockIdx_x * 64 + " not in shader.source
    (place,) = re.findall(r"out\[(.*)\] =", shader.source)
    assert re.fullmatch(r"threadIdx_x \+ \(.*\)", place), place
