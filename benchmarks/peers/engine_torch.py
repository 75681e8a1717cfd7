"""PyTorch's CUDA graph: the frame recorded once, copies to and from pinned memory around it."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from .engine import Engine, Files, NotInstalled, Session, Unusable

WARM_RUNS = 5
TRIAL_RUNS = 30
DEVICE_RUNS = 100


class CudaGraph(Engine):
    title = "PyTorch, CUDA graph"

    def version(self) -> str:
        try:
            import torch
        except ImportError:
            raise NotInstalled("pip install torch, in a build with CUDA") from None
        if not torch.backends.cuda.is_built():
            raise NotInstalled(f"torch {torch.__version__} here is built without CUDA")
        return str(torch.__version__)

    def load(self, files: Files, precision: str) -> Session:
        import torch

        if not torch.cuda.is_available():
            raise Unusable("torch finds no CUDA device")
        # Exact float32, as everybody else computes; cuDNN may choose its kernels by trial.
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        image = np.load(files.example)["image"]
        sessions = [
            _Session(files, precision, layout, image)
            for layout in (torch.contiguous_format, torch.channels_last)
        ]
        return min(sessions, key=lambda session: _trial(session, image))


class _Session(Session):
    def __init__(self, files: Files, precision: str, layout: Any, image: np.ndarray) -> None:
        import torch

        from .torch_network import TorchNetwork

        self._torch = torch
        dtype = torch.float16 if precision == "fp16" else torch.float32
        network = TorchNetwork(files.read()).eval().cuda().to(dtype)
        # Kept: the graph reads the weights where they are.
        self._network = network.to_layout(layout)
        self._host = torch.from_numpy(image).pin_memory()
        self._input = self._host.cuda()
        with torch.no_grad():
            self._outputs = self._record(dtype, layout)
            self._results = [
                torch.empty(value.shape, dtype=value.dtype, pin_memory=True)
                for value in self._outputs
            ]
        self.device = torch.cuda.get_device_name(0)
        self.variant = str(layout).removeprefix("torch.")

    def _record(self, dtype: Any, layout: Any) -> list[Any]:
        torch = self._torch

        def frame() -> list[Any]:
            outputs = self._network(self._input.to(dtype).contiguous(memory_format=layout))
            return [
                value.float().contiguous() if value.is_floating_point() else value
                for value in outputs
            ]

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_RUNS):
                frame()
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            return frame()

    def run(self, image: np.ndarray) -> list[np.ndarray]:
        self._host.numpy()[:] = image
        self._input.copy_(self._host, non_blocking=True)
        self._graph.replay()
        for here, there in zip(self._results, self._outputs, strict=True):
            here.copy_(there, non_blocking=True)
        self._torch.cuda.synchronize()
        # Copies: the next frame overwrites the pinned ones.
        return [here.numpy().copy() for here in self._results]

    def device_ms(self) -> float:
        events = [self._torch.cuda.Event(enable_timing=True) for _ in range(2)]
        times = []
        for _ in range(DEVICE_RUNS):
            events[0].record()
            self._graph.replay()
            events[1].record()
            self._torch.cuda.synchronize()
            times.append(events[0].elapsed_time(events[1]))
        return float(np.median(times))


def _trial(session: Session, image: np.ndarray) -> float:
    times = []
    for _ in range(TRIAL_RUNS):
        start = time.perf_counter()
        session.run(image)
        times.append(time.perf_counter() - start)
    return float(np.median(times))
