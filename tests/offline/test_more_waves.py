"""Kernels of few waves are those that more waves would not make faster, by the model.

What needs drivers is skipped where they were not unpacked (make static-drivers).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from onnx import TensorProto

import tvm_vision
from benchmarks import more_waves
from benchmarks.peers import networks as peers
from support import networks
from support.networks import Builder
from tvm_vision.devices import known_devices
from tvm_vision.errors import DeviceError
from tvm_vision.offline import drivers, machines, report
from tvm_vision.offline.model import examine
from tvm_vision.offline.network import read_network
from tvm_vision.offline.pipelines import compile_kernels


def two_layers(size: int) -> Any:
    """Convolutions, the second of which is of few waves on Vega 8."""
    builder = Builder(5)
    first = builder.conv("input", 3, 64, 3, 2, act="relu")
    return builder.model(size, [(builder.conv(first, 64, 128, 1), TensorProto.FLOAT)])


NETWORKS: dict[str, tuple[Callable[[int], Any], int]] = {
    "two_layers": (two_layers, 112),
    "squeezenet1_1": (networks.squeezenet1_1, 224),
    "mobilenet_v2": (networks.mobilenet_v2, 224),
    "resnet18": (networks.resnet18, 224),
    "shufflenet_v2": (networks.shufflenet_v2, 224),
    "efficientnet_lite0": (networks.efficientnet_lite0, 224),
    "yoeo_like": (networks.yoeo_like, 416),
}
DEVICES, PRECISIONS = ("renoir", "phoenix"), ("fp32", "fp16")
CASES = [
    pytest.param(*case, marks=() if case == ("renoir", "two_layers", "fp32") else pytest.mark.slow)
    for case in itertools.product(DEVICES, NETWORKS, PRECISIONS)
]


@pytest.mark.parametrize(("device", "name", "precision"), CASES)
def test_more_waves_would_not_be_faster(
    device: str, name: str, precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        driver = drivers.find(device)
    except DeviceError as error:
        pytest.skip(str(error))
    build, size = NETWORKS[name]
    monkeypatch.setitem(peers.NETWORKS, name, peers.Network(name, build, size))
    target = known_devices()[device].target_config()
    package = tvm_vision.compile(
        build(size), tmp_path / "network.tar", target=target, precision=precision, name=name
    )
    network = read_network(package)
    compiled = compile_kernels(list(network.kernels.values()), driver)
    frame = report.to_json(examine(network, compiled, machines.of_target(device, network.target)))
    found = list(more_waves.compared(frame, most=2))
    assert not [each for each in found if each.wrong]
    if name == "two_layers":
        assert found and found[0].more >= report.FEW_WAVES  # so something was compared


def test_what_would_be_faster_is_listed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "frames.json"
    frame = {"network": "resnet18", "precision": "fp32", "device": "renoir"}
    path.write_text(json.dumps([frame, {**frame, "device": "tgl"}]))
    choice: Any = object()
    found = [
        more_waves.Compared("slow", 2.0, 2e-3, 4.0, 1e-3, choice),
        more_waves.Compared("alike", 2.0, 1e-3, 4.0, 0.97e-3, choice),
        more_waves.Compared("best", 3.0, 1e-3),
    ]
    monkeypatch.setattr(more_waves, "compared", lambda frame, tiles, only: iter(found))
    done = CliRunner().invoke(more_waves.main, [str(path)])
    assert done.exit_code == 1
    lines = {line.split()[3]: line for line in done.output.splitlines() if "resnet18" in line}
    assert set(lines) == {"slow", "alike", "best"}
    assert "FASTER" in lines["slow"] and "FASTER" not in lines["alike"]
    assert "none of four" in lines["best"]
    assert "3 kernels of few waves, 1 of them faster" in done.output
