"""A network's times: ours, and PyTorch's CUDA graph, on the same images in the same process."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

WARM_SECONDS, SECONDS = 0.3, 0.5
LEAST_FRAMES, MOST_FRAMES = 5, 200
DEVICE_FRAMES = 30
Image = np.ndarray


def image_of(shape: tuple[int, ...]) -> Image:
    """What every engine is given: the same noise, float32 in 0 to 1."""
    return np.random.default_rng(1).random(shape, "float32")


def ours(package: Path, image: Image) -> tuple[np.ndarray, dict[str, float]]:
    """The output, and milliseconds: of a frame from numpy to numpy ("frame"), of its kernels on the
    device ("device"), and how many kernels."""
    import tvm_vision

    executor = tvm_vision.load(package)
    name = executor.input_names[0]

    def run() -> np.ndarray:
        executor.set_input(name, image)
        executor.run()
        return next(iter(executor.outputs().values()))

    frame = _median_ms(run)
    profile = executor.profile(repeat=DEVICE_FRAMES, warmup=2)
    times = {"frame": frame, "device": profile.span_us / 1e3, "kernels": len(profile.kernels)}
    return run().copy(), times


def cuda_graph(module: Any, precision: str, image: Image) -> tuple[np.ndarray, dict[str, float]]:
    """The same of PyTorch: recorded once, with copies by pinned memory around it; in fp16 the
    faster of both orders of axes. Without TF32: everybody computes float32 exactly."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    layouts = [torch.contiguous_format]
    if precision == "fp16" and image.ndim == 4:
        layouts.insert(0, torch.channels_last)
    found = [_recorded(_placed(module, precision, of), precision, of, image) for of in layouts]
    return min(found, key=lambda one: one[1]["frame"])


def inductor(module: Any, precision: str, image: Image) -> tuple[np.ndarray, dict[str, float]]:
    """The same of PyTorch's compiler at its best: kernels tuned on the device, weights as constants
    (freezing), which leaves the order of axes to it, and recorded as a CUDA graph."""
    import torch
    from torch._inductor import config

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    config.freezing = True
    torch.compiler.reset()
    layout = torch.contiguous_format
    placed = _placed(module, precision, layout)
    compiled = torch.compile(placed, mode="max-autotune-no-cudagraphs")
    return _recorded(compiled, precision, layout, image)


def _placed(module: Any, precision: str, layout: Any) -> Any:
    """A module on the GPU, in a precision and an order of axes."""
    return module.cuda().to(_dtype(precision)).to(memory_format=layout)


def _dtype(precision: str) -> Any:
    import torch

    return torch.float16 if precision == "fp16" else torch.float32


def _recorded(
    module: Any, precision: str, layout: Any, image: Image
) -> tuple[np.ndarray, dict[str, float]]:
    import torch

    dtype = _dtype(precision)
    host = torch.from_numpy(image.copy()).pin_memory()
    there = host.cuda()

    def frame() -> Any:
        return module(there.to(dtype).contiguous(memory_format=layout)).float().contiguous()

    with torch.no_grad():
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                frame()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            output = frame()
    result = torch.empty(output.shape, dtype=output.dtype, pin_memory=True)

    def run() -> np.ndarray:
        host.numpy()[:] = image
        there.copy_(host, non_blocking=True)
        graph.replay()
        result.copy_(output, non_blocking=True)
        torch.cuda.synchronize()
        return result.numpy().copy()

    times = {"frame": _median_ms(run)}
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    device = []
    for _ in range(DEVICE_FRAMES):
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        device.append(begin.elapsed_time(end))
    times["device"] = float(np.median(device))
    return run(), times


def _median_ms(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    while time.perf_counter() - start < WARM_SECONDS:
        run()
    taken: list[float] = []
    start = time.perf_counter()
    while len(taken) < LEAST_FRAMES or (
        time.perf_counter() - start < SECONDS and len(taken) < MOST_FRAMES
    ):
        begin = time.perf_counter()
        run()
        taken.append(time.perf_counter() - begin)
    return 1e3 * float(np.median(taken))


def error(found: np.ndarray, expected: np.ndarray) -> float | None:
    """The largest difference over the largest value; None where all values are 0, as of a head
    that is initialised so."""
    largest = float(np.abs(expected).max())
    return float(np.abs(found - expected).max()) / largest if largest else None
