"""The parts of the training that would go wrong silently: overlaps, filters, boxes after a crop."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "training"))

import augment  # noqa: E402
import losses  # noqa: E402
import train  # noqa: E402

from tvm_vision.exporters.yoeo.config import parse_config  # noqa: E402
from tvm_vision.exporters.yoeo.network import Decoder, Yoeo  # noqa: E402


def test_overlaps_of_equal_boxes_are_one():
    box = torch.tensor([[5.0, 5.0, 4.0, 2.0]])
    for value in losses.overlaps(box, box):
        assert value.item() == pytest.approx(1, abs=1e-5)


def test_complete_iou_counts_the_distance_of_the_centres():
    first, second = torch.tensor([[1.0, 1.0, 2.0, 2.0]]), torch.tensor([[4.0, 1.0, 2.0, 2.0]])
    iou, complete = losses.overlaps(first, second)
    # No overlap and equal shapes: less by 3² over the square of the hull's diagonal, 5² + 2².
    assert iou.item() == 0 and complete.item() == pytest.approx(-9 / 29, abs=1e-5)


def test_best_iou_is_the_largest():
    boxes = torch.tensor([[[0.0, 0.0, 2.0, 2.0]]])
    truth = torch.tensor([[[1.0, 0.0, 3.0, 2.0], [1.0, 1.0, 3.0, 3.0], [9.0, 9.0, 9.0, 9.0]]])
    assert losses.best_iou(boxes, truth).item() == pytest.approx(1 / 3, abs=1e-5)


@pytest.mark.parametrize("doubt", [False, True])
def test_what_is_doubtful_costs_nothing(doubt):
    """A confident cell within a doubtful region is not a mistake; elsewhere it is."""
    head = losses.Head(16, torch.tensor([[20.0, 20.0]]))
    values = torch.full((1, 8, 4, 4), -9.0)
    values[0, :4] = 0
    quiet = losses.detection_loss([values], [head], torch.full((1, 1, 5), -1.0))
    values[0, 4, 1, 1] = 9.0
    region = torch.tensor([[[9.0 if doubt else -1.0, 10.0, 10.0, 40.0, 40.0]]])
    loss = losses.detection_loss([values], [head], region)
    assert ((loss - quiet).sum() < 1e-3) == doubt


def test_losses_lead_to_the_boxes():
    """Values that follow the gradient end at the boxes, of which two share a cell, with scores that
    say so, and nowhere else."""
    torch.manual_seed(3)
    head = losses.Head(8, torch.tensor([[10.0, 10.0], [8.0, 40.0]]))
    truth = torch.full((2, 3, 5), -1.0)
    truth[0, 0] = torch.tensor([2.0, 9.0, 9.0, 21.0, 20.0])
    truth[0, 2] = torch.tensor([1.0, 13.0, 1.0, 18.0, 31.0])
    truth[1, 1] = torch.tensor([0.0, 40.0, 30.0, 47.5, 37.0])
    values = torch.zeros(2, 16, 8, 8, requires_grad=True)
    optimizer = torch.optim.Adam([values], lr=0.1)
    for _ in range(300):
        optimizer.zero_grad()
        losses.detection_loss([values], [head], losses.first_rows(truth)).sum().backward()
        optimizer.step()
    boxes = Decoder([(10.0, 10.0), (8.0, 40.0)])(values.detach(), 8)
    sure = [image[image[:, 4] > 0.5] for image in boxes]
    wanted = [truth[0, [0, 2]], truth[1, [1]]]
    for image, expected in zip(sure, wanted, strict=True):
        assert len(image) == len(expected)
        corners = torch.cat([image[:, :2] - image[:, 2:4] / 2, image[:, :2] + image[:, 2:4] / 2], 1)
        for row, corner in zip(image, corners, strict=True):
            label = int(row[5:].argmax())
            (match,) = expected[expected[:, 0] == label]
            torch.testing.assert_close(corner, match[1:], rtol=0, atol=0.5)


def test_a_better_box_is_wanted_with_a_higher_score():
    """The same object found well and badly: the score that costs least is higher for the first."""
    head = losses.Head(16, torch.tensor([[20.0, 20.0]]))
    best = []
    for log_size in (0.0, 0.6):
        costs = []
        for score in torch.linspace(-4, 6, 50):
            values = torch.full((1, 8, 4, 4), -9.0)
            values[0, :2] = 0
            values[0, 2:4] = log_size
            values[0, 4, 1, 1] = score
            truth = torch.tensor([[[1.0, 14.0, 14.0, 34.0, 34.0]]])
            costs.append(losses.detection_loss([values], [head], truth)[1])
        best.append(int(torch.stack(costs).argmin()))
    assert best[0] > best[1] + 5


def test_first_rows_keeps_real_boxes():
    boxes = torch.full((2, 100, 5), -1.0)
    boxes[0, 97], boxes[1, 5] = torch.arange(5.0), torch.full((5,), 9.0)
    rows = losses.first_rows(boxes)
    assert rows.shape == (2, losses.ROWS, 5)
    assert rows[0, 0].tolist() == [0, 1, 2, 3, 4] and rows[1, 0].tolist() == [9] * 5
    assert (rows[:, 1:] == -1).all()


def test_fourier_filters_are_convolutions():
    torch.manual_seed(0)
    image, kernel = torch.rand(2, 3, 40, 32), torch.rand(2, 9, 9)
    wide = torch.nn.functional.pad(image, [4] * 4, mode="reflect").reshape(1, 6, 48, 40)
    weight = kernel.flip(1, 2)[:, None].repeat_interleave(3, 0)
    expected = torch.nn.functional.conv2d(wide, weight, groups=6).reshape(image.shape)
    torch.testing.assert_close(augment.filters(image, kernel), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("tiled", [False, True])
def test_boxes_move_with_the_image(tiled):
    """White rectangles on black: after a crop or mosaic each box still holds its white."""
    torch.manual_seed(1)
    count = 8
    images = torch.zeros(count, 512, 512, 3, dtype=torch.uint8)
    boxes = torch.full((count, 40, 5), -1.0)
    for row in range(count):
        x, y = 150 + 20 * row, 300 - 15 * row
        images[row, y : y + 60, x : x + 80] = 255
        boxes[row, 0] = torch.tensor([1.0, x, y, x + 80, y + 60])
    masks = (images[..., 0] > 0).to(torch.uint8)
    change = augment.mosaic if tiled else augment.crop
    image, mask, moved = change(images, masks, boxes, 416)
    assert image.shape[1:] == (3, 416, 416) and mask.shape[1:] == (416, 416)
    seen = 0
    for row in range(len(image)):
        for label, *corners in moved[row].tolist():
            if label != 1:
                continue
            x1, y1, x2, y2 = (round(value) for value in corners)
            inside = image[row, 0, y1 : y2 + 1, x1 : x2 + 1]
            assert inside.mean() > 0.85
            assert (mask[row, y1 : y2 + 1, x1 : x2 + 1] == 1).float().mean() > 0.85
            seen += 1
    assert seen >= 6


def test_camera_keeps_black_borders_and_range():
    torch.manual_seed(2)
    image = torch.rand(4, 3, 416, 416) * 0.8 + 0.1
    image[:, :, :80] = 0
    result = augment.camera(image)
    assert result.shape == image.shape
    assert np.all((result.numpy() >= 0) & (result.numpy() <= 1))
    assert result[:, :, :76].abs().max() == 0


def test_fused_steps_are_all_compiled_or_none(monkeypatch):
    for name in augment.FUSED:
        monkeypatch.setattr(augment, name, getattr(augment, name))  # put back at the end
    before = {name: getattr(augment, name) for name in augment.FUSED}
    monkeypatch.setattr(torch, "compile", lambda function, **_: broken)
    with pytest.raises(RuntimeError, match="no compiler"):
        augment.fuse(torch.rand(2, 3, 16, 16))
    assert all(getattr(augment, name) is before[name] for name in augment.FUSED)
    called = []

    def compiled(function, **_):
        return lambda image: called.append(function.__name__) or function(image)

    monkeypatch.setattr(torch, "compile", compiled)
    augment.fuse(torch.rand(2, 3, 16, 16))
    called.clear()
    augment.camera(torch.rand(2, 3, 24, 24))
    assert sorted(called) == sorted(augment.FUSED)


def broken(image):
    raise RuntimeError("no compiler")


def test_quick_gradients_are_those_of_the_network():
    """In float64, so that what rounding leaves is far below any mistake."""
    torch.manual_seed(4)
    model = Yoeo(parse_config(train.CONFIG)).double().train()
    quick = copy.deepcopy(model)
    train.with_quick_gradients(quick)
    assert quick.state_dict().keys() == model.state_dict().keys()
    assert sum(isinstance(part, train.Enlarge) for part in quick.modules()) == 5
    image = torch.rand(2, 3, 64, 96, dtype=torch.float64)
    for network in (model, quick):
        heads, logits = network(image)
        (sum(head.square().sum() for head in heads) + logits.square().sum()).backward()
    for one, other in zip(model.parameters(), quick.parameters(), strict=True):
        torch.testing.assert_close(other.grad, one.grad, rtol=1e-9, atol=1e-9)


def test_quick_length_has_small_factors():
    assert [augment.quick_length(number) for number in (424, 432, 7, 1)] == [432, 432, 8, 1]


def test_blocks_are_coarse_cosine_transforms(monkeypatch):
    """Each block through its own transform, written as the definition of the DCT says."""
    monkeypatch.setattr(augment, "uniform", lambda count, *_: torch.full((count,), 2.0))
    torch.manual_seed(4)
    image = torch.rand(2, 3, 16, 24)
    n = np.arange(8)
    basis = np.cos((2 * n[None] + 1) * n[:, None] * np.pi / 16) * 0.5
    basis[0] /= 2**0.5
    step = 2 * (0.008 + 0.006 * (n[:, None] + n[None]))
    expected = np.empty(image.shape)
    for y in range(0, 16, 8):
        for x in range(0, 24, 8):
            block = image[:, :, y : y + 8, x : x + 8].numpy().astype(np.float64)
            spectrum = np.round(basis @ block @ basis.T / step) * step
            expected[:, :, y : y + 8, x : x + 8] = basis.T @ spectrum @ basis
    close = np.isclose(augment.blocks(image).numpy(), expected, atol=1e-4)
    assert close.mean() > 0.9  # a value halfway between two steps may go to either


def test_on_some_changes_the_share_that_is_asked_for():
    torch.manual_seed(5)
    changed = [
        int((augment.on_some(torch.zeros(10, 1, 2, 2), 0.25, lambda x: x + 1) > 0).sum()) / 4
        for _ in range(200)
    ]
    assert set(changed) == {2, 3} and 2.3 < np.mean(changed) < 2.7


TINY = """[net]
width=256
height=256
channels=3
[convolutional]
batch_normalize=1
filters=8
size=3
stride=8
pad=1
activation=leaky
[convolutional]
filters=8
size=1
stride=1
pad=1
activation=linear
[yolo]
mask=0
anchors=20,20
classes=3
num=1
[route]
layers=-3
[convolutional]
filters=3
size=1
stride=1
pad=1
activation=linear
[upsample]
stride=8
[seg]
classes=3
"""


def test_training_rests_resumes_and_measures(tmp_path, monkeypatch):
    """A run in two parts on two shards: weights change, the second part goes on where the first
    ended, and only the whole run is measured."""
    rng = np.random.default_rng(6)
    for name in ("0001_0000", "9001_0000"):
        boxes = np.full((4, 40, 5), -1, np.float32)
        boxes[:, 0] = 0, 200, 200, 240, 240
        images = rng.integers(0, 90, (4, 512, 512, 3), dtype=np.uint8)
        images[:, 200:240, 200:240] = 250
        masks = np.zeros((4, 512, 512), np.uint8)
        np.savez(tmp_path / f"{name}.npz", images=images, masks=masks, boxes=boxes)
    config, out = tmp_path / "tiny.cfg", tmp_path / "run"
    config.write_text(TINY)

    def run(*options: str) -> dict:
        words = f"train.py --shards {tmp_path} --out {out} --config {config} --batch 2"
        words += " --wait-for 4 --capacity 8 --minutes 0.2"
        monkeypatch.setattr(sys, "argv", [*words.split(), *options])
        train.main()
        return torch.load(out / "checkpoint.pt", weights_only=True)

    first = run("--pause", "0.02")
    assert first["step"] > 0 and not (out / "metrics.json").exists()
    second = run("--resume", str(out / "checkpoint.pt"))
    assert second["step"] > first["step"] and second["spent"] >= 12
    key = "module_list.0.conv_0.weight"
    assert not torch.equal(first["average"][key], second["average"][key])
    report = json.loads((out / "metrics.json").read_text())
    assert report["held_out_images"] == 4 and report["steps"] == second["step"]


def test_who_waits_for_images_says_so(tmp_path, monkeypatch, capsys):
    """Shards that are all held out are none, however many there are."""
    said: list[str] = []

    def look(seconds: float) -> None:
        said.append(capsys.readouterr().out)
        pool.count = 2 if said[-1] else 0

    monkeypatch.setattr(train, "TELL", 0.0)
    monkeypatch.setattr(train.threading, "Thread", lambda **_: SimpleNamespace(start=lambda: None))
    pool = train.Pool(tmp_path, 4, 256, torch.device("cpu"))
    monkeypatch.setattr(train.time, "sleep", look)
    pool.wait_for(2)
    assert "waiting for 2 images, found 0 in" in said[-1] and "begin with 9" in said[-1]
