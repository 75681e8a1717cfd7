"""Targets as people write them."""

import json
import re

import pytest
import tvm

from tvm_vision.compiler.target import choose_target, parse_target
from tvm_vision.errors import DeviceError, InputError
from tvm_vision.schedules.cpu.processor import vector_lanes, vector_registers


@pytest.mark.parametrize(
    "spelling",
    [
        "vulkan",
        "vulkan -from_device=0",
        "vulkan --from_device=0",
        "vulkan --from_device 0",
        '{"kind": "vulkan", "from_device": 0}',
        {"kind": "vulkan", "from_device": 0},
    ],
)
def test_every_spelling_of_a_device_asks_it(spelling, device_info):
    target = parse_target(spelling)
    assert target.kind.name == "vulkan"
    assert target.attrs["device_name"] == device_info.name
    assert target.host.kind.name == "llvm"


def test_auto_takes_the_device_where_there_is_one(device_info):
    assert parse_target("auto").attrs["device_name"] == device_info.name


def test_auto_takes_the_processor_without_one(monkeypatch):
    monkeypatch.setattr("tvm_vision.vulkan.devices", lambda: [])
    assert parse_target("auto").kind.name == "llvm"
    with pytest.raises(DeviceError, match="Vulkan device 0 is needed"):
        parse_target("vulkan")


@pytest.mark.parametrize("spelling", ["llvm", "cpu", "llvm -mcpu=native", '{"kind": "llvm"}'])
def test_llvm_is_this_processor(spelling):
    native = tvm.target.codegen.llvm_get_system_cpu()
    assert parse_target(spelling).attrs["mcpu"] == native


@pytest.mark.parametrize(
    ("spelling", "attributes"),
    [
        ("llvm -mcpu=x86-64-v3 -num-cores=2", {"mcpu": "x86-64-v3", "num-cores": 2}),
        ("llvm -mtriple aarch64-linux-gnu --mcpu cortex-a72", {"mcpu": "cortex-a72"}),
        ("llvm -mtriple=x86_64-linux-gnu -mattr=+avx2,+fma", {"mattr": ["+avx2", "+fma"]}),
        ("vulkan -max_threads_per_block=64 -supports_float16=true", {"supports_float16": True}),
    ],
)
def test_options_are_kept(spelling, attributes):
    exported = json.loads(str(parse_target(spelling)))
    assert {key: exported[key] for key in attributes} == attributes


def test_a_target_is_taken_as_it_is():
    target = tvm.target.Target({"kind": "llvm"})
    assert parse_target(target) is target


@pytest.mark.parametrize(
    ("spelling", "error", "message"),
    [
        ("", InputError, "found an empty string"),
        ("cuda", InputError, "found kind 'cuda'"),
        ("llvm mcpu=3", InputError, "found 'mcpu=3'"),
        ("llvm -mcpu", InputError, "-mcpu.*needs a value"),
        ("llvm -mcpu=z80", InputError, "found -mcpu=z80: this one is"),
        ("llvm -colour=red", InputError, "Unknown config option 'colour'"),
        ('llvm "', InputError, "No closing quotation"),
        ("{kind", InputError, "in JSON is needed"),
        ("{}", InputError, "found kind None"),
        ("vulkan --from_device 99", DeviceError, "Vulkan device 99 is needed.*1 found"),
        ("vulkan --from_device x", DeviceError, "Vulkan device x is needed"),
    ],
)
def test_what_is_no_target_is_refused_in_one_line(spelling, error, message, device_info):
    with pytest.raises(error, match=message) as raised:
        parse_target(spelling)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("spelling", "lanes", "registers"),
    [
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v2", 4, 16),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v3", 8, 16),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v4", 16, 32),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72", 4, 32),
    ],
)
def test_vectors_are_those_of_the_processor_named(spelling, lanes, registers):
    target = parse_target(spelling)
    assert (vector_lanes(target), vector_registers(target)) == (lanes, registers)


def test_auto_says_what_it_is_and_what_brings_the_other(monkeypatch, device_info, caplog):
    with caplog.at_level("INFO"):
        parse_target("auto")
    (said,) = caplog.records
    assert said.levelname == "INFO" and device_info.name in said.message
    assert choose_target("vulkan")[1] == choose_target("llvm")[1] == ""
    monkeypatch.setattr("tvm_vision.vulkan.devices", lambda: [])
    monkeypatch.setattr("tvm_vision.vulkan.status", lambda: "no driver; install one")
    caplog.clear()
    assert parse_target("auto").kind.name == "llvm"
    (said,) = caplog.records
    assert said.levelname == "WARNING"
    assert re.search(r"auto is this machine's processor \(llvm .*no driver; install", said.message)
    caplog.clear()
    parse_target("llvm")
    assert caplog.records == []


def test_auto_is_never_another_device_than_the_named_one(monkeypatch):
    monkeypatch.setenv("TVM_VISION_VULKAN_DEVICE", "no such device")
    monkeypatch.setattr("tvm_vision.vulkan.devices", lambda: [])
    with pytest.raises(DeviceError, match="Vulkan device 0 is needed"):
        parse_target("auto")


def test_what_is_no_target() -> None:
    with pytest.raises(InputError, match="a target such as .* of type int"):
        parse_target(5)
