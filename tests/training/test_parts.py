"""A training in parts: what it begins with, its options, and how its parts follow each other."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "training"))

import calibrate  # noqa: E402
import losses  # noqa: E402
import part  # noqa: E402
import train  # noqa: E402
import unfold  # noqa: E402

from support import yoeo_networks  # noqa: E402
from tvm_vision.errors import InputError  # noqa: E402
from tvm_vision.exporters.yoeo.config import parse_config  # noqa: E402
from tvm_vision.exporters.yoeo.export import export_onnx  # noqa: E402
from tvm_vision.exporters.yoeo.network import Yoeo  # noqa: E402

DEMO = Path(__file__).resolve().parents[2] / "tvm_vision" / "demo"


def trained(config) -> Yoeo:
    """A network whose normalizations have seen something."""
    torch.manual_seed(1)
    model = Yoeo(config)
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if "batch_norm" in name and value.dtype.is_floating_point:
                value.copy_(torch.rand_like(value) + 0.5)
    return model.eval()


def test_an_exported_network_becomes_one_to_train(tmp_path) -> None:
    """It gives what it gave; and its normalizations have the statistics of the images, so that in
    training it gives nearly the same."""
    config = yoeo_networks.tiny_config()
    model = trained(config)
    path = tmp_path / "model.onnx"
    export_onnx(model, path)
    images = torch.rand(6, 3, config.height, config.width)
    other = Yoeo(config)
    unfold.take_over(other, unfold.folded(path))
    unfold.unfold(other, images)
    with torch.no_grad():
        torch.testing.assert_close(other(images)[0], model(images)[0], rtol=1e-3, atol=1e-2)
        eval_heads, _ = other.raw(images)
        train_heads, _ = other.train()(images)
    for one, two in zip(eval_heads, train_heads, strict=True):
        torch.testing.assert_close(one, two, rtol=0.02, atol=0.02)
    arrays = unfold.folded(path)
    arrays["kernel_0"] = arrays["kernel_0"][:, :1]
    with pytest.raises(InputError, match=r"a kernel .* is needed for layer 0, found .*: is the fi"):
        unfold.take_over(other, arrays)


def test_another_decoder_begins_with_what_fits(tmp_path, capsys) -> None:
    full, light = (parse_config(DEMO / f"{name}.cfg") for name in ("yoeo_demo", "yoeo_demo_light"))
    model, other = trained(full), Yoeo(light)
    torch.save(model.state_dict(), tmp_path / "full.pth")
    train.begin_with(other, tmp_path / "full.pth")
    said = capsys.readouterr().out.split()
    assert int(said[0]) < int(said[2])
    for layer in (0, 29, 47):
        own, there = (
            {k: v for k, v in m.state_dict().items() if k.startswith(f"module_list.{layer}.")}
            for m in (other, model)
        )
        assert own and all(torch.equal(own[name], there[name]) for name in own)
    torch.save({"x": torch.zeros(1)}, tmp_path / "none.pth")
    with pytest.raises(SystemExit, match="weights of this network, or of a similar one"):
        train.begin_with(other, tmp_path / "none.pth")


def test_weights_of_losses_by_name() -> None:
    assert train.weights_of([]) == losses.USUAL
    weights = train.weights_of(["small=2", "line=2.5"])
    assert (weights.small, weights.line, weights.box) == (2.0, 2.5, losses.USUAL.box)
    for wrong in ("small", "small=x", "large=2"):
        with pytest.raises(SystemExit, match=f"NUMBER is needed, found '{wrong}'"):
            train.weights_of([wrong])


@pytest.mark.parametrize(("side", "factor"), [(12.0, 3.0), (40.0, 1.0)])
def test_small_objects_weigh_more_where_asked(side: float, factor: float) -> None:
    torch.manual_seed(2)
    head = losses.Head(8, torch.tensor([[20.0, 20.0]]))
    values = torch.randn(1, 8, 8, 8)
    truth = torch.tensor([[[1.0, 10.0, 10.0, 10 + side, 10 + side]]])
    usual = losses.detection_loss([values], [head], truth)
    more = losses.detection_loss([values], [head], truth, losses.Weights(small=3.0))
    assert float(more[0] / usual[0]) == pytest.approx(factor, rel=1e-4)
    assert (float(more[1] / usual[1]) > 1.0001) == (factor > 1)
    assert float(more[2]) == pytest.approx(float(usual[2]))


def options(tmp_path: Path, **changes) -> argparse.Namespace:
    usual = {
        "part": 1, "of": 3, "minutes": 8.0, "scenes": tmp_path, "panoramas": None,
        "meshes": None,
        "out": tmp_path / "run", "start": tmp_path / "start.pth", "config": None, "seed": 1,
        "renderers": 2, "recipes": [4, 2, 4], "train": ["--batch", "4"],
    }  # fmt: skip
    return argparse.Namespace(**{**usual, **changes})


def test_parts_make_one_training(tmp_path) -> None:
    """The whole's minutes are the same in each; only the first begins, the others go on."""
    (tmp_path / "run").mkdir()
    first = part.training(options(tmp_path))
    assert first[first.index("--minutes") + 1] == "24.0"
    assert first[first.index("--pause") + 1] == "8.0"
    assert "--resume" not in first and "--start" in first and first[-2:] == ["--batch", "4"]
    with pytest.raises(SystemExit, match=r"of the part before is needed, found none: run part 1"):
        part.training(options(tmp_path, part=2))
    (tmp_path / "run" / "checkpoint.pt").touch()
    second = part.training(options(tmp_path, part=2))
    assert second[second.index("--pause") + 1] == "16.0" and "--start" not in second
    assert second[second.index("--resume") + 1] == str(tmp_path / "run" / "checkpoint.pt")


def test_renderers_have_seeds_of_their_own_and_take_recipes_in_turn(tmp_path, monkeypatch) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(part.subprocess, "Popen", commands.append)
    for seed in (1, 2):
        for number in (1, 2, 3):
            part.renderers(options(tmp_path, part=number, seed=seed, renderers=15))
    seeds = [command[command.index("--seed") + 1] for command in commands]
    assert len(set(seeds)) == 90
    recipes = [command[command.index("--recipe") + 1] for command in commands]
    assert recipes == ["4", "2", "4"] * 30
    assert not any("--meshes" in command for command in commands)
    part.renderers(options(tmp_path, meshes=tmp_path / "robots.npz"))
    assert commands[-1][-2:] == ["--meshes", str(tmp_path / "robots.npz")]
    assert not any(f"{int(seed):04d}".startswith(train.HELD_OUT) for seed in seeds)


def test_exported_arrays_are_float32(tmp_path) -> None:
    """Also of files whose weights are stored as float16, as the demo's."""
    arrays = unfold.folded(DEMO / "yoeo_demo.onnx")
    assert {array.dtype for array in arrays.values()} == {np.dtype(np.float32)}
    assert arrays["kernel_0"].shape == (24, 3, 3, 3) and "bias_57" in arrays


def test_confidences_are_chosen_on_all_folders_together(tmp_path, monkeypatch, capsys) -> None:
    """And one without scenes is named, instead of left out."""
    folders = [tmp_path / name for name in ("one", "two")]
    for seed, folder in enumerate(folders):
        folder.mkdir()
        boxes = np.full((2, 40, 5), -1, np.float32)
        boxes[:, 0] = [0, 100, 100, 140, 140]
        for prefix in ("9201", "9001")[: 2 - seed]:
            np.savez(
                folder / f"{prefix}_0000.npz",
                images=np.zeros((2, 512, 512, 3), np.uint8),
                masks=np.zeros((2, 512, 512), np.uint8),
                boxes=boxes,
            )

    def detect(images):
        rows = torch.tensor([[120.0, 120, 40, 40, 0.8, 1, 0, 0]]).repeat(len(images), 1, 1)
        return rows, torch.zeros(len(images), 512, 512)

    monkeypatch.setattr(calibrate, "of_onnx", lambda path: (detect, 512))
    arguments = ["calibrate.py", "network.onnx", "--shards", *map(str, folders)]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit, match=r"shards named 9001\*.npz are needed in '.*two', found n"):
        calibrate.main()
    monkeypatch.setattr(sys, "argv", [*arguments, "--report", "9201"])
    calibrate.main()
    assert "chosen on 9201: 4 images" in capsys.readouterr().out
