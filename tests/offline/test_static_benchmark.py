"""benchmarks.static: from a package to a table, a file and what changed, with a driver made up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from onnx import TensorProto

import tvm_vision
from benchmarks import few_waves, static, static_summary
from benchmarks.peers import networks
from support import small_network
from support.compiled import MATRIX_GPU
from support.networks import Builder
from tvm_vision.devices import known_devices
from tvm_vision.errors import DeviceError
from tvm_vision.offline import drivers, pipelines
from tvm_vision.tuning.session import TuningNetwork

RENOIR = known_devices()["renoir"].target_config()
AMD = {
    "VGPRs": 24, "Spilled VGPRs": 0, "Spilled SGPRs": 0, "LDS size": 0, "Code size": 100,
}  # fmt: skip
INTEL = {
    "Spills": 2, "Fills": 3, "Workgroup Memory Size": 64, "Instructions": 10, "SENDs": 1,
    "Loops": 0, "Cycles": 40, "Code size": 160,
}  # fmt: skip


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("static") / "small.tar"
    return tvm_vision.compile(small_network.model(), path, target=MATRIX_GPU, name="small")


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What the driver prints of every kernel, to be changed."""
    said = {
        "Assembly": "v_fma_f32 v0, v1, v2, v3\ns_endpgm\n",
        "GEN Assembly": "send(8) nullUD g1UD nullUD 0x0 0x0\n ts/btd MsgDesc: rlen 0 { 1Q EOT };\n",
    }

    def compiled(kernels: Any, of: drivers.Driver) -> pipelines.Compiled:
        statistics, lanes = (INTEL, 16) if of.device == "tgl" else (AMD, 64)
        made = {k.name: pipelines.Pipeline(k.name, lanes, statistics, dict(said)) for k in kernels}
        return pipelines.Compiled("made up", "driver 1", made)

    monkeypatch.setattr(pipelines, "compile_kernels", compiled)
    monkeypatch.setattr(drivers, "find", lambda device: drivers.Driver(device, {}))
    return said


def run(*arguments: object) -> Any:
    return CliRunner().invoke(static.main, [str(argument) for argument in arguments])


def test_a_package_on_two_devices(package: Path, driver: dict[str, str], tmp_path: Path) -> None:
    before = tmp_path / "before.json"
    done = run(package, "--device", "renoir,tgl", "--kernels", 2, "--json", before)
    assert done.exit_code == 0, done.output
    assert "small    fp32       renoir" in done.output and "not calibrated" in done.output
    assert "SIMD16" in done.output
    frames = json.loads(before.read_text())
    assert [frame["device"] for frame in frames] == ["renoir", "tgl"]
    assert frames[0]["seconds"] > 0 and "seconds" not in frames[1]
    assert frames[1]["modelled_seconds"] > 0

    driver["Assembly"] = "v_exp_f32 v0, v1\n" * 4000 + "s_endpgm\n"
    text = tmp_path / "text"
    done = run(package, "--compare", before, "--text", text)
    assert done.exit_code == 0, done.output
    assert "small fp32 renoir:" in done.output and "->" in done.output
    assert len(list(text.glob("small-fp32-renoir/*.assembly.txt"))) == len(frames[0]["kernels"])


def test_a_table_goes_into_a_document(package: Path, driver: None, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("above\n<!-- static -->\nold\n<!-- end -->\nbelow\n")
    done = run(package, "--device", "renoir,tgl", "--document", page)
    assert done.exit_code == 0, done.output
    text = page.read_text()
    assert text.startswith("above\n<!-- static -->\n") and text.endswith("<!-- end -->\nbelow\n")
    assert "old" not in text and "driver 1" in text and "| small | fp32 | renoir |" in text
    assert "| small | fp32 | tgl |" in text and "--device renoir,tgl" in text


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ((), 2, "name a network"),
        (("resnet18", "--device", "gtx"), 2, "'gtx' is not one of renoir"),
        (("resnet18", "--precision", "fp64"), 2, "'fp64' is not one of fp32"),
        (("no-such-network",), 1, "a package, or a network of squeezenet1_1"),
    ],
)
def test_what_is_wrong_is_one_line(arguments: tuple[str, ...], status: int, said: str) -> None:
    done = run(*arguments)
    assert done.exit_code == status
    assert said in done.output + str(done.exception)


def test_what_was_asked_for_and_what_is_said_of_it(tmp_path: Path) -> None:
    def frame(precision: str, device: str, **said: Any) -> dict[str, Any]:
        return {"network": "resnet18", "precision": precision, "device": device, **said}

    before, after, later = (tmp_path / f"{name}.json" for name in ("before", "after", "later"))
    before.write_text(json.dumps([frame("fp32", "renoir", seconds=4e-3)]))
    whole = [frame("fp32", device, seconds=9e-3) for device in ("renoir", "phoenix")]
    after.write_text(json.dumps([*whole, frame("fp32", "tgl", modelled_seconds=8e-3)]))
    halves = [frame("fp16", "renoir", seconds=2e-3), frame("int8", "phoenix", seconds=5e-3)]
    halves += [
        frame(each, "tgl", modelled_seconds=n) for each, n in (("int8", 4e-3), ("fp16", 6e-3))
    ]
    later.write_text(json.dumps([frame("fp32", "renoir", seconds=3e-3), *halves]))
    page = tmp_path / "page.md"
    page.write_text("above\n<!-- asked -->\n<!-- end -->\n")
    paths = [str(each) for each in (before, after, later)]
    done = CliRunner().invoke(static_summary.main, [*paths, "--document", str(page)])
    assert done.exit_code == 0, done.output
    (line,) = [each for each in page.read_text().splitlines() if "resnet18" in each]
    found = [cell.strip() for cell in line.strip("|").split("|")]
    assert found[1:6] == ["7.2", "4.00 → 3.00", "≤ 4.5", "2.00", "**0.67**"]
    assert found[6:] == ["9.00", "", "5.00", "**0.56**", "8.00", "6.00", "**0.75**", "4.00", "0.50"]
    assert "| yoeo | 28.2 |  | ≤ 16.0 |" in page.read_text()


def test_kernels_of_few_waves_are_listed_beside_what_more_would_take(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(networks.NETWORKS, "small", networks.Network("small", _convolutions, 56))
    network = TuningNetwork.of(_convolutions(56), target=RENOIR)
    names = [kernel.job.name for kernel in network.kernels]
    (of_few,) = [kernel for kernel in network.kernels if "conv2d1" in kernel.job.name]
    kernels = {
        f"{name}_kernel": {
            "occupancy": {
                "per_simd": 2.0 if name == of_few.job.name else 8.0,
                "bound": "registers",
            },
            "launches": [{"seconds": 1e-3, "bound": "memory"}],
        }
        for name in names
    }
    frame = {"network": "small", "precision": "fp32", "device": "renoir", "kernels": kernels}
    (found,) = few_waves.few_waves(frame)
    assert (found.name, found.waves, found.held_up) == (of_few.job.name, 2.0, "memory")
    # The tile that a kernel gets has the least cycles of all.
    assert found.ratio is not None and found.ratio >= 1.0
    path, page = tmp_path / "after.json", tmp_path / "page.md"
    path.write_text(json.dumps([frame]))
    page.write_text("above\n<!-- few waves -->\n<!-- end -->\n")
    done = CliRunner().invoke(few_waves.main, [str(path), "--document", str(page)])
    assert done.exit_code == 0, done.output
    assert of_few.job.name in done.output
    assert (
        f"| small | fp32 | renoir | {len(names)} | 1 | 1 | {found.ratio:.2f} |" in page.read_text()
    )


def _convolutions(size: int) -> Any:
    builder = Builder(5)
    x = builder.conv("input", 3, 16, 3, act="relu")
    x = builder.conv(x, 16, 64, 1, act="relu")
    return builder.model(size, [(x, TensorProto.FLOAT)])


def test_a_quantized_network_is_compiled_as_what_stays_in_floating_point(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[Any] = []

    class Done:
        returncode = 0

    def ran(command: Any, input: str, **rest: Any) -> Done:
        asked.append(json.loads(input))
        return Done()

    monkeypatch.setattr(static.subprocess, "run", ran)
    for precision in static.PRECISIONS:
        static.Source("resnet18", precision).package(tmp_path, "phoenix", tmp_path)
    assert [(job["precision"], job["quantized"]) for job in asked] == [
        ("fp32", False), ("fp16", False), ("fp32", True),
    ]  # fmt: skip


def test_a_driver_that_is_missing_is_said(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(device: str) -> drivers.Driver:
        raise DeviceError(f"no driver for {device}")

    monkeypatch.setattr(drivers, "find", missing)
    done = run(package, "--device", "phoenix")
    assert done.exit_code == 1 and "benchmarks.static: no driver for phoenix" in str(done.exception)
