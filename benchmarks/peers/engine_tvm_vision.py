"""Ours: the package compiled ahead, run with TVM's runtime library alone, as on a robot."""

from __future__ import annotations

import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from .engine import Engine, Files, NotInstalled, Session
from .work import graph_work

PROFILED_FRAMES = 50
PROFILE_SECONDS = 1.0  # of frames; a profile runs each about twice


class TvmVision(Engine):
    title = "tvm_vision, Vulkan"

    def version(self) -> str:
        try:
            import tvm_vision
        except ImportError as error:
            raise NotInstalled(f"pip install -e . ({error})") from None
        return tvm_vision.__version__

    def prepare(self, files: Files, precision: str) -> None:
        """Compiled anew each time, kernels too, as how long it takes is told; by one process, as
        others are prepared beside it. int8 is quantized on the image that is timed; what of it
        is no product stays fp16."""
        import tvm_vision

        model, options = files.model(), {"kernel_processes": False, "kernel_cache": False}
        package = files.of("tvm_vision", f"{precision}.tar")
        if precision == "int8":
            model, precision = files.model("int8"), "fp16"
            image = files.of("tvm_vision", "sample.npz")
            with np.load(files.example) as data:
                np.savez(image, **{files.read().graph.input[0].name: data["image"]})
            tvm_vision.quantize(files.model(), model, sample_images=[image])
        tvm_vision.compile(model, package, target="vulkan", precision=precision, options=options)

    def load(self, files: Files, precision: str) -> Session:
        return _Session(files.of("tvm_vision", f"{precision}.tar"))


class _Session(Session):
    def __init__(self, package: Path) -> None:
        import tvm_vision

        self._package = package
        self._executor = tvm_vision.load(package)
        self._input = self._executor.input_names[0]
        self.device = self._executor.device_description

    def run(self, image: np.ndarray) -> list[np.ndarray]:
        self._executor.set_input(self._input, image)
        self._executor.run()
        return list(self._executor.outputs().values())

    def device_ms(self) -> float:
        return self._profile().span_us / 1e3

    def details(self) -> dict[str, object]:
        profile = self._profile()
        return {
            "span_ms": profile.span_us / 1e3,
            "sum_ms": profile.sum_us / 1e3,
            "upload_ms": profile.upload_us / 1e3,
            "readback_ms": profile.readback_us / 1e3,
            "memory_bytes": self._executor.memory_bytes,
            "package_bytes": self._package.stat().st_size,
            **graph_work(self._executor.info["graph"]),
        }

    @lru_cache(maxsize=1)  # noqa: B019  a session lives as long as its process
    def _profile(self) -> Any:
        start = time.perf_counter()
        self._executor.run()
        frame = time.perf_counter() - start
        frames = min(PROFILED_FRAMES, max(3, int(PROFILE_SECONDS / frame)))
        return self._executor.profile(repeat=frames, warmup=1)
