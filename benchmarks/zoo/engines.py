"""PyTorch on a network of the zoo, from the library's own module: as it is, and compiled.

Engines of ``benchmarks.peers``; named there by this module and their class.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.peers.engine import Files, Session
from benchmarks.peers.engine_torch import CudaGraph, Recorded, need_cuda

from .networks import NETWORKS


class ModuleGraph(CudaGraph):
    """PyTorch's CUDA graph, of the module that was exported."""

    def module(self, files: Files) -> Any:
        return module_of(files)


class Inductor(CudaGraph):
    """PyTorch's compiler at its best: kernels tuned on the device, weights as constants (freezing),
    which leaves the order of axes to it, and recorded as a CUDA graph."""

    title = "PyTorch, Inductor"

    def load(self, files: Files, precision: str) -> Session:
        import torch
        from torch._inductor import config

        need_cuda()
        config.freezing = True
        torch.compiler.reset()
        image = np.load(files.example)["image"]
        return Recorded(
            module_of(files), precision, torch.contiguous_format, image,
            lambda placed: torch.compile(placed, mode="max-autotune-no-cudagraphs"),
        )  # fmt: skip


def module_of(files: Files) -> Any:
    """The network whose files they are."""
    return next(network for network in NETWORKS if network.file == files.network).build()
