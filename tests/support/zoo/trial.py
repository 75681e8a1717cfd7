"""One network: its inputs, what another engine makes of them, and how far our results are off."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from tvm_vision.demo.images import demo_images
from tvm_vision.errors import TvmVisionError
from tvm_vision.evaluate import OutputError, Reference, compare_outputs, tolerance_for
from tvm_vision.evaluate.litert import LiteRtReference
from tvm_vision.frontend.model import import_model
from tvm_vision.frontend.onnx.cut import plain_onnx
from tvm_vision.frontend.signature import TensorSpec
from tvm_vision.frontend.tflite.read import read_tflite
from tvm_vision.frontend.tflite.states import state_names

from ..conformance.conformance_worker import FP16, Executor, executor, summary
from .selections import Selections

Arrays = dict[str, np.ndarray]
Result = dict[str, Any]
Said = Mapping[str, Mapping[str, Any]]
SEED = 5
# For sizes that a network leaves open.
BATCH, COLORS, EXTENT, LENGTH = 1, 3, 224, 16
# Runs on random inputs. What is rounded shows by chance how far two engines are apart.
RANDOM_RUNS, ROUNDED_RUNS = 2, 8
NUDGE, NUDGES = 1e-6, 4
# Half a unit in the last place of fp16: what rounding its input to fp16 does to a network.
FP16_NUDGE = 2.0**-12


class Trial:
    """A network of a file, imported, with the results of its reference."""

    def __init__(self, path: Path, said: Said) -> None:
        """said: of inputs that the file says too little of, ``shape``, or ``low`` and ``high``, or
        the ``value`` that makes one a constant."""
        shapes = {name: words["shape"] for name, words in said.items() if "shape" in words}
        open_ones = _open_shapes(path)
        known = {name: shape for name, shape in shapes.items() if name in open_ones}
        started = time.perf_counter()
        self.values = {name: words["value"] for name, words in said.items() if "value" in words}
        for name in self.values:
            open_ones.pop(name, None)
        self.imported = import_model(
            path, input_shapes=open_ones | known or None, input_values=self.values
        )
        self.seconds = time.perf_counter() - started
        _, signature = self.imported
        self.path = path
        self.shapes = {spec.name: spec.shape for spec in signature.inputs}
        limits = {n: (w["low"], w["high"], 0.0) for n, w in said.items() if "low" in w}
        self.feeds = list(feeds(signature.inputs, ranges(path) | limits))
        for feed in self.feeds:  # of a streaming network: a first frame
            feed.update({name: np.zeros_like(feed[name]) for name in states(path)})
        self.names = [spec.name for spec in signature.outputs]
        self.wanted: list[Arrays] = []
        self.own: dict[str, float] = {}
        self.tolerance, self.rounded = 0.0, False
        self.lacking = ""
        try:
            self._refer(path)
        except TvmVisionError as error:
            self.lacking = f"no reference: {summary(error)}"
        if not self.lacking and self._tells_nothing():
            self.lacking = "nothing to compare: its results are the same for every input"

    def _refer(self, path: Path) -> None:
        plain, fast = (
            reference(path, optimized=fast, input_values=self.values) for fast in (False, True)
        )
        self.rounded = plain.quantized
        kind = "fp16" if plain.fp16 else "fp32"
        self.tolerance = tolerance_for("int8" if plain.quantized else kind)
        for feed in self.feeds:
            wanted = plain.run(feed)
            self.wanted.append(wanted)
            for other in (fast.run(feed), *(plain.run(nudged(feed, n)) for n in range(NUDGES))):
                _note_own(self.own, other, wanted)
        self._plain = plain

    def _tells_nothing(self) -> bool:
        """Whether inputs change no result, as where the last weights are 0, untrained."""
        first, *others = self.wanted
        return all(
            np.array_equal(first[name], other[name], equal_nan=first[name].dtype.kind == "f")
            for other in others
            for name in first
        )

    @cached_property
    def _own_of_fp16(self) -> dict[str, float]:
        """As ``own``, with inputs that are rounded to fp16."""
        own: dict[str, float] = {}
        for feed, wanted in zip(self.feeds, self.wanted, strict=True):
            for number in range(NUDGES):
                _note_own(own, self._plain.run(nudged(feed, number, FP16_NUDGE)), wanted)
        return own

    def run(self, target: str) -> Result:
        """The outcome on a target, with the errors of the worst output."""
        started = time.perf_counter()
        self.in_fp16 = target == FP16
        execute = _executor(self.imported, target)
        seconds = self.seconds + time.perf_counter() - started
        outputs = [dict(zip(self.names, execute(*f.values()), strict=True)) for f in self.feeds]
        result: Result = {"seconds": round(seconds, 1)}
        if self.lacking:
            return {"outcome": "ran", "message": self.lacking, **result}
        errors = [
            error
            for ours, wanted in zip(outputs, self.wanted, strict=True)
            for error in compare_outputs(_outputs_of_the_file(ours, wanted), wanted)
        ]
        judged = self._judged(errors)
        if judged["outcome"] == "wrong" and self.path.suffix == ".onnx":
            beyond = "" if np.isfinite(judged["error"]) else self._beyond_fp16()
            judged |= (
                {"outcome": "beyond", "message": beyond, "same": None}
                if beyond
                else self._judged_by_choices(target)
            )
        return result | judged

    def _beyond_fp16(self) -> str:
        """Which value within the network fp16 cannot hold, in fp32: of weights that nobody trained
        each layer may make larger ones. Empty where there is none, or in fp32."""
        if not self.in_fp16:
            return ""
        plain = plain_onnx(self.path, self.shapes, self.values)
        names = [name for node in plain.graph.node for name in node.output if name]
        found = Reference(plain, values=names).run(self.feeds[0])
        largest = {
            name: float(np.max(np.abs(value), initial=0))
            for name, value in found.items()
            if value.dtype.kind == "f"
        }
        name = max(largest, key=lambda each: largest[each])
        most = float(np.finfo(np.float16).max)
        reaches = f"'{name}' reaches {largest[name]:.2g}, and fp16 ends at {most:g}"
        return reaches if largest[name] > most else ""

    def _judged_by_choices(self, target: str) -> Result:
        """What changes of the outcome where the reference chooses by our numbers: empty where the
        network chooses nothing."""
        selections = Selections(self.path, self.shapes, self.values)
        if not selections.read:
            return {}
        imported = import_model(selections.model())
        execute, names = _executor(imported, target), [spec.name for spec in imported[1].outputs]
        found: list[tuple[OutputError, float]] = []
        ties = []
        for feed in self.feeds:
            ours = dict(zip(names, execute(*feed.values()), strict=True))
            nudge = FP16_NUDGE if self.in_fp16 else NUDGE
            near = [nudged(feed, number, nudge) for number in range(NUDGES)]
            found += selections.errors(imported[1], feed, ours, near)
            ties.append(selections.first_tie(imported[1], feed, ours))
        limits = [max(self._tolerance, (1 + self.rounded) * own) for _, own in found]
        over = [(e.error / limit, e) for (e, _), limit in zip(found, limits, strict=True)]
        excess, worst = max(over, key=lambda each: each[0])
        if excess > 1 or not any(ties):
            reason = f"'{worst.name}' is off by {worst.error:.2g}, with the same choices before it"
            return {"message": reason}
        return {
            "outcome": "right",
            "message": "",
            "error": worst.error,
            "limit": worst.error / excess if excess else self._tolerance,
            "ties": next(filter(None, ties)),
        }

    def _judged(self, errors: Sequence[OutputError]) -> Result:
        wrong = [error for error in errors if error.error > self._limit(error.name)]
        worst = max(errors, key=lambda error: error.error / max(self._limit(error.name), 1e-12))
        same = [e.argmax_agreement for e in errors if e.argmax_agreement is not None]
        return {
            "outcome": "wrong" if wrong else "right",
            "message": f"'{worst.name}' is off by {worst.error:.2g}" if wrong else "",
            "error": worst.error,
            "max_abs": worst.max_abs,
            "same": min(same) if same else None,
            "limit": self._limit(worst.name),
        }

    def _limit(self, name: str) -> float:
        """As ``tvm-vision check`` has it, or what the reference differs from itself by, with and
        without optimisations and with inputs a millionth away, of fp16 with inputs that are
        rounded; of what is rounded between layers twice that, for each of three may be that far
        from the exact."""
        own = self.own.get(name, 0.0)
        if self.in_fp16:
            own = max(own, self._own_of_fp16.get(name, 0.0))
        return max(self._tolerance, (1 + self.rounded) * own)

    @property
    def _tolerance(self) -> float:
        return max(self.tolerance, tolerance_for("fp16")) if self.in_fp16 else self.tolerance


def _executor(imported: Any, target: str) -> Executor:
    return (
        executor(imported, "vulkan", precision="fp16")
        if target == FP16
        else executor(imported, target)
    )


def _note_own(own: dict[str, float], other: Arrays, wanted: Arrays) -> None:
    """How far the reference's results are from those that could be had as well."""
    for name, value in wanted.items():
        if other[name].shape != value.shape:  # more rows, or fewer: any error would do
            continue
        (found,) = compare_outputs({name: other[name]}, {name: value})
        own[name] = max(own.get(name, 0.0), found.error)


def reference(path: Path, *, optimized: bool, input_values: Mapping[str, Any]) -> Any:
    """The engine whose results count: LiteRT for TFLite files, else onnxruntime."""
    kind = Reference if path.suffix == ".onnx" else LiteRtReference
    return kind(path, optimized=optimized, input_values=input_values)


def nudged(feed: Arrays, seed: int, nudge: float = NUDGE) -> Arrays:
    """Inputs a millionth away, or as far as is said. Networks that sort or choose, of weights that
    nobody trained, may give other results then, and so may another order of sums."""
    random = np.random.default_rng(seed)

    def near(value: np.ndarray) -> np.ndarray:
        if value.dtype.kind != "f":
            return value
        moved = value * (1 + nudge * random.standard_normal(value.shape))
        return np.asarray(moved, value.dtype)

    return {name: near(value) for name, value in feed.items()}


def _outputs_of_the_file(ours: Arrays, wanted: Arrays) -> Arrays:
    """Without the states of streaming networks, with the counts of real rows."""
    return {n: v for n, v in ours.items() if n in wanted or n.rpartition("_count")[0] in wanted}


def states(path: Path) -> list[str]:
    """The inputs that a TFLite file has as variables of its own."""
    return [] if path.suffix == ".onnx" else state_names(read_tflite(path))


def operators(path: Path) -> Counter[str]:
    """How many nodes of each operator a file has; empty where it cannot be read."""
    try:
        if path.suffix == ".onnx":
            return Counter(node.op_type for node in _without_weights(path).graph.node)
        return Counter(operator.kind for operator in read_tflite(path).operators)
    except Exception:  # the trial says what is wrong
        return Counter()


def exporter(path: Path) -> str:
    """What wrote an ONNX file, as that says; empty where it does not, or cannot be read."""
    if path.suffix != ".onnx":
        return ""
    try:
        proto = _without_weights(path)
        return f"{proto.producer_name} {proto.producer_version}".strip()
    except Exception:  # the trial says what is wrong
        return ""


def _without_weights(path: Path) -> Any:
    import onnx

    return onnx.load(path, load_external_data=False)


def ranges(path: Path) -> dict[str, tuple[float, float, float]]:
    """Lowest and highest number, and the step between them, of each quantized input."""
    if path.suffix == ".onnx":
        return {}
    found = {}
    for tensor in read_tflite(path).inputs:
        if tensor.quantization is not None:
            limits = np.iinfo(tensor.dtype)
            scale, zero = tensor.quantization.scale[0], tensor.quantization.zero_point[0]
            found[tensor.name] = (
                float((limits.min - zero) * scale),
                float((limits.max - zero) * scale),
                float(scale),
            )
    return found


def feeds(
    specs: Sequence[TensorSpec], limits: Mapping[str, tuple[float, float, float]]
) -> Iterator[Arrays]:
    """Random inputs of the range each has, and a photo where one is an image."""
    random = np.random.default_rng(SEED)
    rounded = any(step for _, _, step in limits.values())
    for _ in range(ROUNDED_RUNS if rounded else RANDOM_RUNS):
        yield {spec.name: _random(spec, limits.get(spec.name), random) for spec in specs}
    photos = {spec.name: photo for spec in specs if (photo := _photo(spec, limits)) is not None}
    if photos:
        rest = {spec.name: _random(spec, limits.get(spec.name), random) for spec in specs}
        yield rest | photos


def _random(
    spec: TensorSpec, limits: tuple[float, float, float] | None, random: np.random.Generator
) -> np.ndarray:
    dtype = np.dtype(spec.dtype)
    if limits is None and dtype.kind in "iub":
        return random.integers(0, 2 if dtype.kind == "b" else 128, spec.shape).astype(dtype)
    low, high, step = limits or (0.0, 1.0, 0.0)
    if not step and dtype.kind in "iub":
        return random.integers(int(low), int(high) + 1, spec.shape).astype(dtype)
    if not step:
        return np.asarray(low + (high - low) * random.random(spec.shape), dtype)
    steps = random.integers(0, round((high - low) / step) + 1, spec.shape)
    return (low + steps * step).astype(dtype)


def _photo(spec: TensorSpec, limits: Mapping[str, tuple[float, float, float]]) -> np.ndarray | None:
    """One of the demo's images, as large as an input of three colours; None for other inputs."""
    shape = spec.shape
    if len(shape) != 4 or COLORS not in (shape[1], shape[3]) or min(shape) < 1:
        return None
    last = shape[3] == COLORS
    height, width = shape[1:3] if last else shape[2:4]
    image = cv2.imread(str(demo_images()[0]))
    if image is None or min(height, width) < 16:
        return None
    pixels = cv2.resize(image, (width, height))[..., ::-1].astype(np.float32)
    if np.dtype(spec.dtype).kind == "f":
        low, high, step = limits.get(spec.name, (0.0, 1.0, 0.0))
        pixels = low + pixels / 255 * (high - low)
        pixels = np.round(pixels / step) * step if step else pixels
    placed = pixels if last else pixels.transpose(2, 0, 1)
    return np.broadcast_to(placed, shape).astype(spec.dtype, order="C")


def _open_shapes(path: Path) -> dict[str, list[int]]:
    """Shapes for the inputs that an ONNX file leaves open."""
    if path.suffix != ".onnx":
        return {}
    import onnx

    from tvm_vision.frontend.onnx.graph import graph_inputs

    found: dict[str, list[int]] = {}
    named: dict[str, int] = {}
    for value in graph_inputs(onnx.load(path, load_external_data=False)):
        sizes = value.type.tensor_type.shape.dim
        for axis, size in enumerate(sizes):
            if size.dim_param not in ("", "?"):
                named.setdefault(size.dim_param, _size(axis, len(sizes)))
        if any(size.dim_value < 1 for size in sizes):
            found[value.name] = [
                size.dim_value
                if size.dim_value > 0
                else named.get(size.dim_param, _size(axis, len(sizes)))
                for axis, size in enumerate(sizes)
            ]
    return found


def _size(axis: int, ndim: int) -> int:
    if axis == 0:
        return BATCH
    if ndim != 4:
        return LENGTH
    return COLORS if axis == 1 else EXTENT
