"""Code of kernels that is kept: as bytes and back, and under other names."""

from __future__ import annotations

import random
import subprocess
from dataclasses import fields, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, te
from tvm.target import Target

from support.compiled import FIXED
from support.relax_models import module_of
from tvm_vision.compiler import prepare
from tvm_vision.compiler.kernels.code import PLACEHOLDER_LENGTH, KernelCode
from tvm_vision.compiler.kernels.key import kernel_digest, placeholder, written
from tvm_vision.compiler.kernels.make import build_kernels, schedule_kernels
from tvm_vision.errors import UnsupportedKernelError
from tvm_vision.schedules import ScheduleConfig, TargetLimits, choices
from tvm_vision.vulkan.codegen import spirv

OP = relax.op
GPU = {"kind": "vulkan"}
LLVM = Target({"kind": "llvm", "mcpu": "x86-64-v3"})


def sorted_sums(builder, x):
    """Kernels of several launches, of one, and with a sum."""
    y = builder.emit(OP.nn.relu(OP.nn.conv2d(x, relax.const(np.ones((8, 8, 3, 3), "float32")))))
    return builder.emit(OP.sort(OP.exp(y), axis=-1))


@cache
def functions_for(target: Target) -> dict[str, Any]:
    module, _ = module_of(sorted_sums, (1, 8, 12, 12))
    return prepare(module, target=target).functions


@pytest.fixture(scope="module")
def functions() -> dict[str, Any]:
    return functions_for(FIXED)


def made(functions: dict[str, Any], target: Target) -> dict[str, KernelCode]:
    limits = TargetLimits.of(target) if "gpu" in target.keys else None
    keys = {name: kernel_digest(written(f), target, limits, None) for name, f in functions.items()}
    names = {name: placeholder(key) for name, key in keys.items()}
    scheduled = schedule_kernels(functions, target, limits, dict.fromkeys(functions))
    with target, tvm.transform.PassContext(opt_level=3):
        return build_kernels(scheduled, target, names, {})


@pytest.fixture(scope="module", params=[FIXED, LLVM], ids=["vulkan", "llvm"])
def target(request) -> Target:
    return request.param


@pytest.fixture(scope="module")
def code(target) -> dict[str, KernelCode]:
    return made(functions_for(target), target)


def test_a_kernel_is_the_same_made_alone_or_with_others(target, code):
    for name, function in functions_for(target).items():
        assert made({name: function}, target) == {name: code[name]}


def test_bytes_and_back(code):
    for kernel in code.values():
        assert KernelCode.from_bytes(kernel.to_bytes()) == kernel


def test_damaged_bytes_are_no_other_kernel(code):
    kernel = next(iter(code.values()))
    content = kernel.to_bytes()
    rng = random.Random(3)
    for cut in (b"", content[:-1], content[:9]):
        with pytest.raises(ValueError):
            KernelCode.from_bytes(cut)
    for _ in range(50):
        damaged = bytearray(content)
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        try:  # some bits are padding
            assert KernelCode.from_bytes(bytes(damaged)) == kernel
        except ValueError:
            continue


@pytest.mark.parametrize("name", ["f", "fused_conv2d_add", "n" * PLACEHOLDER_LENGTH])
def test_a_name_is_all_that_changes(code, name, tmp_path):
    for kernel in code.values():
        named = kernel.named(name)
        assert len(named.host) == len(kernel.host)
        assert kernel.name.encode() not in named.host
        path = tmp_path / "named.o"
        path.write_bytes(named.host)
        symbols = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
        assert f" T __tvm_ffi_{name}\n" in symbols
        for shader, before in zip(named.shaders, kernel.shaders, strict=True):
            assert shader.told.name == before.told.name.replace(kernel.name, name)
            assert f"// {shader.told.name}\n" in shader.told.source
            assert kernel.name not in shader.told.source


def test_shaders_are_those_that_the_name_would_give(code):
    for kernel in code.values():
        for shader in kernel.named("some_name").shaders:
            directly = spirv.compile_glsl(shader.told.source, name=shader.told.name)
            assert shader.spirv == directly


def test_a_name_that_is_too_long_is_refused(code):
    kernel = next(iter(code.values()))
    with pytest.raises(UnsupportedKernelError, match="at most 128 letters, found 129"):
        kernel.named("n" * (PLACEHOLDER_LENGTH + 1))


def test_an_error_names_the_kernel(functions):
    """Not what stands for its name while it is made."""
    small = Target({**FIXED.attrs, "max_shared_memory_per_block": 1} | GPU)
    limits = TargetLimits.of(FIXED)
    scheduled = schedule_kernels(functions, FIXED, limits, dict.fromkeys(functions))
    names = {name: placeholder("0" * 60 + f"{i:04}") for i, name in enumerate(functions)}
    with pytest.raises(UnsupportedKernelError, match="kernel (sort|fused_conv2d)\\w*: needs"):
        build_kernels(scheduled, small, names, {})


class TestKeys:
    """Whatever the code depends on, it depends on in the key."""

    def digest(self, function, target=FIXED, limits=None, choice=None) -> str:
        return kernel_digest(written(function), target, limits or TargetLimits.of(target), choice)

    def test_functions(self, functions):
        assert len({self.digest(function) for function in functions.values()}) == len(functions)

    @pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
    def test_a_constant(self, dtype):
        """By its last bit."""

        def scaled(by):
            x = te.placeholder((4,), dtype, "x")
            y = te.compute((4,), lambda i: x[i] * tvm.tirx.const(by, dtype), "y")
            return te.create_prim_func([x, y])

        one = np.dtype(dtype).type(0.3)
        values = [float(v) for v in (one, np.nextafter(one, one + one), -one, np.inf)]
        assert len({self.digest(scaled(by)) for by in values}) == len(values)

    def test_what_it_is_called_does_not_count(self, functions):
        function = next(iter(functions.values()))
        assert self.digest(function.with_attr("global_symbol", "other")) == self.digest(function)

    def test_every_attribute_of_the_target(self, functions):
        function = next(iter(functions.values()))
        config = dict(FIXED.attrs)
        digests = {self.digest(function, FIXED, TargetLimits.of(FIXED))}
        for name, value in config.items():
            if isinstance(value, (bool, int)):
                changed = not value if isinstance(value, bool) else value + 1
                other = Target({**config, "keys": list(FIXED.keys), name: changed} | GPU)
                digests.add(self.digest(function, other, TargetLimits.of(FIXED)))
        numbers = [v for v in config.values() if isinstance(v, (bool, int))]
        assert len(digests) == 1 + len(numbers)

    def test_every_limit(self, functions):
        function = next(iter(functions.values()))
        limits = TargetLimits.of(FIXED)
        others: dict[str, Any] = {
            "matrices": ((16, 16, 16),),
            "int8_matrices": ((16, 16, 32),),
            "device": replace(limits.device, pick=91.0),
        }
        digests = {self.digest(function, FIXED, limits)}
        for field in fields(limits):
            value = getattr(limits, field.name)
            other = others.get(field.name)
            if other is None:
                other = not value if isinstance(value, bool) else value + 1
            change: dict[str, Any] = {field.name: other}
            digests.add(self.digest(function, FIXED, replace(limits, **change)))
        assert len(digests) == 1 + len(fields(limits))

    def test_every_number_of_the_device(self, functions):
        """Deep inside, too."""
        function = next(iter(functions.values()))
        limits = TargetLimits.of(FIXED)
        found = {self.digest(function, FIXED, limits)}
        count = 1
        for field in fields(limits.device.units):
            value = getattr(limits.device.units, field.name)
            if isinstance(value, (int, float)):
                change: dict[str, Any] = {field.name: value + 1}
                units = replace(limits.device.units, **change)
                device = replace(limits.device, units=units)
                found.add(self.digest(function, FIXED, replace(limits, device=device)))
                count += 1
        assert len(found) == count > 2

    def test_every_choice(self, functions):
        limits = TargetLimits.of(FIXED)
        function = next(f for name, f in functions.items() if "conv2d" in name)
        offered = choices(function, limits)
        digests = {self.digest(function, FIXED, limits, choice) for choice in (None, *offered)}
        assert len(digests) == 1 + len(offered) > 3
        again = ScheduleConfig.from_dict(offered[0].to_dict())
        assert self.digest(function, choice=again) in digests
