"""Packages on a device that has less than they need: refused when they are loaded, in one line.

A loader of ours (cpp/smaller_loader.cc) describes this machine's device as smaller than it is. The
table of what is compared is tested row by row in cpp/test_kernel_needs.cc; here it is the way of
the words, from a package to who loads it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from onnx import TensorProto, helper

import tvm_vision
from support import SUPPORT, networks
from support.loaders import compile_loader
from tvm_vision import vulkan
from tvm_vision.devices import DeviceDescription

pytestmark = pytest.mark.usefixtures("device_info")
REMEDY = (
    "; compile the network for this device: with --target vulkan here, or elsewhere with --target "
    "robot.json, which 'tvm-vision devices --export robot.json' writes here"
)
# Package, limits by the specification's names, what is needed and what is found.
ROWS = [
    ("fp32", "maxComputeWorkGroupSize.x=4", r"\d+ invocations in axis x of a workgroup", "4 "),
    ("fp32", "maxComputeWorkGroupInvocations=4", r"\d+ invocations in a workgroup", "4 "),
    ("fp32", "maxComputeSharedMemorySize=64", r"\d+ bytes of shared memory", "64 "),
    ("fp32", "maxPerStageDescriptorStorageBuffers=2", r"\d storage buffers", "2 "),
    ("fp16", "shaderFloat16=0", "shaderFloat16", "none"),
    ("fp16", "storageBuffer16BitAccess=0", "storageBuffer16BitAccess", "none"),
    ("int8", "storageBuffer8BitAccess=0", "storageBuffer8BitAccess", "none"),
    ("int8", "shaderInt8=0", "shaderInt8", "none"),
    ("int64", "shaderInt64=0", "shaderInt64", "none"),
]  # fmt: skip
FEATURES = {
    "shaderFloat16=0": "supports_float16",
    "storageBuffer16BitAccess=0": "supports_16bit_buffer",
    "storageBuffer8BitAccess=0": "supports_8bit_buffer",
    "shaderInt8=0": "supports_int8",
    "shaderInt64=0": "supports_int64",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, device_info: vulkan.DeviceInfo) -> Path:
    """The loader, and packages for this machine's device; one for its twin of another name."""
    folder = tmp_path_factory.mktemp("smaller")
    compile_loader("smaller_loader", folder)
    builder = networks.Builder(9)
    x = builder.conv("input", 3, 8, 3, 1, act="relu6")
    model = builder.model(24, [(builder.head(x, 8, 10), TensorProto.FLOAT)])
    tvm_vision.compile(model, folder / "fp32.tar", target="vulkan")
    if device_info.supports_16bit_buffer:
        options = {"precision": "fp16"}
        tvm_vision.compile(model, folder / "fp16.tar", target="vulkan", options=options)
    twin = DeviceDescription.of(device_info).target_config() | {"device_name": "Twin"}
    tvm_vision.compile(model, folder / "twin.tar", target=twin)
    for name, kind in (("int8", TensorProto.INT8), ("int64", TensorProto.INT64)):
        given, result = (helper.make_tensor_value_info(of, kind, (64,)) for of in "xy")
        graph = helper.make_graph([helper.make_node("Add", "xx", "y")], name, [given], [result])
        doubled = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        doubled.ir_version = 8
        tvm_vision.compile(doubled, folder / f"{name}.tar", target="vulkan")
    return folder


def test_each_need_is_compared_when_a_package_is_loaded(
    folder: Path, device_info: vulkan.DeviceInfo
) -> None:
    # What was compiled here needs nothing that this machine's device has not.
    lacking = {
        limits for limits, attribute in FEATURES.items() if not getattr(device_info, attribute)
    }
    asked = [row for row in ROWS if row[1] not in lacking]
    names = [
        name for name in ("fp32", "fp16", "int8", "int64") if (folder / f"{name}.tar").exists()
    ]
    rows = [(f"{name}.tar", limits) for name, limits, _, _ in asked]
    rows.append(("twin.tar", "maxComputeSharedMemorySize=64"))
    rows += [(f"{name}.tar", "") for name in names]
    done = subprocess.run(
        [sys.executable, SUPPORT / "smaller_program.py", folder, json.dumps(rows)],
        env={
            **os.environ,
            "TVM_USE_RUNTIME_LIB": "1",
            "TVM_VISION_VULKAN_LOADER": str(folder / "libsmaller_loader.so"),
            "TVM_VISION_VULKAN_VALIDATION": "0",
        },
        text=True,
        capture_output=True,
        timeout=120,
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and len(lines) == len(rows), done.stderr
    for (name, _, needed, found), line in zip(asked, lines, strict=False):
        pattern = rf"DeviceError: kernel \w+ cannot run on .*: needed {needed}, found {found}.*"
        assert re.fullmatch(pattern, line) and REMEDY in line, (name, line)
    assert "found 64 " in lines[len(asked)]
    assert lines[len(asked)].endswith(f"{REMEDY}; the package was made for Twin")
    assert lines[len(asked) + 1 :] == ["runs"] * len(names)
