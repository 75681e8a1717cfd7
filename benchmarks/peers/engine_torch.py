"""PyTorch's CUDA graph: the frame recorded once, copies to and from pinned memory around it."""

from __future__ import annotations

import time
from collections.abc import Callable
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
        """The faster of both orders of axes; where a network takes only one of them, that one."""
        import torch

        need_cuda()
        image = np.load(files.example)["image"]
        layouts = [torch.contiguous_format]
        if image.ndim == 4:
            layouts.append(torch.channels_last)
        found: list[Session] = []
        for layout in layouts:
            try:
                found.append(Recorded(self.module(files), precision, layout, image))
            except RuntimeError:
                if layout == layouts[0]:
                    raise
        return min(found, key=lambda session: _trial(session, image))

    def module(self, files: Files) -> Any:
        """The network in evaluation, float32, on the host, for load() to change."""
        from .torch_network import TorchNetwork

        return TorchNetwork(files.read()).eval()


def need_cuda() -> None:
    """Raises Unusable without CUDA. Sets exact float32, as everybody else computes, and lets
    cuDNN choose its kernels by trial."""
    import torch

    if not torch.cuda.is_available():
        raise Unusable("torch finds no CUDA device")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True


def to_layout(module: Any, layout: Any) -> Any:
    """Weights of convolutions in a memory format; ``Module.to`` asks it of all tensors of five
    dimensions as well, which channels_last refuses."""
    import torch

    for layer in module.modules():
        if isinstance(layer, torch.nn.Conv2d):
            layer.to(memory_format=layout)
    return module


class Recorded(Session):
    """A module's frame as a CUDA graph.

    module: in evaluation, on the host; takes one image and returns a tensor or several.
    compile: makes another callable of the module on the GPU, as PyTorch's compiler does.
    """

    def __init__(
        self, module: Any, precision: str, layout: Any, image: np.ndarray,
        compile: Callable[[Any], Any] = lambda placed: placed,
    ) -> None:  # fmt: skip
        import torch

        self._torch = torch
        dtype = torch.float16 if precision == "fp16" else torch.float32
        # Kept: the graph reads the weights where they are.
        self._network = compile(to_layout(module.cuda().to(dtype), layout))
        self._host = torch.from_numpy(image.copy()).pin_memory()
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
            if isinstance(outputs, torch.Tensor):
                outputs = [outputs]
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
