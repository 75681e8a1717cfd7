"""ncnn on Vulkan, its networks converted by pnnx. It takes no arg max: of YOEO the raw heads."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from .engine import Engine, Files, NotInstalled, Session, Unusable

CONVERT_SECONDS = 300


class Ncnn(Engine):
    title = "ncnn, Vulkan"

    def version(self) -> str:
        try:
            import ncnn
        except ImportError:
            raise NotInstalled("pip install ncnn pnnx") from None
        return str(ncnn.__version__)

    def prepare(self, files: Files, precision: str) -> None:
        """Both precisions are chosen when the network is loaded; converted once, as float32."""
        if precision != "fp32" or files.of("ncnn", "net.param").exists():
            return
        dimensions = files.read().graph.input[0].type.tensor_type.shape.dim
        shape = [dimension.dim_value for dimension in dimensions]
        if shape[0] != 1:
            raise Unusable("it takes one image at a time")
        with tempfile.TemporaryDirectory() as scratch:
            model = Path(scratch) / "net.onnx"
            onnx.save(files.read(), model)
            words = [_pnnx(), model.name, f"inputshape=[{','.join(map(str, shape))}]", "fp16=0"]
            done = subprocess.run(
                words, cwd=scratch, capture_output=True, text=True, timeout=CONVERT_SECONDS
            )
            made = [Path(scratch) / f"net.ncnn.{kind}" for kind in ("param", "bin")]
            if done.returncode or not all(path.exists() for path in made):
                last = (done.stdout + done.stderr).strip().splitlines()[-1:]
                raise Unusable(f"pnnx does not convert it: {' '.join(last)}")
            shutil.move(made[1], files.of("ncnn", "net.bin"))
            shutil.move(made[0], files.of("ncnn", "net.param"))

    def load(self, files: Files, precision: str) -> Session:
        import ncnn

        if ncnn.get_gpu_count() == 0:
            raise Unusable("it finds no Vulkan device")
        if not files.of("ncnn", "net.param").exists():
            raise Unusable("pnnx made no network of it")
        index = ncnn.get_default_gpu_index()
        net = ncnn.Net()
        net.opt.use_vulkan_compute = True
        half = precision == "fp16"
        net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = half
        net.set_vulkan_device(index)
        for load, kind in ((net.load_param, "param"), (net.load_model, "bin")):
            if load(str(files.of("ncnn", f"net.{kind}"))) != 0:
                raise Unusable("it does not take the network")
        return _Session(net, ncnn.get_gpu_info(index).device_name())


class _Session(Session):
    def __init__(self, net: Any, device: str) -> None:
        import ncnn

        self._net = net
        self._mat = ncnn.Mat
        self._input = next(iter(net.input_names()))
        # pnnx calls them out0, out1, ...; halves of a split that nobody reads are listed too.
        self._outputs = sorted(name for name in net.output_names() if name.startswith("out"))
        self.device = device

    def run(self, image: np.ndarray) -> list[np.ndarray]:
        extractor = self._net.create_extractor()
        # A Mat made of an array only looks at it.
        extractor.input(self._input, self._mat(image[0]).clone())
        results = []
        for name in self._outputs:
            code, mat = extractor.extract(name)
            if code != 0:
                raise Unusable(f"it does not compute the output {name} (code {code})")
            results.append(np.array(mat))
        return results


def _pnnx() -> str:
    beside = Path(sys.executable).with_name("pnnx")
    found = str(beside) if beside.exists() else shutil.which("pnnx")
    if found is None:
        raise Unusable("pnnx, which converts its networks, is not installed: pip install pnnx")
    return found
