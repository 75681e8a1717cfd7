"""A model in several variants over one labelled set: each compiled, run and judged, here or on
boards behind an RPC tracker, and kept, so that what was cut off goes on."""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ..api import compile as compile_package
from ..api import described, quantize
from ..devices import described_device
from ..error_lines import manifest_reason
from ..errors import DeviceError, InputError, PackageError, TvmVisionError
from ..exporters.describe import open_shapes
from ..frontend.model import import_model
from ..models import load_model
from ..models.registry import PREDICTORS, predictor
from ..package import ModelInfo, read_package
from ..runtime.recovery import Recovery
from ..runtime.sinks import OutputFolder
from ..runtime.sources import read_image
from ..tuning.rpc import remote_target
from ..version import __version__
from ..whole_files import write_whole
from .boards import Boards
from .datasets import DataSet
from .reference import reference_of
from .run_set import ReferenceExecutor, need_fit, run_set

PRECISIONS = ("fp32", "fp16", "int8")
SAMPLES = 32  # images of the set that decide the ranges of int8
REFERENCE = "reference"
Json = dict[str, Any]
LOGGER = logging.getLogger(__name__)


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
        input_shapes: Mapping[str, Sequence[int]] | None = None,
        input_values: Mapping[str, Any] | None = None,
        tracker: tuple[str, int, str] | None = None,
        host: str | None = None,
        tell: Callable[[str], object] = lambda words: None,
        remark: Callable[[str], object] = LOGGER.warning,
        recovery: Recovery | None = None,
    ) -> None:
        """info: what the network is, where its file does not say. input_shapes, input_values: as
        for ``tvm_vision.compile``. tracker: host, port and key of boards that run the variants
        instead of this machine. host: their processor, where a target names a device that is
        described, whose own it is else; boards tell it of other targets. tell: called with a few
        words before each step, and with the count of images. remark: with a line where a board is
        lost. recovery: as for ``tvm_vision.load``, of what runs on this machine.

        Raises InputError for a host without boards, and for a folder that cannot be made."""
        if host is not None and tracker is None:
            raise InputError(
                "a host is for boards, and the variants run on this machine: name a tracker and "
                "the boards' key, or leave it out"
            )
        OutputFolder(folder)  # said now, and not when a variant is compiled
        self._model, self._data, self._folder = model, data, folder
        self._fixed: Json = {"input_shapes": input_shapes, "input_values": input_values}
        self._host, self._recovery = host, recovery
        self._info, self._tracker, self._tell, self._remark = info, tracker, tell, remark
        self._content = _content(model, data, info, self._fixed)
        self._judged_of: list[Path] = []  # packages of the variants that were asked for and ran

    def rows(self, variants: Sequence[Variant]) -> list[Json]:
        """The result of each variant: the one that is kept, where it is of the same model, set,
        board and version. What cannot be compiled or run has an "error", and is tried again the
        next time.

        Raises InputError where the folder cannot be written, what the network is is not known, or
        it does not go with the set; UnsupportedModelError for a file that cannot be read;
        TuningError for a tracker without boards.
        """
        found = self._rows(variants)
        self._judged_of = [self.package(v) for v, row in found.items() if "error" not in row]
        return list(found.values())

    def _rows(self, variants: Sequence[Variant]) -> dict[Variant, Json]:
        if self._tracker is None:
            if any(self._found(*self._named(v)) is None for v in variants):
                self._need_fit()
            return {v: self._kept(*self._named(v), partial(self._here, v)) for v in variants}
        found = {v: self._found(*self._named(v)) for v in variants}
        missing = [v for v in variants if found[v] is None]
        if missing:
            self._need_fit()
            # First of all: a board that is busy tells nothing.
            targets = {v.target: self._target_of_board(v.target) for v in missing}
            with Boards(self._tracker, len(self._data.samples), self._remark) as boards:
                # Each runs while the next is compiled.
                begun = [(v, self._on_a_board(v, targets[v.target], boards)) for v in missing]
                for variant, result in begun:
                    found[variant] = self._kept(*self._named(variant), result)
        return {variant: row for variant, row in found.items() if row is not None}

    def reference(self) -> Json:
        """The result of onnxruntime, or LiteRT, on this machine. It needs a variant that ran
        before, whose package says how images are prepared and outputs read."""
        return self._kept(REFERENCE, {}, self._of_reference)

    def package(self, variant: Variant) -> Path:
        """Where a variant's package lies."""
        return self._folder / f"{_stem(variant.name)}.tar"

    def _named(self, variant: Variant) -> tuple[str, Json]:
        board = {} if self._tracker is None else {"board": self._tracker[2]}
        host = {} if self._host is None else {"host": self._host}
        return variant.name, {**asdict(variant), **board, **host}

    def _same(self, name: str, how: Json) -> Json:
        return {"name": name, "variant": how, "of": self._content, "version": __version__}

    def _found(self, name: str, how: Json) -> Json | None:
        same = self._same(name, how)
        try:
            found = json.loads((self._folder / f"{_stem(name)}.json").read_bytes())
            if {key: found.get(key) for key in same} == same and "error" not in found:
                return dict(found)
        except (OSError, ValueError, AttributeError):
            pass
        return None

    def _kept(self, name: str, how: Json, make: Callable[[], Json]) -> Json:
        if (found := self._found(name, how)) is not None:
            return found
        self._tell(name)
        try:
            made = {**self._same(name, how), **make()}
        except TvmVisionError as error:
            made = {**self._same(name, how), "error": " ".join(str(error).split())}
        path = self._folder / f"{_stem(name)}.json"
        write_whole(path, json.dumps(made, indent=1).encode(), InputError)
        return made

    def _here(self, variant: Variant) -> Json:
        warned = self._compiled(variant, variant.target)
        model = load_model(self.package(variant), recovery=self._recovery)
        row = self._judged(variant, warned, model)
        # One of the times is that of a rebuild.
        return {**row, "warnings": [*row["warnings"], *filter(None, [model.losses.describe()])]}

    def _on_a_board(
        self, variant: Variant, target: Callable[[], Any], boards: Boards
    ) -> Callable[[], Json]:
        """Compiles a variant, and has it run; what is returned waits for its result, which is kept
        as soon as it is there."""

        def run(model: Any) -> Json:
            return self._kept(*self._named(variant), lambda: self._judged(variant, warned, model))

        try:
            warned = self._compiled(variant, target())
        except TvmVisionError as error:
            return partial(_raise, error)
        return boards.submit(variant.name, self.package(variant), run).result

    def _target_of_board(self, target: str) -> Callable[[], Any]:
        """Gives what a target is on a board, or raises why there is none; a device's description
        says all itself."""
        assert self._tracker is not None
        try:
            found = target if described_device(target) else remote_target(*self._tracker, target)
        except DeviceError as error:
            return partial(_raise, error)
        return lambda: found

    def _compiled(self, variant: Variant, target: Any) -> list[str]:
        """Writes the package; returns what the compiler warned of."""
        with _warnings() as warned:
            model, options = self._model, {}
            precision = variant.precision
            if precision == "int8":
                model, options, precision = self._quantized(), {"int8": "on"}, "fp32"
            compile_package(
                model,
                self.package(variant),
                target=target,
                host=self._host if isinstance(target, str) else None,
                # A model that is quantized has them as constants.
                input_values=self._fixed["input_values"] if model == self._model else None,
                input_shapes=self._fixed["input_shapes"],
                precision=precision,
                opt_level=variant.opt_level,
                layout=variant.layout,
                options=options,
                model_info=self._info,
                name=self._model.stem,
                progress=lambda words: self._tell(f"{variant.name}: {words}"),
            )
        return warned

    def _judged(self, variant: Variant, warned: list[str], model: Any) -> Json:
        path, count = self.package(variant), len(self._data.samples)
        result = run_set(
            model, self._data, lambda done: self._tell(f"{variant.name}: {done} of {count}")
        )
        with read_package(path) as opened:
            memory = opened.info.memory.peak
        return {
            **result, "device": model.device_description, "package_bytes": path.stat().st_size,
            "memory_bytes": memory, "warnings": [*warned, *result["warnings"]],
        }  # fmt: skip

    def _need_fit(self) -> None:
        """Knows from here on what the network is, and raises InputError where it does not go with
        the set: before any variant is compiled, since it is the same for all of them."""
        self._tell("reading the model")
        shapes = self._fixed["input_shapes"] or open_shapes(self._model)
        _, signature = import_model(
            self._model, input_shapes=shapes, input_values=self._fixed["input_values"]
        )
        try:
            self._info = described(self._model, signature, wanted=self._info)
        except PackageError as error:
            raise InputError(
                f"a package of '{self._model.name}' is needed by --like, and the one that is named "
                f"is of another network ({manifest_reason(error)}): name another"
            ) from None
        if self._info.kind not in PREDICTORS:
            raise InputError(
                f"what the network is must be known, and '{self._model.name}' does not say it: "
                "compile it once with --kind and --preprocess, and name that package by --like"
            )
        need_fit(self._info, self._data, self._info.labels)

    def _quantized(self) -> Path:
        path = self._folder / f"{self._model.stem}-int8.onnx"
        quantize(
            self._model,
            path,
            sample_images=[s.path for s in self._data.first(SAMPLES).samples if _is_read(s.path)],
            model_info=self._info,
            **self._fixed,
            progress=lambda words: self._tell(f"int8: {words}"),
        )
        return path

    def _of_reference(self) -> Json:
        # Not just any of the folder: others may be of another network, or say less of it.
        package = next((path for path in self._judged_of if path.exists()), None)
        if package is None:
            raise InputError(
                "a variant that runs is needed before the reference can run, and none did: see "
                "their errors"
            )
        with read_package(package) as opened:
            info = opened.info
        found = reference_of(self._model, input_values=self._fixed["input_values"])
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
            "package_bytes": self._model.stat().st_size, "memory_bytes": None,
        }  # fmt: skip


def _content(model: Path, data: DataSet, info: ModelInfo | None, fixed: Json) -> str:
    """SHA-256 of what decides a result beside the variant: images by name, size and time."""
    digest = hashlib.sha256(model.read_bytes())
    given = [(key, sorted((value or {}).items())) for key, value in fixed.items()]
    digest.update(repr((data.kind, data.names, info, given)).encode())
    for sample in data.samples:
        truth = sample.truth and [
            None if rows is None else rows.tolist() for rows in vars(sample.truth).values()
        ]
        digest.update(repr((sample.label, truth)).encode())
        for path in filter(None, (sample.path, sample.mask)):
            stat = path.stat()
            digest.update(repr((str(path), stat.st_size, stat.st_mtime_ns)).encode())
    return digest.hexdigest()


def _is_read(path: Path) -> bool:
    """Whether it is an image: one that is not is left out by ``run_set``, too."""
    try:
        read_image(path)
    except InputError:
        return False
    return True


def _raise(error: TvmVisionError) -> Any:
    raise error


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
