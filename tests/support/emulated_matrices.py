"""Cooperative matrices for devices that have none: each thread holds and computes whole ones.

The text of a shader is changed so that a matrix is an array of floats, or of integers. All threads
of a subgroup then compute the same and store the same values at the same places, which tests
everything about a schedule but the device's own matrices.
"""

from __future__ import annotations

import dataclasses
import re

import pytest

from tvm_vision import vulkan
from tvm_vision.vulkan.codegen.glsl.kernel import Shader

_TYPE = r"coopmat<(\w+), gl_ScopeSubgroup, (\d+), (\d+), gl_MatrixUse\w+>"
_NAMED = r"(\w+)\[(\d+)\]"

# Numbers that lie in words, where arrays share their place: as words, and of words.
AS_WORDS = {
    ("float", "uvec"): ("floatBitsToUint", "uintBitsToFloat"),
    ("float", "ivec"): ("floatBitsToInt", "intBitsToFloat"),
    ("int", "uvec"): ("uint", "int"),
}

# lavapipe of Mesa 22.0 (Ubuntu 22.04 without its updates) gets some of these shaders wrong, which
# 22.3 and later get right; it tells no version but LLVM's.
WRONG = "LLVM 13."


def need_right_arrays(device: vulkan.DeviceInfo) -> None:
    """Skips a test where the driver cannot run these shaders, or has matrices of its own: there
    the real ones are tested, and these are too much for some of its compilers."""
    if device.supports_cooperative_matrix:
        pytest.skip(f"{device.name} has cooperative matrices")
    if device.is_cpu and WRONG in device.name:
        pytest.skip(f"{device.name} computes emulated matrices wrongly; newer Mesa does not")


def emulated(kernel: Shader) -> Shader:
    """The kernel without cooperative matrices."""
    return dataclasses.replace(kernel, source=emulate(kernel.source))


def _computed(element: str) -> str:
    """The type that elements of a matrix are computed in."""
    return "int" if element.startswith("int") else "float"


def emulate(source: str) -> str:
    """The text of a shader without cooperative matrices."""
    declarations = re.findall(_TYPE + r" (\w+)\[", source)
    shapes = {name: (int(rows), int(columns)) for _, rows, columns, name in declarations}
    elements = {name: element for element, _, _, name in declarations}
    arrays = {name: held for held, name in re.findall(r"(?:shared|\{) (\w+) (\w+)\[", source)}

    def declared(found: re.Match) -> str:
        size = int(found[2]) * int(found[3])
        return f"{_computed(found[1])} {found[4]}[{found[5]}][{size}];"

    def filled(found: re.Match) -> str:
        rows, columns = shapes[found[1]]
        return f"for (int q = 0; q < {rows * columns}; ++q) {found[1]}[{found[2]}][q] = {found[6]};"

    def moved(found: re.Match) -> str:
        _, name, number, array, place, stride, layout = found.groups()
        rows, columns = shapes[name]
        element = f"{name}[{number}][r * {columns} + c]"
        line, at = ("r", "c") if layout == "Row" else ("c", "r")
        start = f"{place} + {line} * {stride}"
        kind, held, as_word = elements[name], arrays[array], ""
        if held == kind:
            memory = f"{array}[{start} + {at}]"
        elif kind == "int8_t":
            word = {
                "int": f"{at} / 4]",
                "ivec2": f"{at} / 8][{at} / 4 % 2]",
                "ivec4": f"{at} / 16][{at} / 4 % 4]",
            }[held]
            memory = f"unpack8({array}[{start} + {word})[{at} % 4]"
        elif (kind, held[:-1]) in AS_WORDS:
            each = int(held[-1])
            memory = f"{array}[{start} + {at} / {each}][{at} % {each}]"
            as_word, of_word = AS_WORDS[kind, held[:-1]]
            if found[1] == "Load":
                memory = f"{of_word}({memory})"
        elif held in ("uvec2", "uvec4"):
            each = int(held[-1])
            word = f"{array}[{start} + {at} / {2 * each}][{at} / 2 % {each}]"
            memory = f"unpackFloat2x16({word})[{at} % 2]"
        else:
            memory = f"{array}[{start} + {at} / 4][{at} % 4]"
        load = found[1] == "Load"
        body = f"{memory} = {as_word}({kind}({element}));"
        if load:
            body = f"{element} = {_computed(kind)}({memory});"
        loops = f"for (int r = 0; r < {rows}; ++r) for (int c = 0; c < {columns}; ++c)"
        return f"{loops} {body}"

    def multiplied(found: re.Match) -> str:
        result, r, a, i, b, j, _, _ = found.groups()
        (m, k), n = shapes[a], shapes[b][1]
        loops = (
            f"for (int x = 0; x < {m}; ++x) for (int y = 0; y < {n}; ++y) "
            f"for (int z = 0; z < {k}; ++z)"
        )
        left, right = f"{a}[{i}][x * {k} + z]", f"{b}[{j}][z * {n} + y]"
        return f"{loops} {result}[{r}][x * {n} + y] += {left} * {right};"

    product = rf"{_NAMED} = coopMatMulAdd\({_NAMED}, {_NAMED}, {_NAMED}\);"
    source = re.sub(product, multiplied, source)
    move = rf"coopMat(Load|Store)\({_NAMED}, (\w+), (.*), (\d+), gl_\w+(Row|Column)Major\);"
    source = re.sub(move, moved, source)
    source = re.sub(rf"{_NAMED} = {_TYPE}\((\S+)\);", filled, source)
    source = re.sub(rf"{_TYPE} (\w+)\[(\d+)\];", declared, source)
    return re.sub(r"#extension GL_KHR_(cooperative_matrix|memory_scope).*\n", "", source)
