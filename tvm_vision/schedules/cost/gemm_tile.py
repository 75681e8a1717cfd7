"""A matrix product, and a cut of it into tiles."""

from __future__ import annotations

from dataclasses import dataclass

from ..factors import OTHERS

VECTOR = 4
DOT = 4  # bytes whose products one instruction adds up


@dataclass(frozen=True)
class Product:
    """A matrix product C[b, m, n] = sum over k of A[b, m, k] * B[b, k, n].

    Attributes:
        factors: FP16, added up in float32, or INT8, added up in int32, where the intrinsics of
            these take them; else OTHERS.
        windows: "m" or "n" where A or B is an image that is read by windows, each value several
            times; else "".
        fp16: whether factors of float16 are added up in float32.
        n_first: whether the kernel multiplies B by A, as convolutions with channels first do.
    """

    b: int
    m: int
    n: int
    k: int
    factors: str = OTHERS
    windows: str = ""
    fp16: bool = False
    n_first: bool = False


@dataclass(frozen=True)
class GemmTile:
    """How the work is cut: all that a tuner may vary.

    Attributes:
        m, n, k: the tile of C, and the length along k that is fetched at once.
        thread_m, thread_n: outputs of one thread; thread_n a multiple of 4.
        slice_k: groups of threads that share k.
        split_k: workgroups that share k; their sums are added up by a second kernel.
        dot: terms that one instruction multiplies and adds up. With 4, of bytes, a word of four
            takes the place of an element, and k counts words.
    """

    m: int
    n: int
    k: int
    thread_m: int = 4
    thread_n: int = 4
    slice_k: int = 1
    split_k: int = 1
    dot: int = 1

    @property
    def threads(self) -> int:
        """Threads of a workgroup."""
        return self.m // self.thread_m * (self.n // self.thread_n) * self.slice_k

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a workgroup, for elements or words of 4 bytes."""
        return 4 * (self.m + self.n) * self.k + self._sums_bytes

    def merged_bytes(self, element: int) -> int:
        """Shared memory of a workgroup where what is not used at the same time shares its place.

        The sums of slices, in four bytes each, lie where the larger factor was, if its elements
        have four bytes as well.

        Args:
            element: bytes of an element of the factors.
        """
        small, large = sorted(element * size * self.k for size in (self.m, self.n))
        sums = self._sums_bytes
        return small + (max(large, sums) if element == 4 else large + sums)

    @property
    def _sums_bytes(self) -> int:
        return 4 * self.m * self.n * self.slice_k if self.slice_k > 1 else 0

    @property
    def outputs_of_thread(self) -> int:
        """Sums that a thread keeps in registers."""
        return self.thread_m * self.thread_n
