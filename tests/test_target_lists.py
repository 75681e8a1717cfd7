"""Lists of targets as people write them."""

from __future__ import annotations

import pytest

from tvm_vision.errors import InputError
from tvm_vision.target_lists import split_targets


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("vulkan", ["vulkan"]),
        ("renoir,tgl, llvm", ["renoir", "tgl", "llvm"]),
        ("llvm -mattr=+avx2,+fma,-avx512f,tgl", ["llvm -mattr=+avx2,+fma,-avx512f", "tgl"]),
        ('"vulkan --keys=vulkan,gpu",tgl', ["vulkan --keys=vulkan,gpu", "tgl"]),
        ('{"kind": "llvm", "mcpu": "znver2"}', ['{"kind": "llvm", "mcpu": "znver2"}']),
    ],
)
def test_lists_of_targets(text: str, targets: list[str]) -> None:
    assert split_targets(text) == targets


@pytest.mark.parametrize("text", ["", "renoir,", ",llvm"])
def test_lists_without_a_target(text: str) -> None:
    with pytest.raises(InputError, match="targets such as"):
        split_targets(text)
