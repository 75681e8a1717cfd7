"""Matrices that a driver writes out, having no units for them: from what it says to the shaders."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from onnx import TensorProto
from tvm.target import Target

from support.networks import Builder
from tvm_vision.compiler import compile_model
from tvm_vision.devices import DeviceDescription, known_devices
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.schedules import TargetLimits
from tvm_vision.vulkan.device_keys import keys_of


@pytest.mark.parametrize(
    ("lanes", "used"),
    [(8, False), (16, True)],  # Tiger Lake under Mesa 25, which offers matrices; Lunar Lake
)
def test_kernels_for_a_described_device_leave_them_alone(lanes: int, used: bool) -> None:
    shape = (8, 16, 16, "float16", "float16", "float32", "float32")
    told = known_devices()["tgl"]
    device: dict[str, Any] = {
        **told.attributes,
        "supports_cooperative_matrix": True,
        "cooperative_matrix_shapes": [shape],
        "vendor_id": 0x8086,
        "device_id": 0x9A49,
        "type": "integrated",
        "min_subgroup_size": lanes,
    }
    attributes = {name: device[name] for name in told.attributes}
    described = dataclasses.replace(told, attributes=attributes, keys=tuple(keys_of(device)))
    again = DeviceDescription.from_json(json.loads(described.to_bytes()))
    target = Target(again.target_config())
    assert bool(TargetLimits.of(target).matrices) == used
    builder = Builder(2)
    output = builder.conv(builder.conv("input", 3, 32, 3), 32, 64, 1)
    module, signature = import_onnx(builder.model(32, [(output, TensorProto.FLOAT)]))
    made = compile_model(module, signature, target=target, precision="fp16")
    assert ("coopmat" in made.library.source()) == used
