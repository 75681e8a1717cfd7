"""What drivers make of the kernels that calibrate: as many instructions as the rates count."""

from __future__ import annotations

from pathlib import Path

import pytest
import tvm
from tvm.target import Target

from tvm_vision.devices import known_devices
from tvm_vision.errors import DeviceError
from tvm_vision.offline import drivers, machines
from tvm_vision.offline.assembly import Work
from tvm_vision.offline.model import examine_kernel
from tvm_vision.offline.network import read_kernels
from tvm_vision.offline.pipelines import compile_kernels
from tvm_vision.runtime.library import load_library
from tvm_vision.tuning import calibration_kernels as kernels

ROUNDS = 64


@pytest.mark.parametrize("device", ["renoir", "phoenix"])
@pytest.mark.parametrize(
    ("dtype", "work", "instructions"),
    [
        ("float32", Work.MULTIPLY_ADD, kernels.SUMS * ROUNDS),
        ("float16", Work.PACKED, kernels.SUMS * ROUNDS // 2),
    ],
)
def test_a_multiply_add_is_one_instruction(
    device: str, dtype: str, work: Work, instructions: int, tmp_path: Path
) -> None:
    try:
        driver = drivers.find(device)
    except DeviceError as error:
        pytest.skip(str(error))
    function = kernels.scheduled(kernels.multiply_add(dtype, 512, 256, ROUNDS))
    target = Target(known_devices()[device].target_config())
    library = tvm.tirx.build(tvm.IRModule({"main": function}), target)
    library.export_library(str(tmp_path / "kernel.so"))
    (kernel,) = read_kernels(load_library(tmp_path / "kernel.so"))
    made = compile_kernels([kernel], driver).pipelines[kernel.name]
    mix = examine_kernel(kernel, made, machines.find(device)).mix
    assert mix[work.value] == pytest.approx(instructions, rel=0.05)
    if dtype != "float16" or driver.opens:  # Mesa 22 moves halves about beside them
        assert mix["vector"] < 1.1 * instructions
