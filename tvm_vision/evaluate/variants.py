"""A model in several variants over one labelled set: each compiled, run and judged, one after the
other, and kept, so that what was cut off goes on."""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..api import compile as compile_package
from ..api import quantize
from ..errors import InputError, TvmVisionError
from ..models import load_model
from ..models.registry import predictor
from ..package import ModelInfo, read_package
from ..version import __version__
from ..whole_files import write_whole
from .datasets import DataSet
from .reference import reference_of
from .run_set import ReferenceExecutor, run_set

PRECISIONS = ("fp32", "fp16", "int8")
SAMPLES = 32  # images of the set that decide the ranges of int8
REFERENCE = "reference"
Json = dict[str, Any]


@dataclass(frozen=True)
class Variant:
    """How a model is compiled. precision: of PRECISIONS; others as for ``tvm_vision.compile``."""

    target: str = "auto"
    precision: str = "fp32"
    opt_level: int = 3
    layout: str = "auto"

    @property
    def name(self) -> str:
        """In a few words, as in "vulkan fp16 O3"."""
        layout = "" if self.layout == "auto" else f" {self.layout}"
        return f"{self.target} {self.precision} O{self.opt_level}{layout}"


def matrix(
    targets: Sequence[str],
    precisions: Sequence[str],
    opt_levels: Sequence[int],
    layouts: Sequence[str],
) -> list[Variant]:
    """All combinations, each once."""
    every = itertools.product(targets, precisions, opt_levels, layouts)
    return list(dict.fromkeys(Variant(t, p, o, y) for t, p, o, y in every))


class Evaluation:
    """One model over one set; results and packages lie in a folder."""

    def __init__(
        self,
        model: Path,
        data: DataSet,
        folder: Path,
        *,
        info: ModelInfo | None = None,
        tell: Callable[[str], object] = lambda words: None,
    ) -> None:
        """info: what the network is, where its file does not say. tell: called with a few words
        before each step, and with the count of images."""
        self._model, self._data, self._folder = model, data, folder
        self._info, self._tell = info, tell
        self._content = _content(model, data, info)

    def row(self, variant: Variant) -> Json:
        """The result of a variant: the one that is kept, where it is of the same model, set and
        version. What cannot be compiled or run has an "error", and is tried again the next time.

        Raises InputError where the folder cannot be written.
        """
        return self._kept(variant.name, asdict(variant), lambda: self._compiled(variant))

    def reference(self) -> Json:
        """The result of onnxruntime, or LiteRT. It needs a variant that was compiled before, whose
        package says how images are prepared and outputs read."""
        return self._kept(REFERENCE, {}, self._of_reference)

    def package(self, variant: Variant) -> Path:
        """Where a variant's package lies."""
        return self._folder / f"{_stem(variant.name)}.tar"

    def _kept(self, name: str, how: Json, make: Callable[[], Json]) -> Json:
        path = self._folder / f"{_stem(name)}.json"
        same = {"name": name, "variant": how, "of": self._content, "version": __version__}
        try:
            found = json.loads(path.read_bytes())
            if {key: found.get(key) for key in same} == same and "error" not in found:
                return dict(found)
        except (OSError, ValueError, AttributeError):
            pass
        self._tell(name)
        try:
            made = {**same, **make()}
        except TvmVisionError as error:
            made = {**same, "error": " ".join(str(error).split())}
        write_whole(path, json.dumps(made, indent=1).encode(), InputError)
        return made

    def _compiled(self, variant: Variant) -> Json:
        path = self.package(variant)
        with _warnings() as warned:
            model, options = self._model, {}
            precision = variant.precision
            if precision == "int8":
                model, options, precision = self._quantized(), {"int8": "on"}, "fp32"
            compile_package(
                model,
                path,
                target=variant.target,
                precision=precision,
                opt_level=variant.opt_level,
                layout=variant.layout,
                options=options,
                model_info=self._info,
                name=self._model.stem,
                progress=lambda words: self._tell(f"{variant.name}: {words}"),
            )
            model_of = load_model(path)
        count = len(self._data.samples)
        result = run_set(
            model_of, self._data, lambda done: self._tell(f"{variant.name}: {done} of {count}")
        )
        with read_package(path) as opened:
            memory = opened.info.memory.peak
        return {
            **result, "device": model_of.device_description, "package_bytes": path.stat().st_size,
            "memory_bytes": memory, "warnings": warned,
        }  # fmt: skip

    def _quantized(self) -> Path:
        path = self._folder / f"{self._model.stem}-int8.onnx"
        quantize(
            self._model,
            path,
            sample_images=[sample.path for sample in self._data.first(SAMPLES).samples],
            model_info=self._info,
            progress=lambda words: self._tell(f"int8: {words}"),
        )
        return path

    def _of_reference(self) -> Json:
        packages = sorted(self._folder.glob("*.tar"))
        if not packages:
            raise InputError("a variant that compiles is needed before the reference can run")
        with read_package(packages[0]) as opened:
            info = opened.info
        found = reference_of(self._model)
        engine = "LiteRT" if type(found).__name__.startswith("LiteRt") else "onnxruntime"
        executor = ReferenceExecutor(found, info.to_json(), engine)
        count = len(self._data.samples)
        result = run_set(
            predictor(info)(executor),  # type: ignore[arg-type]
            self._data,
            lambda done: self._tell(f"{engine}: {done} of {count}"),
        )
        return {
            **result, "device": executor.device_description,
            "package_bytes": self._model.stat().st_size, "memory_bytes": None, "warnings": [],
        }  # fmt: skip


def _content(model: Path, data: DataSet, info: ModelInfo | None) -> str:
    """SHA-256 of what decides a result beside the variant: images by name, size and time."""
    digest = hashlib.sha256(model.read_bytes())
    digest.update(repr((data.kind, data.names, info)).encode())
    for sample in data.samples:
        truth = sample.truth and (sample.truth.boxes.tolist(), sample.truth.class_ids.tolist())
        digest.update(repr((sample.label, truth)).encode())
        for path in filter(None, (sample.path, sample.mask)):
            stat = path.stat()
            digest.update(repr((str(path), stat.st_size, stat.st_mtime_ns)).encode())
    return digest.hexdigest()


def _stem(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "-", name)


@contextmanager
def _warnings() -> Iterator[list[str]]:
    """The warnings that are logged in the block, each once."""
    found: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if (line := " ".join(record.getMessage().split())) not in found:
                found.append(line)

    handler = Keep(logging.WARNING)
    logger = logging.getLogger("tvm_vision")
    logger.addHandler(handler)
    try:
        yield found
    finally:
        logger.removeHandler(handler)
