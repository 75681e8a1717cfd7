"""Bytes of a module with something changed: refused in one line, or loaded; never the end."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

import pytest
import tvm_ffi

from support.module_bytes import module_bytes
from tvm_vision.errors import DeviceError

SEED = 20
MUTANTS = 3000


def mutants(good: bytes, count: int) -> Iterator[bytes]:
    """The bytes with bits turned, numbers of 1 to 8 bytes replaced, and pieces cut or doubled."""
    chance = random.Random(SEED)
    header = good.index(struct.pack("<I", 0x07230203))
    for _ in range(count):
        data = bytearray(good)
        for _ in range(chance.choice((1, 1, 2, 4))):
            # Half of them before the shader, where lengths, names and types are.
            at = chance.randrange(header if chance.random() < 0.5 else len(data))
            kind = chance.randrange(4)
            if kind == 0:
                data[at] ^= 1 << chance.randrange(8)
            elif kind == 1:
                width = chance.choice((1, 2, 4, 8))
                value = chance.choice((0, 1, 2**31, 2**63, 2**64 - 1, chance.getrandbits(64)))
                data[at : at + width] = (value % 256**width).to_bytes(width, "little")
            elif kind == 2:
                del data[at : at + chance.randrange(1, 16)]
            else:
                data[at:at] = data[at : at + chance.randrange(1, 16)]
            header = min(header, len(data) - 1)
        yield bytes(data)


def test_mutated_modules() -> None:
    load = tvm_ffi.get_global_func("ffi.Module.load_from_bytes.vulkan")
    good = module_bytes()
    load(good)
    refused = 0
    for data in mutants(good, MUTANTS):
        try:
            load(data)
        except DeviceError as error:
            refused += 1
            assert "\n" not in str(error) and str(error).isprintable()
    assert refused > MUTANTS // 4


@pytest.mark.parametrize("code", range(20))
@pytest.mark.parametrize("bits", [0, 4, 64, 128, 255])
def test_scalars_of_every_type(code: int, bits: int) -> None:
    load = tvm_ffi.get_global_func("ffi.Module.load_from_bytes.vulkan")
    good = module_bytes()
    scalar = good.index(struct.pack("<BBH", 0, 32, 1))
    data = good[:scalar] + struct.pack("<BBH", code, bits, 1) + good[scalar + 4 :]
    try:
        load(data)
    except DeviceError as error:
        line = str(error)
        assert "kernel scale has a scalar argument of type" in line or "buffer" in line
        assert "\n" not in line


def test_names_that_are_no_text() -> None:
    load = tvm_ffi.get_global_func("ffi.Module.load_from_bytes.vulkan")
    data = module_bytes().replace(b"scale", b"sc\xffle")
    with pytest.raises(DeviceError, match="a name is no text"):
        load(data)
