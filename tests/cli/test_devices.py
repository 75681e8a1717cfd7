"""``tvm-vision devices``, and packages for devices that are elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support import small_network
from tvm_vision import vulkan
from tvm_vision.devices import known_devices, read_description
from tvm_vision.package import read_package


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("network") / "small.onnx"
    path.write_bytes(small_network.model().SerializeToString())
    return path


def test_export_and_compile_elsewhere(
    command, network: Path, device_info: vulkan.DeviceInfo, tmp_path: Path, monkeypatch
) -> None:
    robot = tmp_path / "robot.json"
    done = command("devices", "--export", robot)
    assert done.exit_code == 0 and done.stdout.startswith(f"wrote {robot}: {device_info.name}")
    assert read_description(robot).name == device_info.name
    with monkeypatch.context() as workstation:
        workstation.setattr("tvm_vision.vulkan.devices", lambda: [])
        made = command("compile", network, "-o", tmp_path / "x.tar", "--target", robot)
        assert made.exit_code == 0, made.output
    run = command("run", tmp_path / "x.tar")
    assert run.exit_code == 0 and "made for" not in run.output


def test_known(command) -> None:
    done = command("devices", "--known")
    assert done.exit_code == 0
    rows = done.stdout.splitlines()[1:]
    assert [row.split()[0] for row in rows] == list(known_devices())
    assert all(("from its driver" in row) != ("from published limits" in row) for row in rows)


def test_report(command, device_info: vulkan.DeviceInfo, monkeypatch) -> None:
    monkeypatch.setenv("TVM_VISION_DUMP_SHADERS", "/home/somebody/shaders")
    done = command("devices", "--report")
    assert done.exit_code == 0
    assert device_info.describe() in done.stdout
    assert "  measured   no: tvm-vision calibrate" in done.stdout
    assert "environment   TVM_VISION_DUMP_SHADERS" in done.stdout
    assert "somebody" not in done.stdout, "no file of a user"
    assert all(word in done.stdout for word in ("tvm_vision ", "python ", "system "))
    monkeypatch.setattr("tvm_vision.vulkan.devices", lambda: [])
    monkeypatch.setattr("tvm_vision.vulkan.status", lambda: "no driver; install one")
    assert "no device     no driver; install one" in command("devices", "--report").stdout


def test_export_and_known_exclude_each_other(command, tmp_path: Path) -> None:
    done = command("devices", "--known", "--export", tmp_path / "x.json")
    assert done.exit_code == 2 and not (tmp_path / "x.json").exists()


def test_a_package_for_a_device_by_name(command, network: Path, tmp_path: Path, caplog) -> None:
    package = tmp_path / "renoir.tar"
    made = command("compile", network, "-o", package, "--target", "renoir")
    assert made.exit_code == 0, made.output
    renoir = known_devices()["renoir"]
    with read_package(package) as opened:
        assert opened.info.device is not None
        assert (opened.info.device.name, opened.info.device.driver) == (renoir.name, renoir.driver)
    shown = command("inspect", package)
    assert f"  note       made for {renoir.name}, and this is " in shown.stdout
    done = command("run", package)
    assert done.exit_code == 0, done.output
    assert f"made for {renoir.name}, and this is " in caplog.text


def test_what_this_device_cannot_run_is_refused_with_what_it_was_made_for(
    refuses, command, network: Path, device_info: vulkan.DeviceInfo, tmp_path: Path
) -> None:
    robot, package = tmp_path / "robot.json", tmp_path / "x.tar"
    command("devices", "--export", robot)
    document = json.loads(robot.read_text())
    document["attributes"]["device_name"] = "Elsewhere"
    document["attributes"]["max_per_stage_descriptor_storage_buffer"] = 1 << 20
    robot.write_text(json.dumps(document))
    many = tmp_path / "many.onnx"
    many.write_bytes(concatenation(40).SerializeToString())
    assert command("compile", many, "-o", package, "--target", robot).exit_code == 0
    line = refuses("run", package)
    assert f" cannot run on {device_info.name} (" in line and " storage buffers, found " in line
    assert "with --target vulkan here" in line
    assert line.endswith("; the package was made for Elsewhere")


def concatenation(count: int):
    """A network that joins so many inputs."""
    from onnx import TensorProto, helper

    names = [f"x{i}" for i in range(count)]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (1, 4)) for n in names]
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 4 * count))
    node = helper.make_node("Concat", names, ["y"], axis=1)
    graph = helper.make_graph([node], "g", values, [out])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def test_tuning_needs_the_device(refuses, network: Path, tmp_path: Path) -> None:
    line = refuses("tune", network, "-r", tmp_path / "r.jsonl", "--target", "phoenix")
    assert "(RADV PHOENIX) is not here: tune there, or let it measure" in line
    assert not (tmp_path / "r.jsonl").exists()


def test_a_name_that_nobody_knows(refuses, network: Path, tmp_path: Path) -> None:
    line = refuses("compile", network, "-o", tmp_path / "x.tar", "--target", "vega")
    assert "\"renoir\" (see 'tvm-vision devices --known')" in line
