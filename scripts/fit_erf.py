"""Fits the rational approximation of erf x in tvm_compat/llvm_functions.py, and prints it.

erf x / x is a function of t = x² without a pole: P(t) / Q(t) is fitted to it on [0, END²] by least
squares whose weights grow where the relative error is largest (C. L. Lawson, 1961), which lets
the largest error fall nearly as low as it can. Beyond END erf x is 1 in float32.

Usage: python scripts/fit_erf.py
"""

from __future__ import annotations

import math

import numpy as np

# Of P and of Q; up to where.
DEGREES = (5, 5)
END = 4.0
PLACES, ROUNDS = 3000, 200


def main() -> None:
    x = np.maximum((1 - np.cos(np.linspace(0, np.pi, PLACES))) / 2 * END, 1e-6)
    wanted = np.array([math.erf(place) / place for place in x])
    # Within [0, 1], where powers are no farther apart than need be.
    t = np.square(x / END)
    least = math.inf
    found: list[np.ndarray] = []
    weights, below = np.ones(PLACES), np.ones(PLACES)
    up, down = DEGREES
    powers = t[:, None] ** np.arange(max(DEGREES) + 1)
    terms = np.concatenate([powers[:, : up + 1], -wanted[:, None] * powers[:, 1 : down + 1]], 1)
    for _ in range(ROUNDS):
        scale = np.sqrt(weights) / (np.abs(below) * wanted)
        solved = np.linalg.lstsq(terms * scale[:, None], wanted * scale, rcond=None)[0]
        numerator, denominator = solved[: up + 1], np.append(1.0, solved[up + 1 :])
        below = powers[:, : down + 1] @ denominator
        error = np.abs(powers[:, : up + 1] @ numerator / below / wanted - 1)
        if error.max() < least:
            least, found = error.max(), [numerator, denominator]
        weights *= error / error.max() + 1e-3
        weights /= weights.sum()
    print(f"largest relative error {least:.1e}")
    for name, numbers in zip(("P", "Q"), found, strict=True):
        scaled = numbers / END ** (2 * np.arange(len(numbers)))
        print(f"{name}:", ", ".join(f"{number:.9g}" for number in scaled))


if __name__ == "__main__":
    main()
