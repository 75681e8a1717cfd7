"""A stable sort of rows by the digits of their keys, the least significant first.

Of each digit the keys are counted by all workgroups, a part of a row each, and then written where
those of smaller digits, of the parts before and of the threads before end. A workgroup puts its
keys in order in shared memory first, so that neighbours write beside each other. A row that one
workgroup holds never leaves its shared memory.

Keys of longer rows are turned around by a digit as they are written, so that the next one is the
lowest again: all digits but the first are sorted by the same two kernels, compiled once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import tirx as T

from .by_hand import GROUP, barrier, before_thread, kernel, local

THREADS = 128
KEYS = 8  # of a thread
BLOCK = THREADS * KEYS
DIGIT_BITS = 4
DIGITS = 1 << DIGIT_BITS
KEY_BITS = 32
# Each workgroup adds up the counts of all parts, so that these are few: of longer rows a part has
# several blocks.
MOST_PARTS = 128
# A thread's counts of eight digits are in one word, of four bits each, and those of a digit and
# the eighth after it in halves of a word, as sums over a workgroup need more.
HALF = DIGITS // 2
LAST = 0xFFFFFFFF  # sorted behind all others
SHARED = BLOCK + BLOCK // KEYS


def parts_of(count: int) -> tuple[int, int]:
    """How many workgroups share a row, and how many blocks each of them has."""
    whole = -(-count // BLOCK)
    blocks = -(-whole // MOST_PARTS)
    return -(-whole // blocks), blocks


def passes_of(bits: int) -> int:
    """How often rows of keys of ``bits`` are put in order."""
    return -(-bits // DIGIT_BITS)


def sorted_in_block(keys: te.Tensor, bits: int) -> list[te.Tensor]:
    """Rows of at most BLOCK keys, sorted: the keys, and where each was, int32.

    keys: (rows, n) uint32. bits: of a key, the lowest ones, by which it is sorted.
    """
    rows, count = (int(size) for size in keys.shape)
    threads = GROUP
    while threads * KEYS < count:
        threads *= 2

    def statements(ins: list[Any], outs: list[Any], at: dict[str, Any]) -> None:
        (given,), (keys, places) = ins, outs
        row, thread = at["blockIdx.x"], at["threadIdx.x"]
        block = _Block(thread, threads)
        for i in range(KEYS):
            own = i * threads + thread
            block.keys[_apart(own)] = _read(given, row, own, count, threads * KEYS)
            block.places[_apart(own)] = own
        with T.serial(0, passes_of(bits)) as number:
            block.take()
            block.put_in_order(number.astype("uint32") * T.uint32(DIGIT_BITS))
        for i in range(KEYS):
            own = i * threads + thread
            with T.If(own < count), T.Then():
                keys[row, own] = block.keys[_apart(own)]
                places[row, own] = block.places[_apart(own)]

    launch = {"blockIdx.x": rows, "threadIdx.x": threads}
    results = [((rows, count), "uint32"), ((rows, count), "int32")]
    return kernel("sorted_in_block", results, [keys], launch, statements)


def turn_of(number: int, passes: int) -> int:
    """By how many bits keys are turned as they are written by a pass, so that the next digit is
    the lowest, and behind the last pass all are where they were."""
    return DIGIT_BITS if number < passes - 1 else -number * DIGIT_BITS % KEY_BITS


def counts_of_digits(keys: te.Tensor) -> te.Tensor:
    """How many keys of each part have each lowest digit: uint32 (rows, parts, DIGITS).

    keys: (rows, n) uint32.
    """
    rows, count = (int(size) for size in keys.shape)
    parts, blocks = parts_of(count)
    pitch = THREADS + 1

    def statements(ins: list[Any], outs: list[Any], at: dict[str, Any]) -> None:
        (keys,), (counts,) = ins, outs
        row, part, thread = at["blockIdx.y"], at["blockIdx.x"], at["threadIdx.x"]
        key, total = local("uint32"), local("uint32")
        own, packed = local("uint32", HALF), local("uint32", 2)
        all_of, sums = (local("uint32", n, "shared") for n in (HALF * pitch, THREADS))
        for pair in range(HALF):
            own[pair] = T.uint32(0)
        with T.serial(0, blocks) as b:
            first = (part * blocks + b.astype("int32")) * BLOCK
            _clear(packed)
            for i in range(KEYS):
                place = first + i * THREADS + thread
                key[0] = _read(keys, row, place, count, parts * blocks * BLOCK)
                _count(packed, _digit(key[0]))
            for pair in range(HALF):
                own[pair] = own[pair] + _pair(packed, pair)
        for pair in range(HALF):
            all_of[pair * pitch + thread] = own[pair]
        barrier()
        # Several threads add up a digit's, and one theirs.
        digit, share = thread % DIGITS, thread // DIGITS
        total[0] = T.uint32(0)
        with T.serial(0, DIGITS) as i:
            several = all_of[digit % HALF * pitch + share * DIGITS + i.astype("int32")]
            total[0] = total[0] + _half(several, digit // HALF)
        sums[thread] = total[0]
        barrier()
        with T.If(thread < DIGITS), T.Then():
            total[0] = T.uint32(0)
            for share in range(THREADS // DIGITS):
                total[0] = total[0] + sums[share * DIGITS + thread]
            counts[row, part, thread] = total[0]

    launch = {"blockIdx.x": parts, "blockIdx.y": rows, "threadIdx.x": THREADS}
    shape = (rows, parts, DIGITS)
    return kernel("counts", [(shape, "uint32")], [keys], launch, statements)[0]


def sorted_by_digit(
    keys: te.Tensor, counts: te.Tensor, places: Sequence[te.Tensor], turn: int
) -> list[te.Tensor]:
    """Rows in the order of the lowest digit, those of equal ones in the order they were in: the
    keys, turned around, and where they were before the first digit, int32.

    keys: (rows, n) uint32. counts: see ``counts_of_digits``. places: of the keys before the first
    digit; none where this is the first. turn: by how many bits, see ``turn_of``.
    """
    rows, count = (int(size) for size in keys.shape)
    parts, blocks = parts_of(count)

    def statements(ins: list[Any], outs: list[Any], at: dict[str, Any]) -> None:
        (given, counts, *places), (keys, moved) = ins, outs
        row, part, thread = at["blockIdx.y"], at["blockIdx.x"], at["threadIdx.x"]
        block = _Block(thread, THREADS)
        key, place = local("uint32"), local("int32")
        begins, offsets = (local("uint32", DIGITS, "shared") for _ in range(2))
        _begin(counts, begins, row, part, thread, parts)
        with T.serial(0, blocks) as b:
            first = (part * blocks + b.astype("int32")) * BLOCK
            for i in range(KEYS):
                own = i * THREADS + thread
                block.keys[_apart(own)] = _read(
                    given, row, first + own, count, parts * blocks * BLOCK
                )
                where = first + own
                if places:
                    where = places[0][row, tirx.min(first + own, count - 1)]
                block.places[_apart(own)] = where
            block.take()
            block.put_in_order(None, begins, offsets)
            for i in range(KEYS):
                own = i * THREADS + thread
                key[0] = block.keys[_apart(own)]
                digit = _digit(key[0]).astype("int32")
                place[0] = (offsets[digit] + own.astype("uint32")).astype("int32")
                # What is beyond the row comes last, and is not written, as data decide its place.
                keys[row, place[0]] = _turned(key[0], turn)
                moved[row, place[0]] = block.places[_apart(own)]
            if blocks > 1:
                barrier()

    launch = {"blockIdx.x": parts, "blockIdx.y": rows, "threadIdx.x": THREADS}
    results = [((rows, count), "uint32"), ((rows, count), "int32")]
    given = [keys, counts, *places]
    return kernel("sorted_by_digit", results, given, launch, statements)


def _turned(key: Any, bits: int) -> Any:
    """A key whose lowest bits, 0 to 31, have become its highest."""
    if not bits:
        return key
    return (key >> T.uint32(bits)) | (key << T.uint32(KEY_BITS - bits))


def _begin(counts: Any, begins: Any, row: Any, part: Any, thread: Any, parts: int) -> None:
    """Where in the row the keys of a part begin that have each digit, into shared memory."""
    total, before = local("uint32"), local("uint32")
    sums, earlier = (local("uint32", THREADS, "shared") for _ in range(2))
    whole = local("uint32", DIGITS, "shared")
    sharing = THREADS // DIGITS
    total[0], before[0] = T.uint32(0), T.uint32(0)
    with T.serial(0, -(-parts // sharing)) as i:
        other = i.astype("int32") * sharing + thread // DIGITS
        with T.If(other < parts), T.Then():
            here = local("uint32")
            here[0] = counts[row, other, thread % DIGITS]
            total[0] = total[0] + here[0]
            before[0] = before[0] + here[0] * (other < part).astype("uint32")
    sums[thread], earlier[thread] = total[0], before[0]
    barrier()
    with T.If(thread < DIGITS), T.Then():
        total[0], before[0] = T.uint32(0), T.uint32(0)
        for share in range(sharing):
            total[0] = total[0] + sums[share * DIGITS + thread]
            before[0] = before[0] + earlier[share * DIGITS + thread]
        whole[thread] = total[0]
    barrier()
    with T.If(thread < DIGITS), T.Then():
        for digit in range(DIGITS - 1):
            before[0] = before[0] + whole[digit] * (thread > digit).astype("uint32")
        begins[thread] = before[0]


class _Block:
    """Keys and places in shared memory, KEYS of each thread, that a workgroup puts in order.

    Between two calls a barrier is not needed.
    """

    def __init__(self, thread: Any, threads: int) -> None:
        self._thread, self._threads = thread, threads
        self.keys = local("uint32", SHARED * threads // THREADS, "shared")
        self.places = local("int32", SHARED * threads // THREADS, "shared")
        # Of each thread how many there are before its words of counts; at last of all.
        self._before = local("uint32", threads + 1, "shared")
        self._own, self._where = local("uint32", KEYS), local("int32", KEYS)

    def take(self) -> None:
        """A thread's own, which lie beside each other."""
        barrier()
        for i in range(KEYS):
            self._own[i] = self.keys[_apart(self._thread * KEYS + i)]
            self._where[i] = self.places[_apart(self._thread * KEYS + i)]
        barrier()

    def put_in_order(self, shift: Any, begins: Any = None, offsets: Any = None) -> None:
        """What was taken, in the order of a digit.

        shift: where in a key the digit is; the lowest bits if None. begins: in shared memory where
        in the row the next key of each digit goes, which is brought up to date. offsets: in shared
        memory what has to be added to a place in the block for one in the row.
        """
        thread, threads = self._thread, self._threads
        packed, ranks = local("uint32", 2), local("uint32", KEYS)
        running, word, words = (local("uint32", n) for n in (1, 1, HALF))
        slots = local("int32", KEYS)
        digits = [_digit(self._own[i], shift) for i in range(KEYS)]
        _clear(packed)
        for i, digit in enumerate(digits):
            ranks[i] = _counted(packed, digit)
            _count(packed, digit)
        # Words of counts lie where the keys were: by pairs of digits, then by threads.
        for pair in range(HALF):
            self.keys[_apart(pair * threads + thread)] = _pair(packed, pair)
        barrier()
        running[0] = T.uint32(0)
        # All are read before one is written: TVM puts a barrier between.
        for i in range(HALF):
            words[i] = self.keys[_apart(thread * HALF + i)]
        for i in range(HALF):
            self.keys[_apart(thread * HALF + i)] = running[0]
            running[0] = running[0] + words[i]
        before = before_thread(running[0], thread, threads, lambda a, b: a + b, T.uint32(0))
        self._before[thread] = before[0]
        with T.If(thread == threads - 1), T.Then():
            self._before[threads] = before[0] + running[0]
        barrier()
        for i, digit in enumerate(digits):
            pair = digit.astype("int32") % HALF
            word[0] = self.keys[_apart(pair * threads + thread)]
            word[0] = word[0] + self._before[(pair * threads + thread) // HALF]
            among = self._among_all(word[0], digit // T.uint32(HALF))
            slots[i] = (ranks[i] + among).astype("int32")
        if begins is not None:
            with T.If(thread < DIGITS), T.Then():
                word[0] = self._first_of(thread)
                offsets[thread] = begins[thread] - word[0]
                after = T.uint32(threads * KEYS)
                beyond = tirx.Select(
                    thread == DIGITS - 1, after, self._first_of((thread + 1) % DIGITS)
                )
                begins[thread] = begins[thread] + beyond - word[0]
        barrier()
        for i in range(KEYS):
            # Of a power of two: known to be inside, so that no thread has to ask.
            place = _apart(slots[i] % (threads * KEYS))
            self.keys[place] = self._own[i]
            self.places[place] = self._where[i]
        barrier()

    def _first_of(self, digit: Any) -> Any:
        """Where in the block the first key of a digit goes."""
        word = self._before[digit % HALF * (self._threads // HALF)]
        return self._among_all(word, (digit // HALF).astype("uint32"))

    def _among_all(self, word: Any, half: Any) -> Any:
        """How many keys are before, of a word of sums and which of its halves is meant."""
        lower = self._before[self._threads] & T.uint32(0xFFFF)
        return _half(word, half) + lower * half


def _read(keys: Any, row: Any, place: Any, count: int, most: int) -> Any:
    """The key at a place; LAST beyond the row. most: a place is below it."""
    if most == count:
        return keys[row, place]
    key = keys[row, tirx.min(place, count - 1)]
    return tirx.Select(place < count, key, T.uint32(LAST))


def _digit(key: Any, shift: Any = None) -> Any:
    return (key if shift is None else key >> shift) & T.uint32(DIGITS - 1)


def _apart(place: Any) -> Any:
    """Where something lies in shared memory: a thread's KEYS begin in a bank of their own."""
    return place + place // KEYS


def _clear(packed: Any) -> None:
    packed[0], packed[1] = T.uint32(0), T.uint32(0)


def _bit_of(digit: Any) -> Any:
    return (digit % T.uint32(HALF)) * T.uint32(DIGIT_BITS)


def _count(packed: Any, digit: Any) -> None:
    """One more of a digit, in two words of four bits a digit."""
    one, upper = T.uint32(1) << _bit_of(digit), digit // T.uint32(HALF)
    packed[0] = packed[0] + one * (T.uint32(1) - upper)
    packed[1] = packed[1] + one * upper


def _counted(packed: Any, digit: Any) -> Any:
    """How many of a digit there are so far."""
    word = tirx.Select(digit < T.uint32(HALF), packed[0], packed[1])
    return (word >> _bit_of(digit)) & T.uint32(DIGITS - 1)


def _pair(packed: Any, pair: int) -> Any:
    """The counts of a digit and of the one HALF after it as the halves of a word."""
    lower, upper = ((packed[i] >> T.uint32(pair * DIGIT_BITS)) & T.uint32(15) for i in range(2))
    return lower | (upper << T.uint32(16))


def _half(word: Any, which: Any) -> Any:
    """A half of a word, the lower or the upper one. which: 0 or 1."""
    return (word >> (which.astype("uint32") * T.uint32(16))) & T.uint32(0xFFFF)


# By how many bits the keys of a type (top_k.py) differ, from which one on.
BITS = {"int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "int32": 32, "float16": 19, "float32": 32}
_SAME = {"float16": 13}


def descending(keys: te.Tensor, dtype: str) -> te.Tensor:
    """Numbers by whose lowest BITS[dtype] rows are sorted so that the largest keys come first:
    uint32, of keys int32 of any shape that stand for numbers of dtype (``top_k.keys_of``)."""
    # Where there is a sign, its bit is the only one that counts up already.
    signs = 0 if dtype.startswith("uint") else 1
    flipped = tirx.const((1 << (BITS[dtype] - signs)) - 1, "int32")

    def number(*at: Any) -> Any:
        return ((keys(*at) >> _SAME.get(dtype, 0)) ^ flipped).astype("uint32")

    return te.compute(keys.shape, number, name="bits")
