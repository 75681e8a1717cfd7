"""Trains the demo network on shards that render.py wrote, or is still writing.

python training/train.py --shards scenes --out run --minutes 8 --seed 1

Images live in the GPU's memory, and new shards join while it trains. The step size follows the
clock: training ends when its minutes are over, waiting included, or rests after --pause of them. A
checkpoint is written every minute; --resume takes one up again where it ended. The last part goes
without mosaics and with more whole images. Shards whose names start with HELD_OUT are for the
final measurement only. --start takes what fits of other weights, so that a network with another
decoder begins with the rest. part.py runs this beside renderers.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import json
import math
import signal
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

import augment
import numpy as np
import torch
import torch.nn.functional as F
from losses import ROWS, Head, Weights, detection_loss, first_rows, pixel_loss
from measure import measure

from tvm_vision.exporters.yoeo.config import parse_config
from tvm_vision.exporters.yoeo.network import Yoeo
from tvm_vision.whole_files import whole

CONFIG = Path(__file__).resolve().parents[1] / "tvm_vision" / "demo" / "yoeo_demo.cfg"
RARE = -5.5  # objectness before the sigmoid, to begin with
HELD_OUT = "9"  # first digit of a held-out shard's name
TELL = 10.0  # seconds without images after which that is said
CALM = 0.8  # part of the run after which images are as the camera frames them


class Pool:
    """The images on the device. A thread adds shards as they appear, so that no step waits; when
    there is no more room, new ones take the place of the oldest."""

    def __init__(self, folder: Path, capacity: int, size: int, device: torch.device) -> None:
        """capacity: images at most. size: of the images in a batch."""
        self.folder, self.device, self.size, self.count = folder, device, size, 0
        self.seen: set[str] = set()
        self.newest = time.monotonic()  # when the last shard came
        self.next, self.lock = 0, threading.Lock()
        self.images = torch.empty(capacity, 512, 512, 3, dtype=torch.uint8, device=device)
        self.masks = torch.empty(capacity, 512, 512, dtype=torch.uint8, device=device)
        self.boxes = torch.empty(capacity, 40, 5, device=device)
        threading.Thread(target=self._watch, daemon=True).start()

    def wait_for(self, count: int) -> None:
        """Returns when there are this many images; says what is missing while there are not."""
        told = time.monotonic()
        while self.count < count:
            time.sleep(0.2)
            if time.monotonic() - told > TELL:
                told = time.monotonic()
                print(
                    f"waiting for {count} images, found {self.count} in '{self.folder}' beside "
                    f"shards whose names begin with {HELD_OUT}, which are held out",
                    flush=True,
                )

    def _watch(self) -> None:
        while True:
            for path in sorted(self.folder.glob("*.npz")):
                if path.name not in self.seen and not path.name.startswith(HELD_OUT):
                    self._add(path)
            time.sleep(1)

    def _add(self, path: Path) -> None:
        """Adds a shard; what has more images than there is room for is left out."""
        names = ("images", "masks", "boxes")
        with np.load(path) as shard:
            arrays = {name: torch.from_numpy(shard[name]) for name in names}
        self.seen.add(path.name)
        self.newest = time.monotonic()
        size = len(arrays["images"])
        if size > len(self.images):
            return
        with self.lock:  # a batch has the image, mask and boxes of one scene
            if self.next + size > len(self.images):
                self.next = 0
            rows = slice(self.next, self.next + size)
            for name, array in arrays.items():
                getattr(self, name)[rows] = array.to(self.device)
            self.next += size
            self.count = max(self.count, self.next)

    def batch(self, size: int, calm: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Varied images [size,3,y,x], classes and boxes. calm: no mosaics, fewer cuts."""
        tiled = not calm and torch.rand(1).item() < 0.2
        with self.lock:
            index = torch.randint(self.count, (size * (4 if tiled else 1),), device=self.device)
            parts = self.images[index], self.masks[index], self.boxes[index]
        if tiled:
            image, mask, box = augment.mosaic(*parts, self.size)
        else:
            image, mask, box = augment.crop(*parts, self.size, whole=0.7 if calm else 0.35)
        return augment.camera(image), mask, first_rows(box)


def heads_of(config: Any, device: torch.device) -> list[Head]:
    strides = config.strides((config.height, config.width))
    return [
        Head(stride, torch.tensor(head.anchors, dtype=torch.float32, device=device))
        for stride, head in zip(strides, config.heads, strict=True)
    ]


class Nearest(torch.autograd.Function):
    """Every pixel several times in both directions, as nn.Upsample has it. What PyTorch's compiler
    makes of that one's gradient adds each value by an atomic operation: a sixth of a whole step on
    an H100. Here the gradient is the sum of a window."""

    @staticmethod
    def forward(context: Any, image: torch.Tensor, factor: int) -> torch.Tensor:
        context.factor = factor
        return F.interpolate(image, scale_factor=factor, mode="nearest")

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return F.avg_pool2d(gradient, context.factor, divisor_override=1), None


class Enlarge(torch.nn.Module):
    """nn.Upsample's place in a network that is trained."""

    def __init__(self, factor: int) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return Nearest.apply(image, self.factor)


def with_quick_gradients(model: Yoeo) -> None:
    """Puts Enlarge where a network enlarges; its weights and results stay as they are."""
    for layer in model.module_list:
        for name, part in layer.named_children():
            if isinstance(part, torch.nn.Upsample):
                setattr(layer, name, Enlarge(int(part.scale_factor)))


def too_long(*_: object) -> NoReturn:
    raise TimeoutError("it takes too long")


def set_objectness(model: Yoeo) -> None:
    """Starts from "there is nothing": objects are rare, and the first steps would go into that."""
    layers = model.config.layers
    for index, layer in enumerate(layers):
        if layer in model.config.heads:
            convolution = model.module_list[index - 1][0]
            bias = convolution.bias.detach().view(len(layer.anchors), -1)
            bias[:, 4] = RARE


def begin_with(model: Yoeo, path: Path) -> None:
    """Sets those of a network's weights that a file has under the same name and in the same shape,
    and says how many these are. Raises SystemExit where there are none."""
    own, other = model.state_dict(), torch.load(path, map_location="cpu", weights_only=True)
    same = {name: v for name, v in other.items() if name in own and v.shape == own[name].shape}
    if not same:
        raise SystemExit(f"weights of this network, or of a similar one, are needed in '{path}'")
    model.load_state_dict(same, strict=False)
    print(f"{len(same)} of {len(own)} weights from {path}", flush=True)


def weights_of(pairs: list[str]) -> Weights:
    """The weights of the losses with some of them changed, each as NAME=VALUE."""
    names = {field.name for field in dataclasses.fields(Weights)}
    changes = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        try:
            changes[name] = float(value)
        except ValueError:
            name = ""
        if name not in names:
            raise SystemExit(f"--weight {'|'.join(sorted(names))}=NUMBER is needed, found '{pair}'")
    return Weights(**changes)


class Trainer:
    """A network, its running average, and what changes them."""

    def __init__(self, options: argparse.Namespace, device: torch.device) -> None:
        self.options, self.device = options, device
        config = parse_config(options.config)
        self.size = config.height
        self.model = Yoeo(config)
        set_objectness(self.model)
        if options.start:
            begin_with(self.model, options.start)
        self.weights = weights_of(options.weight)
        with_quick_gradients(self.model)
        self.model.to(device).train()
        for parameter in self.model.parameters():
            if parameter.ndim == 4:
                parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
        self.average = copy.deepcopy(self.model).eval()
        kernels = [p for p in self.model.parameters() if p.ndim > 1]
        rest = [p for p in self.model.parameters() if p.ndim <= 1]
        self.optimizer = torch.optim.AdamW(
            [{"params": kernels, "weight_decay": 0.02}, {"params": rest, "weight_decay": 0.0}],
            lr=options.rate,
            fused=device.type == "cuda",
        )
        self.heads = heads_of(config, device)
        self.losses = self._losses
        if options.compile:
            self._compile()
        self.step, self.spent = 0, 0.0
        if options.resume:
            self._resume(options.resume)
        floats = [
            [t for t in network.state_dict().values() if t.dtype.is_floating_point]
            for network in (self.average, self.model)
        ]
        self.slow, self.fast = floats

    def _resume(self, path: Path) -> None:
        saved = torch.load(path, map_location=self.device, weights_only=True)
        self.model.load_state_dict(saved["model"])
        self.average.load_state_dict(saved["average"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.step, self.spent = saved["step"], saved["spent"]

    def _losses(self, image: torch.Tensor, mask: torch.Tensor, box: torch.Tensor) -> torch.Tensor:
        """Of boxes, objectness, classes and pixels [4], weighted."""
        with torch.autocast(self.device.type, torch.bfloat16):
            values, logits = self.model(image)
        of_boxes = detection_loss(values, self.heads, box, self.weights)
        return torch.cat([of_boxes, pixel_loss(logits, mask, self.weights)[None]])

    def _compile(self) -> None:
        """Compiles the losses, their gradients and what varies images, on images made of noise,
        which the network then forgets. What cannot be compiled, or not in time, stays as it is."""
        began, size = time.monotonic(), (self.options.batch, self.size, self.size)
        before = copy.deepcopy(self.model.state_dict())
        compiled = torch.compile(self._losses)
        signal.signal(signal.SIGALRM, too_long)
        signal.setitimer(signal.ITIMER_REAL, self.options.compile)
        try:
            image = torch.rand(size[0], 3, *size[1:], device=self.device)
            image = image.contiguous(memory_format=torch.channels_last)
            mask = torch.zeros(size, dtype=torch.long, device=self.device)
            box = torch.full((size[0], ROWS, 5), -1.0, device=self.device)
            compiled(image, mask, box).sum().backward()
            self.losses = compiled
            augment.fuse(torch.rand(size[0], 3, *size[1:], device=self.device))
            print(f"compiled in {time.monotonic() - began:.0f} s", flush=True)
        except Exception as error:  # any part of the compiler may be missing: it is only faster
            print(f"not compiled: {type(error).__name__}: {error}", flush=True)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        self.model.load_state_dict(before)
        self.optimizer.zero_grad(set_to_none=True)

    def done(self) -> float:
        """Part of the run that is over."""
        return self.spent / (self.options.minutes * 60)

    def learn(self, image: torch.Tensor, mask: torch.Tensor, box: torch.Tensor) -> torch.Tensor:
        """One step; returns the losses of boxes, objectness, classes and pixels [4]."""
        warm = min(1.0, (self.step + 1) / 300)
        share = 0.505 + 0.495 * math.cos(math.pi * min(1.0, self.done()))
        for group in self.optimizer.param_groups:
            group["lr"] = self.options.rate * warm * share
        parts = self.losses(image.contiguous(memory_format=torch.channels_last), mask, box)
        self.optimizer.zero_grad(set_to_none=True)
        parts.sum().backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
        self.optimizer.step()
        self.step += 1
        with torch.no_grad():
            torch._foreach_lerp_(
                self.slow, self.fast, 1 - min(self.options.average, self.step / (self.step + 19))
            )
        return parts.detach()

    def rates(self, pool: Pool) -> str:
        """How long a batch and a step take, in words, seen on the first few."""

        def wait() -> float:
            if self.device.type == "cuda":
                torch.cuda.synchronize()
            return time.monotonic()

        self.learn(*pool.batch(self.options.batch, calm=True))  # the first ones try algorithms
        began = wait()
        batches = [pool.batch(self.options.batch, calm=True) for _ in range(5)]
        middle = wait()
        for batch in batches:
            self.learn(*batch)
        end = wait()
        return f"{(middle - began) * 200:.0f} ms a batch, {(end - middle) * 200:.0f} ms a step"

    def save(self, folder: Path) -> None:
        """The averaged weights alone, under YOEO's names, and all that --resume needs."""
        averaged = {name: value.cpu() for name, value in self.average.state_dict().items()}
        with whole(folder / "yoeo_demo.pth") as fresh:
            torch.save(averaged, fresh)
        everything = {
            "model": self.model.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "spent": self.spent,
        }
        with whole(folder / "checkpoint.pt") as fresh:
            torch.save(everything, fresh)

    def run(self, pool: Pool, began: float) -> None:
        """Trains until the minutes since began are over, or those after which to rest."""
        began -= self.spent
        told = saved = time.monotonic()
        losses: list[torch.Tensor] = []
        options = self.options
        end = min(options.minutes, options.pause or options.minutes) * 60
        while self.spent < end:
            losses.append(self.learn(*pool.batch(options.batch, calm=self.done() > CALM)))
            now = time.monotonic()
            self.spent = now - began
            if now - told > 20:
                parts = ", ".join(f"{value:.4f}" for value in torch.stack(losses).mean(0).tolist())
                now = time.monotonic()
                speed = len(losses) * options.batch / (now - told)
                print(
                    f"{self.spent:4.0f} s, step {self.step}, {pool.count} images, of "
                    f"{len(pool.seen)} shards, the last {now - pool.newest:.0f} s ago: losses of "
                    f"boxes, objectness, classes, pixels {parts}; {speed:.0f} images a second",
                    flush=True,
                )
                told, losses = now, []
            if now - saved > 60:
                self.save(options.out)
                saved = now
        self.save(options.out)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shards", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--config", type=Path, default=CONFIG)
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--pause", type=float, help="minutes after which to rest, for --resume")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=1.5e-3, help="largest step size")
    parser.add_argument(
        "--compile",
        type=float,
        nargs="?",
        const=180.0,
        metavar="SECONDS",
        help="compile first, which is faster on a GPU; give up after so many seconds (180)",
    )
    parser.add_argument("--capacity", type=int, default=30000, help="images held at most")
    parser.add_argument("--wait-for", type=int, default=1500, help="images to begin with")
    parser.add_argument("--resume", type=Path, help="a checkpoint.pt, to go on with the same run")
    parser.add_argument("--start", type=Path, help="weights (.pth) to begin a new run with")
    parser.add_argument(
        "--weight", action="append", default=[], metavar="NAME=VALUE", help="of a loss, as small=2"
    )
    parser.add_argument("--average", type=float, default=0.9995, help="how slow the average is")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    began = time.monotonic()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(options.seed)
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    options.out.mkdir(parents=True, exist_ok=True)
    trainer = Trainer(options, device)
    pool = Pool(options.shards, options.capacity, trainer.size, device)
    pool.wait_for(options.wait_for)
    print(trainer.rates(pool), flush=True)
    trainer.run(pool, began)
    if trainer.done() >= 1 and any(options.shards.glob(f"{HELD_OUT}*.npz")):
        report = measure(trainer.average, options.shards, HELD_OUT, device, trainer.size)
        report["steps"], report["images"] = trainer.step, pool.count
        (options.out / "metrics.json").write_text(json.dumps(report, indent=1) + "\n")
        print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
