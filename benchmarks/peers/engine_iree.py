"""IREE on Vulkan: compiled ahead in three layouts of convolutions, of which the fastest counts.

The weights stay out of what is compiled, so that a small file can be made on one machine and run
on another: they are read from the model when it is loaded.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from onnx import numpy_helper

from tvm_vision.whole_files import write_whole

from .engine import Engine, Files, NotInstalled, Session, Unusable, output_error

# The compiler's name for the GPU; it has none for Hopper, and its default takes no fp16.
TARGET_VARIABLE = "IREE_VULKAN_TARGET"
DEFAULT_TARGET = "ada"
PIPELINE = "builtin.module(util.func(iree-preprocessing-convert-conv-to-channels-last))"
LAYOUTS = {
    "plain": [],
    "nhwc": [f"--iree-preprocessing-pass-pipeline={PIPELINE}"],
    "im2col": ["--iree-global-opt-use-im2col-for-convs"],
}
# Smaller initializers are shapes, splits and scales, which the compiler has to see.
LEAST_PARAMETER = 8
COMPILE_SECONDS = 600
TRIAL_RUNS = 10
# A layout whose results are off by more is no candidate; fp16 is off by less than 2e-2.
WRONG = 0.05


class Iree(Engine):
    title = "IREE, Vulkan"

    def version(self) -> str:
        try:
            import iree.runtime
        except ImportError:
            raise NotInstalled("pip install iree-base-compiler iree-base-runtime") from None
        from importlib.metadata import version

        del iree
        return version("iree-base-runtime")

    def prepare(self, files: Files, precision: str) -> None:
        """A file for each layout, or one with the reason why the compiler does not take it."""
        missing = [
            layout
            for layout in LAYOUTS
            if not any(path.exists() for path in _paths(files, precision, layout))
        ]
        if not missing:
            return
        try:
            import iree.compiler.tools as tools
        except ImportError:
            if len(missing) < len(LAYOUTS):
                return
            raise Unusable("not compiled: pip install iree-base-compiler") from None
        with tempfile.TemporaryDirectory() as scratch:
            source = _import(files.model(precision), Path(scratch))
            for layout in missing:
                made, failed = _paths(files, precision, layout)
                arguments = [*_target_arguments(), *LAYOUTS[layout]]
                try:
                    code = tools.compile_file(str(source), extra_args=arguments)
                except tools.CompilerToolError as error:
                    failed.write_text(_reason(error))
                    continue
                write_whole(made, code)

    def load(self, files: Files, precision: str) -> Session:
        with np.load(files.example) as data:
            image, wanted = data["image"], [data[f"o{i}"] for i in range(len(data.files) - 1)]
        sessions, reasons = [], []
        for layout in LAYOUTS:
            made, failed = _paths(files, precision, layout)
            if not made.exists():
                reasons.append(f"{layout}: {failed.read_text() if failed.exists() else 'no file'}")
                continue
            try:
                session = _Session(made, files.read(precision), layout)
                off = output_error(session.run(image), wanted)
                if off > WRONG:
                    raise Unusable(f"wrong by {off:.1e}")
                sessions.append((_trial(session, image), session))
            except (RuntimeError, ValueError, Unusable) as error:
                reasons.append(f"{layout}: {_reason(error)}")
        if not sessions:
            raise Unusable("; ".join(reasons))
        best = min(sessions, key=lambda pair: pair[0])[1]
        best.variant = "; ".join([best.variant, *reasons])
        return best


class _Session(Session):
    def __init__(self, path: Path, model: Any, layout: str) -> None:
        import iree.runtime as runtime

        self._runtime = runtime
        config = runtime.Config("vulkan")
        self._keep = {w.name: np.array(numpy_helper.to_array(w)) for w in model.graph.initializer}
        index = runtime.ParameterIndex()
        for name, array in self._keep.items():
            index.add_buffer(name, array)
        context = runtime.SystemContext(config=config)
        parameters = runtime.create_io_parameters_module(
            config.vm_instance, index.create_provider(scope="model")
        )
        context.add_vm_modules([parameters, runtime.VmModule.mmap(config.vm_instance, str(path))])
        self._device = config.device
        self._main = getattr(context.modules.module, model.graph.name)
        self._context = context
        self.device = "its Vulkan device 0"
        self.variant = layout

    def run(self, image: np.ndarray) -> list[np.ndarray]:
        results = self._main(image)
        if not isinstance(results, (tuple, list)):
            results = [results]
        return [np.asarray(result.to_host()) for result in results]


def _trial(session: Session, image: np.ndarray) -> float:
    session.run(image)
    times = []
    for _ in range(TRIAL_RUNS):
        start = time.perf_counter()
        session.run(image)
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def _paths(files: Files, precision: str, layout: str) -> tuple[Path, Path]:
    """What the compiler made, and why it made nothing."""
    stem = f"{precision}-{layout}"
    return files.of("iree", f"{stem}.vmfb"), files.of("iree", f"{stem}.failed")


def _import(model: Path, scratch: Path) -> Path:
    """The model in IREE's own language, its weights left out."""
    source = scratch / "net.mlir"
    words = [
        sys.executable, "-m", "iree.compiler.tools.import_onnx", str(model), "-o", str(source),
        "--externalize-params", "--no-save-params", f"--num-elements-threshold={LEAST_PARAMETER}",
    ]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, timeout=COMPILE_SECONDS)
    if done.returncode:
        raise Unusable(f"its importer fails: {_reason(done.stderr)}")
    return source


def _target_arguments() -> list[str]:
    target = os.environ.get(TARGET_VARIABLE, DEFAULT_TARGET)
    return [
        "--iree-hal-target-device=vulkan", f"--iree-vulkan-target={target}", "--iree-opt-level=O3"
    ]  # fmt: skip


def _reason(error: object) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    wanted = [line for line in lines if "error: " in line.lower()] or lines or [repr(error)]
    return re.sub(r"\S+/(net\.mlir)", r"\1", wanted[0])[:200]
