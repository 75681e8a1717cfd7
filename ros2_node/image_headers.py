"""The size of a compressed image by its header, before anything is decoded. Without ROS.

Half a megabyte of PNG can be 400 million pixels: who decodes first has the memory taken already.
"""

from __future__ import annotations

import struct

PNG = b"\x89PNG\r\n\x1a\n"
JPEG = b"\xff\xd8\xff"
# Above all cameras that robots have; what is decoded of it takes 150 MB.
MOST_PIXELS = 50_000_000
# Start of frame: the size of the image (ITU-T T.81, table B.1). C4, C8 and CC are others.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
# Without a length behind them: TEM, RST0 to RST7, SOI.
_BARE = frozenset({0x01, *range(0xD0, 0xD9)})
# Start of scan and end of image: the size stands before them.
_TOO_LATE = frozenset({0xD9, 0xDA})


def size_of(data: memoryview) -> tuple[int, int] | None:
    """Width and height of a PNG or JPEG, None where it is neither, or plainly not whole.

    data: the file, of bytes. Raises nothing, whatever the bytes are.
    """
    if bytes(data[:8]) == PNG:
        return _png(data)
    if bytes(data[:3]) == JPEG:
        return _jpeg(data)
    return None


def _png(data: memoryview) -> tuple[int, int] | None:
    # The first chunk must be the header (PNG specification, 5.6).
    if len(data) < 24 or bytes(data[12:16]) != b"IHDR":
        return None
    width, height = struct.unpack(">II", data[16:24])
    return (width, height) if _has_all_chunks(data) else None


def _has_all_chunks(data: memoryview) -> bool:
    """Whether no chunk claims more than there is: OpenCV 5.0 has memory for the claim first, up to
    2 GB for a single bit that was damaged."""
    at = len(PNG)
    while at + 12 <= len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        at += 12 + length
        if kind == b"IEND":
            return at <= len(data)
    return False


def _jpeg(data: memoryview) -> tuple[int, int] | None:
    at = 2
    while at + 9 <= len(data):
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker == 0xFF:  # fill
            at += 1
        elif marker in _FRAMES:
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        elif marker in _TOO_LATE:
            return None
        elif marker in _BARE:
            at += 2
        else:
            (length,) = struct.unpack(">H", data[at + 2 : at + 4])
            # Two of them are the length itself; less would go on for ever.
            at += 2 + max(length, 2)
    return None
